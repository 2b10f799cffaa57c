"""Telling people of the requests that the API does not answer for long.

Requests have minutes, as servers can be slow for good reasons, and giving up early would only make
them slower. But people who have started an operator look at an empty screen meanwhile.
"""

import asyncio
import logging
import math
from typing import Any, Protocol

from kopf_cogs.aiokits import clocks
from kopf_cogs.clients import errors

Logger = logging.Logger | logging.LoggerAdapter[Any]

PATIENCE = 20.0
"""How long (in seconds) requests may take before a warning; then, twice as long, and so on."""

TICK = 1.0
"""How often (in seconds) the requests are checked, while there are any."""

LATENESS = 1.0
"""How late (in seconds) a check is if this process is too busy to read the answers."""


class Call(Protocol):
    """A request, as it is sent."""

    @property
    def method(self) -> str: ...

    @property
    def url(self) -> str: ...


class Unanswered:
    """The requests on their way. The tracking of a request costs as little as possible."""

    def __init__(self, clock: clocks.Clock, logger: Logger, patience: float = PATIENCE) -> None:
        super().__init__()
        self._clock = clock
        self._logger = logger
        self._calls: dict[int, tuple[Call, float, str]] = {}  # in the order of their times
        self._timer: asyncio.TimerHandle | None = None
        self._first_patience = self._patience = patience
        self._told_at = -math.inf

    def begin(self, call: Call, server: str) -> None:
        """The request is being sent to this server."""
        self._calls[id(call)] = (call, self._clock.monotonic(), server)
        if self._timer is None:
            self._schedule()

    def end(self, call: Call) -> None:
        """The request is answered, or has ended in any other way."""
        del self._calls[id(call)]

    def close(self) -> None:
        """Log nothing more."""
        if self._timer is not None:
            self._timer.cancel()

    def _schedule(self) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time() + TICK
        self._timer = loop.call_at(due, self._check, due)

    def _check(self, due: float) -> None:
        self._timer = None
        if not self._calls:
            return
        self._schedule()
        if asyncio.get_running_loop().time() - due > LATENESS:
            return  # the answers can be there, but are not read yet
        oldest, since, server = next(iter(self._calls.values()))
        if since >= self._told_at:  # it began after the last warning
            self._patience = self._first_patience
        now = self._clock.monotonic()
        if now - since >= self._patience:
            self._told_at = now
            self._tell(oldest, server, now - since)

    def _tell(self, oldest: Call, server: str, passed: float) -> None:
        while self._patience <= passed:
            self._patience *= 2
        path = oldest.url.partition("?")[0]  # continuation tokens make it too long
        others = len(self._calls) - 1
        more = f", and {others} more" if others else ""
        self._logger.warning(
            f"The API at {errors.hide_credentials(server)} has not answered for {passed:.0f} "
            f"seconds, still waiting: {oldest.method} {path}{more}."
        )
