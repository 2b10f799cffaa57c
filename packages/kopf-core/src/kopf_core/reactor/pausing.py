"""Pausing: nothing is handled, and no daemons run, for as long as there is a reason for that."""

import asyncio
from typing import cast

from kopf_cogs.configs.settings import OperatorSettings
from kopf_cogs.structs.bodies import RawBody
from kopf_core.actions.threads import Door
from kopf_core.engines.background import BackgroundEngine
from kopf_core.reactor.orchestration import Orchestrator

PEERING = "peering"
"""The reason to pause when there are other operators."""


class Pausing:
    """The pauses of one operator, each with its reason. It is paused until all of them are over.

    Whatever is wanted is so at once, in the same step of the event loop: gates are shut or open,
    streams are cancelled or started. Only the end of what works already takes time: it is waited
    for in a task, which changes nothing else, and is over with the pause.
    """

    def __init__(
        self,
        orchestrator: Orchestrator,
        background: BackgroundEngine,
        *,
        settings: OperatorSettings,
        door: Door,
    ) -> None:
        self._orchestrator = orchestrator
        self._settings = settings
        self._background = background
        self._door = door
        self._reasons: set[str] = set()
        self._is_listed_anew = False
        self._settling: set[asyncio.Task[None]] = set()

    @property
    def is_paused(self) -> bool:
        return bool(self._reasons)

    def hold(
        self, reason: str, *, is_cold: bool = False, at_once: bool = False
    ) -> "asyncio.Task[None]":
        """Start nothing since now: no handlers, daemons, or timers. Get the task of what goes on.

        It has its time to finish, and is cancelled then. With ``at_once``, it is cancelled now:
        the objects are not ours anymore. With ``is_cold``, the streams are stopped, too.
        """
        self._reasons.add(reason)
        self._is_listed_anew |= is_cold
        self._orchestrator.hold(is_cold=is_cold)
        self._background.hold()
        if at_once:
            self._shut()
            self._orchestrator.abort()
        task = asyncio.create_task(self._settle(), name="kopf-pausing")
        self._settling.add(task)
        task.add_done_callback(self._settling.discard)
        return task

    async def settle(self, task: "asyncio.Task[None]") -> None:
        """Wait until what goes on is over, or until the pause is."""
        await asyncio.wait([task])
        if not task.cancelled():
            task.result()

    async def _settle(self) -> None:
        """Wait for what works; what does not end in time begins and sends nothing since then."""
        loop, timeout = asyncio.get_running_loop(), self._settings.queueing.exit_timeout
        timer = loop.call_later(timeout, self._shut)
        try:
            await asyncio.gather(self._orchestrator.settle(), self._background.end_instantly())
        finally:
            timer.cancel()
        self._shut()

    def _shut(self) -> None:
        self._door.is_shut = self.is_paused

    def resume(self, reason: str) -> None:
        """Continue, unless there are other reasons for the pause."""
        if reason not in self._reasons:
            return
        self._reasons.discard(reason)
        if self._reasons:
            return
        for task in self._settling:
            task.cancel()
        self._door.is_shut = False
        suspended = self._background.resume()
        self._orchestrator.resume()
        if not self._is_listed_anew:
            for key, (resource, body) in suspended.items():
                raw = cast("RawBody", dict(body))
                self._orchestrator.enqueue(key, "resumed", resource=resource, body=raw)
        self._is_listed_anew = False


class PeeringBrakes:
    """What the peering stops and starts the operator with.

    The pauses are cold: when they are over, everything is listed anew, as it is documented.
    """

    def __init__(self, pausing: Pausing) -> None:
        self._pausing = pausing

    def hold(self, *, at_once: bool) -> None:
        self._pausing.hold(PEERING, is_cold=True, at_once=at_once)

    def release(self) -> None:
        self._pausing.resume(PEERING)
