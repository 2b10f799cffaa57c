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
        install(folder)
    return folder / "bin"


def install(folder: Path) -> None:
    """With the same interpreter as ours, or the comparison is of interpreters."""
    uv = shutil.which("uv")
    if uv is not None:
        subprocess.run([uv, "venv", "-q", "--clear", "-p", sys.executable, folder], check=True)
        python = str(folder / "bin" / "python")
        subprocess.run([uv, "pip", "install", "-q", "-p", python, *REQUIREMENTS], check=True)
    else:
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        python = str(folder / "bin" / "python")
        subprocess.run([python, "-m", "pip", "install", "-q", *REQUIREMENTS], check=True)


if __name__ == "__main__":
    print(ensure_predecessor(Config()))
