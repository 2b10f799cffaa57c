"""Metadata: whether it is enough for a handler, so that Kopf does not need to watch whole objects.

Users can declare this. Otherwise, Kopf looks at the arguments that the function asks for. Each
function also takes all other arguments as ``**kwargs``. So Kopf checks that its code never reads
``**kwargs``.
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
"""The arguments that would be empty, because the metadata does not have their fields."""

TELLING = ABSENT | {"body", "event", "diff", "old", "new"}
"""The arguments that show other fields than the metadata to a function."""

PEEKING = frozenset({"locals", "vars", "dir", "eval", "exec", "_getframe", "currentframe"})
"""The functions that give access to the arguments without their names."""

EVIDENT = (WatchingHandler, IndexingHandler, DaemonHandler, TimerHandler)
"""The handlers whose needs are visible in their arguments.

The calls of other handlers depend on changes of specs. Other handlers can also have sub-handlers,
and sub-handlers have arguments of their own.
"""


def validate_metadata_only(fn: Fn, options: Mapping[str, Any]) -> None:
    """Check that a function with ``metadata_only=True`` asks for nothing else.

    Raises :class:`TypeError` if the function asks for other fields.
    """
    if not options.get("metadata_only"):
        return
    asked = sorted(_get_names(fn) & ABSENT)
    if asked:
        raise TypeError(f"With metadata_only=True, there is nothing for {', '.join(asked)}.")


def is_metadata_enough(handler: ResourceHandler) -> bool:
    """Whether the handler and its filters certainly read only the metadata of objects."""
    if not isinstance(handler, EVIDENT) or handler.views is not None:
        return False
    if isinstance(handler, TimerHandler) and handler.idle is not None:
        return False  # any change of the object restarts the idle time
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
    """Whether the function asks only for the metadata, and never reads its ``**kwargs``."""
    code = getattr(fn, "__code__", None)
    if code is None or _get_names(fn) & TELLING or PEEKING & {*code.co_names}:
        return False
    swallowed = {param.name for param in _get_parameters(fn) if param.kind is param.VAR_KEYWORD}
    return not swallowed & {*code.co_cellvars, *_list_used(code)}


def _list_used(code: CodeType) -> Iterator[str]:
    """The names in the instructions. One instruction can have several names."""
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
