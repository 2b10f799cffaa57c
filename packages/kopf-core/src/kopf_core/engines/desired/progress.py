"""The progress of reconcilers: the attempts and delays, stored on the objects as for all
handlers.
"""

from collections.abc import Collection
from datetime import timedelta

from kopf_cogs.aiokits.clocks import Clock
from kopf_cogs.configs.progress import ProgressRecord
from kopf_cogs.configs.settings import OperatorSettings
from kopf_cogs.structs.bodies import Body
from kopf_cogs.structs.ids import HandlerId
from kopf_core.actions.outcomes import Outcome
from kopf_core.actions.states import LEAST_JUMP, HandlerState
from kopf_core.engines.desired.object_plans import Step
from kopf_core.engines.desired.triggers import Essence, Plan

PURPOSE = "reconcile"
"""The purpose under which the progress of reconcilers is stored."""


class Progress:
    """The states of reconcilers, as they are stored on the objects, so that restarts lose nothing.

    The shared ids also belong to other handlers on the same objects: e.g. with several
    decorators on one function. The progress of such reconcilers has other names.
    """

    def __init__(
        self, settings: OperatorSettings, clock: Clock, shared_ids: Collection[HandlerId]
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._shared_ids = shared_ids

    def load(self, id: HandlerId, body: Body, since: float | None = None) -> HandlerState:
        """Load the stored state, or make a new one.

        ``since`` is the monotonic time of the start, if it is known in this process.
        """
        now, monotonic = self._clock.now(), self._clock.monotonic()
        record = self._fetch(id, body)
        if not record:
            return HandlerState(started=now, since=monotonic, purpose=PURPOSE)
        state = HandlerState.from_record(record, now)
        if since is None:
            return state._replace(since=monotonic - (now - state.started).total_seconds())
        return self._correct(state._replace(since=since))

    def make_plan(self, id: HandlerId, step: Step) -> Plan:
        """Make the plan for an object that is seen for the first time, possibly after a restart."""
        plan, state = Plan(), self.load(id, step.cause.body)
        if state.delayed is not None:
            left = (state.delayed - self._clock.now()).total_seconds()
            plan.retry = self._clock.monotonic() + max(0.0, left)
            plan.since = state.since
            plan.essence = self._get_seen(id, step.cause.body) or step.essence
        return plan

    def _get_seen(self, id: HandlerId, body: Body) -> Essence | None:
        """Load the essence of the object at the latest attempt: it can have changed between two
        runs.
        """
        record = self._fetch(id, body) or {}
        try:
            return bytes.fromhex(record.get("seen") or "")
        except ValueError:
            return None

    def _fetch(self, id: HandlerId, body: Body) -> ProgressRecord | None:
        return self._settings.persistence.progress_storage.fetch(key=self._name(id), body=body)

    def _name(self, id: HandlerId) -> HandlerId:
        return HandlerId(f"{id}/{PURPOSE}") if id in self._shared_ids else id

    def is_hastened(self, id: HandlerId, body: Body) -> bool:
        """Whether people have removed the delay, so that the retry is due at once."""
        record = self._fetch(id, body)
        return record is not None and record.get("delayed") is None

    def keep(self, id: HandlerId, state: HandlerState, outcome: Outcome, step: Step) -> None:
        """Store the count of attempts and the delay on the object, if there is a need."""
        if outcome.final:
            self.drop(id, step)
            return
        storage, key = self._settings.persistence.progress_storage, self._name(id)
        record = self._correct(state).with_outcome(outcome, self._clock.now()).as_record()
        record["seen"] = step.essence.hex()
        storage.store(key=key, record=record, body=step.cause.body, patch=step.marks)
        storage.flush()

    def drop(self, id: HandlerId, step: Step) -> None:
        """Forget the attempts of a reconciler: it has succeeded, or does not match anymore."""
        storage = self._settings.persistence.progress_storage
        storage.purge(key=self._name(id), body=step.cause.body, patch=step.marks)
        storage.flush()

    def sweep(self, step: Step) -> None:
        """Forget the attempts of all reconcilers. The present ones have none, so these are left by
        reconcilers that were renamed or removed.
        """
        storage = self._settings.persistence.progress_storage
        storage.sweep(body=step.cause.body, patch=step.marks, purpose=PURPOSE)

    def _correct(self, state: HandlerState) -> HandlerState:
        """Shift the start by as much as the wall clock has jumped since then."""
        assert state.since is not None
        elapsed = timedelta(seconds=self._clock.monotonic() - state.since)
        jump = self._clock.now() - state.started - elapsed
        if abs(jump.total_seconds()) < LEAST_JUMP:
            return state
        return state._replace(started=state.started + jump)
