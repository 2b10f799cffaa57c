"""The pulse of the event loop: by how much its timers are late."""

import asyncio

PERIOD = 1.0
"""How often (in seconds) the pulse is measured."""


class Pulse:
    """Measures the lag of the loop it is started in, until it is stopped."""

    def __init__(self) -> None:
        self.lag = 0.0
        self._loop = asyncio.get_running_loop()
        self._handle: asyncio.TimerHandle | None = None

    def __enter__(self) -> "Pulse":
        self._schedule()
        return self

    def __exit__(self, *_: object) -> None:
        if self._handle is not None:
            self._handle.cancel()

    def _schedule(self) -> None:
        due = self._loop.time() + PERIOD
        self._handle = self._loop.call_at(due, self._beat, due)

    def _beat(self, due: float) -> None:
        self.lag = max(0.0, self._loop.time() - due)
        self._schedule()
