"""Idle objects: only their status has changed since a turn that has found nothing to do for them.

Most events are such: controllers report in the status all the time. Without this module, each of
them costs a parsed last handled state, and a comparison of it with the whole object. Here, it costs
a digest of the object without its status, which is several times quicker.
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
        """Whether a change of the status alone can never need a handler."""

    def remember(self, turn: Turn) -> None:
        """Remember the state of the object, as this turn has found nothing to do, now or later."""
        latest = turn.item.latest
        if not self.is_possible or latest is None or turn.memory.cycle != HANDLED:
            return
        if keeps_essence_as_is(self._persistence.diffbase_storage):
            turn.memory.idle = digest(latest)

    def has(self, turn: Turn) -> bool:
        """Whether nothing but the status differs from the remembered state."""
        memory, latest = turn.memory, turn.item.latest
        return (
            memory.idle is not None
            and memory.cycle == HANDLED
            and latest is not None
            and not turn.is_changing
            and memory.idle == digest(latest)
        )


def digest(body: RawBody) -> int:
    """A digest of the object that does not depend on its status and its versions."""
    metadata = {**body["metadata"], "resourceVersion": "", "managedFields": ""}
    return hash(dumps({**body, "metadata": metadata, "status": ""}))
