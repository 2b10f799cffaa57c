"""Programs in Go for the tests: built once, from the published modules, into the user's cache."""

from __future__ import annotations

import hashlib
import os
import pathlib
import shutil
import subprocess

import pytest

HERE = pathlib.Path(__file__).resolve().parent


def obtain(name: str) -> pathlib.Path:
    """The program of that folder: from the cache, or built; the test is skipped if it cannot be."""
    go = shutil.which("go")
    if go is None:
        pytest.skip(f"There is no Go to build {name}.")
    digest = hashlib.sha256(subprocess.check_output([go, "version"]))
    for file in ("go.mod", "go.sum", "main.go"):
        digest.update((HERE / name / file).read_bytes())
    base = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    path = pathlib.Path(base) / "kopf" / "programs" / digest.hexdigest()[:16] / name
    if not path.exists():
        scratch = path.with_suffix(f".{os.getpid()}")
        command = [go, "build", "-trimpath", "-o", str(scratch), "."]
        env = {**os.environ, "CGO_ENABLED": "0"}
        done = subprocess.run(
            command, cwd=HERE / name, env=env, capture_output=True, text=True, check=False
        )
        if done.returncode:
            pytest.skip(f"{name} cannot be built: {done.stderr[-500:]}")
        scratch.rename(path)
    return path
