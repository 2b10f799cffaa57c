"""The intake of a shard of a ring: the labels of the objects say which of them are ours."""

from typing import Any

from kopf_cogs.configs.settings import PersistenceSettings
from kopf_cogs.structs.bodies import Body, RawEvent
from kopf_cogs.structs.keys import ObjectKey
from kopf_cogs.structs.resources import Resource
from kopf_core.engines.memories import ObjectMemories
from kopf_core.engines.sharding.rings import Leaving, RingShare
from kopf_core.reactor.streams.intake import SharedIntake


class RingIntake(SharedIntake):
    """Notices in the stream which objects come to this shard, and which must be given away.

    An object comes with all that its previous owner has done: the sharder has changed its label
    after that. So nothing is listed anew.
    """

    def __init__(
        self,
        *args: Any,
        share: RingShare,
        resource: Resource,
        memories: ObjectMemories,
        persistence: PersistenceSettings,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, share=share, **kwargs)
        self._ring = share
        self._resource = resource
        self._memories = memories
        self._persistence = persistence

    def resume(self, key: ObjectKey, event: RawEvent) -> None:
        """Take the latest event of an object that was being left, as if it came now."""
        is_old = self._ring.is_drained(event["object"])  # the sharder has its answer already
        if not is_old and self._admits(key, event):
            self.queue.put(key, event)

    def _admits(self, key: ObjectKey, event: RawEvent) -> bool:
        ring, body, is_known = self._ring, event["object"], key in self._memories
        is_foreign = key in ring.foreign
        if not ring.shards:
            return False
        if (leaving := ring.leaving.get(key)) is not None:
            leaving.latest[self] = event
            return False
        if event["type"] == "DELETED":
            ring.foreign.discard(key)
            return is_known and not is_foreign
        is_drained = ring.is_drained(body)
        if ring.is_assigned(body) and not is_drained:
            if is_foreign or not is_known:
                self._gain(key, event)
            return True
        if is_drained or (is_known and not is_foreign):
            ring.leave(key, Leaving(self._resource, body, is_drained))
        ring.foreign.add(key)
        return False

    def _gain(self, key: ObjectKey, event: RawEvent) -> None:
        """Begin with the object as after a restart, if another shard has handled it before."""
        self._ring.foreign.discard(key)
        self._memories.forget(key)  # the record can be from indexing
        storage = self._persistence.diffbase_storage
        was_handled = event["type"] is None or storage.fetch(body=Body(event["object"])) is not None
        self._memories.recall(key, is_listed=was_handled)
