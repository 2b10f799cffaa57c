"""Activities: handlers of the operator's own life follow the same rules as handlers of objects.

The progress is kept in memory: activities do not outlive the process.
"""

import logging
import math
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any

from kopf_cogs.aiokits.clocks import Clock, SteadyClock
from kopf_cogs.aiokits.sleeps import sleep
from kopf_cogs.aiokits.surroundings import get_clock, get_threads
from kopf_cogs.configs.settings import OperatorSettings
from kopf_cogs.helpers.callbacks import ExitWish
from kopf_cogs.structs.ids import HandlerId
from kopf_cogs.structs.memos import AnyMemo
from kopf_core.actions.errors import ErrorsMode
from kopf_core.actions.execution import Execution, collect_results
from kopf_core.actions.lifecycles import all_at_once
from kopf_core.actions.ongoing import Ongoing
from kopf_core.actions.outcomes import Outcome
from kopf_core.actions.retrying import telling_message
from kopf_core.actions.states import State
from kopf_core.intents.causes import Activity, ActivityCause
from kopf_core.intents.handlers import ActivityHandler

MAX_THREADS = 4
"""How many sync handlers of one activity run at once: some of them can hang."""


class ActivityError(Exception):
    """Some handlers of the activity have failed for good. The errors are logged already."""

    expected = True

    def __init__(self, activity: Activity, outcomes: Mapping[HandlerId, Outcome]) -> None:
        failures = ", ".join(
            f"{id!r} ({telling_message(outcome.exception)})"
            for id, outcome in outcomes.items()
            if outcome.exception is not None
        )
        super().__init__(f"The {activity.value} activity has failed: {failures}")
        self.activity = activity
        self.outcomes = outcomes

    @property
    def results(self) -> dict[HandlerId, Any]:
        """The results of the handlers that have succeeded nevertheless."""
        return collect_results(self.outcomes)


@dataclass(frozen=True, slots=True)
class ActivityRunner:
    """Runs the activities of one operator."""

    settings: OperatorSettings
    memo: AnyMemo
    indices: Mapping[str, Any]
    clock: Clock = field(default_factory=get_clock)
    ongoing: Ongoing = field(default_factory=Ongoing)
    dryrun: bool = False
    pools: dict[Activity, Executor] = field(default_factory=dict)
    """Each activity has its own threads: e.g. a login does not wait for busy handlers."""

    async def run(
        self,
        activity: Activity,
        handlers: list[ActivityHandler],
        *,
        errors: ErrorsMode = ErrorsMode.TEMPORARY,
        get_left: Callable[[], float] = lambda: math.inf,
    ) -> dict[HandlerId, Any]:
        """Run all handlers until each of them has finished; return their results by ids.

        ``errors`` is the mode for handlers that have no mode of their own. ``get_left`` returns the
        remaining time in seconds: a handler with a later retry has failed.

        Raises :class:`ActivityError` if any handler has failed.
        """
        cause = ActivityCause(
            activity=activity,
            settings=self.settings,
            logger=logging.getLogger(f"kopf.activities.{activity.value}"),
            memo=self.memo,
            indices=self.indices,
        )
        clock = SteadyClock(self.clock)
        execution = self._make_execution(activity, errors, clock)
        state = State.from_scratch(now=clock.now()).with_purpose(activity.value, handlers)
        finals: dict[HandlerId, Outcome] = {}
        while not state.done:
            outcomes = await execution.run(handlers, cause, state)
            state = state.with_outcomes(outcomes, now=clock.now())
            finals |= {id: outcome for id, outcome in outcomes.items() if outcome.final}
            asks_to_exit = any(isinstance(one.exception, ExitWish) for one in outcomes.values())
            if asks_to_exit or (not state.done and (state.delay or 0.0) >= get_left()):
                raise ActivityError(activity, finals | outcomes)
            if not state.done:
                await sleep(state.delay)
        if any(outcome.exception is not None for outcome in finals.values()):
            raise ActivityError(activity, finals)
        return collect_results(finals)

    def close(self) -> None:
        """Let the idle threads end, and leave the working ones alone."""
        for pool in self.pools.values():
            pool.shutdown(wait=False, cancel_futures=True)
        self.pools.clear()

    def _make_execution(self, activity: Activity, errors: ErrorsMode, clock: Clock) -> Execution:
        return Execution(
            settings=self.settings,
            lifecycle=all_at_once,
            errors=errors,
            clock=clock,
            executor=self._get_pool(activity),
            ongoing=self.ongoing,
            endures=False,
            dryrun=self.dryrun,
        )

    def _get_pool(self, activity: Activity) -> Executor:
        if activity not in self.pools:
            name = f"kopf-{activity.value}"
            self.pools[activity] = get_threads().make_pool(MAX_THREADS, name=name)
        return self.pools[activity]
