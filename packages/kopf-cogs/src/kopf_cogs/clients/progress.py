"""Telling people how far a long listing has got. Short listings, which are the most, are silent."""

import math

from kopf_cogs.aiokits.clocks import Clock
from kopf_cogs.clients.stream_state import Logger

FIRST = 1.0
"""In seconds: faster listings are not logged. Slower listings are logged ever rarer."""


class ListingProgress:
    """How far one list has got, page by page: logged after 1 second, 2, 4, 8, and so on."""

    def __init__(self, title: str, clock: Clock, logger: Logger) -> None:
        super().__init__()
        self._title = title
        self._clock = clock
        self._logger = logger
        self._started = clock.monotonic()
        self._next = FIRST
        self._count = 0

    def add_page(self, count: int, remaining: int | None) -> None:
        """One more page has come; the server says how many objects are left, but not always."""
        self._count += count
        elapsed = self._clock.monotonic() - self._started
        if elapsed < self._next:
            return
        while self._next <= elapsed:
            self._next *= 2
        left = f", about {remaining:,} are left" if remaining else ""
        self._logger.info(f"Listing {self._title}: {self._count:,} objects so far{left}.")

    def finish(self) -> None:
        """The last page has come. This is logged only if the progress was logged before."""
        if self._next > FIRST:
            seconds = math.ceil(self._clock.monotonic() - self._started)
            self._logger.info(f"Listed {self._title}: {self._count:,} objects in {seconds} s.")
