"""Install each built wheel alone into an empty virtual environment, and import it.

    tools/smoke_wheels.py dist                              all four, imports only
    tools/smoke_wheels.py dist --package kopf_cogs --tests  one, with its own tests

A workspace's shared environment hides undeclared imports; an empty one does not: here, every module
of the package must be importable with what the wheel itself declares. Siblings come from the same
folder, everything else from the package index.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("kopf_cogs", "kopf_core", "kopf_kits", "kopf")

# Modules that need an extra, by the one sign that it is absent: the named import fails.
OPTIONAL = (
    "pykube",
    "kubernetes",
    "kubernetes_asyncio",
    "orjson",
    "uvloop",
    "pyngrok",
    "cryptography",
    "pytest",
)

IMPORT_ALL = """
import importlib, importlib.metadata, pkgutil, sys
package, optional = sys.argv[1], set(sys.argv[2].split(","))
module = importlib.import_module(package)
count = 1
for info in pkgutil.walk_packages(module.__path__, package + "."):
    if info.name.endswith("__main__"):
        continue
    try:
        importlib.import_module(info.name)
        count += 1
    except ImportError as e:
        if (e.name or "").split(".")[0] not in optional:
            raise
ours = ("kopf", "pip")
others = sorted(d.name for d in importlib.metadata.distributions() if not d.name.startswith(ours))
print(f"{package}: {count} modules imported; brings {', '.join(others)}")
"""


def find_uv() -> str:
    """The uv that runs us, or the one on PATH."""
    uv = os.environ.get("UV") or shutil.which("uv")
    if uv is None:
        raise SystemExit("smoke_wheels: uv is not found; run it as `make build`.")
    return uv


class Environment:
    """An empty virtual environment in a temporary folder, with nothing of ours around it."""

    def __init__(self, uv: str, folder: Path) -> None:
        self.folder = folder
        self.uv = [uv, "--quiet", "--no-config"]
        hidden = ("VIRTUAL_ENV", "PYTHONPATH", "UV_LOCKED")
        self.env = {k: v for k, v in os.environ.items() if k not in hidden}
        self.run([*self.uv, "venv", str(folder)])
        self.python = str(next(folder.glob("[bS]*/python*")))

    def install(self, *requirements: str) -> None:
        """Install packages, wheels, or what options name."""
        self.run([*self.uv, "pip", "install", "--python", self.python, *requirements])

    def run(self, command: list[str], cwd: Path | None = None) -> str:
        """Run a command to its end; returns its output, fails if it failed."""
        done = subprocess.run(
            command,
            check=True,
            env=self.env,
            cwd=cwd or self.folder,
            stdout=subprocess.PIPE,
            text=True,
        )
        return done.stdout


def check_wheel(uv: str, wheel: Path, package: str, *, tests: bool) -> str:
    """Install one wheel in an environment of its own; returns the lines to show."""
    with tempfile.TemporaryDirectory(prefix="kopf-smoke-") as folder:
        venv = Environment(uv, Path(folder))
        fresh = [arg for name in PACKAGES for arg in ("--refresh-package", name)]
        venv.install(*fresh, "--find-links", str(wheel.parent), str(wheel))
        imports = [venv.python, "-W", "error", "-c", IMPORT_ALL, package, ",".join(OPTIONAL)]
        lines = venv.run(imports)
        if package == "kopf":
            lines += venv.run([venv.python, "-m", "kopf", "--version"])
        if tests:
            venv.install("--group", f"{ROOT / 'pyproject.toml'}:test")
            folder_of_tests = f"packages/{package.replace('_', '-')}/tests"
            lines += venv.run([venv.python, "-m", "pytest", "-q", folder_of_tests], cwd=ROOT)
        return lines.strip()


def main(argv: list[str] | None = None) -> int:
    """Run as a command; returns the exit code."""
    parser = argparse.ArgumentParser(description="Install and import each built wheel alone.")
    parser.add_argument("dist", type=Path, nargs="?", default=Path("dist"))
    parser.add_argument(
        "--package", choices=PACKAGES, action="append", help="only this one (repeatable)"
    )
    parser.add_argument("--tests", action="store_true", help="run the package's own tests too")
    args = parser.parse_args(argv)
    for package in args.package or PACKAGES:
        wheels = sorted(args.dist.resolve().glob(f"{package}-*.whl"))
        if len(wheels) != 1:
            raise SystemExit(
                f"smoke_wheels: {len(wheels)} wheels of {package} in {args.dist}, not one."
            )
        try:
            print(check_wheel(find_uv(), wheels[0], package, tests=args.tests), flush=True)
        except subprocess.CalledProcessError as e:
            if e.stdout:
                print(e.stdout, file=sys.stderr)
            raise SystemExit(f"smoke_wheels: {package} does not work alone; see above.") from None
    return 0


if __name__ == "__main__":
    sys.exit(main())
