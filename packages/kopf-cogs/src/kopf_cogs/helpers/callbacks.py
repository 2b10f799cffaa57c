"""Functions of users which are called synchronously: filters, patch functions, backoffs.

They can raise any error. It is a failure of their handler, and of nothing else.
Only ``SystemExit`` is also a wish to stop the operator: the listener for exits is told.
Functions that can be awaited or run in threads (handlers) are called by the core.
"""

from collections.abc import Callable
from contextvars import ContextVar
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class Interrupted(Exception):
    """A function has raised something that must not go through the framework as is.

    Such as ``SystemExit``, ``CancelledError`` of its own, ``KeyboardInterrupt``, or a group of
    them: it would end a task, a thread, or the process. The cause is always set.
    """

    def __str__(self) -> str:
        name = type(self.__cause__).__name__
        try:
            return f"{name}: {self.__cause__}".rstrip(": ")
        except BaseException:  # users can define the class of the error, too
            return name


class ExitWish(Interrupted):
    """A function has raised ``SystemExit``; the listener for exits knows it already."""


exit_listener: ContextVar[Callable[[SystemExit], None] | None] = ContextVar(
    "exit_listener", default=None
)
"""The function to tell if users' functions ask to exit; the operator sets it for all its tasks."""


def interrupted(exc: BaseException) -> Interrupted:
    """Convert an error that must not go through the framework; tell of the wishes to exit."""
    if not isinstance(exc, SystemExit):
        return Interrupted()
    listener = exit_listener.get()
    if listener is not None:
        listener(exc)
    return ExitWish()


def call(fn: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call the function; convert all its errors to an :class:`Exception`."""
    try:
        return fn(*args, **kwargs)
    except Exception:
        raise
    except BaseException as e:
        raise interrupted(e) from e
