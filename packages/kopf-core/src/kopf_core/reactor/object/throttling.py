"""Throttling: an object that cannot be processed is left alone for a while."""

import logging
from collections.abc import Callable, Collection
from typing import NamedTuple

from kopf_cogs.clients.errors import APIError, APIForbiddenError
from kopf_cogs.clients.rights import Right, explain_refusal, hint_at_role
from kopf_cogs.clients.session import Client
from kopf_core.engines.records.holds import Throttling
from kopf_core.reactor.object.turns import Turn
from kopf_core.reactor.streams.work import DONE, Requeue, TurnResult


class Failure(NamedTuple):
    """The reason why an object cannot be processed, in words for the logs."""

    reason: str
    kind: str = "an unexpected error"
    exc: Exception | None = None
    """The error whose traceback is shown."""

    is_known: bool = False
    """Whether the reason was logged already for another object."""


class Denials:
    """The missing permissions for a kind, which are logged once, not for each object."""

    def __init__(self, client: Client, get_wanted: Callable[[], Collection[Right]]) -> None:
        self._client = client
        self._get_wanted = get_wanted
        self._told: set[str] = set()

    async def explain(self, exc: APIError, turn: Turn) -> Failure:
        """Explain the error; if permissions are missing, with the missing rules of the role.

        All missing permissions are named at once.
        """
        # As of RBAC: '<plural> "<name>" is forbidden: User "<who>" cannot <verb> resource <...>'.
        text = str(exc).partition("is forbidden: ")[2]
        if not isinstance(exc, APIForbiddenError) or " cannot " not in text:
            return Failure(f"{exc}{hint_at_role(exc)}")
        if text in self._told:
            return Failure(f"{exc}{hint_at_role(exc)}", "missing permissions", is_known=True)
        self._told.add(text)
        hint = await explain_refusal(
            self._client, exc, self._get_wanted(), turn.body.metadata.namespace
        )
        return Failure(f"{exc}{hint}", "missing permissions")

    def clear(self) -> None:
        """Forget what was logged, as a request has succeeded: a later refusal is news."""
        self._told.clear()


def throttle(turn: Turn, failure: Failure, now: float) -> TurnResult:
    """Leave the object alone for a while after an error: each time in a row, for longer."""
    memory = turn.memory
    before = memory.holds.throttling or Throttling()
    throttling = before.failed(failure.reason)
    memory.holds = memory.holds._replace(throttling=throttling)
    is_news = failure.reason != before.reason and not failure.is_known
    delay = throttling.get_delay(turn.settings.queueing.error_delays)
    if delay is None:
        turn.logger.error(f"Processing has failed: {failure.reason}", exc_info=failure.exc)
        return DONE
    turn.logger.log(
        logging.ERROR if is_news else logging.DEBUG,
        f"Throttling for {delay} seconds due to {failure.kind}: {failure.reason}",
        exc_info=failure.exc if is_news else None,
    )
    return Requeue(at=now + delay, is_held=True)


def unthrottle(turn: Turn, denials: Denials) -> None:
    """End the throttling, as a turn had no errors. The next error has the shortest delay again."""
    if turn.memory.holds.throttling is not None:
        denials.clear()
        turn.memory.holds = turn.memory.holds._replace(throttling=None)
        turn.logger.info("Throttling is over. Switching back to normal operations.")
