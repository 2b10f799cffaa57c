"""External happenings in one operator: their receiver, and the functions that produce them."""

import asyncio
import contextlib
import inspect
import logging
from collections.abc import AsyncGenerator, Callable, Collection, Iterable
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any

from kopf_cogs.aiokits.sleeps import sleep
from kopf_cogs.structs.keys import ObjectKey
from kopf_cogs.structs.resources import Resource
from kopf_cogs.structs.selectors import Selector
from kopf_core.actions.execution import Execution
from kopf_core.actions.happenings import Accept, Happening, audience
from kopf_core.actions.states import State
from kopf_core.engines.background.termination import disown
from kopf_core.intents.causes import Activity, ActivityCause
from kopf_core.intents.handlers import SourceHandler
from kopf_core.reactor.life.essentials import Essentials
from kopf_core.reactor.streams.modes import Mode
from kopf_core.reactor.streams.pool import InformerPool

if TYPE_CHECKING:
    from kopf_core.engines.desired.desired_states import DesiredStates
    from kopf_core.engines.sharding.shares import Supervision

logger = logging.getLogger("kopf.external")

EXTERNAL = "external"
"""The kind of the triggers."""

STOPPING_TIMEOUT = 2.0
"""How long (in seconds) to wait for the cancelled functions."""

_Served = Callable[[], "Iterable[tuple[Resource, DesiredStates]]"]


class Happenings:
    """Brings external happenings to the reconcilers of their objects.

    Happenings of about the same time are looked up together among the objects that the streams
    know. Nothing is stored or requested for that.

    If there are several processes, this tells all of them, as any of them can own the objects. A
    happening can be lost while its objects change hands. The next owner does not need it: it
    reconciles all objects that it gets.
    """

    def __init__(self, pool: InformerPool, served: _Served) -> None:
        self._pool = pool
        self._served = served
        self._waiting: dict[Happening, None] = {}
        self._others: Supervision | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def open(self, others: "Supervision | None") -> None:
        """Accept happenings from the whole process from now on; and from the other processes."""
        self._loop = asyncio.get_running_loop()
        if others is not None:
            await others.hear(self._take)
        self._others = others
        audience.join(self.accept)

    def close(self) -> None:
        audience.leave(self.accept)

    def accept(self, happening: Happening) -> None:
        """Take a happening, in any thread."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed meanwhile
                self._loop.call_soon_threadsafe(self._take_ours, happening)

    def _take_ours(self, happening: Happening) -> None:
        if self._others is not None and happening not in self._waiting:
            self._others.tell(happening)
        self._take(happening)

    def _take(self, happening: Happening) -> None:
        if not self._waiting and self._loop is not None:
            self._loop.call_soon(self._tell)
        self._waiting[happening] = None

    def _tell(self) -> None:
        # Its import takes time, and few operators need it.
        from kopf_core.engines.desired.triggers import Trigger

        happenings, self._waiting = self._waiting, {}
        unknown = dict(happenings)
        by_selector: dict[Selector, list[Happening]] = {}
        for happening in happenings:
            by_selector.setdefault(happening.selector, []).append(happening)
        for resource, desired in self._served():
            wanted = [h for sel, hs in by_selector.items() if sel.check(resource) for h in hs]
            for happening, key in self._find(resource, wanted):
                desired.on_external(key, Trigger(EXTERNAL, happening.reason))
                unknown.pop(happening, None)
        for happening in unknown:
            logger.debug(f"Nothing is reconciled for {happening!r}: there is no such object.")

    def _find(
        self, resource: "Resource", happenings: Collection[Happening]
    ) -> Iterable[tuple[Happening, ObjectKey]]:
        by_names: dict[tuple[str | None, str], list[Happening]] = {}
        for happening in happenings:
            by_names.setdefault((happening.namespace, happening.name), []).append(happening)
        if not by_names:
            return
        for stream, informer in self._pool.informers.items():
            if stream.resource == resource:
                for (namespace, name), key in informer.names:
                    for place in dict.fromkeys((namespace, None)):
                        for happening in by_names.get((place, name or ""), ()):
                            yield happening, key


class ExternalSources:
    """Runs the functions of ``@kopf.on.external`` while the operator handles objects.

    They do not run in pauses: they could take messages that another operator must get.
    """

    def __init__(self, essentials: Essentials, accept: Accept) -> None:
        self._essentials = essentials
        self._accept = accept
        self._on = asyncio.Event()
        self._off = asyncio.Event()
        self._on.set()

    @property
    def handlers(self) -> list[SourceHandler]:
        found = self._essentials.registry.get_activity_handlers(Activity.EXTERNAL)
        return [handler for handler in found if isinstance(handler, SourceHandler)]

    def reach(self, mode: Mode) -> None:
        """Run only while objects are handled."""
        is_running = mode is Mode.RUNNING
        (self._off if is_running else self._on).clear()
        (self._on if is_running else self._off).set()

    async def run(self) -> None:
        """Run the functions until cancelled, and stop them for the time of pauses."""
        while True:
            await self._on.wait()
            tasks = [
                asyncio.create_task(self._keep_up(handler), name=f"kopf-source-{handler.id}")
                for handler in self.handlers
            ]
            try:
                await self._off.wait()
            finally:
                await self._stop(tasks)

    async def _stop(self, tasks: Collection["asyncio.Task[None]"]) -> None:
        self._off.set()
        for task in tasks:
            task.cancel()
        if tasks:
            _, hung = await asyncio.wait(tasks, timeout=STOPPING_TIMEOUT)
            for task in hung:
                logger.warning(f"The task {task.get_name()!r} ignores its cancellation.")
                disown(task)

    async def _keep_up(self, handler: SourceHandler) -> None:
        """Call the function until it ends: again and again after its errors."""
        essentials = self._essentials
        execution: Execution = essentials.execution
        cause = ActivityCause(
            activity=Activity.EXTERNAL,
            settings=essentials.settings,
            logger=logging.getLogger(f"kopf.activities.{Activity.EXTERNAL.value}"),
            memo=essentials.options.memo,
            indices=essentials.arguments,
        )
        state = self._begin(handler, execution)
        while not state.done and not self._off.is_set():
            progress: list[Happening] = []
            pump = partial(self._pump, handler, progress)
            outcome = await execution.attempt(handler, cause, state[handler.id], pump)
            if progress and not outcome.final:  # attempts are counted from the latest success
                state = self._begin(handler, execution)
            state = state.with_outcomes({handler.id: outcome}, now=execution.clock.now())
            if not state.done and not self._off.is_set():
                await sleep(state.delay)

    def _begin(self, handler: SourceHandler, execution: Execution) -> State:
        state = State.from_scratch(now=execution.clock.now())
        return state.with_purpose(Activity.EXTERNAL.value, [handler])

    async def _pump(
        self, handler: SourceHandler, progress: list[Happening], /, **kwargs: Any
    ) -> None:
        generator: AsyncGenerator[Any, None] = handler.fn(**kwargs)
        if not inspect.isasyncgen(generator):
            raise TypeError(f"{handler} must be an asynchronous generator: async def, yield.")
        try:
            async with aclosing(generator):
                async for happening in generator:
                    if not isinstance(happening, Happening):
                        raise TypeError(f"kopf.Happening must be yielded, not {happening!r}.")
                    self._accept(happening)
                    progress[:] = [happening]
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or not self._off.is_set():
                raise
            while task.cancelling():  # it was stopped by us: no warning
                task.uncancel()
