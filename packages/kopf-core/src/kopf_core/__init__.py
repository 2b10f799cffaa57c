"""The engine of Kopf, to be embedded: handlers, registries, and running of operators.

Everything listed here is public, the modules behind it are not. The names are imported when first
used. Operators import ``kopf``, which has all these names, and more. This package is for other
command lines and frameworks.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kopf_core.actions.errors import (
        ErrorsMode,
        HandlerRetriesError,
        HandlerTimeoutError,
        PermanentError,
        TemporaryError,
    )
    from kopf_core.actions.retrying import ExponentialBackoff
    from kopf_core.intents import decorators as on
    from kopf_core.intents.causes import Reason
    from kopf_core.intents.filters import ABSENT, PRESENT, all_, any_, none_, not_
    from kopf_core.intents.indices import Index, Store
    from kopf_core.intents.registries import OperatorRegistry
    from kopf_core.reactor.process.running import operator, run, run_tasks, spawn_tasks

__all__ = [
    "ABSENT",
    "PRESENT",
    "ErrorsMode",
    "ExponentialBackoff",
    "HandlerRetriesError",
    "HandlerTimeoutError",
    "Index",
    "OperatorRegistry",
    "PermanentError",
    "Reason",
    "Store",
    "TemporaryError",
    "all_",
    "any_",
    "none_",
    "not_",
    "on",
    "operator",
    "run",
    "run_tasks",
    "spawn_tasks",
]

_SOURCES = {
    "kopf_core.actions.errors": (
        "ErrorsMode",
        "HandlerRetriesError",
        "HandlerTimeoutError",
        "PermanentError",
        "TemporaryError",
    ),
    "kopf_core.actions.retrying": ("ExponentialBackoff",),
    "kopf_core.intents.causes": ("Reason",),
    "kopf_core.intents.filters": ("ABSENT", "PRESENT", "all_", "any_", "none_", "not_"),
    "kopf_core.intents.indices": ("Index", "Store"),
    "kopf_core.intents.registries": ("OperatorRegistry",),
    "kopf_core.reactor.process.running": ("operator", "run", "run_tasks", "spawn_tasks"),
}
_MODULES = {name: module for module, names in _SOURCES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name == "on":
        value: Any = importlib.import_module("kopf_core.intents.decorators")
    elif name in _MODULES:
        value = getattr(importlib.import_module(_MODULES[name]), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
