"""The engine of daemons and timers: it starts, adjusts, and stops them for all objects."""

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
from kopf_core.engines.background.daemon_threads import DaemonExecutors
from kopf_core.engines.background.live_objects import LiveObject
from kopf_core.engines.background.spawned import BackgroundContext, SpawnedHandler
from kopf_core.engines.background.starting import Starter
from kopf_core.engines.background.termination import LEAST_CYCLES, disown
from kopf_core.intents.causes import SpawningCause
from kopf_core.intents.handlers import SpawningHandler, TimerHandler
from kopf_core.intents.registries import ResourceHandlers
from kopf_core.intents.stoppers import DaemonStoppingReason

logger = logging.getLogger("kopf.background")

EXIT_TIMEOUT = 5.0
"""How long (in seconds) the exiting operator waits for daemons without limits of their own."""

POLLING = 0.5
"""How often (in seconds) to check whether there is still time to wait for the threads."""

CANCEL_TIMEOUT = 1.0
"""How long (in seconds) the operator waits after that for the functions that it has cancelled."""


class BackgroundEngine:
    """The daemons and timers of all objects of one operator.

    It calls ``wake`` with an object when a daemon or timer of the object has stopped: it can be the
    last one, and the object can be let go. If the operator runs until all work is done, it also
    calls ``wake`` when a timer has ended, as nothing else can happen to the object then.
    """

    def __init__(
        self,
        *,
        client: Client,
        settings: OperatorSettings,
        indices: Mapping[str, Any],
        execution: Execution,
        wake: Callable[[LiveObject], None],
        is_once: bool = False,
    ) -> None:
        self._is_once = is_once
        self._wake = wake
        self._clock = execution.clock
        self._settings = settings
        self._stopping_reason: DaemonStoppingReason | None = None
        self._objects: dict[ObjectKey, LiveObject] = {}
        self._spawned: dict[SpawnedHandler, LiveObject] = {}
        self._orphans: dict[SpawnedHandler, LiveObject] = {}
        self._suspended: dict[ObjectKey, tuple[Resource, Body]] = {}
        self._emptied = asyncio.Event()
        self._reporting: asyncio.Handle | None = None
        self._context = BackgroundContext(
            resources=Resources(client, execution, indices, DaemonExecutors(settings.execution)),
            starter=Starter(),
            on_ended=self._on_ended,
            on_abandoned=self._on_abandoned,
            is_once=is_once,
        )

    @property
    def spawned(self) -> Collection[SpawnedHandler]:
        """All daemons and timers that work or wait, except for the abandoned ones."""
        return self._spawned.keys()

    @property
    def objects(self) -> Collection[LiveObject]:
        """The objects of all working or waiting daemons and timers, once for each of these."""
        return self._spawned.values()

    @property
    def orphans(self) -> Collection[SpawnedHandler]:
        """The abandoned daemons and timers: they were asked to stop, but still work."""
        return self._orphans.keys()

    def adjust(self, key: ObjectKey, cause: SpawningCause, handlers: ResourceHandlers) -> None:
        """Spawn the matching handlers that do not run yet; stop the handlers that do not match now.

        This is called for every event. So it only looks at the handlers, and never waits.
        """
        background = self._objects.get(key)
        if background is not None:
            self._refresh(background, cause.body, handlers)
        if self._stopping_reason is not None:
            self._suspended[key] = cause.resource, cause.body
            return
        running = () if background is None else background.spawned.keys()
        matching = handlers.select_spawning(cause, running)
        if self._is_once:  # daemons would never end
            matching = [one for one in matching if isinstance(one, TimerHandler)]
        if background is None:
            if not matching:
                return
            background = self._objects[key] = LiveObject(
                key=key,
                resource=cause.resource,
                body=cause.body,
                memo=cause.record.memo,
                now=self._clock.monotonic(),
            )
        background.is_deleted, background.resource = False, cause.resource
        background.form = handlers.form
        for handler in matching:
            spawned = background.spawned.get(handler.id)
            if spawned is None:
                self._spawn(background, handler)
            elif spawned.is_stopping:
                spawned.replacement = handler
        if background.spawned:
            self._stop_mismatching(background, matching)

    def stop_deleted(self, key: ObjectKey, body: Body) -> None:
        """Stop all daemons and timers of the object that is being deleted. The end of a pause
        starts none of them.
        """
        self._suspended.pop(key, None)
        background = self._objects.get(key)
        if background is not None:
            background.refresh(body, self._clock.monotonic(), None)
            background.is_deleted = True
            for spawned in list(background.spawned.values()):
                spawned.stop(DaemonStoppingReason.RESOURCE_DELETED)

    def suspend(self, key: ObjectKey, body: Body) -> None:
        """Stop all daemons and timers of the paused object; they can be spawned again later."""
        background = self._objects.get(key)
        if background is not None:
            background.refresh(body, self._clock.monotonic(), None)
            for spawned in list(background.spawned.values()):
                spawned.stop(DaemonStoppingReason.OPERATOR_PAUSING)

    async def leave(self, is_ours: Callable[[ObjectKey], bool], timeout: float) -> None:
        """Stop all daemons and timers of the objects that other processes handle from now on.

        Cancel the ones that do not end in that many seconds, or in their own declared time. Wait
        until all have ended, however long it takes, even in threads.
        """
        foreign = self._find_foreign(is_ours)
        for spawned in foreign:
            spawned.stop(DaemonStoppingReason.OPERATOR_PAUSING)
        declared = max((spawned.termination_duration for spawned in foreign), default=0.0)
        if tasks := [spawned.task for spawned in foreign if spawned.task is not None]:
            await asyncio.wait(tasks, timeout=max(timeout, declared))
        while left := self._find_foreign(is_ours):
            for spawned in left:
                spawned.stop(DaemonStoppingReason.OPERATOR_PAUSING)
                spawned.cancel()
            tasks = [spawned.task for spawned in left if spawned.task is not None]
            await asyncio.wait([*tasks, asyncio.create_task(asyncio.sleep(0))])

    def _find_foreign(self, is_ours: Callable[[ObjectKey], bool]) -> list[SpawnedHandler]:
        works = [*self._spawned.items(), *self._orphans.items()]
        return [spawned for spawned, background in works if not is_ours(background.key)]

    def is_running(self, key: ObjectKey) -> bool:
        """Whether daemons or timers must end before the object is let go."""
        background = self._objects.get(key)
        return background is not None and any(
            not spawned.is_abandoned for spawned in background.spawned.values()
        )

    def is_stopping(self, key: ObjectKey) -> bool:
        """Whether daemons or timers are going to end soon; ``wake`` will be called then."""
        background = self._objects.get(key)
        return background is not None and any(
            spawned.is_stopping and not spawned.is_abandoned
            for spawned in background.spawned.values()
        )

    def get_finished(self, key: ObjectKey) -> Collection[HandlerId]:
        """The handlers that have ended by themselves, and never run for the object again."""
        background = self._objects.get(key)
        return () if background is None else background.finished

    async def settle(self, key: ObjectKey) -> None:
        """Wait for the functions that end at once when asked, so that this costs no extra step."""
        settings = self._settings.background
        if settings.instant_exit_timeout is not None:
            tasks = [
                spawned.task
                for spawned in self._objects[key].spawned.values()
                if spawned.task and spawned.is_stopping
            ]
            if tasks:
                await asyncio.wait(tasks, timeout=settings.instant_exit_timeout)
        for _ in range(settings.instant_exit_zero_time_cycles or 0):
            if not self.is_stopping(key):
                break
            await asyncio.sleep(0)

    def forget(self, key: ObjectKey) -> None:
        """Forget the object. Functions that are still stopping end by themselves."""
        self._objects.pop(key, None)

    def restart(self) -> Collection[ObjectKey]:
        """Forget the objects, as after a restart; return the objects whose functions still work."""
        self._objects = {key: one for key, one in self._objects.items() if self.is_running(key)}
        return self._objects.keys()

    def stop_resource(
        self, resource: Resource, namespace: str | None, reason: DaemonStoppingReason
    ) -> None:
        """Stop all daemons and timers of objects that are not served anymore."""
        for spawned, background in list(self._spawned.items()):
            its_namespace = background.body.metadata.namespace
            if background.resource == resource and namespace in (None, its_namespace):
                background.is_deleted = True
                spawned.stop(reason)

    def reach(self, reason: DaemonStoppingReason | None, *, at_once: bool = False) -> None:
        """Stop all daemons and timers for that reason, or none. This can be repeated.

        While stopped, nothing starts. Afterwards, the handlers of noticed objects start, even if
        their previous functions are still stopping. With ``at_once``, the working functions are
        cancelled without the time that they have declared for stopping.
        """
        if reason is DaemonStoppingReason.OPERATOR_PAUSING and self._stopping_reason is None:
            for background in dict.fromkeys(self._spawned.values()):
                if not background.is_deleted:
                    self._suspended[background.key] = background.resource, background.body
        is_news = reason is not self._stopping_reason
        self._stopping_reason = reason
        if reason is not None and is_news:
            self._stop_all(reason)
        for spawned in list(self._spawned) if at_once else ():
            spawned.cancel()

    def take_suspended(self) -> Mapping[ObjectKey, tuple[Resource, Body]]:
        """Return the objects whose daemons and timers were stopped: the caller notices them."""
        suspended, self._suspended = self._suspended, {}
        return suspended

    async def end_instantly(self) -> None:
        """Wait for the stopping functions that end at once, but not for the ones that linger."""
        for _ in range(self._settings.background.instant_exit_zero_time_cycles or 0):
            if not self._spawned:
                break
            await asyncio.sleep(0)

    def abort(self) -> None:
        """Cancel everything at once, and leave the functions that do not end: there is no time."""
        self.reach(DaemonStoppingReason.OPERATOR_EXITING)
        for spawned in list(self._spawned):
            spawned.cancel(with_threads=True)
            if not spawned.handler.is_async:
                spawned.abandon()

    async def exit(self, get_left: Callable[[], float] | None = None) -> None:
        """Stop everything for good.

        Lingering functions have the time that they have declared, plus :data:`EXIT_TIMEOUT`. Then
        they are cancelled, and have some more time. Threads cannot be cancelled: the operator waits
        for them for as long as ``get_left`` says, in seconds from now. That limit can shrink, and
        bounds all other waiting, too. In the end, the remaining functions are left: none of them
        can prevent the exit.
        """
        self.reach(DaemonStoppingReason.OPERATOR_EXITING)
        declared = max((spawned.termination_duration for spawned in self._spawned), default=0.0)
        await self._wait_for_all(declared + EXIT_TIMEOUT, get_left)
        for spawned in [*self._spawned, *self._orphans]:
            spawned.cancel()
        await self._wait_for_all(CANCEL_TIMEOUT)
        await self._wait_for_all(math.inf, get_left or (lambda: 0.0))
        for spawned in list(self._spawned):
            spawned.abandon()
        for _ in range(2):  # for the last time; twice, as the first one can be put off
            for spawned in self._orphans:
                spawned.cancel(with_threads=True)
            for _ in range(LEAST_CYCLES):
                await asyncio.sleep(0)
        for spawned in self._orphans:
            if spawned.task is not None:
                disown(spawned.task)

    def _refresh(self, background: LiveObject, body: Body, handlers: ResourceHandlers) -> None:
        for handler in handlers.spawning:
            if isinstance(handler, TimerHandler) and handler.idle:
                persistence = self._settings.persistence
                if background.refresh(body, self._clock.monotonic(), persistence):
                    for spawned in background.spawned.values():
                        spawned.notice_change()
                break
        else:
            background.refresh(body, 0.0, None)

    def _spawn(self, background: LiveObject, handler: SpawningHandler) -> None:
        if handler.id in background.finished:
            return
        spawned = background.spawned[handler.id] = SpawnedHandler(
            handler, background, self._context
        )
        self._spawned[spawned] = background
        spawned.start()

    def _stop_mismatching(
        self, background: LiveObject, matching: Collection[SpawningHandler]
    ) -> None:
        ids = {handler.id for handler in matching}
        for id in background.spawned.keys() - ids:
            background.spawned[id].stop(DaemonStoppingReason.FILTERS_MISMATCH)

    def _stop_all(self, reason: DaemonStoppingReason) -> None:
        for spawned in list(self._spawned):
            is_exiting = reason is DaemonStoppingReason.OPERATOR_EXITING
            is_waiting = not spawned.is_working
            spawned.stop(reason)
            if is_exiting and is_waiting:
                spawned.log("has exited gracefully.")

    async def _wait_for_all(
        self,
        timeout: float,
        get_left: Callable[[], float] | None = None,
    ) -> None:
        deadline = self._clock.monotonic() + timeout
        while self._spawned:
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

    def _on_ended(self, spawned: SpawnedHandler) -> None:
        background = self._forget(spawned)
        background.forget(spawned)
        handler = spawned.replacement
        if handler is not None and not background.is_deleted and self._stopping_reason is None:
            self._spawn(background, handler)
        elif spawned.is_stopping or self._is_once:
            self._tell(background)

    def _on_abandoned(self, spawned: SpawnedHandler) -> None:
        background = self._orphans[spawned] = self._forget(spawned)
        if self._reporting is None:  # one line for all functions that are abandoned at once
            self._reporting = asyncio.get_running_loop().call_soon(self._report_orphans)
        self._tell(background)

    def _tell(self, background: LiveObject) -> None:
        """Wake up the object; in a pause, only if it is deleted: others are resumed later."""
        if self._stopping_reason is None or background.is_deleted:
            self._wake(background)

    def _report_orphans(self) -> None:
        self._reporting = None
        if not self._orphans:
            return  # all of them have ended meanwhile
        count = sum(not spawned.handler.is_async for spawned in self._orphans)
        logger.warning(f"Orphaned daemons: {len(self._orphans)}, including {count} in threads.")

    def _forget(self, spawned: SpawnedHandler) -> LiveObject:
        """Remove the function; return its object, either a served or an abandoned one."""
        background = self._spawned.pop(spawned, None) or self._orphans.pop(spawned)
        if not self._spawned:
            self._emptied.set()
        return background
