"""Progress of reconcilers: the attempts and the delays are kept on the objects, as everywhere."""

from dataclasses import replace

from kopf_cogs.aiokits.clocks import Clock
from kopf_cogs.configs.settings import OperatorSettings
from kopf_cogs.structs.bodies import Body
from kopf_cogs.structs.ids import HandlerId
from kopf_cogs.structs.patches import Patch
from kopf_core.actions.outcomes import Outcome
from kopf_core.actions.states import HandlerState

PURPOSE = "reconcile"
"""What the progress of reconcilers is stored for."""


class Progress:
    """The states of reconcilers, as they are stored on the objects; so, restarts lose nothing."""

    def __init__(self, settings: OperatorSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock

    def load(self, id: HandlerId, body: Body) -> HandlerState:
        """The state as it is stored, or a new one."""
        storage, now = self._settings.persistence.progress_storage, self._clock.now()
        record = storage.fetch(key=id, body=body)
        if not record:
            return HandlerState(started=now, purpose=PURPOSE)
        return HandlerState.from_record(record, now)

    def is_hastened(self, id: HandlerId, body: Body) -> bool:
        """Whether people have removed the delay, so that it is retried at once."""
        record = self._settings.persistence.progress_storage.fetch(key=id, body=body)
        return record is not None and record.get("delayed") is None

    def keep(
        self, id: HandlerId, state: HandlerState, outcome: Outcome, *, body: Body, marks: Patch
    ) -> None:
        """Keep the count of attempts and the delay on the object; nothing if there is no need."""
        storage = self._settings.persistence.progress_storage
        if outcome.final:
            storage.purge(key=id, body=body, patch=marks)
        else:
            record = state.with_outcome(outcome, self._clock.now()).as_record()
            storage.store(key=id, record=record, body=body, patch=marks)
        storage.flush()


def replace_delay(state: HandlerState) -> HandlerState:
    """The state of an attempt that is made now, whenever it was planned for."""
    return state if state.delayed is None else replace(state, delayed=None)
