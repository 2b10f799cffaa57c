"""The calls of one function for one object: their arguments, their threads, and their outcomes."""

import asyncio
import datetime
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from kopf_cogs.aiokits.endurance import endure
from kopf_cogs.clients.errors import APIError
from kopf_cogs.clients.session import Client
from kopf_cogs.helpers.callbacks import call
from kopf_cogs.structs.bodies import Body
from kopf_cogs.structs.dicts import replace_source
from kopf_cogs.structs.patches import Patch
from kopf_core.actions.effects import (
    apply_patches,
    deliver_results,
    merge_patches,
    tell_of_losses,
)
from kopf_core.actions.execution import Execution
from kopf_core.actions.invocation import is_being_cancelled
from kopf_core.actions.loggers import AnyLogger
from kopf_core.actions.marks import Marks
from kopf_core.actions.outcomes import Outcome
from kopf_core.actions.retrying import safe_message, sane_delay
from kopf_core.actions.states import HandlerState
from kopf_core.engines.background.calendars import Calendar
from kopf_core.engines.background.daemon_threads import DaemonExecutors
from kopf_core.engines.background.live_objects import LiveObject
from kopf_core.intents.causes import DaemonCause, TimerCause
from kopf_core.intents.crons import Cron
from kopf_core.intents.handlers import DaemonHandler, SpawningHandler, TimerHandler
from kopf_core.intents.stoppers import DaemonStopper, DaemonStoppingReason

FREQUENT_INTERVAL = 10.0
"""In seconds: with such short intervals, Kopf keeps 1 KB in memory for the next attempt."""


@dataclass(frozen=True, slots=True)
class Resources:
    """The resources that all attempts of an operator need."""

    client: Client
    execution: Execution
    indices: Mapping[str, Any]
    executors: DaemonExecutors


@dataclass(slots=True, eq=False, repr=False)
class Attempts:
    """The attempts of one daemon or timer, and the data that they keep between them."""

    _handler: SpawningHandler
    _object: LiveObject
    _resources: Resources
    calendar: Calendar | None = None
    """The runs by the calendar, after they are started, if there is a schedule."""

    _carried: tuple[Any, ...] = ()
    _cause: DaemonCause | None = None
    _complaint: str | None = None  # logged once, not in every attempt
    _stopper: DaemonStopper | None = None
    _warned: frozenset[str] = frozenset()

    @property
    def stopper(self) -> DaemonStopper:
        if self._stopper is None:
            self._stopper = DaemonStopper()
        return self._stopper

    def start_calendar(self, cron: Cron, delay: float) -> None:
        """Count the runs of the schedule from now on, or from the latest run that is remembered."""
        execution = self._resources.execution
        self.calendar = Calendar(
            cron,
            self._handler.id,
            self._object.body,
            execution.settings.persistence,
            since=execution.clock.now() + datetime.timedelta(seconds=delay),
        )

    def get_initial_delay(self) -> float:
        """The initial delay in seconds. If the function of the user fails, log that, and do not
        delay.
        """
        delay = self._handler.initial_delay
        if callable(delay):
            cause = self._make_cause()
            try:
                delay = call(delay, **cause.kwargs | {"param": self._handler.param})
            except Exception as e:
                cause.logger.error(
                    f"{self._handler} is started with no delay, as its initial delay "
                    f"cannot be calculated: {safe_message(e)}"
                )
                delay = None
        return sane_delay(delay) or 0.0

    async def make(self, state: HandlerState) -> Outcome:
        """Call the function once, and send its changes to the API.

        A stop does not interrupt the sending: the function itself has ended already.
        """
        cause, self._cause = self._cause or self._make_cause(), None
        try:
            outcome = await self._call(cause, state)
        except asyncio.CancelledError:
            if cause.patch:
                await endure(self._apply(cause, Outcome(final=False)))
            raise
        is_run = outcome.final and self.calendar is not None
        if cause.patch or outcome.result is not None or is_run:
            await endure(self._apply(cause, outcome))
        elif self._is_frequent:
            self._cause = cause  # the cause is unchanged, and a new one takes time
        return outcome

    async def _call(self, cause: DaemonCause, state: HandlerState) -> Outcome:
        execution, executors = self._resources.execution, self._resources.executors
        flush = partial(self._flush, cause)
        if self._handler.is_async:
            return await execution.attempt(self._handler, cause, state, flush=flush)
        if not isinstance(self._handler, DaemonHandler):
            execution = replace(execution, executor=executors.for_timers)
            return await execution.attempt(self._handler, cause, state, flush=flush)
        executor = executors.acquire()
        try:
            execution = replace(execution, executor=executor)
            return await execution.attempt(self._handler, cause, state, flush=flush)
        finally:
            executors.release(executor)

    async def _flush(self, cause: DaemonCause) -> None:
        """Send the changes of the function so far. Unsent changes go with later ones."""
        patch = Patch(cause.patch)
        cause.patch.clear()
        if self._object.has_all(patch):
            return
        unsent = await endure(self._send(patch, Marks(), cause.logger))
        if unsent:
            merged = merge_patches(unsent, cause.patch)
            cause.patch.clear()
            cause.patch.update(merged)
            cause.patch.fns.extend(merged.fns)
        if is_being_cancelled():
            raise asyncio.CancelledError  # the function still works, and must learn that

    async def _apply(self, cause: DaemonCause, outcome: Outcome) -> None:
        """Send the results and the patch. Keep the functions that have conflicted."""
        marks = Marks()
        if outcome.result is not None:
            deliver_results({self._handler.id: outcome.result}, marks=marks, logger=cause.logger)
        if outcome.final and self.calendar is not None:
            self.calendar.store(self._object.body, marks)
        is_timer = isinstance(self._handler, TimerHandler)  # idle patches would come again
        if not is_timer or marks.keys() or not self._object.has_all(cause.patch, marks.results):
            unsent = await self._send(cause.patch, marks, cause.logger)
            self._carried = tuple(unsent.fns)

    async def _send(self, patch: Patch, marks: Marks, logger: AnyLogger) -> Patch:
        """Send the changes; return the changes that must be sent again."""
        if self._is_too_late:
            self._complain("it has not ended in time in a pause.", logger)
            return patch
        body = Body({})
        replace_source(body, self._object.body)
        try:
            applied = await apply_patches(
                client=self._resources.client,
                resource=self._object.resource,
                body=body,
                marks=marks,
                patch=patch,
                logger=logger,
                form=self._object.form,
            )
        except APIError as e:
            self._complain(str(e), logger)
            return patch
        self._complaint = None
        self._warned = tell_of_losses(applied, self._object.resource, self._warned, logger)
        if applied.body is not None:
            self._object.show(applied.body)
        return Patch(fns=applied.carried)

    @property
    def _is_too_late(self) -> bool:
        """Whether the function is out of time in a pause: another operator can be at work."""
        is_abandoned = self.stopper.is_set(DaemonStoppingReason.DAEMON_ABANDONED)
        return is_abandoned and not self._resources.execution.door.is_open

    def _complain(self, reason: str, logger: AnyLogger) -> None:
        text = f"{self._handler} could not change the object: {reason}"
        logger.log(logging.DEBUG if text == self._complaint else logging.ERROR, text)
        self._complaint = text

    def _make_cause(self) -> DaemonCause:
        patch, self._carried = Patch(fns=self._carried), ()
        common = {
            "resource": self._object.resource,
            "body": self._object.body,
            "patch": patch,
            "settings": self._resources.execution.settings,
            "record": self._object,
            "indices": self._resources.indices,
        }
        stopper = self.stopper
        checker = stopper.async_checker if self._handler.is_async else stopper.sync_checker
        if not isinstance(self._handler, TimerHandler):
            return DaemonCause(stopper=checker, **common)
        scheduled = None if self.calendar is None else self.calendar.scheduled
        return TimerCause(stopper=checker, scheduled=scheduled, **common)

    @property
    def _is_frequent(self) -> bool:
        handler = self._handler
        return isinstance(handler, TimerHandler) and (
            handler.interval is not None and handler.interval <= FREQUENT_INTERVAL
        )
