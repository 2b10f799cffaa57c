"""When and how many times the failed requests are repeated."""

import email.utils
import math
from collections.abc import Iterable, Iterator

from kopf_cogs.aiokits import clocks
from kopf_cogs.aiokits.surroundings import get_chance
from kopf_cogs.clients import errors

MAX_RETRY_AFTER = 300.0
"""The longest delay in seconds that a server can impose on us."""

_RETRIABLE = (
    errors.APIConnectionError,
    errors.APIResponseError,
    errors.APIServerError,
    errors.APITooManyRequestsError,
)

_FINAL = (errors.APITooDeepError, errors.APIPatchReplyError)


def iter_backoffs(backoffs: float | Iterable[float]) -> Iterator[float]:
    """Delays between attempts: from any iterable, or from a single number for a single retry."""
    return iter((backoffs,)) if isinstance(backoffs, int | float) else iter(backoffs)


def is_retriable(exc: errors.APIError) -> bool:
    """Whether the error is presumably temporary.

    Such are network errors, unreadable replies, HTTP 5xx ("the server is wrong"), and HTTP 429.
    All other HTTP 4xx ("the client is wrong") remain the same if repeated.
    """
    return isinstance(exc, _RETRIABLE) and not isinstance(exc, _FINAL)


def is_outcome_unknown(exc: errors.APIError) -> bool:
    """Whether the failed request could have been executed nevertheless."""
    return is_retriable(exc) and not isinstance(exc, errors.APITooManyRequestsError)


def parse_retry_after(value: str | None, clock: clocks.Clock) -> float | None:
    """Parse the ``Retry-After`` header: seconds, or an HTTP date. In seconds from now.

    Negative, infinite, and otherwise senseless values are ignored.
    Too big values are cut to :const:`MAX_RETRY_AFTER`: operators must recover some day.
    """
    if not value:
        return None
    try:
        seconds = float(value)
    except ValueError:
        seconds = _parse_date(value, clock)
    if not math.isfinite(seconds) or seconds < 0:
        return None
    return min(seconds, MAX_RETRY_AFTER)


def _parse_date(value: str, clock: clocks.Clock) -> float:
    try:
        moment = email.utils.parsedate_to_datetime(value)
        now = clock.now()
        return (moment - (now if moment.tzinfo else now.replace(tzinfo=None))).total_seconds()
    except (TypeError, ValueError, IndexError, OverflowError):
        return math.nan


def choose_delay(
    exc: errors.APIError,
    backoff: float,
    *,
    clock: clocks.Clock,
    enforce: bool = False,
) -> float:
    """The delay before the next attempt: our own, or the server's one if it is longer.

    If enforced, the server's delay is used even if it is shorter.
    Our own delays are used as they are: they come from users, who can randomise them as needed.
    """
    backoff = backoff if math.isfinite(backoff) and backoff > 0 else 0.0
    if isinstance(exc, errors.APIStatusError):
        requested = parse_retry_after(exc.retry_after, clock)
        if requested is not None:
            return requested if enforce else max(backoff, requested)
    return backoff


class Backoff:
    """Ever growing delays for requests that are repeated until success: the watch-streams.

    The first delay is the initial one. Every next is twice as long, up to the limit.
    A random part (up to a half) makes each delay longer. So many clients that have been
    disconnected at once do not return at once.
    """

    __slots__ = ("_failures", "initial", "limit")

    def __init__(self, initial: float, *, limit: float = 30.0) -> None:
        super().__init__()
        self.initial = max(0.0, initial)
        self.limit = max(limit, self.initial)
        self._failures = 0

    @property
    def failures(self) -> int:
        """How many delays there were since the last success."""
        return self._failures

    def reset(self) -> None:
        """Start from the initial delay again."""
        self._failures = 0

    def advance(self) -> float:
        """The next delay in seconds."""
        # Even if users request no delay, only the first reconnection is instant.
        start = self.initial if self._failures == 0 else max(self.initial, 0.01)
        delay = min(start * 2.0 ** min(self._failures, 30), self.limit)
        self._failures += 1
        return delay * (1 + get_chance().random() / 2)
