"""The generations of the framework, and how to run them."""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
import sys
from pathlib import Path

PREDECESSOR_VERSION = "1.45.2"
REQUIREMENTS = [f"kopf=={PREDECESSOR_VERSION}"]


@dataclasses.dataclass(frozen=True)
class Engine:
    """One generation of the framework, to be run as a command."""

    name: str
    command: tuple[str, ...]


def get_ours(folder: Path | None = None) -> Engine:
    """
    The sources of this workspace, in its own environment.

    ``folder`` is an existing virtual environment to use instead, e.g. with a built version.
    """
    python = sys.executable if folder is None else str(folder / "bin" / "python")
    return Engine("ours", (python, "-m", "kopf", "run"))


def get_predecessor(folder: Path | None = None) -> Engine:
    """
    The previous generation; installed when it is not there yet.

    ``folder`` is an existing virtual environment to use instead, e.g. with another version.
    """
    if folder is None and os.environ.get("KOPF_PREDECESSOR"):
        folder = Path(os.environ["KOPF_PREDECESSOR"])
    if folder is None:
        folder = get_envs() / f"kopf-{PREDECESSOR_VERSION}"
    if not (folder / "bin" / "kopf").exists():
        _install(folder)
    return Engine("predecessor", (str(folder / "bin" / "kopf"), "run"))


def get_envs() -> Path:
    """Where others are installed: out of this tree, so that nobody reads their sources there."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "kopf" / "envs" / f"python-{sys.version_info[0]}.{sys.version_info[1]}"


def _install(folder: Path) -> None:
    print(f"Making the environment {folder.name} ...", file=sys.stderr)
    uv = shutil.which("uv")
    python = str(folder / "bin" / "python")
    if uv is not None:
        subprocess.run([uv, "venv", "-q", "--clear", "-p", sys.executable, folder], check=True)
        subprocess.run(
            [uv, "pip", "install", "-q", "--compile-bytecode", "-p", python, *REQUIREMENTS],
            check=True,
        )
    else:
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *REQUIREMENTS], check=True)
