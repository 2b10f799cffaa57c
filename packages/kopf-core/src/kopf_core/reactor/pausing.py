"""Pausing: nothing is handled, and no daemons run, for as long as there is a reason for that."""

import asyncio
from typing import cast

from kopf_cogs.structs.bodies import RawBody
from kopf_core.engines.background import BackgroundEngine
from kopf_core.reactor.orchestration import Orchestrator

PEERING = "peering"
"""The reason to pause when there are other operators."""


class Pausing:
    """The pauses of one operator, each with its reason. It is paused until all of them are over."""

    def __init__(self, orchestrator: Orchestrator, background: BackgroundEngine) -> None:
        self._orchestrator = orchestrator
        self._background = background
        self._reasons: set[str] = set()
        self._is_cold = False
        self._settling: set[asyncio.Task[None]] = set()

    @property
    def is_paused(self) -> bool:
        return bool(self._reasons)

    @property
    def is_cold(self) -> bool:
        """Whether the streams are stopped, too."""
        return self._is_cold

    def hold(self, reason: str, *, is_cold: bool = False, at_once: bool = False) -> None:
        """Start nothing since now: no handlers, daemons, or timers. See also :meth:`settle`.

        With ``at_once``, what is being handled right now is cancelled: it is not ours anymore.
        """
        self._reasons.add(reason)
        self._is_cold |= is_cold
        self._orchestrator.hold(is_cold=self._is_cold)
        self._background.hold()
        if at_once:
            self._orchestrator.abort()

    async def settle(self) -> None:
        """Give the current handlers their time to finish, stop the streams if it is cold."""
        await asyncio.gather(
            self._orchestrator.pause(is_cold=self._is_cold), self._background.pause()
        )

    def resume(self, reason: str) -> None:
        """Continue, unless there are other reasons for the pause."""
        if reason not in self._reasons:
            return
        self._reasons.discard(reason)
        if self._reasons:
            return
        for task in self._settling:
            task.cancel()
        suspended = self._background.resume()
        if self._is_cold:
            self._orchestrator.renew()
        self._orchestrator.resume()
        if not self._is_cold:
            for key, (resource, body) in suspended.items():
                raw = cast("RawBody", dict(body))
                self._orchestrator.enqueue(key, "resumed", resource=resource, body=raw)
        self._is_cold = False

    def warm_up(self) -> None:
        """The streams run again already, though nothing is handled yet."""
        self._is_cold = False

    def settle_soon(self) -> None:
        """The same as :meth:`settle`, in the background. Resuming puts an end to it."""
        task = asyncio.create_task(self.settle(), name="kopf-pausing")
        self._settling.add(task)
        task.add_done_callback(self._settling.discard)


class PeeringBrakes:
    """What the peering stops and starts the operator with.

    The pauses are cold: when they are over, everything is listed anew, as it is documented.
    """

    def __init__(self, pausing: Pausing) -> None:
        self._pausing = pausing

    def hold(self, *, at_once: bool) -> None:
        self._pausing.hold(PEERING, is_cold=True, at_once=at_once)
        self._pausing.settle_soon()

    def release(self) -> None:
        self._pausing.resume(PEERING)
