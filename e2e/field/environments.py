"""Environments of operators of others: everything as released, but the framework, which is ours."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.config import get_shared_envs

ROOT = Path(__file__).resolve().parents[2]
OURS = ("kopf", "kopf_kits", "kopf_core", "kopf_cogs")


def find_uv() -> str:
    """The uv that runs the tests, or the one on PATH."""
    uv = os.environ.get("UV") or shutil.which("uv")
    if uv is None:
        raise RuntimeError("uv is not found; run it as `make field`.")
    return uv


def run(*command: str | Path) -> str:
    """Run a command to its end, unaffected by the environment that the tests run in."""
    hidden = ("VIRTUAL_ENV", "PYTHONPATH", "UV_LOCKED", "UV_RESOLUTION")
    env = {key: value for key, value in os.environ.items() if key not in hidden}
    done = subprocess.run(
        [str(part) for part in command],
        check=False,
        env=env,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))} has failed:\n{done.stdout}")
    return done.stdout


def build_wheels(folder: Path) -> Path:
    """Build the wheels of all our packages of the sources as they are now."""
    run(find_uv(), "build", "--all-packages", "--wheel", "--quiet", "--out-dir", folder)
    return folder


def make_environment(
    name: str, wheels: Path, *requirements: str, only: Sequence[str] = OURS
) -> Path:
    """Install what is required together with our wheels; returns the folder with executables.

    ``only`` is for some of our packages instead of all.
    What is not ours stays installed for the next time, in the user's cache.
    """
    digest = hashlib.sha256("\n".join(requirements).encode()).hexdigest()[:8]
    folder = get_shared_envs() / f"field-{name}-{digest}"
    python = folder / "bin" / "python"
    uv = [find_uv(), "--no-config", "--quiet"]
    if not python.exists():
        run(*uv, "venv", "--clear", "--python", sys.executable, folder)
    fresh = [arg for ours in only for arg in ("--reinstall-package", ours)]
    ours = [next(wheels.glob(f"{package}-*.whl")) for package in only]
    run(*uv, "pip", "install", "--python", python, *fresh, *ours, *requirements)
    return python.parent
