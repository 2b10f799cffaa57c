// One worker: an interpreter, warmed up in advance. It becomes the cluster, or an operator.
import { loadPyodide } from "./pyodide.mjs";

const LOCK = (abi) => ({
  info: { abi_version: abi, arch: "wasm32", platform: "emscripten", python: "3.14", version: "" },
  packages: {},
});

let python, kopf, cluster;

async function warm({ module, glue, library, packages, abi, part }) {
  // The page has downloaded and compiled everything, once for all workers: nothing is fetched here.
  const { fetch } = self;
  self.fetch = async (url, ...rest) =>
    String(url).endsWith("pyodide.asm.wasm") ? new Response() : fetch(url, ...rest);
  WebAssembly.instantiateStreaming = async (response, imports) => {
    await response;
    return { module, instance: await WebAssembly.instantiate(module, imports) };
  };
  const { default: createPyodideModule } = await import(glue);
  python = await loadPyodide({
    createPyodideModule,
    stdLibURL: library,
    lockFileContents: LOCK(abi),
    packageBaseUrl: "./",
    args: ["-X", "no_debug_ranges"],
    stdout: (text) => post("log", { level: "print", text }),
    stderr: (text) => post("log", { level: "error", text }),
  });
  const zip = new Uint8Array(await (await fetch(packages)).arrayBuffer());
  python.FS.writeFile("/kopf.zip", zip);
  python.runPython("import sys; sys.path.insert(0, '/kopf.zip')");
  kopf = python.pyimport(`kopf_playground.${part}`);
}

const post = (kind, data = {}) => self.postMessage({ kind, ...data });

const actions = {
  warm,
  async start({ definitions }) {
    cluster = kopf.PlaygroundCluster((text) => post("state", JSON.parse(text)));
    await cluster.start(definitions);
  },
  async connect({ port }) { cluster.connect(port); },
  async disconnect() { cluster.disconnect(); },
  async apply({ text }) { return await cluster.apply(text); },
  async edit({ resource, namespace, name }) { return await cluster.edit(resource, namespace, name); },
  async delete({ resource, namespace, name }) {
    return await cluster.delete(resource, namespace, name);
  },
  async operate({ port, code, suspends }) {
    const log = (level, text) => post("log", { level, text });
    kopf.run(port, code, log, suspends).finally(() => post("exited"));
  },
};

// Every message is answered, in the order of the messages.
self.onmessage = async ({ data: { number, action, ...data } }) => {
  try {
    post("answer", { number, result: await actions[action](data) });
  } catch (error) {
    post("answer", { number, error: String(error) });
  }
};
