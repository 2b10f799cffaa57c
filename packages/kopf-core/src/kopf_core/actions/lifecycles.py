"""Lifecycles: choose which of the due handlers are called in this step of the cycle.

A lifecycle is any function that takes the list of handlers and arbitrary keyword arguments
(``state=`` among them), and returns some of the handlers, in the order of their calls. The progress
is stored after each step, before the next one begins.
"""

from collections.abc import Callable, Sequence
from typing import Any

from kopf_cogs.aiokits.surroundings import get_chance
from kopf_core.actions.bases import BaseHandler
from kopf_core.actions.states import State

Lifecycle = Callable[..., Sequence[Any]]


def all_at_once(handlers: Sequence[BaseHandler], /, **_: Any) -> Sequence[BaseHandler]:
    """Call all handlers of the step, one after another, and store the progress only then."""
    return handlers


def one_by_one(handlers: Sequence[BaseHandler], /, **_: Any) -> Sequence[BaseHandler]:
    """Call the first handler until it is over, then the second one, etc."""
    return handlers[:1]


def randomized(handlers: Sequence[BaseHandler], /, **_: Any) -> Sequence[BaseHandler]:
    """Call one random handler in each step."""
    return [get_chance().choice(handlers)] if handlers else []


def shuffled(handlers: Sequence[BaseHandler], /, **_: Any) -> Sequence[BaseHandler]:
    """Call all handlers of the step in a random order."""
    return get_chance().sample(handlers, k=len(handlers))


def asap(
    handlers: Sequence[BaseHandler],
    /,
    *,
    state: State,
    **_: Any,
) -> Sequence[BaseHandler]:
    """Call one handler in each step: the one with the fewest attempts so far.

    A handler that fails does not hold the others: it is tried again after them.
    """
    return [min(handlers, key=lambda handler: state[handler.id].retries)] if handlers else []


class DefaultLifecycle:
    """The default of this process, for operators with no lifecycle of their own."""

    def __init__(self, lifecycle: Lifecycle) -> None:
        self._original = lifecycle
        self.current = lifecycle

    def set(self, lifecycle: Lifecycle | None) -> None:
        self.current = lifecycle if lifecycle is not None else self._original


_default = DefaultLifecycle(asap)


def get_default_lifecycle() -> Lifecycle:
    """The lifecycle used when the operator does not specify its own one."""
    return _default.current


def set_default_lifecycle(lifecycle: Lifecycle | None) -> None:
    """Replace the default lifecycle for this process; ``None`` restores :func:`asap`."""
    _default.set(lifecycle)
