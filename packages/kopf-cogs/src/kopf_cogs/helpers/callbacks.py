"""Functions of users which are called synchronously: filters, patch functions, backoffs.

They can raise anything; whatever it is, it is a failure of what they belong to, and nothing more.
Functions that can be awaited or run in threads (handlers) are called by the core.
"""

from collections.abc import Callable
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
        except BaseException:  # the class of the error is of users, too
            return name


def call(fn: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call the function; whatever it raises comes as an :class:`Exception`."""
    try:
        return fn(*args, **kwargs)
    except Exception:
        raise
    except BaseException as e:
        raise Interrupted() from e
