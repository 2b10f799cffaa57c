"""Execution: makes one step of handlers: selects the due ones, calls them, judges the outcomes.

The same code serves everything that can be retried: changes of objects, activities, daemons,
timers, indices, sub-handlers.
"""

import asyncio
import datetime
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from functools import partial
from types import TracebackType
from typing import Any, NamedTuple

from kopf_cogs.aiokits.clocks import Clock
from kopf_cogs.aiokits.surroundings import get_clock
from kopf_cogs.configs.settings import OperatorSettings
from kopf_cogs.helpers.callbacks import ExitWish, call
from kopf_cogs.structs.ids import HandlerId
from kopf_core.actions.bases import BaseCause, BaseHandler, Fn
from kopf_core.actions.context import Flush, Invocation, invocation_var
from kopf_core.actions.errors import (
    AwaitingError,
    ErrorsMode,
    HandlerRetriesError,
    HandlerTimeoutError,
    RejectionError,
    SubhandlersPending,
    TemporaryError,
)
from kopf_core.actions.instruments import Instruments, Panel
from kopf_core.actions.invocation import invoke, is_being_cancelled
from kopf_core.actions.lifecycles import Lifecycle, asap
from kopf_core.actions.limits import AttemptTimeoutError, cancel_after, name_after
from kopf_core.actions.loggers import AnyLogger
from kopf_core.actions.ongoing import Ongoing
from kopf_core.actions.outcomes import Outcome
from kopf_core.actions.retrying import RetryPolicy, describe, sane_delay
from kopf_core.actions.states import NO_JUMP, HandlerState, State
from kopf_core.actions.threads import Door, TakenBack

CALLING_MODULE = invoke.__module__
_NO_TIME = datetime.timedelta(0)
_SUCCESS = Outcome(final=True, subrefs=frozenset())  # the most frequent outcome
_AFTER_EXIT = 1.0
"""In seconds: the delay of a handler that has asked to exit. The operator stops before that."""

_NEVER_AGAIN = RetryPolicy(errors=ErrorsMode.IGNORED, backoff=0, timeout=None, retries=None)


Subhandling = Callable[[Invocation, Sequence[BaseHandler]], Awaitable[None]]
"""Runs the sub-handlers of an invocation; raises an error until all of them are finished."""


@dataclass(frozen=True)
class Execution:
    """The way to run handlers: all that does not depend on the cause."""

    settings: OperatorSettings
    lifecycle: Lifecycle
    errors: ErrorsMode = ErrorsMode.TEMPORARY
    """The meaning of arbitrary errors, if the handler has no mode of its own."""
    subhandling: Subhandling | None = None
    """The function that runs sub-handlers, where they are supported."""

    clock: Clock = field(default_factory=get_clock)
    jump: datetime.timedelta = NO_JUMP
    """By how much the wall clock was set after the progress of the handlers was stored."""

    executor: Executor | None = None
    """The executor of sync functions; by default, the one in the settings."""

    endures: bool = True
    """Whether a cancelled step waits for sync functions, so that their outcomes are stored."""

    ongoing: Ongoing = field(default_factory=Ongoing)
    """The calls that run now."""

    door: Door = field(default_factory=Door)
    """The door that all calls pass: it decides whether they may begin."""

    panel: Panel = field(default_factory=Panel)
    """The instruments that measure the attempts, if there are any."""

    dryrun: bool = False
    """Whether this is a rehearsal: nothing is committed, and handlers are told so."""

    def timed(self, clock: Clock, jump: datetime.timedelta) -> "Execution":
        """The same execution with another clock. Each turn makes one, so it avoids constructors."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__, clock=clock, jump=jump)
        return other

    def nested(self) -> "Execution":
        """The same execution for sub-handlers.

        At the exit, Kopf does not take back their waiting calls: their parents would be repeated.
        But no call begins while the door is not open.
        """
        return replace(self, door=Door(lambda: self.door.is_open))

    @property
    def threads(self) -> Executor:
        """The executor of sync functions, watched by the door."""
        executor = self.executor
        return self.door.watch(self.settings.execution.executor if executor is None else executor)

    async def run(
        self,
        handlers: Sequence[BaseHandler],
        cause: BaseCause,
        state: State,
        lifecycle: Lifecycle | None = None,
    ) -> dict[HandlerId, Outcome]:
        """Make one step: call the due handlers that the lifecycle picks; return their outcomes.

        A cancellation ends the step. It is not raised if some handlers have finished before it.
        """
        now = self.clock.now()
        due = [handler for handler in handlers if state[handler.id].is_awake(now)]
        pick = lifecycle or self.lifecycle
        plan: Sequence[BaseHandler] = due
        if len(due) > 1 or (due and pick is not asap):  # there is something to choose
            plan = call(pick, due, **cause.kwargs | {"state": state})
        outcomes: dict[HandlerId, Outcome] = {}
        for handler in plan:
            if outcomes and is_being_cancelled():
                break  # the step only waited for the end of the last handler
            try:
                outcomes[handler.id] = await self.attempt(handler, cause, state[handler.id])
            except asyncio.CancelledError:
                if not outcomes or not self.endures:
                    raise
                break
        return outcomes

    def attempt(
        self,
        handler: BaseHandler,
        cause: BaseCause,
        state: HandlerState,
        run: Fn | None = None,
        flush: Flush | None = None,
    ) -> Coroutine[Any, Any, Outcome]:
        """Call the handler once, and return the outcome. Raises nothing but cancellations.

        If an attempt is more than a call, ``run`` is the async function that makes it. If it can
        take long, ``flush`` sends its changes before its end.
        """
        invocation = Invocation(handler, cause, self, run=run, flush=flush)
        instruments = self.panel.instruments
        if instruments is None:
            return self._attempt(invocation, state)
        return self._measure(invocation, state, instruments)

    async def _measure(
        self, invocation: Invocation, state: HandlerState, instruments: Instruments
    ) -> Outcome:
        handler = invocation.handler
        with instruments.trace_attempt(handler):
            began = self.clock.monotonic()
            outcome = await self._attempt(invocation, state)
            instruments.on_attempt(handler, outcome, self.clock.monotonic() - began)
            instruments.on_outcome(handler, invocation.cause, outcome)
        return outcome

    async def _attempt(self, invocation: Invocation, state: HandlerState) -> Outcome:
        handler, cause = invocation.handler, invocation.cause
        began, runtime = self.clock.monotonic(), self._get_runtime(state)
        try:
            if handler.timeout is not None or handler.retries is not None:
                self._get_policy(handler).check_limits(
                    handler, retry=state.retries, runtime=runtime
                )
            cause.logger.debug("%s is invoked.", handler)
            result = await self._call(invocation, state, runtime)
        except TakenBack as e:
            cause.logger.debug(f"{handler} is not invoked: {e}.")
            raise
        except asyncio.CancelledError:
            cause.logger.warning(f"{handler} is cancelled. Will escalate.")
            if not invocation.subrefs:
                raise
            return Outcome(final=False, subrefs=invocation.subrefs)  # some may have finished
        except Exception as e:
            return _Attempt(
                handler,
                cause.logger,
                self._get_policy(handler),
                state.retries,
                runtime + datetime.timedelta(seconds=self.clock.monotonic() - began),
                invocation.subrefs,
            ).judge(e)
        _tell_of_success(handler, cause)
        if result is None and not invocation.subrefs:
            return _SUCCESS
        return Outcome(final=True, result=result, subrefs=invocation.subrefs)

    async def observe(self, handler: BaseHandler, cause: BaseCause) -> Any:
        """Call a handler that is never retried; return its result, if it has one."""
        kwargs = {
            "param": handler.param,
            "retry": 0,
            "started": self.clock.now(),
            "runtime": _NO_TIME,
            "dryrun": self.dryrun,
            **cause.kwargs,  # the last ones: indices win over other names
        }
        handler.adjust_kwargs(kwargs)
        cause.logger.debug("%s is invoked.", handler)
        invocation = Invocation(handler, cause, self)
        token = invocation_var.set(invocation)
        try:
            result = await self._invoke(invocation, kwargs)
        except Exception as e:
            _Attempt(handler, cause.logger, _NEVER_AGAIN, 0, _NO_TIME, set()).judge(e)
            return None
        finally:
            invocation_var.reset(token)
        _tell_of_success(handler, cause)
        return result

    def _get_runtime(self, state: HandlerState) -> datetime.timedelta:
        """For how long the handler has been tried: by the monotonic clock, if possible."""
        if state.since is None:
            return self.clock.now() - state.started
        return datetime.timedelta(seconds=self.clock.monotonic() - state.since)

    def _get_policy(self, handler: BaseHandler) -> RetryPolicy:
        return RetryPolicy.of(handler, self.errors, self.settings.execution.default_backoff)

    async def _call(
        self,
        invocation: Invocation,
        state: HandlerState,
        runtime: datetime.timedelta,
    ) -> Any:
        handler = invocation.handler
        kwargs = {
            "param": handler.param,
            "retry": state.retries,
            "started": state.started,
            "runtime": runtime,
            "dryrun": self.dryrun,
            **invocation.cause.kwargs,  # the last ones: indices win over other names
        }
        handler.adjust_kwargs(kwargs)
        token = invocation_var.set(invocation)
        try:
            if handler.timeout is None or not (handler.is_async or invocation.run):
                return await self._call_with_subhandlers(invocation, kwargs)
            remaining = handler.timeout - runtime.total_seconds()
            elapsed = datetime.timedelta(seconds=handler.timeout)
            error = HandlerTimeoutError(f"{handler} has timed out after {elapsed}.")
            call = self._call_with_subhandlers(invocation, kwargs)
            return await cancel_after(remaining, call, error, handler, invocation.cause.logger)
        finally:
            try:
                invocation_var.reset(token)
            except ValueError:
                pass  # the coroutine is being destroyed, and the context is not ours

    async def _call_with_subhandlers(self, invocation: Invocation, kwargs: dict[str, Any]) -> Any:
        result = await self._invoke(invocation, kwargs, self.endures)
        if invocation.subhandlers and not invocation.executed and self.subhandling is not None:
            await self.subhandling(invocation, invocation.subhandlers)
        return result

    def _invoke(
        self,
        invocation: Invocation,
        kwargs: dict[str, Any],
        is_endured: bool = False,
    ) -> Coroutine[Any, Any, Any]:
        seconds = self.settings.execution.attempt_timeout
        call = self._invoke_unlimited(invocation, kwargs, is_endured)
        if seconds is None or invocation.handler.is_endless:
            return call
        return self._limit(invocation, call, seconds)

    async def _limit(
        self, invocation: Invocation, call: Coroutine[Any, Any, Any], seconds: float
    ) -> Any:
        handler, logger = invocation.handler, invocation.cause.logger
        tell = partial(self._count_timeout, handler)
        if not (handler.is_async or invocation.run):
            return await name_after(seconds, call, handler, logger, tell)
        try:
            return await cancel_after(seconds, call, AttemptTimeoutError(seconds), handler, logger)
        except AttemptTimeoutError:
            tell()
            raise

    def _count_timeout(self, handler: BaseHandler) -> None:
        if self.panel.instruments is not None:
            self.panel.instruments.on_timeout(handler)

    async def _invoke_unlimited(
        self, invocation: Invocation, kwargs: dict[str, Any], is_endured: bool
    ) -> Any:
        handler = invocation.handler
        self.ongoing.enter(invocation)
        fn = invocation.run or handler.fn
        if handler.is_async or invocation.run:
            try:
                return await invoke(fn, kwargs=kwargs, is_async=True, executor=None, door=self.door)
            finally:
                self.ongoing.leave(invocation)
        return await invoke(
            fn,
            kwargs=kwargs,
            is_async=False,
            executor=self.threads,
            is_endured=is_endured,
            on_ended=partial(self.ongoing.leave, invocation),
            door=self.door,
        )


class _Attempt(NamedTuple):
    """A failed attempt: decides whether there will be another one."""

    handler: BaseHandler
    logger: AnyLogger
    policy: RetryPolicy
    retry: int
    runtime: datetime.timedelta
    subrefs: set[HandlerId]

    def judge(self, exc: Exception) -> Outcome:
        """Decide by the error whether to call the handler again, and log the decision."""
        match exc:
            case SubhandlersPending():
                self.logger.debug(f"{self.handler} has unfinished sub-handlers. Will retry soon.")
                return self._again(exc, exc.delay)
            case ExitWish():
                return self._again(exc, _AFTER_EXIT)
            case AwaitingError():
                self.logger.info(f"{self.handler} waits: {describe(exc)}")
                return self._again(exc, exc.delay)._replace(is_attempt=False)
            case TemporaryError():
                return self._judge_temporary(exc)
            case HandlerTimeoutError() | HandlerRetriesError():
                self.logger.error(describe(exc))
                return self._stop(exc)
            case _ if isinstance(exc, self.handler.final_errors):
                level = logging.INFO if isinstance(exc, RejectionError) else logging.ERROR
                self.logger.log(level, f"{self.handler} failed permanently: {describe(exc)}")
                return self._stop(exc)
            case _ if getattr(exc, "is_temporary", False) and not self._is_ignored:
                return self._judge_temporary(self._as_temporary(exc))
            case _:
                return self._judge_arbitrary(exc)

    @property
    def _is_ignored(self) -> bool:
        return self.policy.errors is ErrorsMode.IGNORED

    def _as_temporary(self, exc: Exception) -> TemporaryError:
        """Convert an error of the API that can go away by itself: the server can name the delay."""
        requested = sane_delay(getattr(exc, "retry_after", None))  # dates are not supported here
        backoff = sane_delay(self.policy.get_delay(self.retry)) or 0.0
        return TemporaryError(describe(exc), delay=max(backoff, requested or 0.0))

    def _judge_temporary(self, exc: TemporaryError) -> Outcome:
        delay = sane_delay(exc.delay)
        forbidden = self._forbids(delay)
        if forbidden:
            message = f"{self.handler} failed temporarily but will {forbidden}: {describe(exc)}"
            self.logger.error(message)
            return self._stop(HandlerRetriesError(message))
        self.logger.error(f"{self.handler} failed temporarily: {describe(exc)}")
        return self._again(exc, delay)

    def _judge_arbitrary(self, exc: Exception) -> Outcome:
        failed = f"{self.handler} failed with an exception"
        backoff = self.policy.get_delay(self.retry)
        delay = sane_delay(backoff)
        if self.policy.errors is ErrorsMode.IGNORED:
            _complain(self.logger, f"{failed} and will ignore it", exc)
            return Outcome(final=True, subrefs=self.subrefs)
        if self.policy.errors is ErrorsMode.PERMANENT:
            _complain(self.logger, f"{failed} and will stop now", exc)
            return self._stop(exc)
        forbidden = self._forbids(delay)
        if forbidden:
            message = f"{failed} and will stop now (it would {forbidden} on the next attempt)"
            _complain(self.logger, message, exc)
            return self._stop(HandlerRetriesError(f"{message}: {describe(exc)}"))
        _complain(self.logger, f"{failed} and will try again in {backoff} seconds", exc)
        return self._again(exc, delay)

    def _forbids(self, delay: float | None) -> str | None:
        return self.policy.forbids(retry=self.retry, runtime=self.runtime, delay=delay)

    def _stop(self, exc: Exception) -> Outcome:
        return Outcome(final=True, exception=exc, subrefs=self.subrefs)

    def _again(self, exc: Exception, delay: float | None) -> Outcome:
        return Outcome(final=False, exception=exc, delay=delay, subrefs=self.subrefs)


def _tell_of_success(handler: BaseHandler, cause: BaseCause) -> None:
    # Log records look up their line: that is quicker in short functions.
    cause.logger.log(handler.success_level, f"{handler} succeeded.")


def _complain(logger: AnyLogger, message: str, exc: BaseException) -> None:
    """Log an unexpected error with its traceback: only with the frames of users' code.

    Errors with the attribute ``expected``, e.g. of logging in, say everything in their text.
    A function that cannot be called with our arguments has no frames of its own.
    """
    if getattr(exc, "expected", False):
        logger.error(f"{message}: {describe(exc)}")
        return
    traceback = _skip_own_frames(exc.__traceback__)
    exc_info = None if traceback is None else (type(exc), exc, traceback)
    logger.error(f"{message}: {describe(exc)}", exc_info=exc_info)


def _skip_own_frames(whole: TracebackType | None) -> TracebackType | None:
    rest, module = whole, ""
    while rest is not None:
        name = str(rest.tb_frame.f_globals.get("__name__", ""))
        if not name.startswith("kopf_core."):
            return rest
        rest, module = rest.tb_next, name
    return None if module == CALLING_MODULE else whole  # outside of a call, it is our own defect


def collect_results(outcomes: Mapping[HandlerId, Outcome]) -> dict[HandlerId, Any]:
    """The results of the handlers that have returned any."""
    return {
        id: outcome.result
        for id, outcome in outcomes.items()
        if outcome.final and outcome.exception is None and outcome.result is not None
    }
