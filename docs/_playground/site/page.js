// The page of the playground: the editors, the buttons, and what is shown of the cluster.
import { makeEditor } from "./editor.js";
import { Machine, download, getRecording, getSetup } from "./machines.js";

const MAX_LINES = 1000;
const MAX_HISTORY = 500;
const SPARE_DELAY = 1500;  // in milliseconds: the first run has both processors for itself

const root = document.getElementById("playground");
const find = (name) => root.querySelector(`[data-pg="${name}"]`);
const make = (tag, className, ...content) => {
  const element = document.createElement(tag);
  element.className = className;
  element.append(...content);
  return element;
};

const canRun = "WebAssembly" in window && "Worker" in window && "DecompressionStream" in window;
const canSuspend = canRun && "Suspending" in WebAssembly;

let setup, assets, cluster, operator, spare;
let runs = 0;
const history = [];
const editors = {};

function say(text) { find("state").textContent = text; }

function show(message) {
  if (history.length < MAX_HISTORY) history.push({ at: Math.round(performance.now()), ...message });
  if (message.kind === "log") showLine(message);
  if (message.kind === "state") { showObjects(message.objects); showEvents(message.events); }
}

function showLine({ level, text }) {
  const log = find("log");
  const isLow = log.scrollHeight - log.scrollTop - log.clientHeight < 40;
  log.append(make("div", `pg-line pg-${level}`, text));
  while (log.children.length > MAX_LINES) log.firstChild.remove();
  if (isLow) log.scrollTop = log.scrollHeight;
}

function showObjects(objects) {
  const opened = new Set([...find("objects").querySelectorAll("details[open]")].map((e) => e.dataset.uid));
  const isFirst = !find("objects").querySelector("details");
  const items = objects.map((object, index) => {
    const { kind, namespace, name, uid, deleting, text } = object;
    const place = namespace ? `${namespace}/${name}` : name;
    const summary = make("summary", "", make("b", "", kind), ` ${place}`, deleting ? " (being deleted)" : "");
    const item = make("details", "pg-object", summary, make("pre", "", text), make("div", "pg-buttons",
      button("Edit", () => edit(object)), button("Delete", () => remove(object))));
    item.dataset.uid = uid;
    item.open = opened.has(uid) || (isFirst && index === 0);
    return item;
  });
  const none = make("p", "pg-none", "There are no objects. Apply one.");
  find("objects").replaceChildren(...(items.length ? items : [none]));
}

function showEvents(events) {
  const items = events.map(({ type, reason, message, name }) =>
    make("div", `pg-line pg-${type === "Normal" ? "info" : "warning"}`, make("b", "", reason), ` ${name}: ${message}`));
  const none = make("p", "pg-none", "There are no events yet.");
  find("events").replaceChildren(...(items.length ? items : [none]));
  find("events").scrollTop = find("events").scrollHeight;
}

function button(label, action) {
  const element = make("button", "", label);
  element.type = "button";
  element.addEventListener("click", () => guard(action));
  return element;
}

async function guard(action) {
  try { await action(); } catch (error) { say(`It does not work: ${error.message}`); }
}

function enable() {
  find("kill").disabled = !operator;
  find("apply").disabled = !cluster;
  find("run").textContent = operator ? "Restart with this code" : runs ? "Start again" : "Run";
}

async function prepare() {
  if (assets) return;
  let bytes = 0;
  const onBytes = (length) => {
    bytes += length;
    say(`Downloading Python and Kopf: ${(bytes / 1e6).toFixed(1)} MB …`);
  };
  const files = await download(onBytes);
  assets = { ...files, abi: setup.abi };
  say("Starting a cluster and an operator …");
  cluster = new Machine(assets, "clusters", show);
  spare = new Machine(assets, "operators", show);
  await cluster.ready;
  await cluster.ask("start", { definitions: setup.definitions });
  await apply();
}

async function run() {
  find("run").disabled = true;
  try {
    await prepare();
    if (operator) kill();
    runs += 1;
    const machine = operator = spare ?? new Machine(assets, "operators", show);
    spare = null;
    enable();
    await machine.ready;
    if (machine !== operator) return;  // it is killed already
    machine.onMessage = (message) => (message.kind === "exited" ? stop(machine) : show(message));
    const { port1, port2 } = new MessageChannel();
    await cluster.ask("connect", { port: port1 }, [port1]);
    show({ kind: "log", level: "note", text: `— The operator starts: run ${runs}. —` });
    await machine.ask("operate", { port: port2, code: editors.code.text, suspends: canSuspend }, [port2]);
    say("The operator is running. Change the object, or kill the operator.");
    setTimeout(() => { spare ??= new Machine(assets, "operators", show); }, SPARE_DELAY);
  } finally {
    find("run").disabled = false;
    enable();
  }
}

function kill() {
  operator.kill();
  operator = null;
  cluster.ask("disconnect");
  show({ kind: "log", level: "note", text: "— The operator is killed: it was not told. —" });
  say("The operator is killed. The cluster goes on: change objects, and start the operator again.");
  enable();
}

function stop(machine) {
  machine.kill();
  if (operator !== machine) return;
  operator = null;
  cluster.ask("disconnect");
  say("The operator has exited: see the log.");
  enable();
}

async function apply() {
  say(await cluster.ask("apply", { text: editors.manifest.text }));
}

async function edit({ resource, namespace, name }) {
  if (!cluster) return;
  editors.manifest.text = await cluster.ask("edit", { resource, namespace, name });
  say(`Change ${name} in the editor of the object, then press Apply.`);
  find("manifest").scrollIntoView({ block: "nearest" });
}

async function remove({ resource, namespace, name }) {
  if (cluster) say(await cluster.ask("delete", { resource, namespace, name }));
}

function choose(name) {
  const example = setup.examples.find((one) => one.name === name);
  if (!example) return;
  editors.code.text = example.code;
  editors.manifest.text = example.manifest;
}

// The link: the texts are in the part of the address that is never sent to a server.
const pipe = (bytes, stream) =>
  new Response(new Blob([bytes]).stream().pipeThrough(stream)).arrayBuffer();

async function share() {
  const texts = JSON.stringify({ code: editors.code.text, manifest: editors.manifest.text });
  const packed = new Uint8Array(await pipe(texts, new CompressionStream("deflate-raw")));
  const encoded = btoa(Array.from(packed, (byte) => String.fromCharCode(byte)).join(""));
  const safe = encoded.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
  window.history.replaceState(null, "", `#v1.${safe}`);
  let where = "in the address bar";
  try { await navigator.clipboard.writeText(location.href); where = "copied"; } catch { /* refused */ }
  say(`The link is ${where}. It keeps the handlers and the object.`);
}

async function restore() {
  const encoded = /^#v1\.([\w-]+)$/.exec(location.hash)?.[1];
  if (!encoded) return false;
  try {
    const binary = atob(encoded.replaceAll("-", "+").replaceAll("_", "/"));
    const packed = Uint8Array.from(binary, (char) => char.charCodeAt(0));
    const bytes = await pipe(packed, new DecompressionStream("deflate-raw"));
    const { code, manifest } = JSON.parse(new TextDecoder().decode(bytes));
    Object.assign(editors.code, { text: String(code) });
    Object.assign(editors.manifest, { text: String(manifest) });
    find("example").value = "";
    say("These handlers are from the link. Read them, then press Run.");
  } catch {
    say("The link is broken: here is an example instead.");
    return false;
  }
  return true;
}

async function replay() {
  find("replay").disabled = true;
  const { code, manifest, messages } = await getRecording();
  Object.assign(editors.code, { text: code });
  Object.assign(editors.manifest, { text: manifest });
  find("log").replaceChildren();
  let last = messages[0].at;
  for (const { at, ...message } of messages) {
    await new Promise((resolve) => setTimeout(resolve, Math.min(at - last, 700)));
    last = at;
    show(message);
  }
  find("replay").disabled = false;
}

async function open() {
  editors.code = makeEditor(find("code"), "python", "The handlers");
  editors.manifest = makeEditor(find("manifest"), "yaml", "The object");
  setup = await getSetup();
  find("example").append(...setup.examples.map(({ name }) => new Option(name, name)));
  find("example").value = setup.examples[0].name;
  find("example").addEventListener("change", () => choose(find("example").value));
  for (const [name, action] of Object.entries({ run, kill, apply, share, replay })) {
    find(name).addEventListener("click", () => guard(action));
  }
  choose(setup.examples[0].name);
  if (canRun) {
    if (!await restore()) say(find("state").textContent || "Press Run.");
    find("run").disabled = false;
  } else {
    find("share").disabled = true;
  }
  find("no-wasm").hidden = canRun;
  find("no-jspi").hidden = !canRun || canSuspend;
  find("recorded").hidden = canSuspend;
  window.addEventListener("hashchange", () => guard(restore));
  root.dataset.ready = "yes";
}

window.playground = { history, get texts() { return { code: editors.code.text, manifest: editors.manifest.text }; } };
guard(open);
