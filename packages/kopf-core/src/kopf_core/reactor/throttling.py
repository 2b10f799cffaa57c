"""Throttling: an object that cannot be processed is left alone for a while."""

import logging

from kopf_core.actions.throttling import Throttler
from kopf_core.reactor.turns import Turn
from kopf_core.reactor.work import DONE, Requeue, TurnResult


def throttle(turn: Turn, reason: str, exc: Exception | None, now: float) -> TurnResult:
    """Leave the object alone for a while: something is wrong with it, or with us."""
    throttler = turn.memory.throttler
    if throttler is None:
        throttler = turn.memory.throttler = Throttler()
    is_news = throttler.is_news(reason)
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


def unthrottle(turn: Turn) -> None:
    """The object is processed with no errors: the next one starts from the shortest delay."""
    if turn.memory.throttler is not None:
        turn.memory.throttler = None
        turn.logger.info("Throttling is over. Switching back to normal operations.")
