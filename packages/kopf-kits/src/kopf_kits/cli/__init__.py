"""The command line: ``kopf run``, ``kopf sandbox``, and others.

Other command lines can be built of it: :func:`logging_options` adds the same logging options
to any command of click, :class:`CLIControls` gives the means to control the operator from outside.
The commands are imported when they are used: ``kopf --version`` does not wait for the framework.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .controls import CLIControls
    from .freezing import freeze, resume
    from .groups import main
    from .options import logging_options
    from .running import run
    from .sandboxing import sandbox

__all__ = ["CLIControls", "freeze", "logging_options", "main", "resume", "run", "sandbox"]

_MODULES = {
    "CLIControls": "controls",
    "freeze": "freezing",
    "logging_options": "options",
    "main": "groups",
    "resume": "freezing",
    "run": "running",
    "sandbox": "sandboxing",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value
