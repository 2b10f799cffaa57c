// What is behind the page: the downloads, and the workers of the cluster and of the operator.
const BASE = new URL("./", import.meta.url);
const PARTS = { wasm: "pyodide.asm.wasm.gz", glue: "pyodide.asm.mjs.gz",
                library: "python.zip.gz", packages: "kopf.zip.gz" };

export const getSetup = async () => (await get("setup.json")).json();
export const getRecording = async () => (await get("recording.json")).json();

async function get(name) {
  const response = await fetch(new URL(name, BASE));
  if (!response.ok) throw new Error(`${name} cannot be downloaded: ${response.status}`);
  return response;
}

// The files are compressed by us, and not by the server: any static server does.
async function unpack(name, type, onBytes) {
  const count = new TransformStream({
    transform(chunk, controller) { onBytes(chunk.length); controller.enqueue(chunk); },
  });
  const unpacked = new DecompressionStream("gzip");
  const stream = (await get(name)).body.pipeThrough(count).pipeThrough(unpacked);
  return new Response(stream, { headers: { "Content-Type": type } });
}

export async function download(onBytes) {
  const find = async (part, type) => {
    const blob = await (await unpack(PARTS[part], type, onBytes)).blob();
    return URL.createObjectURL(new Blob([blob], { type }));
  };
  const [module, glue, library, packages] = await Promise.all([
    WebAssembly.compileStreaming(unpack(PARTS.wasm, "application/wasm", onBytes)),
    find("glue", "text/javascript"),
    find("library", "application/zip"),
    find("packages", "application/zip"),
  ]);
  return { module, glue, library, packages };
}

export class Machine {
  // A worker with an interpreter. `part` is what it is for: "clusters" or "operators".
  constructor(assets, part, onMessage) {
    this.onMessage = onMessage;
    this.answers = new Map();
    this.count = 0;
    this.worker = new Worker(new URL("worker.js", BASE), { type: "module" });
    this.worker.onmessage = ({ data }) => this.receive(data);
    this.worker.onerror = (event) => this.onMessage({
      kind: "log", level: "error", text: `The worker has failed: ${event.message}` });
    this.ready = this.ask("warm", { ...assets, part });
  }

  receive({ kind, number, result, error, ...data }) {
    if (kind !== "answer") return this.onMessage({ kind, ...data });
    const [resolve, reject] = this.answers.get(number);
    this.answers.delete(number);
    return error ? reject(new Error(error)) : resolve(result);
  }

  ask(action, data = {}, transfer = []) {
    const number = this.count++;
    return new Promise((resolve, reject) => {
      this.answers.set(number, [resolve, reject]);
      this.worker.postMessage({ number, action, ...data }, transfer);
    });
  }

  kill() { this.worker.terminate(); }
}
