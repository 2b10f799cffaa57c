"""Daemons and timers of all objects: they are started, adjusted, and stopped here."""

import asyncio
import logging
import math
from collections.abc import Callable, Collection, Mapping
from typing import Any

from kopf_cogs.clients.session import Client
from kopf_cogs.configs.settings import OperatorSettings
from kopf_cogs.structs.bodies import Body
from kopf_cogs.structs.ids import HandlerId
from kopf_cogs.structs.keys import ObjectKey
from kopf_cogs.structs.resources import Resource
from kopf_core.actions.execution import Execution
from kopf_core.engines.background.attempts import Resources
from kopf_core.engines.background.records import Record
from kopf_core.engines.background.runs import Run, Surroundings
from kopf_core.engines.background.starting import Starter
from kopf_core.engines.background.termination import LEAST_CYCLES, disown
from kopf_core.engines.background.threads import DaemonExecutors
from kopf_core.engines.memories import ObjectMemory
from kopf_core.intents.causes import SpawningCause
from kopf_core.intents.handlers import SpawningHandler, TimerHandler
from kopf_core.intents.registries import ResourceHandlers
from kopf_core.intents.stoppers import DaemonStoppingReason

logger = logging.getLogger("kopf.background")

EXIT_TIMEOUT = 5.0
"""How long (in seconds) the exiting operator waits for those who have no limits or exceed them."""

POLLING = 0.5
"""How often (in seconds) to look if there is still time to wait for the threads."""

CANCEL_TIMEOUT = 1.0
"""How long (in seconds) it waits after that for those cancelled by the operator itself."""


class BackgroundEngine:
    """Everything that works in background for the objects of one operator.

    ``wake`` is called with the key of an object when something of it has been stopped:
    maybe, it was the last one, and the object can be let go.
    """

    def __init__(
        self,
        *,
        client: Client,
        settings: OperatorSettings,
        indices: Mapping[str, Any],
        execution: Execution,
        wake: Callable[[ObjectKey], None],
    ) -> None:
        self._wake = wake
        self._clock = execution.clock
        self._settings = settings
        self._stopping_reason: DaemonStoppingReason | None = None
        self._runs: set[Run] = set()
        self._orphans: set[Run] = set()
        self._suspended: dict[ObjectKey, tuple[Resource, Body]] = {}
        self._emptied = asyncio.Event()
        self._reporting: asyncio.Handle | None = None
        self._surroundings = Surroundings(
            resources=Resources(client, execution, indices, DaemonExecutors(settings.execution)),
            starter=Starter(),
            on_ended=self._on_ended,
            on_abandoned=self._on_abandoned,
        )

    @property
    def runs(self) -> Collection[Run]:
        """Everything that works or waits, except for the abandoned ones."""
        return self._runs

    @property
    def orphans(self) -> Collection[Run]:
        """The abandoned ones: they were asked to stop, but they still work."""
        return self._orphans

    def adjust(
        self,
        key: ObjectKey,
        memory: ObjectMemory,
        cause: SpawningCause,
        handlers: ResourceHandlers,
    ) -> None:
        """Spawn what matches and is not there yet, stop what does not match anymore.

        Called for every event, so it only looks at the handlers, and never waits.
        """
        record: Record | None = memory.background
        if record is not None:
            self._refresh(record, cause.body, handlers)
        if self._stopping_reason is not None:
            self._suspended[key] = cause.resource, cause.body
            return
        running = () if record is None else record.runs.keys()
        matching = handlers.select_spawning(cause, running)
        if record is None:
            if not matching:
                return
            record = memory.background = Record(
                key=key,
                resource=cause.resource,
                body=cause.body,
                memo=memory.memo,
                now=self._clock.monotonic(),
            )
        record.is_deleted, record.resource = False, cause.resource
        for handler in matching:
            run = record.runs.get(handler.id)
            if run is None:
                self._spawn(record, handler)
            elif run.is_stopping:
                run.replacement = handler
        if record.runs:
            self._stop_mismatching(record, matching)

    def stop_deleted(self, memory: ObjectMemory, body: Body) -> None:
        """Stop everything of the object that is being deleted."""
        record: Record | None = memory.background
        if record is not None:
            record.refresh(body, self._clock.monotonic(), None)
            record.is_deleted = True
            for run in list(record.runs.values()):
                run.stop(DaemonStoppingReason.RESOURCE_DELETED)

    def is_running(self, memory: ObjectMemory) -> bool:
        """Whether there is anything that must end before the object is let go."""
        record: Record | None = memory.background
        return record is not None and any(not run.is_abandoned for run in record.runs.values())

    def is_stopping(self, memory: ObjectMemory) -> bool:
        """Whether there is anything that is going to end soon; :meth:`wake` will be called."""
        record: Record | None = memory.background
        return record is not None and any(
            run.is_stopping and not run.is_abandoned for run in record.runs.values()
        )

    def get_finished(self, memory: ObjectMemory) -> Collection[HandlerId]:
        """Those that have ended on their own and will never run for the object again."""
        record: Record | None = memory.background
        return () if record is None else record.finished

    async def settle(self, memory: ObjectMemory) -> None:
        """Let those functions end that do so at once when asked, so that it costs no extra step."""
        settings = self._settings.background
        if settings.instant_exit_timeout is not None:
            record: Record = memory.background
            tasks = [run.task for run in record.runs.values() if run.task and run.is_stopping]
            if tasks:
                await asyncio.wait(tasks, timeout=settings.instant_exit_timeout)
        for _ in range(settings.instant_exit_zero_time_cycles or 0):
            if not self.is_stopping(memory):
                break
            await asyncio.sleep(0)

    def stop_resource(self, resource: Resource, namespace: str | None) -> None:
        """Stop everything of the objects which are not served anymore."""
        for run in list(self._runs):
            record = run.record
            if record.resource == resource and namespace in (None, record.body.metadata.namespace):
                record.is_deleted = True
                run.stop(DaemonStoppingReason.RESOURCE_DELETED)

    async def pause(self) -> None:
        """Stop everything, and start nothing until resumed. Those who linger are not waited for."""
        if self._stopping_reason is None:
            for record in {run.record for run in self._runs}:
                if not record.is_deleted:
                    self._suspended[record.key] = record.resource, record.body
            self._stop_all(DaemonStoppingReason.OPERATOR_PAUSING)
        for _ in range(self._settings.background.instant_exit_zero_time_cycles or 0):
            if not self._runs:
                break
            await asyncio.sleep(0)

    def resume(self) -> Mapping[ObjectKey, tuple[Resource, Body]]:
        """Start again what is noticed since now, including what is still being stopped.

        Get those objects which are to be noticed: they have (or should have) lost something.
        """
        if self._stopping_reason is DaemonStoppingReason.OPERATOR_PAUSING:
            self._stopping_reason = None
        suspended, self._suspended = self._suspended, {}
        return suspended

    def abort(self) -> None:
        """Cancel everything at once, and leave what cannot be cancelled, when there is no time."""
        self._stop_all(DaemonStoppingReason.OPERATOR_EXITING)
        for run in list(self._runs):
            run.cancel(with_threads=True)
            if not run.handler.is_async:
                run.abandon()

    async def exit(self, get_left: Callable[[], float] | None = None) -> None:
        """Stop everything for good.

        Those who linger are waited for as they have declared it, plus :data:`EXIT_TIMEOUT`; then
        they are cancelled, and waited for again. Threads, which cannot be cancelled, are waited
        for as long as ``get_left`` says, in seconds from now; it can say less than before, and
        limits the other waiting, too. Then, they are left as they are: nobody can prevent the exit.
        """
        self._stop_all(DaemonStoppingReason.OPERATOR_EXITING)
        declared = max((run.termination_duration for run in self._runs), default=0.0)
        await self._wait_for_all(declared + EXIT_TIMEOUT, get_left)
        for run in [*self._runs, *self._orphans]:
            run.cancel()
        await self._wait_for_all(CANCEL_TIMEOUT)
        await self._wait_for_all(math.inf, get_left or (lambda: 0.0))
        for run in list(self._runs):
            run.abandon()
        for _ in range(2):  # for the last time, and also if the first one is put off
            for run in self._orphans:
                run.cancel(with_threads=True)
            for _ in range(LEAST_CYCLES):
                await asyncio.sleep(0)
        for run in self._orphans:
            if run.task is not None:
                disown(run.task)

    def _refresh(self, record: Record, body: Body, handlers: ResourceHandlers) -> None:
        for handler in handlers.spawning:
            if isinstance(handler, TimerHandler) and handler.idle:
                persistence = self._settings.persistence
                if record.refresh(body, self._clock.monotonic(), persistence):
                    for run in record.runs.values():
                        run.notice_change()
                break
        else:
            record.refresh(body, 0.0, None)

    def _spawn(self, record: Record, handler: SpawningHandler) -> None:
        if handler.id in record.finished:
            return
        run = record.runs[handler.id] = Run(handler, record, self._surroundings)
        self._runs.add(run)
        run.start()

    def _stop_mismatching(self, record: Record, matching: Collection[SpawningHandler]) -> None:
        ids = {handler.id for handler in matching}
        for id in record.runs.keys() - ids:
            record.runs[id].stop(DaemonStoppingReason.FILTERS_MISMATCH)

    def _stop_all(self, reason: DaemonStoppingReason) -> None:
        self._stopping_reason = reason
        for run in list(self._runs):
            is_exiting = reason is DaemonStoppingReason.OPERATOR_EXITING
            is_waiting = not run.is_working
            run.stop(reason)
            if is_exiting and is_waiting:
                run.log("has exited gracefully.")

    async def _wait_for_all(
        self,
        timeout: float,
        get_left: Callable[[], float] | None = None,
    ) -> None:
        deadline = self._clock.monotonic() + timeout
        while self._runs:
            left = deadline - self._clock.monotonic()
            left = left if get_left is None else min(left, get_left(), POLLING)
            if left <= 0:
                break
            self._emptied.clear()
            try:
                async with asyncio.timeout(left):
                    await self._emptied.wait()
            except TimeoutError:
                pass

    def _on_ended(self, run: Run) -> None:
        self._orphans.discard(run)
        self._forget(run)
        record, handler = run.record, run.replacement
        if handler is not None and not record.is_deleted and self._stopping_reason is None:
            self._spawn(record, handler)
        elif run.is_stopping and self._stopping_reason is None:
            self._wake(record.key)

    def _on_abandoned(self, run: Run) -> None:
        self._orphans.add(run)
        if self._reporting is None:  # one line for all those abandoned at once
            self._reporting = asyncio.get_running_loop().call_soon(self._report_orphans)
        self._forget(run)
        if self._stopping_reason is None:
            self._wake(run.record.key)

    def _report_orphans(self) -> None:
        self._reporting = None
        if not self._orphans:
            return  # all of them have ended meanwhile
        count = sum(not run.handler.is_async for run in self._orphans)
        logger.warning(f"Orphaned daemons: {len(self._orphans)}, including {count} in threads.")

    def _forget(self, run: Run) -> None:
        self._runs.discard(run)
        if not self._runs:
            self._emptied.set()
