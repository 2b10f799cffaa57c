"""The handling cycle of one step: select the handlers, run them, record their outcomes.

It is written once, and used for everything that can be retried: changes of objects,
activities, daemons, timers, indices, sub-handlers.
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
from kopf_cogs.configs.checks import SettingError
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
    PermanentError,
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
_SUCCESS = Outcome(final=True, subrefs=frozenset())  # the most frequent one
_AFTER_EXIT = 1.0
"""In seconds: the next attempt of who asked to exit. It is not awaited: the operator stops."""

_NEVER_AGAIN = RetryPolicy(errors=ErrorsMode.IGNORED, backoff=0, timeout=None, retries=None)


Subhandling = Callable[[Invocation, Sequence[BaseHandler]], Awaitable[None]]
"""Runs the sub-handlers of an invocation; raises an error until all of them are finished."""


@dataclass(frozen=True)
class Execution:
    """How to run handlers: everything that does not depend on the cause."""

    settings: OperatorSettings
    lifecycle: Lifecycle
    errors: ErrorsMode = ErrorsMode.TEMPORARY
    """What arbitrary errors mean if the handler does not say."""
    subhandling: Subhandling | None = None
    """How to run sub-handlers, where they are supported."""

    clock: Clock = field(default_factory=get_clock)
    jump: datetime.timedelta = NO_JUMP
    """By how much the wall clock was set since the progress of the handlers was stored."""

    executor: Executor | None = None
    """Where to run sync functions; by default, where the settings say."""

    endures: bool = True
    """Whether outcomes are remembered though it is cancelled: it waits for sync functions then."""

    ongoing: Ongoing = field(default_factory=Ongoing)
    """Where the calls are remembered while they last."""

    door: Door = field(default_factory=Door)
    """What all calls go through: it says whether they may begin."""

    panel: Panel = field(default_factory=Panel)
    """Who measures the attempts, if anybody."""

    dryrun: bool = False
    """Whether it is a rehearsal: nothing is committed; handlers are told of that."""

    def timed(self, clock: Clock, jump: datetime.timedelta) -> "Execution":
        """The same by another clock. It is for each turn, where constructors are too slow."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__, clock=clock, jump=jump)
        return other

    def nested(self) -> "Execution":
        """The same for sub-handlers: they are not taken back, or their parents would be repeated.

        But they do not begin if nothing may begin at all.
        """
        return replace(self, door=Door(lambda: self.door.is_open))

    @property
    def threads(self) -> Executor:
        """Where sync functions run."""
        executor = self.executor
        return self.door.over(self.settings.execution.executor if executor is None else executor)

    async def run(
        self,
        handlers: Sequence[BaseHandler],
        cause: BaseCause,
        state: State,
        lifecycle: Lifecycle | None = None,
    ) -> dict[HandlerId, Outcome]:
        """Make one step: call those of the handlers that are due and that the lifecycle picks.

        A cancellation ends the step; if some of them are over by then, that is not an error.
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
                break  # that handler was only waited for to remember its outcome
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
        """Call the handler once, and say what came out of it. Never raises but on cancellation.

        If it takes more than a call, ``run`` is the async function that does it all. If it can
        take long, ``flush`` sends what it has changed so far.
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
            return Outcome(final=False, subrefs=invocation.subrefs)  # some of those are over
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
        """Call a handler which is never retried; get its result, if there is one."""
        kwargs = {
            "param": handler.param,
            "retry": 0,
            "started": self.clock.now(),
            "runtime": _NO_TIME,
            "dryrun": self.dryrun,
            **cause.kwargs,  # the last ones: the names of indices are never overridden
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
        """For how long the handler is being tried: not by the wall clock if it is possible."""
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
            **invocation.cause.kwargs,  # the last ones: the names of indices are never overridden
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
    """An attempt that has failed: to be judged on whether there will be another one."""

    handler: BaseHandler
    logger: AnyLogger
    policy: RetryPolicy
    retry: int
    runtime: datetime.timedelta
    subrefs: set[HandlerId]

    def judge(self, exc: Exception) -> Outcome:
        """Decide on the handler by its error, and say it in the log."""
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
            case PermanentError() | SettingError():
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
        """Errors of the API that can go away by themselves: the servers can say when to retry."""
        requested = sane_delay(getattr(exc, "retry_after", None))  # a date is not understood here
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
    # The records have the line they come from, and the shorter the function, the quicker it is.
    cause.logger.log(handler.success_level, f"{handler} succeeded.")


def _complain(logger: AnyLogger, message: str, exc: BaseException) -> None:
    """Log an unexpected error with its traceback: only of the users' code, not of our own.

    Some errors are known to say it all in their text, such as those of logging in.
    A function that cannot be called with our arguments has no code of its own to show.
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
    return None if module == CALLING_MODULE else whole  # if not in a call, it is our own mistake


def collect_results(outcomes: Mapping[HandlerId, Outcome]) -> dict[HandlerId, Any]:
    """What the handlers have returned, for those that returned anything."""
    return {
        id: outcome.result
        for id, outcome in outcomes.items()
        if outcome.final and outcome.exception is None and outcome.result is not None
    }
