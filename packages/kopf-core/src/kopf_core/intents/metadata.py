"""Metadata: whether it is enough for a handler, so that the rest need not be watched.

It can be declared, or it can be seen from the function: by the arguments that it asks for.
All functions must accept any arguments, so it matters whether a function looks at the others.
"""

import dis
import inspect
from collections.abc import Collection, Iterator, Mapping
from types import CodeType
from typing import Any

from kopf_core.actions.bases import Fn
from kopf_core.intents.handlers import (
    DaemonHandler,
    IndexingHandler,
    ResourceHandler,
    TimerHandler,
    WatchingHandler,
)

ABSENT = frozenset({"spec", "status", "conditions"})
"""The arguments for which there is nothing in the metadata."""

TELLING = ABSENT | {"body", "event", "diff", "old", "new"}
"""The arguments in which a function can see more than the metadata."""

PEEKING = frozenset({"locals", "vars", "dir", "eval", "exec", "_getframe", "currentframe"})
"""The functions by which the arguments can be seen with no names."""

EVIDENT = (WatchingHandler, IndexingHandler, DaemonHandler, TimerHandler)
"""The handlers that are not called because of changes in the specs of objects, and that have no
sub-handlers: those have arguments of their own."""


def validate_metadata_only(fn: Fn, options: Mapping[str, Any]) -> None:
    """Check that the function can do with the metadata, if it is declared so.

    Raises :class:`TypeError`.
    """
    if not options.get("metadata_only"):
        return
    asked = sorted(_get_names(fn) & ABSENT)
    if asked:
        raise TypeError(f"With metadata_only=True, there is nothing for {', '.join(asked)}.")


def is_metadata_enough(handler: ResourceHandler) -> bool:
    """Whether the handler and its filters surely look at nothing else in the objects."""
    if not isinstance(handler, EVIDENT) or handler.views is not None:
        return False
    if isinstance(handler, TimerHandler) and handler.idle is not None:
        return False  # it is about changes of the whole object
    if handler.field and handler.field[0] != "metadata":
        return False
    criteria = [
        *(handler.labels or {}).values(),
        *(handler.annotations or {}).values(),
        getattr(handler, "initial_delay", None),
        handler.value,
        handler.when,
    ]
    return all(map(_is_content, [handler.fn, *filter(callable, criteria)]))


def _is_content(fn: Any) -> bool:
    """Whether the function asks for nothing else, and never looks into its ``**kwargs``."""
    code = getattr(fn, "__code__", None)
    if code is None or _get_names(fn) & TELLING or PEEKING & {*code.co_names}:
        return False
    swallowed = {param.name for param in _get_parameters(fn) if param.kind is param.VAR_KEYWORD}
    return not swallowed & {*code.co_cellvars, *_list_used(code)}


def _list_used(code: CodeType) -> Iterator[str]:
    """The names in the instructions; several instructions can be joined into one."""
    for instruction in dis.get_instructions(code):
        value = instruction.argval
        yield from (value if isinstance(value, tuple) else (value,))


def _get_names(fn: Any) -> frozenset[str]:
    return frozenset(param.name for param in _get_parameters(fn))


def _get_parameters(fn: Any) -> Collection[inspect.Parameter]:
    try:
        return inspect.signature(fn, follow_wrapped=False).parameters.values()
    except (TypeError, ValueError):
        return ()
