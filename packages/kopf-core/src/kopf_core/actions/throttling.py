"""Throttling: an object that makes the framework fail is left alone for growing delays."""

from collections.abc import Iterable, Iterator


class Throttler:
    """The delays of one object. It costs nothing until there is an error."""

    __slots__ = ("_delays", "_last", "_reason")

    def __init__(self) -> None:
        self._delays: Iterator[float] | None = None
        self._last: float | None = None
        self._reason: str | None = None

    def is_news(self, reason: str) -> bool:
        """Whether the error is not the same as the last time: it is enough to tell of it once."""
        is_new, self._reason = reason != self._reason, reason
        return is_new

    def fail(self, delays: Iterable[float]) -> float | None:
        """Seconds to wait after one more error in a row; ``None`` if throttling is disabled.

        When the sequence is over, its last delay is repeated.
        """
        if self._delays is None:
            self._delays = iter(delays)
        self._last = next(self._delays, self._last)
        return self._last

    def succeed(self) -> None:
        """Forget the errors: the next one starts from the first delay."""
        self._delays = self._last = self._reason = None
