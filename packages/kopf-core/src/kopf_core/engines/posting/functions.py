"""The functions by which handlers post events about any objects, in any form."""

import logging
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kopf_cogs.structs.bodies import ObjectReference, build_object_reference
from kopf_core.actions.context import operator_var

TYPES_BY_LEVEL = (
    (logging.DEBUG, "Debug"),
    (logging.INFO, "Normal"),
    (logging.WARNING, "Warning"),
    (logging.ERROR, "Error"),
)


def type_of_level(level: int) -> str:
    """The type of events for this level of importance."""
    return next((name for limit, name in TYPES_BY_LEVEL if level <= limit), "Fatal")


def event(
    objs: Any,
    *,
    type: str,
    reason: str,
    message: str = "",
    backoffs: float | Iterable[float] | None = None,
) -> None:
    """Post an event about an object, or about each of several objects.

    ``backoffs`` are delays in seconds between the attempts to post the event. The function does
    nothing if posting is disabled, or if the object is an event itself.
    """
    operator = operator_var.get(None)
    if operator is None:
        raise LookupError("Events can only be posted from inside of an operator.")
    texts = {"type": _to_text(type), "reason": _to_text(reason), "message": _to_text(message)}
    for ref in _references(objs):
        operator.recorder.record(ref, **texts, backoffs=backoffs)


def info(
    objs: Any,
    *,
    reason: str,
    message: str = "",
    backoffs: float | Iterable[float] | None = None,
) -> None:
    """Post a normal event, unless ``settings.posting.level`` is higher than that."""
    _event_of_level(logging.INFO, objs, reason, message, backoffs)


def warn(
    objs: Any,
    *,
    reason: str,
    message: str = "",
    backoffs: float | Iterable[float] | None = None,
) -> None:
    """Post a warning event, unless ``settings.posting.level`` is higher than that."""
    _event_of_level(logging.WARNING, objs, reason, message, backoffs)


def exception(
    objs: Any,
    *,
    reason: str = "",
    message: str = "",
    exc: BaseException | None = None,
    backoffs: float | Iterable[float] | None = None,
) -> None:
    """Post an error event about an exception: by default, the one that is handled now."""
    exc = exc if exc is not None else sys.exc_info()[1]
    if exc is not None:
        reason = reason or type(exc).__name__
        message = f"{message} {exc}" if message else f"{exc}"
    _event_of_level(logging.ERROR, objs, reason, message, backoffs)


def _event_of_level(
    level: int,
    objs: Any,
    reason: str,
    message: str,
    backoffs: float | Iterable[float] | None,
) -> None:
    operator = operator_var.get(None)
    if operator is None or level >= operator.settings.posting.level:
        event(objs, type=type_of_level(level), reason=reason, message=message, backoffs=backoffs)


def _to_text(value: object) -> str:
    """The value as a text: handlers pass numbers and errors, too. ``None`` is no text."""
    return "" if value is None else str(value)


def _references(objs: Any) -> Iterator[ObjectReference]:
    if isinstance(objs, Mapping):
        yield build_object_reference(objs)
    elif hasattr(objs, "obj"):  # an object of pykube-ng
        yield build_object_reference(objs.obj)
    elif hasattr(objs, "to_dict"):  # a model of the official client
        yield _reference_of_model(objs)
    else:
        for obj in objs:
            yield from _references(obj)


def _reference_of_model(obj: Any) -> ObjectReference:
    meta = getattr(obj, "metadata", None)
    return build_object_reference(
        {
            "apiVersion": getattr(obj, "api_version", None),
            "kind": getattr(obj, "kind", None),
            "metadata": {name: getattr(meta, name, None) for name in ("name", "namespace", "uid")},
        }
    )
