"""The retry policy: pure decisions on whether and when a handler is tried again."""

import datetime
import logging
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

from kopf_cogs.aiokits.surroundings import get_chance
from kopf_cogs.helpers.callbacks import call
from kopf_cogs.helpers.hints import HintedError
from kopf_core.actions.bases import AnyBackoff, BaseHandler
from kopf_core.actions.errors import ErrorsMode, HandlerRetriesError, HandlerTimeoutError

logger = logging.getLogger("kopf.actions")

FALLBACK_DELAY = 60.0
"""In seconds: the delay if the backoff function of users fails."""

MAX_DELAY = 10 * 365 * 24 * 60 * 60.0
MAX_MESSAGE = 4 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ExponentialBackoff:
    """Growing delays between the attempts: to be used as ``backoff=`` of handlers.

    The first delay is ``initial`` seconds, each next one is ``factor`` times longer, but not longer
    than ``maximum`` seconds. Each delay is then moved by a random share of itself, up to ``jitter``
    to either side, so that many objects failing at once are not retried at once.
    """

    initial: float = 1.0
    factor: float = 2.0
    maximum: float = 600.0
    jitter: float = 0.1

    def __call__(self, retry: int) -> float:
        """The delay in seconds after the attempt of that number, counting from zero."""
        try:
            delay = self.initial * self.factor**retry
        except OverflowError:
            delay = self.maximum
        return round(jittered(min(delay, self.maximum), self.jitter), 3)


class RetryPolicy(NamedTuple):
    """The options of one handler, with the operator's defaults filled in. Times in seconds."""

    errors: ErrorsMode
    backoff: AnyBackoff
    timeout: float | None
    retries: int | None

    @classmethod
    def of(cls, handler: BaseHandler, errors: ErrorsMode, backoff: AnyBackoff) -> "RetryPolicy":
        return cls(
            errors=handler.errors if handler.errors is not None else errors,
            backoff=handler.backoff if handler.backoff is not None else backoff,
            timeout=handler.timeout,
            retries=handler.retries,
        )

    def get_delay(self, retry: int) -> float:
        """The delay in seconds after the failed attempt of that number, counting from zero."""
        return get_delay(self.backoff, retry)

    def check_limits(
        self,
        handler: BaseHandler,
        *,
        retry: int,
        runtime: datetime.timedelta,
    ) -> None:
        """Raise an error if there must be no new attempt.

        Raises :class:`HandlerTimeoutError` and :class:`HandlerRetriesError`.
        """
        if self.timeout is not None and runtime.total_seconds() >= self.timeout:
            raise HandlerTimeoutError(f"{handler} has timed out after {runtime}.")
        if self.retries is not None and retry >= self.retries:
            raise HandlerRetriesError(f"{handler} has exceeded {retry} retries.")

    def forbids(
        self,
        *,
        retry: int,
        runtime: datetime.timedelta,
        delay: float | None,
    ) -> str | None:
        """Why there can be no attempt after the one numbered ``retry`` (from zero); or ``None``."""
        if self.retries is not None and retry + 1 >= self.retries:
            return f"exceed {self.retries} retries"
        if self.timeout is not None and runtime.total_seconds() + (delay or 0) >= self.timeout:
            return f"time out after {self.timeout} seconds"
        return None


def get_delay(backoff: AnyBackoff, retry: int) -> float:
    """The delay in seconds after the failed attempt of that number, counting from zero.

    A function of users can fail, e.g. overflow; then, the delay is :data:`FALLBACK_DELAY`.
    """
    if not callable(backoff):
        return backoff
    try:
        return call(backoff, retry)
    except Exception as e:
        logger.error(
            f"The backoff function has failed on the attempt number {retry}, so the delay "
            f"is {FALLBACK_DELAY:.0f} seconds: {type(e).__name__}: {safe_message(e)}"
        )
        return FALLBACK_DELAY


def sane_delay(delay: Any) -> float | None:
    """A delay in seconds that can be slept and stored: not negative, not NaN, not infinite."""
    try:
        value = None if delay is None else float(delay)
    except (TypeError, ValueError):
        return None
    except OverflowError:  # integers are unlimited, floats are not
        return MAX_DELAY if delay > 0 else 0.0
    if value is None or math.isnan(value):
        return None
    return min(max(0.0, value), MAX_DELAY)


def jittered(delay: float, ratio: float = 0.1) -> float:
    """The delay moved by a random share of itself, so that many retries do not coincide."""
    return delay * get_chance().uniform(1 - ratio, 1 + ratio)


def describe(exc: BaseException) -> str:
    """The text of an error for the logs.

    If the API does not permit something, the text ends with the rule to be added to the role.
    """
    return telling_message(exc) + (exc.role_hint if isinstance(exc, HintedError) else "")


def telling_message(exc: BaseException) -> str:
    """The text of an error: never empty, and never a key alone."""
    if isinstance(exc, KeyError):
        return f"{type(exc).__name__}: {safe_message(exc)}"
    return safe_message(exc) or safe_repr(exc)


def safe_repr(exc: BaseException) -> str:
    """The class and the arguments of an error, even if ``__repr__()`` of its class fails."""
    try:
        return repr(exc)
    except BaseException:
        return f"<unprintable {type(exc).__name__}>"


def safe_message(exc: BaseException) -> str:
    """The text of an error within a sane length, even if ``__str__()`` of its class fails."""
    try:
        message = str(exc)
    except BaseException:  # users' classes can raise anything
        message = f"<unprintable {type(exc).__name__}>"
    if len(message) > MAX_MESSAGE:
        message = f"{message[: MAX_MESSAGE // 2]}...{message[-MAX_MESSAGE // 2 :]}"
    return message.encode("utf-8", "replace").decode("utf-8")
