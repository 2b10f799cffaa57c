"""Idle objects: only their status has changed since a turn that had nothing to do for them.

Most events of most kinds are such: controllers report in the status all the time. To find out that
they change nothing for the handlers, the last handled state is parsed, and compared with all of
the object. It is several times quicker to see that nothing but the status is different.
"""

from kopf_cogs.configs.diffbase import keeps_essence_as_is
from kopf_cogs.configs.settings import OperatorSettings
from kopf_cogs.helpers.jsons import dumps
from kopf_cogs.structs.bodies import RawBody
from kopf_core.engines.records.stages import HANDLED
from kopf_core.intents.registries import ResourceHandlers
from kopf_core.reactor.object.turns import Turn


class Idleness:
    """Recognises idle objects of one kind."""

    def __init__(self, settings: OperatorSettings, handlers: ResourceHandlers) -> None:
        roots = {path[0] for path in handlers.extra_fields}
        self._persistence = settings.persistence
        self.is_possible = (
            not (handlers.spawning or handlers.reconciling or handlers.viewing)
            and not any(handler.has_filters for handler in handlers.blocking)
            and not roots & {"metadata", "status"}
        )
        """Whether nothing is ever to be done because of the status of an object."""

    def remember(self, turn: Turn) -> None:
        """Nothing was to be done for the object in this turn, and nothing is to be done later."""
        latest = turn.item.latest
        if not self.is_possible or latest is None or turn.memory.cycle != HANDLED:
            return
        if keeps_essence_as_is(self._persistence.diffbase_storage):
            turn.memory.idle = digest(latest)

    def has(self, turn: Turn) -> bool:
        """Whether the object is the same as when nothing was to be done for it."""
        memory, latest = turn.memory, turn.item.latest
        return (
            memory.idle is not None
            and memory.cycle == HANDLED
            and latest is not None
            and not turn.is_changing
            and memory.idle == digest(latest)
        )


def digest(body: RawBody) -> int:
    """What tells the states of an object from each other, except for their status."""
    metadata = {**body["metadata"], "resourceVersion": "", "managedFields": ""}
    return hash(dumps({**body, "metadata": metadata, "status": ""}))
