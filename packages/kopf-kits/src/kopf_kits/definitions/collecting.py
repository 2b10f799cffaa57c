"""Finding the declarations in the modules of users, and in the own code that these import."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import TypeVar

from kopf_cogs.structs.definitions import definition_of

T = TypeVar("T")


def collect_models(modules: Iterable[ModuleType]) -> list[type]:
    """The models with definitions, in the order of their appearance.

    The search goes into the imported modules, too, except for installed packages: other projects
    define the kinds of these packages themselves, unless the code of users names the models.
    Other versions of a kind belong to it: a definition without them would remove them.
    """
    found: dict[type, None] = {}
    for module in _walk([*modules]):
        for model, name in _list_models(module):
            found.setdefault(model)
            home = sys.modules.get(model.__module__, module)
            found |= dict.fromkeys(one for one, other in _list_models(home) if other == name)
    return list(found)


def collect_objects(modules: Iterable[ModuleType], kind: type[T]) -> list[T]:
    """The objects of this class that the modules have as their globals, each of them once."""
    every = [value for module in _walk([*modules]) for value in list(vars(module).values())]
    return list({id(one): one for one in every if isinstance(one, kind)}.values())


def _list_models(module: ModuleType) -> list[tuple[type, str]]:
    """The models that are in the module, with the names of their definitions."""
    return [
        (value, definition.name)
        for value in list(vars(module).values())
        if isinstance(value, type) and (definition := definition_of(value)) is not None
    ]


def _walk(queue: list[ModuleType]) -> Iterator[ModuleType]:
    seen: set[int] = set()
    while queue:
        module = queue.pop(0)
        if id(module) in seen:
            continue
        seen.add(id(module))
        yield module
        imported = [v for v in list(vars(module).values()) if isinstance(v, ModuleType)]
        queue.extend(other for other in imported if _is_own(other))


def _is_own(module: ModuleType) -> bool:
    """Whether it is the code of users: neither the standard library nor installed packages."""
    path = getattr(module, "__file__", None)
    if path is None or module.__name__.partition(".")[0] in sys.stdlib_module_names:
        return False
    roots = {sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")}
    names = ("kopf", "kopf_cogs", "kopf_core", "kopf_kits")
    is_installed = any(os.path.abspath(path).startswith(f"{root}{os.sep}") for root in roots)
    return not is_installed and module.__name__.partition(".")[0] not in names
