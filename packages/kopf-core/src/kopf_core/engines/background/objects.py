"""What is known of one object which has (or had) daemons or timers, as their functions see it."""

from kopf_cogs.configs.settings import PersistenceSettings
from kopf_cogs.structs.bodies import Body
from kopf_cogs.structs.dicts import replace_source
from kopf_cogs.structs.ids import HandlerId
from kopf_cogs.structs.memos import AnyMemo
from kopf_cogs.structs.resources import Resource
from kopf_core.engines.background.changes import is_changed


class LiveObject:
    """The newest state of one object, seen by all functions that work for it in background."""

    __slots__ = ("body", "changed_at", "finished", "memo", "resource")

    def __init__(self, *, resource: Resource, body: Body, memo: AnyMemo, now: float) -> None:
        self.resource = resource
        self.memo = memo

        self.body = Body({})
        """The live body: the views to it, given to functions, always show the newest state."""
        replace_source(self.body, body)

        self.finished: frozenset[HandlerId] = frozenset()
        """What is over for good, and is not to be started again in this process."""

        self.changed_at = now
        """The time of the last real change, monotonic; the first sight is a change, too."""

    def refresh(self, body: Body, now: float, persistence: PersistenceSettings | None) -> bool:
        """Show the new state to everyone; get whether it is a change which resets the idling.

        Nothing is compared without ``persistence``: where there is nobody to idle.
        """
        changed = persistence is not None and is_changed(self.body, body, persistence)
        if changed:
            self.changed_at = now
        replace_source(self.body, body)
        return changed

    def finish(self, id: HandlerId) -> None:
        self.finished |= {id}
