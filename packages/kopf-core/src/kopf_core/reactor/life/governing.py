"""The governor: it brings all parts of an operator to the mode that is wanted of it."""

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
"""The reason that is never over."""


class Part(Protocol):
    """What works only in some of the modes."""

    def reach(self, mode: Mode) -> None:
        """Be in this mode since now."""


class Governor:
    """Knows the reasons for the modes of one operator, and brings its parts to the wanted mode.

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
        self._others: list[Part] = []
        self._reasons: dict[str, Mode] = {}
        self._mode = Mode.RUNNING
        self._is_listed_anew = False
        self._settling: set[asyncio.Task[None]] = set()

    def include(self, part: "Part") -> None:
        """Bring this part to the modes, too, since now."""
        self._others.append(part)
        part.reach(self._mode)

    @property
    def is_paused(self) -> bool:
        """Whether there is any reason not to handle objects, except for the exit."""
        return bool(self._reasons.keys() - {EXIT})

    async def impose(self, reason: str, mode: Mode) -> None:
        """Be in that mode, or in a stricter one, for that reason; wait until that is reached."""
        await self.settle(self.demand(reason, mode))

    def demand(self, reason: str, mode: Mode) -> "asyncio.Task[None]":
        """The same, without waiting: get the task of what works still."""
        self._reasons[reason] = mode
        self._reach()
        task = asyncio.create_task(self._settle(), name="kopf-pausing")
        self._settling.add(task)
        task.add_done_callback(self._settling.discard)
        return task

    def lift(self, reason: str) -> None:
        """The reason is over: be in the mode that the other reasons demand."""
        if self._reasons.pop(reason, None) is not None:
            self._reach()

    def end(self) -> None:
        """Begin nothing since now, as the operator exits."""
        self._reasons[EXIT] = Mode.ENDED
        self._reach()

    async def settle(self, task: "asyncio.Task[None]") -> None:
        """Wait until what works still is over, or until the pause is."""
        await asyncio.wait([task])
        if not task.cancelled():
            task.result()

    def _reach(self) -> None:
        mode = max(self._reasons.values(), default=Mode.RUNNING)
        if mode is self._mode:
            return
        self._mode = mode
        if mode in (Mode.CUT, Mode.ENDED):
            self._door.is_shut |= mode is Mode.CUT
            self._door.take_back()
        elif mode is Mode.RUNNING:
            for task in self._settling:
                task.cancel()
            self._door.is_shut = False
        self._is_listed_anew |= mode in (Mode.COLD, Mode.CUT)
        self._background.reach(_STOPPING_REASONS.get(mode), at_once=mode is Mode.CUT)
        self._orchestrator.reach(mode)
        for part in self._others:
            part.reach(mode)
        if mode is Mode.RUNNING:
            self._restart_background()

    def _restart_background(self) -> None:
        """Have the objects noticed that have lost daemons or timers, unless all are listed anew."""
        suspended = self._background.take_suspended()
        if not self._is_listed_anew:
            for key, (resource, body) in suspended.items():
                raw = cast("RawBody", dict(body))
                self._orchestrator.enqueue(key, "resumed", resource=resource, body=raw)
        self._is_listed_anew = False

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


_STOPPING_REASONS = {
    Mode.GATED: DaemonStoppingReason.OPERATOR_PAUSING,
    Mode.COLD: DaemonStoppingReason.OPERATOR_PAUSING,
    Mode.CUT: DaemonStoppingReason.OPERATOR_PAUSING,
    Mode.ENDED: DaemonStoppingReason.OPERATOR_EXITING,
}


class PeeringBrakes:
    """What the peering stops and starts the operator with.

    The pauses are cold: when they are over, everything is listed anew, as it is documented.
    """

    def __init__(self, governor: Governor) -> None:
        self._governor = governor

    def hold(self, *, at_once: bool) -> None:
        self._governor.demand(PEERING, Mode.CUT if at_once else Mode.COLD)

    def release(self) -> None:
        self._governor.lift(PEERING)
