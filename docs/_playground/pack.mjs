// Pack Python modules for browsers: node pack.mjs PYODIDE SOURCES TARGET
// Those that every run imports are compiled: by the very interpreter that will run them.
import { pathToFileURL } from "node:url";

const [pyodide, sources, target] = process.argv.slice(2);
const { loadPyodide } = await import(pathToFileURL(`${pyodide}/pyodide.mjs`));
const { default: { info } } = await import(pathToFileURL(`${pyodide}/pyodide-lock.json`), {
  with: { type: "json" },
});
const python = await loadPyodide({
  lockFileContents: { info, packages: {} },
  packageBaseUrl: "./",
  args: ["-X", "no_debug_ranges", "-B"],
});
python.mountNodeFS("/sources", sources);
python.mountNodeFS("/target", target);
python.runPython(`
import importlib.util, marshal, sys, zipfile
from pathlib import Path

sys.path.insert(0, "/sources")
import kopf_playground.clusters, kopf_playground.operators, kopf_kits.sandbox.__main__

# What needs processes, sockets of its own, terminals, or debuggers; and tests of others.
UNUSABLE = {
    "_pyio", "_pyrepl", "curses", "dbm", "doctest", "ensurepip", "ftplib", "idlelib", "imaplib",
    "mailbox", "multiprocessing", "pdb", "pickletools", "poplib", "pydoc", "pydoc_data", "smtplib",
    "tkinter", "turtle", "turtledemo", "unittest", "venv", "wsgiref", "xmlrpc",
}
LIBRARY = "/lib/python314.zip"
imported = {getattr(module, "__file__", None) for module in [*sys.modules.values()]}


def compile_module(source, path):
    code = compile(source, path, "exec", dont_inherit=True, optimize=2)
    flags, digest = 0b01, importlib.util.source_hash(source)  # the source is never looked at
    return importlib.util.MAGIC_NUMBER + flags.to_bytes(4, "little") + digest + marshal.dumps(code)


def pack(name, files, origin, prefix):
    with zipfile.ZipFile(f"/target/{name}", "w") as archive:  # the whole is compressed later
        for path, content in sorted(files):
            if path.endswith(".py") and f"{origin}/{path}" in imported:
                content, path = compile_module(content, f"{prefix}/{path}"), f"{path}c"
            archive.writestr(zipfile.ZipInfo(path), content)


root = Path("/sources")
files = [(str(p.relative_to(root)), p.read_bytes()) for p in root.rglob("*") if p.is_file()]
pack("kopf.zip", files, "/sources", "/kopf.zip")
with zipfile.ZipFile(LIBRARY) as library:
    names = [name for name in library.namelist() if not name.endswith("/")]
    kept = [name for name in names if name.split("/")[0].removesuffix(".py") not in UNUSABLE]
    pack("python.zip", [(name, library.read(name)) for name in kept], LIBRARY, LIBRARY)
`);
