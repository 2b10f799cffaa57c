"""Readiness: no handler of objects runs until all indices are full.

Every stream of indexed objects holds the readiness until the end of its initial list.
"""

import asyncio


class Readiness:
    """The streams that keep the operator from handling objects.

    After the operator was ready for the first time, only streams that list everything again, e.g.
    after a pause, can hold it.
    """

    def __init__(self) -> None:
        self._blockers: set[object] = set()
        self._is_armed = False
        self._ready = asyncio.Event()
        self._unready = asyncio.Event()
        self._unready.set()

    @property
    def is_ready(self) -> bool:
        return self._ready.is_set()

    async def wait(self) -> None:
        await self._ready.wait()

    async def wait_for_doubts(self) -> None:
        """Wait until the operator is not ready."""
        await self._unready.wait()

    def renew(self, blocker: object) -> None:
        """Be not ready until this one releases the readiness, even if all was ready before."""
        self._blockers.add(blocker)
        self._ready.clear()
        self._unready.set()

    def hold(self, blocker: object) -> None:
        """Be not ready until this one releases the readiness. No effect if all was ready once."""
        if not self._ready.is_set():
            self._blockers.add(blocker)

    def release(self, blocker: object) -> None:
        self._blockers.discard(blocker)
        self._check()

    def arm(self) -> None:
        """All initial streams hold the readiness by now: from here on, it can come."""
        self._is_armed = True
        self._check()

    def _check(self) -> None:
        if self._is_armed and not self._blockers:
            self._ready.set()
            self._unready.clear()
