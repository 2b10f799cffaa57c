"""Throttling: an object that cannot be processed is left alone for a while."""

import logging

from kopf_cogs.clients.errors import APIForbiddenError
from kopf_core.actions.throttling import Throttler
from kopf_core.reactor.turns import Turn
from kopf_core.reactor.work import DONE, Requeue, TurnResult


class Denials:
    """What is forbidden to do with all the objects of a kind: to be told once, not for each."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def is_news(self, exc: Exception) -> bool:
        """Whether to tell of the error. Only those that are surely not of one object repeat."""
        if not isinstance(exc, APIForbiddenError):
            return True
        # As of RBAC: '<plural> "<name>" is forbidden: User "<who>" cannot <verb> resource <...>'.
        text = str(exc).partition("is forbidden: ")[2]
        if " cannot " not in text:
            return True
        is_new = text not in self._told
        self._told.add(text)
        return is_new

    def clear(self) -> None:
        """Something was permitted: if anything is forbidden later, it is another story."""
        self._told.clear()


def throttle(
    turn: Turn, reason: str, exc: Exception | None, now: float, *, is_known: bool = False
) -> TurnResult:
    """Leave the object alone for a while: something is wrong with it, or with us.

    ``is_known`` says that the reason was told already for another object.
    """
    throttler = turn.memory.throttler
    if throttler is None:
        throttler = turn.memory.throttler = Throttler()
    is_news = throttler.is_news(reason) and not is_known
    delay = throttler.fail(turn.settings.queueing.error_delays)
    if delay is None:
        turn.logger.error(f"Processing has failed: {reason}", exc_info=exc)
        return DONE
    turn.logger.log(
        logging.ERROR if is_news else logging.DEBUG,
        f"Throttling for {delay} seconds due to an unexpected error: {reason}",
        exc_info=exc if is_news else None,
    )
    return Requeue(at=now + delay, is_held=True)


def unthrottle(turn: Turn, denials: Denials) -> None:
    """The object is processed with no errors: the next one starts from the shortest delay."""
    if turn.memory.throttler is not None:
        denials.clear()
        turn.memory.throttler = None
        turn.logger.info("Throttling is over. Switching back to normal operations.")
