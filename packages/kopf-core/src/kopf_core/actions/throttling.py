"""Throttling: an object that makes the framework fail is left alone for growing delays."""

from collections.abc import Iterable, Iterator


class Throttler:
    """The delays of one object. It costs nothing until there is an error."""

    __slots__ = ("_delays", "_last")

    def __init__(self) -> None:
        self._delays: Iterator[float] | None = None
        self._last: float | None = None

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
        self._delays = self._last = None
