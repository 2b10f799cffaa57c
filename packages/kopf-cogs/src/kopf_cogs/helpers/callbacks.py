"""Functions of users which are called synchronously: filters, patch functions, backoffs.

They can raise anything; whatever it is, it is a failure of what they belong to, and nothing more.
Only ``SystemExit`` and ``KeyboardInterrupt`` are also wishes to stop the operator: whoever runs it
is told.
Functions that can be awaited or run in threads (handlers) are called by the core.
"""

from collections.abc import Callable
from contextvars import ContextVar
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class Interrupted(Exception):
    """A function has raised something that must not go through the framework as is.

    Such as ``SystemExit``, ``KeyboardInterrupt``, ``CancelledError`` of its own, or a group of
    them: it would end a task, a thread, or the process. The cause is always set.
    """

    def __str__(self) -> str:
        name = type(self.__cause__).__name__
        try:
            return f"{name}: {self.__cause__}".rstrip(": ")
        except BaseException:  # the class of the error is of users, too
            return name


class ExitWish(Interrupted):
    """A function has asked to exit; whoever runs the operator knows it already."""


exit_listener: ContextVar[Callable[[SystemExit], None] | None] = ContextVar(
    "exit_listener", default=None
)
"""Who is told if users' functions ask to exit; set by the operator for everything inside of it."""


def interrupted(exc: BaseException) -> Interrupted:
    """Make an error of what must not go through the framework; tell of the wishes to exit."""
    wish = as_wish(exc)
    if wish is None:
        return Interrupted()
    listener = exit_listener.get()
    if listener is not None:
        listener(wish)
    return ExitWish()


def as_wish(exc: BaseException) -> SystemExit | None:
    """Return the wish to exit; ``None`` if it is none. Commands interrupted by keys end with 1."""
    if not isinstance(exc, KeyboardInterrupt):
        return exc if isinstance(exc, SystemExit) else None
    wish = SystemExit(1).with_traceback(exc.__traceback__)
    wish.__cause__ = exc
    return wish


def call(fn: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call the function; whatever it raises comes as an :class:`Exception`."""
    try:
        return fn(*args, **kwargs)
    except Exception:
        raise
    except BaseException as e:
        raise interrupted(e) from e
