"""The clocks of simulated processes: they go with the event loop."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .loop import VirtualLoop

BEGINNING = datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC)
"""The wall-clock time when a simulated world begins."""


class VirtualClock:
    """The time of the loop; the wall clock can be ahead of it or behind it by ``skew`` seconds."""

    def __init__(self, loop: VirtualLoop, *, skew: float = 0.0) -> None:
        self._loop = loop
        self.skew = skew

    def monotonic(self) -> float:
        return self._loop.time()

    def now(self) -> datetime.datetime:
        return BEGINNING + datetime.timedelta(seconds=self._loop.time() + self.skew)
