"""What is known of one object which has (or had) daemons or timers."""

from kopf_cogs.configs.settings import PersistenceSettings
from kopf_cogs.structs.bodies import Body
from kopf_cogs.structs.ids import HandlerId
from kopf_cogs.structs.keys import ObjectKey
from kopf_cogs.structs.memos import AnyMemo
from kopf_cogs.structs.resources import Resource
from kopf_core.engines.background.changes import is_changed
from kopf_core.engines.background.runs import Run


class Record:
    """The background work of one object. It belongs to the object's memory."""

    __slots__ = (
        "body",
        "changed_at",
        "finished",
        "is_deleted",
        "key",
        "memo",
        "resource",
        "runs",
    )

    def __init__(
        self,
        *,
        key: ObjectKey,
        resource: Resource,
        body: Body,
        memo: AnyMemo,
        now: float,
    ) -> None:
        self.key = key
        self.resource = resource
        self.memo = memo

        self.body = Body({})
        """The live body: the views to it, given to functions, always show the newest state."""
        self.body._replace_from(body)

        self.runs: dict[HandlerId, Run] = {}
        """What is there now, be it working, waiting, stopping, or abandoned but not ended yet."""

        self.finished: frozenset[HandlerId] = frozenset()
        """What is over for good, and is not to be started again in this process."""

        self.is_deleted = False
        self.changed_at = now
        """The time of the last real change, monotonic; the first sight is a change, too."""

    def refresh(self, body: Body, now: float, persistence: PersistenceSettings | None) -> bool:
        """Show the new state to everyone; get whether it is a change which resets the idling.

        Nothing is compared without ``persistence``: where there is nobody to idle.
        """
        changed = persistence is not None and is_changed(self.body, body, persistence)
        if changed:
            self.changed_at = now
        self.body._replace_from(body)
        return changed

    def finish(self, id: HandlerId) -> None:
        self.finished |= {id}
