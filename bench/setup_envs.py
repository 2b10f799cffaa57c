"""Make the environment of the previous generation: ``python -m bench.setup_envs``."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from bench.config import PREDECESSOR_VERSION, Config

REQUIREMENTS = [f"kopf[uvloop]=={PREDECESSOR_VERSION}"]


def predecessor_folder(config: Config) -> Path:
    return config.envs / f"kopf-{PREDECESSOR_VERSION}"


def ensure_predecessor(config: Config) -> Path:
    """The folder with executables of the predecessor; installed when it is not there yet."""
    folder = predecessor_folder(config)
    if not (folder / "bin" / "kopf").exists():
        print(f"Installing {' '.join(REQUIREMENTS)} into {folder.name} ...", file=sys.stderr)
        install(folder, REQUIREMENTS)
    return folder / "bin"


def ensure_py_spy(config: Config) -> Path:
    """The sampling profiler's executable; it needs no place in the profiled environment."""
    folder = config.envs / "tools"
    if not (folder / "bin" / "py-spy").exists():
        install(folder, ["py-spy"])
    return folder / "bin" / "py-spy"


def install(folder: Path, requirements: list[str]) -> None:
    """With the same interpreter as ours, or the comparison is of interpreters."""
    uv = shutil.which("uv")
    if uv is not None:
        subprocess.run([uv, "venv", "-q", "--clear", "-p", sys.executable, folder], check=True)
        python = str(folder / "bin" / "python")
        subprocess.run([uv, "pip", "install", "-q", "-p", python, *requirements], check=True)
    else:
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        python = str(folder / "bin" / "python")
        subprocess.run([python, "-m", "pip", "install", "-q", *requirements], check=True)


if __name__ == "__main__":
    print(ensure_predecessor(Config()))
