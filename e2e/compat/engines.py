"""The generations of the framework, and how to run them."""

from __future__ import annotations

import dataclasses
import os
import sys
from pathlib import Path

from bench.config import PREDECESSOR_VERSION, get_shared_envs
from bench.setup_envs import install

REQUIREMENTS = [f"kopf=={PREDECESSOR_VERSION}"]


@dataclasses.dataclass(frozen=True)
class Engine:
    """One generation of the framework, to be run as a command."""

    name: str
    command: tuple[str, ...]


def get_ours(folder: Path | None = None) -> Engine:
    """The sources of this workspace, in its own environment.

    ``folder`` is an existing virtual environment to use instead, e.g. with a built version.
    """
    python = sys.executable if folder is None else str(folder / "bin" / "python")
    return Engine("ours", (python, "-m", "kopf", "run"))


def get_predecessor(folder: Path | None = None) -> Engine:
    """The previous generation; installed when it is not there yet.

    ``folder`` is an existing virtual environment to use instead, e.g. with another version.
    """
    if folder is None and os.environ.get("KOPF_PREDECESSOR"):
        folder = Path(os.environ["KOPF_PREDECESSOR"])
    if folder is None:
        folder = get_shared_envs() / f"kopf-{PREDECESSOR_VERSION}"
    if not (folder / "bin" / "kopf").exists():
        install(folder, REQUIREMENTS)
    return Engine("predecessor", (str(folder / "bin" / "kopf"), "run"))
