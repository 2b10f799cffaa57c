"""The base classes of handlers and causes: the least that an attempt needs to know of them.

The specific kinds of both are declared in :mod:`kopf_core.intents`.
"""

import functools
import inspect
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from kopf_cogs.configs.checks import SettingError
from kopf_cogs.structs.ids import HandlerId
from kopf_core.actions.errors import ErrorsMode, PermanentError
from kopf_core.actions.loggers import AnyLogger

Fn = Callable[..., Any]

AnyBackoff = float | Callable[[int], float]
"""A delay in seconds, or a function of the number of the failed attempt (from zero)."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class BaseHandler:
    """A user's function with the options it was decorated with.

    Handlers are compared by identity: two decorators make two handlers.
    """

    success_level: ClassVar[int] = logging.INFO
    """The level at which successes are logged."""

    is_endless: ClassVar[bool] = False
    """Whether its attempts have no time limit, unless the handler has its own."""

    final_errors: ClassVar[tuple[type[Exception], ...]] = (PermanentError, SettingError)
    """The errors after which there is no sense to call the handler again."""

    fn: Fn
    id: HandlerId
    param: Any = None
    errors: ErrorsMode | None = None
    timeout: float | None = None
    retries: int | None = None
    backoff: AnyBackoff | None = None
    is_async: bool = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_async", is_async_fn(self.fn))

    def __str__(self) -> str:
        return f"Handler {self.id!r}"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id!r}>"

    def adjust_kwargs(self, kwargs: dict[str, Any]) -> None:
        """Narrow the keyword arguments of a cause down to the ones for this handler.

        Errors raised here fail the attempt before its call.
        """


class BaseCause(Protocol):
    """The reason for which handlers are called: a change of an object, an activity, etc."""

    @property
    def logger(self) -> AnyLogger: ...

    @property
    def kwargs(self) -> dict[str, Any]:
        """The keyword arguments common for all handlers of the cause. Do not modify them."""


def is_async_fn(fn: Any) -> bool:
    """Whether calling the function gives a coroutine: directly, in a partial, or as an object."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    if inspect.iscoroutinefunction(fn):
        return True
    wrapped = getattr(fn, "__wrapped__", None)
    if wrapped is not None and not inspect.isroutine(fn):
        return is_async_fn(wrapped)
    return not inspect.isroutine(fn) and inspect.iscoroutinefunction(
        getattr(type(fn), "__call__", None)  # noqa: B004
    )


def name_of_fn(fn: Any) -> str:
    """The natural name of a function for handler ids: stable across restarts of the operator.

    Raises :class:`ValueError` if there is no name, e.g. for callable objects.
    """
    while isinstance(fn, functools.partial):
        fn = fn.func
    name = getattr(fn, "__name__", None)
    if name is None or isinstance(fn, type):
        hint = ", or decorate a function: calls of a class only make objects" if name else ""
        raise ValueError(f"Cannot get the handler's id of {fn!r}; specify it with id={hint}.")
    if name == "<lambda>":
        code = fn.__code__
        return f"lambda:{code.co_filename}:{code.co_firstlineno}"
    return str(getattr(fn, "__qualname__", name))
