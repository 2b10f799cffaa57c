"""The time of the next attempt of a daemon or timer. Pure functions of the monotonic time, in
seconds.

The wall clock does not matter: its jumps affect nothing.
"""

import math

from kopf_core.actions.retrying import sane_delay
from kopf_core.intents.handlers import TimerHandler

TOLERANCE = 0.001
"""Event loops can wake up slightly earlier than asked."""


def get_first_tick(
    handler: TimerHandler,
    *,
    now: float,
    delay: float,
    changed_at: float,
) -> float:
    """The time of the first tick: both the initial delay and the idling must be over."""
    return max(now + delay, get_idle_end(handler, changed_at=changed_at))


def get_next_tick(
    handler: TimerHandler,
    *,
    now: float,
    anchor: float,
    changed_at: float,
    ticked_at: float,
) -> float | None:
    """The time of the tick after the one that has just been successfully handled.

    Sharp timers keep the grid of the ``anchor``: ticks missed in a long call are skipped. ``None``
    means that time alone brings no tick: the next one depends on changes of the object.
    """
    if handler.interval is None:
        changed = handler.idle is not None and changed_at > ticked_at
        return get_idle_end(handler, changed_at=changed_at) if changed else None
    interval = sane_delay(handler.interval) or 0.0
    if not handler.sharp or not interval:
        return now + interval
    count = math.floor((now - anchor + TOLERANCE) / interval) + 1
    return anchor + count * interval


def get_idle_end(handler: TimerHandler, *, changed_at: float) -> float:
    """Until when the timer waits for the object to remain unchanged."""
    return changed_at + (sane_delay(handler.idle) or 0.0)


def is_idle(handler: TimerHandler, *, now: float, changed_at: float) -> bool:
    """Whether the object is unchanged for long enough."""
    return not handler.idle or (get_idle_end(handler, changed_at=changed_at) - now <= TOLERANCE)
