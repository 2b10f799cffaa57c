"""The environments of both generations, equally equipped: ``python -m bench.setup_envs``.

Ours is not the developers' one, as clients of Kubernetes are installed there for the tests:
operators would import them for logging in, and would pay for that with memory.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from bench.config import HERE, PREDECESSOR_VERSION, Config

REQUIREMENTS = [f"kopf[uvloop]=={PREDECESSOR_VERSION}"]
PACKAGES = ("kopf-cogs[orjson]", "kopf-core", "kopf-kits", "kopf[uvloop]")
MEASURED = ("kopf-cogs[orjson]", "kopf-core", "kopf-kits", "kopf[uvloop,metrics]")


def ensure_ours(config: Config, *, metrics: bool = False, sources: Path = HERE.parent) -> Path:
    """The folder with executables of the sources as they are now."""
    folder = config.envs / ("kopf-here-metrics" if metrics else "kopf-here")
    if not (folder / "bin" / "kopf").exists():
        names = MEASURED if metrics else PACKAGES
        packages = (f"{sources / 'packages'}/{name}" for name in names)
        install(
            folder,
            [part for package in packages for part in ("--editable", package)],
            config.python,
        )
    return folder / "bin"


def ensure_predecessor(config: Config) -> Path:
    """The folder with executables of the predecessor; installed when it is not there yet."""
    folder = config.shared_envs / f"kopf-{PREDECESSOR_VERSION}-uvloop"
    if not (folder / "bin" / "kopf").exists():
        install(folder, REQUIREMENTS, config.python)
    return folder / "bin"


def ensure_py_spy(config: Config) -> Path:
    """The sampling profiler's executable; it needs no place in the profiled environment."""
    folder = config.shared_envs / "tools"
    if not (folder / "bin" / "py-spy").exists():
        install(folder, ["py-spy"], config.python)
    return folder / "bin" / "py-spy"


def install(folder: Path, requirements: list[str], python: str = sys.executable) -> None:
    """With the same interpreter for all, or the comparison is of interpreters."""
    print(f"Making the environment {folder.name} ...", file=sys.stderr)
    uv = shutil.which("uv")
    if uv is not None:
        subprocess.run([uv, "venv", "-q", "--clear", "-p", python, folder], check=True)
        python = str(folder / "bin" / "python")
        # As pip does: otherwise, the imports would be measured with the compilation.
        options = ["-q", "--compile-bytecode", "-p", python]
        subprocess.run([uv, "pip", "install", *options, *requirements], check=True)
    else:
        subprocess.run([python, "-m", "venv", "--clear", folder], check=True)
        python = str(folder / "bin" / "python")
        subprocess.run([python, "-m", "pip", "install", "-q", *requirements], check=True)


if __name__ == "__main__":
    print(ensure_predecessor(Config()))
    print(ensure_ours(Config()))
