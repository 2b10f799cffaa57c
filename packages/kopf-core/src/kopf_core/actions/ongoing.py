"""Ongoing calls of users' functions: to wait for their ends, and to name the endless ones."""

from collections.abc import Iterator

from kopf_core.actions.bases import BaseCause, BaseHandler
from kopf_core.actions.context import Invocation


class Ongoing:
    """The calls of users' functions that run now, including those left in threads.

    It is changed from the loop and from threads: each call is added and removed once.
    """

    __slots__ = ("_calls", "enter", "leave")

    def __init__(self) -> None:
        self._calls: set[Invocation] = set()
        self.enter = self._calls.add
        self.leave = self._calls.discard

    def __bool__(self) -> bool:
        return bool(self._calls)

    def __contains__(self, call: Invocation) -> bool:
        return call in self._calls

    def __iter__(self) -> Iterator[Invocation]:
        return iter(list(self._calls))

    def describe(self) -> list[str]:
        """Name the running handlers, each with its object."""
        return sorted({describe_call(call.handler, call.cause) for call in self})


class Ages:
    """The ages of the calls, as seen by looking at the calls regularly.

    The calls themselves do not note when they begin: that would cost time in every call, and few
    operators show the ages. Endless functions, such as daemons, are skipped.
    """

    def __init__(self, ongoing: Ongoing) -> None:
        self._ongoing = ongoing
        self._seen: dict[Invocation, float] = {}

    def look(self, now: float) -> None:
        """Note the calls that run now."""
        calls = (call for call in self._ongoing if not call.handler.is_endless)
        self._seen = {call: self._seen.get(call, now) for call in calls}

    def find_older(self, age: float, now: float) -> list[tuple[float, Invocation]]:
        """Find the calls that run for at least ``age``, each with its age. The oldest go first."""
        ages = ((now - since, call) for call, since in self._seen.items())
        return sorted((one for one in ages if one[0] >= age), key=lambda one: -one[0])


def describe_call(handler: BaseHandler, cause: BaseCause) -> str:
    """Name the handler and its object, if it has one."""
    body, resource = getattr(cause, "body", None), getattr(cause, "resource", None)
    if body is None:
        return f"{handler}"
    meta = body.metadata
    name = f"{meta.namespace}/{meta.name}" if meta.namespace else f"{meta.name}"
    return f"{handler} of {resource} {name}"
