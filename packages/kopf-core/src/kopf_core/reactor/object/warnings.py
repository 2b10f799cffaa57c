"""Warnings about the handlers of users, each of them once."""

from collections.abc import Iterable
from functools import partial
from typing import Any

from kopf_cogs.configs.diffbase import (
    AnnotationsDiffBaseStorage,
    DiffBaseStorage,
    HashingDiffBaseStorage,
    MultiDiffBaseStorage,
)
from kopf_cogs.structs.resources import Resource
from kopf_core.actions.loggers import AnyLogger
from kopf_core.engines.memories import ObjectMemory
from kopf_core.intents.handlers import ChangingHandler
from kopf_core.intents.registries import find_clashes


def warn_of_clashes(
    memory: ObjectMemory,
    handlers: Iterable[ChangingHandler],
    logger: AnyLogger,
) -> None:
    """Name the different functions that share an id: their progress cannot be told apart."""
    for one, other in find_clashes(handlers):
        if memory.warn_once(f"clash:{one.id}"):
            ids = f"{one.id!r}" if one.id == other.id else f"{one.id!r} and {other.id!r}"
            logger.warning(
                f"Two different functions are registered as {ids}, and only one of them "
                f"can be tracked: {locate(one.fn)} and {locate(other.fn)}. "
                f"Use the id= option for one of them."
            )


def warn_of_exposed_secrets(
    resource: Resource,
    storage: DiffBaseStorage,
    logger: AnyLogger,
) -> None:
    """Warn that data of Secrets will be copied to annotations, where more people can read them."""
    if resource.group == "" and resource.plural == "secrets" and _exposes_values(storage):
        logger.warning(
            "Secrets are handled, and their data are copied into annotations as the last handled "
            "state; `kubectl describe` shows annotations as is. To prevent this, set "
            "settings.persistence.diffbase_storage = kopf.HashingDiffBaseStorage()."
        )


def _exposes_values(storage: DiffBaseStorage) -> bool:
    if isinstance(storage, MultiDiffBaseStorage):
        return any(_exposes_values(inner) for inner in storage.storages)
    return isinstance(storage, AnnotationsDiffBaseStorage) and not isinstance(
        storage, HashingDiffBaseStorage
    )


def locate(fn: Any) -> str:
    """Where the function is: its name, file, and line."""
    while isinstance(fn, partial):
        fn = fn.func
    code = getattr(fn, "__code__", None)
    name = getattr(fn, "__qualname__", repr(fn))
    return name if code is None else f"{name} ({code.co_filename}:{code.co_firstlineno})"
