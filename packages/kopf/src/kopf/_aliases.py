"""The private modules of kopf 1.45 that operators used to import.

They give the names that still exist, and warn of where these names are now. Python loads nothing
before a name is requested. Other names are absent: they would promise the same internals.
"""

from __future__ import annotations

import importlib
import sys
import types
import warnings
from importlib.machinery import ModuleSpec
from typing import Any

# Old modules, and where to look for their names; the public names are found anyway.
MODULES: dict[str, tuple[str, ...]] = {
    "_cogs.clients.errors": ("kopf_cogs.clients.errors",),
    "_cogs.configs.configuration": ("kopf_cogs.configs.settings",),
    "_cogs.configs.conventions": ("kopf_cogs.configs.conventions",),
    "_cogs.configs.diffbase": ("kopf_cogs.configs.diffbase",),
    "_cogs.configs.progress": ("kopf_cogs.configs.progress",),
    "_cogs.helpers.loaders": ("kopf_kits.loading",),
    "_cogs.helpers.typedefs": (),
    "_cogs.structs.bodies": ("kopf_cogs.structs.bodies",),
    "_cogs.structs.credentials": ("kopf_cogs.structs.credentials",),
    "_cogs.structs.dicts": ("kopf_cogs.structs.dicts",),
    "_cogs.structs.diffs": ("kopf_cogs.structs.diffs",),
    "_cogs.structs.ephemera": ("kopf_cogs.structs.memos",),
    "_cogs.structs.ids": ("kopf_cogs.structs.ids",),
    "_cogs.structs.patches": ("kopf_cogs.structs.patches",),
    "_cogs.structs.references": (
        "kopf_cogs.structs.resources",
        "kopf_cogs.structs.selectors",
        "kopf_cogs.structs.namespaces",
    ),
    "_cogs.structs.reviews": ("kopf_cogs.structs.reviews",),
    "_core.actions.execution": ("kopf_core.actions.errors", "kopf_core.actions.lifecycles"),
    "_core.actions.lifecycles": ("kopf_core.actions.lifecycles",),
    "_core.actions.loggers": ("kopf_core.actions.loggers", "kopf_kits.logs"),
    "_core.engines.admission": (),
    "_core.engines.indexing": ("kopf_core.intents.indices",),
    "_core.engines.posting": (),
    "_core.intents.callbacks": ("kopf_core.intents.callbacks", "kopf_core.intents.filters"),
    "_core.intents.causes": ("kopf_core.intents.causes",),
    "_core.intents.filters": ("kopf_core.intents.filters",),
    "_core.intents.handlers": ("kopf_core.intents.handlers", "kopf_core.intents.webhooks"),
    "_core.intents.piggybacking": (),
    "_core.intents.registries": ("kopf_core.intents.registries",),
    "_core.intents.stoppers": ("kopf_core.intents.stoppers",),
    "_core.reactor.running": ("kopf_core.reactor.process.running",),
    "_core.reactor.subhandling": (),
    "_kits.hierarchies": ("kopf_kits.hierarchies",),
    "_kits.loops": ("kopf_kits.loops",),
    "_kits.runner": ("kopf.testing",),
    "_kits.webhooks": (),
}

# The names that have changed, each with its new module and name.
RENAMED = {
    "SmartOperatorRegistry": ("kopf", "OperatorRegistry"),
    "OperatorIndexers": ("kopf_core.intents.indices", "Indices"),
    "OperatorIndices": ("types", "MappingProxyType"),
    "event_queue_var": ("kopf_core.actions.context", "operator_var"),
}

# The names that operators used, but that do not exist anymore, each with an advice.
GONE = {
    "cause_var": "everything that handlers may know is in their keyword arguments",
    "handler_var": "everything that handlers may know is in their keyword arguments",
    "OperatorIndexer": "indices are filled by kopf.index(), and given to handlers by their names",
    "vault_var": "the credentials are for the framework only; see kopf.on.login()",
    "subregistry_var": "kopf.subhandler(), kopf.register(), kopf.execute() make sub-handlers",
}


ROOTS = ("kopf._cogs", "kopf._core", "kopf._kits")
DOCS = "https://nolar.github.io/kopf/migration.html#what-was-never-public"


class AliasModule(types.ModuleType):
    """An old module: it looks for its names in the new modules."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__ = []  # as of packages: Python asks the finder for their absent names

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        place = None if name in GONE else RENAMED.get(name) or self._find(name)
        if place is None:
            raise AttributeError(f"module {self.__name__!r} has no {name!r}: {explain(name)}")
        warnings.warn(
            f"{self.__name__}.{name} was never public; use {'.'.join(place)}.",
            DeprecationWarning,
            stacklevel=2,
        )
        return getattr(importlib.import_module(place[0]), place[1])

    def _find(self, name: str) -> tuple[str, str] | None:
        if name in importlib.import_module("kopf").__all__:
            return ("kopf", name)
        for module in MODULES.get(self.__name__.removeprefix("kopf."), ()):
            if hasattr(importlib.import_module(module), name):
                return (module, name)
        return None


class AbsenceFinder:
    """The last finder that Python asks for modules. It finds none, but says why ours are absent.

    It is also asked for the names in ``from ... import ...`` when the module has none of them.
    Python does not show the messages of attribute errors there.
    """

    def find_spec(self, path: str, *_args: Any) -> ModuleSpec | None:
        parent, _, name = path.rpartition(".")
        if f"{parent}.".startswith(tuple(f"{root}." for root in ROOTS)):
            # If the error had the name of the module, `from ... import` would replace the error.
            raise ModuleNotFoundError(
                f"cannot import name {name!r} from {parent!r}: {explain(name)}"
            )
        return None


def explain(name: str) -> str:
    """Explain why old modules have no such name, and give an advice."""
    if name in GONE:
        return f"{name} is not there anymore: {GONE[name]}."
    return f"it was never public, and there is no public name for it; see {DOCS}"


def install(root: str) -> None:
    """Make the old modules under this root importable. The root calls it when it is imported."""
    if not any(isinstance(finder, AbsenceFinder) for finder in sys.meta_path):
        sys.meta_path.append(AbsenceFinder())
    sys.modules[root].__path__ = []
    prefix = root.removeprefix("kopf.") + "."
    for path in MODULES:
        if path.startswith(prefix):
            parent, names = sys.modules[root], path.removeprefix(prefix).split(".")
            for name in names:
                parent = _get_child(parent, name)


def _get_child(parent: types.ModuleType, name: str) -> types.ModuleType:
    full_name = f"{parent.__name__}.{name}"
    if full_name not in sys.modules:
        sys.modules[full_name] = AliasModule(full_name)
        setattr(parent, name, sys.modules[full_name])
    return sys.modules[full_name]
