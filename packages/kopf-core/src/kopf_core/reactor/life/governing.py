"""The governor: it brings all parts of an operator to the wanted mode."""

import asyncio
from typing import Protocol, cast

from kopf_cogs.configs.settings import OperatorSettings
from kopf_cogs.structs.bodies import RawBody
from kopf_core.actions.threads import Door
from kopf_core.engines.background import BackgroundEngine
from kopf_core.intents.stoppers import DaemonStoppingReason
from kopf_core.reactor.shape.orchestration import Orchestrator
from kopf_core.reactor.streams.modes import Mode

PEERING = "peering"
"""The reason to pause when there are other operators."""

EXIT = "exit"
"""The reason that never ends."""


class Part(Protocol):
    """A part of the operator that runs in some modes only."""

    def reach(self, mode: Mode) -> None:
        """Change to this mode."""


class Governor:
    """Knows the reasons for the modes of one operator, and brings its parts to the strictest mode.

    The change is complete in one step of the event loop: gates are shut or opened, and streams are
    cancelled or started. Only running work takes time to end. A task waits for that; the task
    changes nothing else, and is cancelled when the operator runs again.
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
        self._others: list[Part] = []
        self._reasons: dict[str, Mode] = {}
        self._mode = Mode.RUNNING
        self._is_cut = False
        self._is_listed_anew = False
        self._settling: set[asyncio.Task[None]] = set()

    def include(self, part: "Part") -> None:
        """Bring this part to the modes, too, from now on."""
        self._others.append(part)
        part.reach(self._mode)

    @property
    def is_paused(self) -> bool:
        """Whether there is any reason for a pause; the exit is not a pause."""
        return bool(self._reasons.keys() - {EXIT})

    async def impose(self, reason: str, mode: Mode) -> None:
        """Demand the mode for that reason, and wait until the running work has ended."""
        await self.settle(self.demand(reason, mode))

    def demand(self, reason: str, mode: Mode) -> "asyncio.Task[None]":
        """Demand the mode for that reason; return the task that waits for the running work.

        Another reason can demand a stricter mode.
        """
        self._reasons[reason] = mode
        self._reach()
        task = asyncio.create_task(self._settle(), name="kopf-pausing")
        self._settling.add(task)
        task.add_done_callback(self._settling.discard)
        return task

    def lift(self, reason: str) -> None:
        """Remove the reason, and change to the mode that the other reasons demand."""
        if self._reasons.pop(reason, None) is not None:
            self._reach()

    def end(self) -> None:
        """Change to the mode of the exit for good: nothing begins anymore."""
        self._reasons[EXIT] = Mode.ENDED
        self._reach()

    async def settle(self, task: "asyncio.Task[None]") -> None:
        """Wait until the running work has ended, or the pause is over."""
        await asyncio.wait([task])
        if not task.cancelled():
            task.result()

    def _reach(self) -> None:
        mode = max(self._reasons.values(), default=Mode.RUNNING)
        if mode is not self._mode:
            self._change(mode)
        was_cut, self._is_cut = self._is_cut, Mode.CUT in self._reasons.values()
        if self._is_cut and not was_cut:
            self._cut()

    def _cut(self) -> None:
        """Interrupt the running work, also in the exit: others can have the objects."""
        self._door.is_shut = True
        self._door.take_back()
        self._background.reach(_STOPPING_REASONS.get(self._mode), at_once=True)
        self._orchestrator.cancel()

    def _change(self, mode: Mode) -> None:
        self._mode = mode
        if mode is Mode.ENDED:
            self._door.take_back()
        elif mode is Mode.RUNNING:
            for task in self._settling:
                task.cancel()
            self._door.is_shut = False
        self._is_listed_anew |= mode in (Mode.COLD, Mode.CUT)
        self._background.reach(_STOPPING_REASONS.get(mode))
        self._orchestrator.reach(mode)
        for part in self._others:
            part.reach(mode)
        if mode is Mode.RUNNING:
            self._restart_background()

    def _restart_background(self) -> None:
        """Enqueue objects that have lost daemons or timers, unless everything is listed again."""
        suspended = self._background.take_suspended()
        if not self._is_listed_anew:
            for key, (resource, body) in suspended.items():
                raw = cast("RawBody", dict(body))
                self._orchestrator.enqueue(key, "resumed", resource=resource, body=raw)
        self._is_listed_anew = False

    async def _settle(self) -> None:
        """Wait for the running work. After the timeout, shut the door: the rest begins and sends
        nothing.
        """
        loop, timeout = asyncio.get_running_loop(), self._settings.queueing.exit_timeout
        timer = loop.call_later(timeout, self._shut)
        try:
            await asyncio.gather(self._orchestrator.settle(), self._background.end_instantly())
        finally:
            timer.cancel()
        self._shut()

    def _shut(self) -> None:
        self._door.is_shut = self.is_paused


_STOPPING_REASONS = {
    Mode.GATED: DaemonStoppingReason.OPERATOR_PAUSING,
    Mode.COLD: DaemonStoppingReason.OPERATOR_PAUSING,
    Mode.CUT: DaemonStoppingReason.OPERATOR_PAUSING,
    Mode.ENDED: DaemonStoppingReason.OPERATOR_EXITING,
}


class PeeringBrakes:
    """Pauses and resumes the operator for the peering.

    These pauses are cold: everything is listed again after them, as it is documented.
    """

    def __init__(self, governor: Governor) -> None:
        self._governor = governor

    def hold(self, *, at_once: bool) -> None:
        self._governor.demand(PEERING, Mode.CUT if at_once else Mode.COLD)

    def release(self) -> None:
        self._governor.lift(PEERING)
