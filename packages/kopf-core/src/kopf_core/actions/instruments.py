"""Instruments: those who measure and trace what the operator does; nobody, by default.

They are asked only if they are plugged in: with none, nothing is called and nothing is made.
"""

from collections.abc import Collection, Iterable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass

from kopf_cogs.clients.session import RequestRecord
from kopf_core.actions.bases import BaseCause, BaseHandler
from kopf_core.actions.outcomes import Outcome

_NOTHING: AbstractContextManager[object] = nullcontext()


class Instruments:
    """Whoever measures or traces; this one does nothing. To be inherited, and to be fast.

    Everything is called in the event loop, and must not fail.
    """

    is_tracing = False
    """Whether the beginnings are of interest, not only the results."""

    def on_request(self, record: RequestRecord) -> None:
        """A request to the API has ended, in whatever way but cancellation."""

    def on_attempt(self, handler: BaseHandler, outcome: Outcome, seconds: float) -> None:
        """An attempt has ended, in whatever way but cancellation. Called inside of its context."""

    def on_outcome(self, handler: BaseHandler, cause: BaseCause, outcome: Outcome) -> None:
        """The same: for which object it was."""

    def on_timeout(self, handler: BaseHandler) -> None:
        """An attempt has taken longer than ``settings.execution.attempt_timeout``."""

    def trace_turn(
        self, resource: str, namespace: str | None, name: str
    ) -> AbstractContextManager[object]:
        """The context for everything that is done for one object at once."""
        return _NOTHING

    def trace_attempt(self, handler: BaseHandler) -> AbstractContextManager[object]:
        """The context for one call of a handler."""
        return _NOTHING


class JointInstruments(Instruments):
    """Several instruments as one."""

    def __init__(self, members: Collection[Instruments]) -> None:
        self.members = members
        self.is_tracing = any(member.is_tracing for member in members)

    def on_request(self, record: RequestRecord) -> None:
        for member in self.members:
            member.on_request(record)

    def on_attempt(self, handler: BaseHandler, outcome: Outcome, seconds: float) -> None:
        for member in self.members:
            member.on_attempt(handler, outcome, seconds)

    def on_outcome(self, handler: BaseHandler, cause: BaseCause, outcome: Outcome) -> None:
        for member in self.members:
            member.on_outcome(handler, cause, outcome)

    def on_timeout(self, handler: BaseHandler) -> None:
        for member in self.members:
            member.on_timeout(handler)

    def trace_turn(
        self, resource: str, namespace: str | None, name: str
    ) -> AbstractContextManager[object]:
        return self._join(member.trace_turn(resource, namespace, name) for member in self.members)

    def trace_attempt(self, handler: BaseHandler) -> AbstractContextManager[object]:
        return self._join(member.trace_attempt(handler) for member in self.members)

    def _join(
        self, contexts: Iterable[AbstractContextManager[object]]
    ) -> AbstractContextManager[object]:
        stack = ExitStack()
        for context in contexts:
            stack.enter_context(context)
        return stack


@dataclass(slots=True)
class Panel:
    """Where the instruments are plugged in: once the settings say so, after all parts are made."""

    instruments: Instruments | None = None


def name_handler(handler: BaseHandler) -> str:
    """The id of the handler; sub-handlers of one are together: they can be made of objects."""
    is_nested = getattr(handler, "selector", ...) is None
    return f"{handler.id.partition('/')[0]}/*" if is_nested else handler.id


def name_kind(handler: BaseHandler) -> str:
    """The kind of the handler, e.g. ``changing``."""
    return type(handler).__name__.removesuffix("Handler").lower()
