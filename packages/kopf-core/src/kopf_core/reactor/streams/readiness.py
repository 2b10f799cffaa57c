"""Readiness: no handler of objects runs until all the indices are filled.

It is a counter: every stream of indexed objects holds it until its initial listing is over.
"""

import asyncio


class Readiness:
    """What holds the operator from handling objects.

    Once it was ready, only those can hold it that are to be listed anew, e.g. after a pause.
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
        """Wait until it is not ready, or not anymore."""
        await self._unready.wait()

    def renew(self, blocker: object) -> None:
        """Not ready until this one releases it, be it ready before or not."""
        self._blockers.add(blocker)
        self._ready.clear()
        self._unready.set()

    def hold(self, blocker: object) -> None:
        """Not ready until this one releases it, too. Of no effect once it was ready."""
        if not self._ready.is_set():
            self._blockers.add(blocker)

    def release(self, blocker: object) -> None:
        self._blockers.discard(blocker)
        self._check()

    def arm(self) -> None:
        """All initial blockers are known by now."""
        self._is_armed = True
        self._check()

    def _check(self) -> None:
        if self._is_armed and not self._blockers:
            self._ready.set()
            self._unready.clear()
