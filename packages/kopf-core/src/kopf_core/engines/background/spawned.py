"""One daemon or timer of one object.

It has a task only for an attempt, while its function works. While it waits (for the initial delay,
the interval, or the delay after an error), it is only a handle in the loop.
"""

import asyncio
import inspect
import logging
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kopf_cogs.configs.settings import OperatorSettings
from kopf_core.actions.errors import HandlerRetriesError, HandlerTimeoutError, PermanentError
from kopf_core.actions.loggers import ObjectLogger
from kopf_core.actions.outcomes import Outcome
from kopf_core.actions.retrying import get_delay, safe_message, sane_delay
from kopf_core.actions.states import HandlerState
from kopf_core.engines.background.attempts import Attempts, Resources
from kopf_core.engines.background.calendars import get_nap
from kopf_core.engines.background.live_objects import LiveObject
from kopf_core.engines.background.schedules import (
    get_first_tick,
    get_idle_end,
    get_next_tick,
    is_idle,
)
from kopf_core.engines.background.starting import Starter
from kopf_core.engines.background.termination import Termination
from kopf_core.intents.handlers import DaemonHandler, SpawningHandler, TimerHandler
from kopf_core.intents.stoppers import DaemonStopper, DaemonStoppingReason


@dataclass(frozen=True, slots=True)
class BackgroundContext:
    """The resources that all daemons and timers of an operator need."""

    resources: Resources
    starter: Starter
    on_ended: "Callable[[SpawnedHandler], None]"
    on_abandoned: "Callable[[SpawnedHandler], None]"
    is_once: bool = False
    """Whether timers are called once, and then end."""


@dataclass(slots=True, eq=False, repr=False)
class SpawnedHandler:
    """A daemon or timer that works, waits, or stops. It ends for any reason once."""

    handler: SpawningHandler
    _object: LiveObject
    _context: BackgroundContext
    is_abandoned: bool = False
    """Whether its function still works, but Kopf does not wait for it anymore."""

    replacement: SpawningHandler | None = None
    """The daemon or timer that starts when this one ends: only one of them can run at a time."""

    due: float = 0.0
    """The monotonic time of the latest planned attempt, which can be running now."""

    task: "asyncio.Task[None] | None" = None
    """The running attempt."""

    _is_over: bool = False
    _is_dormant: bool = False
    _anchor: float | None = None
    _state: HandlerState | None = None
    _handle: asyncio.TimerHandle | None = None
    _termination: Termination | None = None
    _attempts: Attempts = field(init=False)

    def __post_init__(self) -> None:
        self._attempts = Attempts(self.handler, self._object, self._context.resources)

    @property
    def settings(self) -> OperatorSettings:
        return self._context.resources.execution.settings

    @property
    def stopper(self) -> DaemonStopper:
        return self._attempts.stopper

    @property
    def is_working(self) -> bool:
        return self.task is not None

    @property
    def is_stopping(self) -> bool:
        return self._termination is not None

    @property
    def lag(self) -> float:
        """By how many seconds it is late; zero if its time has not come yet, or it works."""
        is_waiting = self._handle is not None and self.task is None and not self._is_dormant
        return max(0.0, self._now() - self.due) if is_waiting else 0.0

    @property
    def termination_duration(self) -> float:
        """How long (in seconds) its stopping can take; zero if it does not stop or has no limit."""
        return 0.0 if self._termination is None else self._termination.duration

    def log(self, text: str, level: int = logging.DEBUG) -> None:
        logger = ObjectLogger(body=self._object.body, settings=self.settings)
        logger.log(level, f"{self.handler} {text}")

    def start(self) -> None:
        """Start for the first time: at once, or after all initial delays."""
        now = self._now()
        delay = self._attempts.get_initial_delay()
        if isinstance(self.handler, TimerHandler) and self.handler.cron is not None:
            self._attempts.start_calendar(self.handler.cron, delay)
            self._wait_for_run()
        elif isinstance(self.handler, TimerHandler):
            self._wait_until(
                get_first_tick(
                    self.handler, now=now, delay=delay, changed_at=self._object.changed_at
                )
            )
        else:
            self._wait_until(now + delay)

    def notice_change(self) -> None:
        """The object has changed: if the timer waits only for that, it now waits for the object to
        idle.
        """
        if self._is_dormant and isinstance(self.handler, TimerHandler):
            self._wait_until(get_idle_end(self.handler, changed_at=self._object.changed_at))

    def stop(self, reason: DaemonStoppingReason) -> None:
        """Request to stop, or add one more reason to the request. A waiting function stops at
        once.
        """
        self.replacement = None
        if self.task is None:
            if isinstance(self.handler, DaemonHandler):
                self.log("has exited on request and will not be retried or restarted.")
            self._end()
            return
        self.stopper.set(reason)
        if self._termination is None:
            self._termination = Termination(self)

    def cancel(self, *, with_threads: bool = False) -> None:
        """Interrupt the function where it awaits.

        Threads cannot be interrupted, but the wait for them can be: the caller decides.
        """
        task = self.task
        if task is not None and (self.handler.is_async or with_threads):
            # A task cancelled before its first step never runs, not even its ``finally`` blocks.
            coro: Any = task.get_coro()
            if inspect.getcoroutinestate(coro) == inspect.CORO_CREATED:
                asyncio.get_running_loop().call_soon(task.cancel)
            else:
                task.cancel()

    def abandon(self) -> None:
        """Wait for the function no more. Nothing interrupts it: it has ignored all requests."""
        if self._is_over or self.is_abandoned:
            return
        self.is_abandoned = True
        if self._termination is not None:
            self._termination.end()
        self.stopper.set(DaemonStoppingReason.DAEMON_ABANDONED)
        self.log("did not exit in time. Leaving it orphaned.", logging.WARNING)
        self._context.on_abandoned(self)
        try:
            warnings.warn(
                f"{self.handler} did not exit in time. It is left running, with its resources.",
                ResourceWarning,
                stacklevel=2,
            )
        except ResourceWarning:
            pass  # if warnings are errors, they must not affect others: the log has it anyway

    def _now(self) -> float:
        return self._context.resources.execution.clock.monotonic()

    def _wait_until(self, due: float) -> None:
        now = self._now()
        self.due = due
        self._is_dormant = False
        if due > now:
            self._handle = self._context.starter.call_at(due, now, self._launch)
        else:
            self._context.starter.put(self._launch)

    def _wait_for_run(self) -> None:
        """Wait for the next run by the calendar, or for a part of the time until then."""
        calendar = self._attempts.calendar
        assert calendar is not None
        moment = self._context.resources.execution.clock.now()
        left = (calendar.plan(moment) - moment).total_seconds()
        self._wait_until(self._now() + get_nap(left))

    def _launch(self) -> None:
        if self._is_over or self.task is not None:
            return
        self._handle = None
        if not self._context.resources.execution.door.is_open:
            return  # the function must not begin: Kopf is about to stop it
        calendar = self._attempts.calendar if self._state is None else None
        clock = self._context.resources.execution.clock
        if calendar is not None and not calendar.is_due(clock.now()):
            self._wait_for_run()
            return
        if self._state is None and isinstance(self.handler, TimerHandler):
            changed_at = self._object.changed_at
            if not is_idle(self.handler, now=self._now(), changed_at=changed_at):
                self._anchor = None
                self._wait_until(get_idle_end(self.handler, changed_at=changed_at))
                return
            if self._anchor is None:
                self._anchor = self.due
        if self._state is None:
            self._state = HandlerState(started=clock.now(), since=clock.monotonic())
        loop = asyncio.get_running_loop()
        self.task = loop.create_task(self._work(self._state), name=self.handler.id)

    async def _work(self, state: HandlerState) -> None:
        """The task of one attempt. A next step follows, even after errors and cancellations."""
        outcome = await self._make_attempt(state)
        self.task = None
        self._on_attempted(outcome)

    async def _make_attempt(self, state: HandlerState) -> Outcome:
        """Make the attempt here, apart: errors keep the variables of the functions that catch
        them.
        """
        try:
            return await self._attempts.make(state)
        except (Exception, asyncio.CancelledError) as e:
            if not isinstance(e, asyncio.CancelledError):
                self.log(f"could not be run: {safe_message(e)}", logging.ERROR)
            delay = get_delay(self.settings.execution.default_backoff, 0)
            return Outcome(final=False, exception=e, delay=delay)

    def _on_attempted(self, outcome: Outcome) -> None:
        if self._termination is not None:
            self._termination.end()
            self.stopper.set(DaemonStoppingReason.DONE)
            is_left = (  # only the wait for its thread has ended
                self.is_abandoned and isinstance(outcome.exception, asyncio.CancelledError)
            )
            if isinstance(self.handler, DaemonHandler) and not is_left:
                self.log("has exited on request and will not be retried or restarted.")
            self._end()
            return
        assert self._state is not None
        now = self._now()
        is_timer = isinstance(self.handler, TimerHandler)
        if not outcome.final:
            self._state = self._state.with_outcome(
                outcome, self._context.resources.execution.clock.now()
            )
            self._wait_until(now + (sane_delay(outcome.delay) or 0.0))
        elif is_timer and not _is_given_up(outcome.exception) and self._has_future():
            self._wait_for_tick(now)
        else:
            self._object.finish(self.handler.id)
            if not is_timer or outcome.exception is not None:
                self.log("has exited on its own and will not be retried or restarted.")
            self.stopper.set(DaemonStoppingReason.DONE)
            self._end()

    def _has_future(self) -> bool:
        handler = self.handler
        if self._context.is_once:
            return False
        return isinstance(handler, TimerHandler) and (
            handler.interval is not None or handler.idle is not None or handler.cron is not None
        )

    def _wait_for_tick(self, now: float) -> None:
        assert isinstance(self.handler, TimerHandler)
        self._state = None
        if self._attempts.calendar is not None:
            self._attempts.calendar.finish()
            self._wait_for_run()
            return
        due = get_next_tick(
            self.handler,
            now=now,
            anchor=self._anchor if self._anchor is not None else now,
            changed_at=self._object.changed_at,
            ticked_at=self.due,
        )
        if due is None:
            self._is_dormant = True
        else:
            self._wait_until(due)

    def _end(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        self._is_over = True
        self._is_dormant = False
        self._context.on_ended(self)
        self._termination = None  # they would keep each other in memory


def _is_given_up(exc: BaseException | None) -> bool:
    """Whether a timer itself has asked never to be called again.

    Other failures, such as exhausted retries, end only one series of attempts, not the schedule.
    """
    return isinstance(exc, PermanentError) and not isinstance(
        exc, HandlerRetriesError | HandlerTimeoutError
    )
