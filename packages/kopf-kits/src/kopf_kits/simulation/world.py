"""A simulated world: one life of a cluster and of the operators in it, all by one seed."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import random
import sys
import warnings
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

from kopf_cogs.aiokits.surroundings import Surroundings
from kopf_core.reactor.life.operator import Operator, OperatorOptions

from .incarnations import Incarnation
from .loop import VirtualLoop
from .threads import VirtualThreads
from .timing import VirtualClock

T = TypeVar("T")


class World:
    """The parts of a simulated story: the time, the chance, the network, and the processes."""

    def __init__(self, seed: int | str, *, shuffled: bool = False) -> None:
        self.seed = seed
        self.chance = random.Random(f"{seed}:story")
        self.loop = VirtualLoop(random.Random(f"{seed}:loop"), shuffled=shuffled)
        self.clock = VirtualClock(self.loop)
        self.incarnations: list[Incarnation] = []
        self.processes: list[Process] = []
        self.story: list[str] = []
        """The events of the life, one line each: for people who look at a failed life."""

    @property
    def weather(self) -> Any:
        return self.loop.network.weather

    @property
    def steps(self) -> int:
        """How many callbacks of the simulated processes were executed."""
        return sum(incarnation.steps for incarnation in self.incarnations)

    def tell(self, text: str) -> None:
        """Add a line to the story."""
        self.story.append(f"{self.loop.time():10.4f}  {text}")

    def operate(
        self,
        make_options: Callable[..., OperatorOptions],
        *,
        crash_at: int | None = None,
        inline: bool = True,
    ) -> Process:
        """Start an operator in the surroundings of this world.

        ``inline`` is how the threads of sync handlers work: see :class:`VirtualThreads`.
        """
        name = f"operator-{len(self.incarnations) + 1}"
        clock, chance = VirtualClock(self.loop), random.Random(f"{self.seed}:{name}")
        threads = VirtualThreads(self.loop, inline=inline)
        surroundings = Surroundings(clock=clock, threads=threads, chance=chance)
        incarnation = Incarnation(name, surroundings, crash_at=crash_at)
        incarnation.on_death.append(lambda: self.tell(f"{name} crashes: step {incarnation.steps}"))
        self.incarnations.append(incarnation)
        self.tell(f"{name} starts")
        process = Process(self, incarnation, make_options, clock)
        self.processes.append(process)
        return process


class Process:
    """An operator in a simulated world, as if it were a process."""

    def __init__(
        self,
        world: World,
        incarnation: Incarnation,
        make_options: Callable[..., OperatorOptions],
        clock: VirtualClock,
    ) -> None:
        self.incarnation = incarnation
        self.clock = clock
        self.operator: Operator | None = None
        self._world = world
        self._make_options = make_options
        self._is_over = asyncio.Event()
        incarnation.on_death.append(self._is_over.set)
        self.task = incarnation.start(self._run())
        self.task.add_done_callback(lambda _: self._is_over.set())

    @property
    def is_alive(self) -> bool:
        return not self.incarnation.is_dead and not self.task.done()

    async def _run(self) -> None:
        self.operator = Operator(self._make_options(identity=f"{self.incarnation.name}@simulation"))
        await self.operator.run()

    def forget(self) -> None:
        """Drop the references to the operator: the life is over."""
        self.operator = None
        del self._make_options, self.task

    def crash(self) -> None:
        self.incarnation.crash()

    def suspend(self, seconds: float) -> None:
        """Suspend the process for this time, as by SIGSTOP and SIGCONT."""
        self.incarnation.suspend()
        resume = self.incarnation.resume
        self._world.loop.call_later(seconds, resume, self._world.loop.reschedule)

    async def stop(self) -> None:
        """Stop the process gracefully, and wait for its end, unless it crashes meanwhile."""
        if self.operator is not None:
            self.incarnation.start(self._stop())
        await self.wait()

    async def wait(self) -> None:
        """Wait until the process exits or crashes."""
        await self._is_over.wait()

    async def _stop(self) -> None:
        assert self.operator is not None
        self.operator.stop()


def live(world: World, story: Coroutine[Any, Any, T]) -> T:
    """Live one life to its end. The life leaves nothing in the real process."""
    with _seeded(world.seed), _undisturbed():
        try:
            return world.loop.run_until_complete(story)
        finally:
            _bury(world)


@contextlib.contextmanager
def _seeded(seed: int | str) -> Iterator[None]:
    state = random.getstate()
    random.seed(f"{seed}:process")
    try:
        yield
    finally:
        random.setstate(state)


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """No automatic garbage collection: it would close dead coroutines in the middle of lives."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _bury(world: World) -> None:
    """Destroy the dead processes with their ``finally`` blocks; ignore their errors and logs."""
    hook, level = sys.unraisablehook, logging.root.manager.disable
    sys.unraisablehook = lambda _: None
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _destroy(world)
            gc.collect()
            gc.collect()  # the finally blocks of the first collection leave garbage, too
    finally:
        sys.unraisablehook = hook
        logging.disable(level)


def _destroy(world: World) -> None:
    loop = world.loop
    loop.set_exception_handler(lambda *_: None)
    asyncio.set_event_loop(loop)  # otherwise, the ``finally`` blocks make a new one
    for baton in [*loop.batons]:
        baton.bury()
    for task in asyncio.all_tasks(loop):
        with contextlib.suppress(BaseException):
            task.get_coro().close()
    for process in world.processes:
        process.forget()
    for incarnation in world.incarnations:
        incarnation.is_dead = True
        incarnation.remains.clear()
        incarnation.on_death.clear()
    loop._ready.clear()  # type: ignore[attr-defined]
    loop._scheduled.clear()  # type: ignore[attr-defined]
    loop.close()
    asyncio.set_event_loop(None)
