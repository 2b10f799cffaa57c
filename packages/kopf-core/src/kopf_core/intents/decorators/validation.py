"""The checks of the decorators' options: Kopf notices mistakes when the code is loaded."""

import inspect
import numbers
from collections.abc import Mapping
from typing import Any

from kopf_core.actions.errors import ErrorsMode
from kopf_core.intents.filters import validate_meta_filter

_NUMBERS = (
    "timeout",
    "retries",
    "interval",
    "idle",
    "cancellation_backoff",
    "cancellation_timeout",
    "cancellation_polling",
)
_NUMBERS_OR_FUNCTIONS = ("backoff", "initial_delay")


def validate_execution(options: Mapping[str, Any]) -> None:
    """Check the options for calls of functions. Raises :class:`TypeError`."""
    for name in (*_NUMBERS, *_NUMBERS_OR_FUNCTIONS):
        value = options.get(name)
        if value is None or isinstance(value, numbers.Real):
            continue
        if name not in _NUMBERS_OR_FUNCTIONS:
            raise TypeError(f"{name}= must be a number, not {value!r}.")
        if not callable(value):
            raise TypeError(f"{name}= must be a number or a function, not {value!r}.")
    interval = options.get("interval")
    if interval is not None and interval < 0:
        raise TypeError(f"interval= must not be negative, as {interval!r} is.")
    errors = options.get("errors")
    if errors is not None and not isinstance(errors, ErrorsMode):
        raise TypeError(f"errors= must be one of kopf.ErrorsMode, not {errors!r}.")


def validate_filters(options: Mapping[str, Any]) -> None:
    """Check the filters of objects. Raises :class:`TypeError` or :class:`ValueError`."""
    validate_meta_filter("labels", options.get("labels"))
    validate_meta_filter("annotations", options.get("annotations"))
    when = options.get("when")
    if when is not None and not callable(when):
        raise TypeError(f"when= must be a function, not {when!r}.")
    old, new, value = (options.get(name) for name in ("old", "new", "value"))
    if value is not None and (old is not None or new is not None):
        raise TypeError("Either value= or old=/new= can be defined, not both.")
    if options.get("field") is None and any(x is not None for x in (value, old, new)):
        raise TypeError("If value=, old=, or new= is specified, then field= must be, too.")


def validate_selector(fn: Any) -> None:
    """Check that the selector is not the handler itself, decorated without parentheses.

    Raises :class:`TypeError`. Functions are good selectors if they accept a resource.
    """
    if inspect.isroutine(fn) and not _is_selecting(fn):
        raise TypeError(
            f"The decorator needs parentheses with a resource, e.g. "
            f"@kopf.on.create('kopfexamples'); it was used for {fn.__qualname__!r}."
        )


def _is_selecting(fn: Any) -> bool:
    try:
        signature = inspect.signature(fn)
    except ValueError:
        return True  # e.g. built-in functions
    try:
        signature.bind(object())
    except TypeError:
        return False
    first, *others = signature.parameters.values()
    return first.name == "resource" or all(
        parameter.kind != inspect.Parameter.VAR_KEYWORD for parameter in others
    )
