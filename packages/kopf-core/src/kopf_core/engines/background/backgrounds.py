"""All background work of one object."""

from kopf_cogs.structs.bodies import Body
from kopf_cogs.structs.ids import HandlerId
from kopf_cogs.structs.keys import ObjectKey
from kopf_cogs.structs.memos import AnyMemo
from kopf_cogs.structs.resources import Resource
from kopf_core.engines.background.live_objects import LiveObject
from kopf_core.engines.background.spawned import SpawnedHandler


class ObjectBackground(LiveObject):
    """The background work of one object."""

    __slots__ = ("is_deleted", "key", "spawned")

    def __init__(
        self, *, key: ObjectKey, resource: Resource, body: Body, memo: AnyMemo, now: float
    ) -> None:
        super().__init__(resource=resource, body=body, memo=memo, now=now)
        self.key = key
        self.is_deleted = False
        self.spawned: dict[HandlerId, SpawnedHandler] = {}
        """What is there now, be it working, waiting, stopping, or abandoned but not ended yet."""

    def forget(self, spawned: SpawnedHandler) -> None:
        """It has ended; unless another one is there in its place."""
        if self.spawned.get(spawned.handler.id) is spawned:
            del self.spawned[spawned.handler.id]
