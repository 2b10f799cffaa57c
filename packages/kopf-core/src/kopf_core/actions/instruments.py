"""Instruments: measure and trace the operator; by default, there are none.

Kopf calls them only if they are plugged in. Without them, Kopf makes no calls and no objects.
"""

from collections.abc import Collection, Iterable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass

from kopf_cogs.clients.session import RequestRecord
from kopf_core.actions.bases import BaseCause, BaseHandler
from kopf_core.actions.outcomes import Outcome

_NOTHING: AbstractContextManager[object] = nullcontext()


class Instruments:
    """The base class of instruments, which does nothing. The methods must be fast.

    All of them are called in the event loop, and must not fail.
    """

    is_tracing = False
    """Whether the begins of attempts and turns are traced, not only the results measured."""

    def on_request(self, record: RequestRecord) -> None:
        """A request to the API has ended, but not by its cancellation."""

    def on_attempt(self, handler: BaseHandler, outcome: Outcome, seconds: float) -> None:
        """An attempt has ended, but not by its cancellation. Called inside of its context."""

    def on_outcome(self, handler: BaseHandler, cause: BaseCause, outcome: Outcome) -> None:
        """An attempt has ended. Unlike ``on_attempt()``, this gets the cause with its object."""

    def on_timeout(self, handler: BaseHandler) -> None:
        """An attempt has taken longer than ``settings.execution.attempt_timeout``."""

    def on_round(self, handler: BaseHandler) -> None:
        """The operator's own changes have called the handler so often that the next call waits."""

    def trace_turn(
        self, resource: str, namespace: str | None, name: str
    ) -> AbstractContextManager[object]:
        """The context of one turn of an object."""
        return _NOTHING

    def trace_attempt(self, handler: BaseHandler) -> AbstractContextManager[object]:
        """The context of one call of a handler."""
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

    def on_round(self, handler: BaseHandler) -> None:
        for member in self.members:
            member.on_round(handler)

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
    """The socket for the instruments: the settings plug them in after all parts are made."""

    instruments: Instruments | None = None

    def count_round(self, handlers: Iterable[BaseHandler]) -> None:
        """Count one more round of an endless loop, for each of its handlers."""
        if self.instruments is not None:
            for handler in handlers:
                self.instruments.on_round(handler)


def name_handler(handler: BaseHandler) -> str:
    """The id of the handler. Its sub-handlers share it: their ids can come from objects."""
    is_nested = getattr(handler, "selector", ...) is None
    return f"{handler.id.partition('/')[0]}/*" if is_nested else handler.id


def name_kind(handler: BaseHandler) -> str:
    """The kind of the handler, e.g. ``changing``."""
    return type(handler).__name__.removesuffix("Handler").lower()
