"""One object with daemons or timers, as their functions see it."""

from typing import TYPE_CHECKING, cast

from kopf_cogs.configs.forms import WHOLE
from kopf_cogs.configs.settings import PersistenceSettings
from kopf_cogs.structs.bodies import Body, RawBody
from kopf_cogs.structs.dicts import replace_source
from kopf_cogs.structs.ids import HandlerId
from kopf_cogs.structs.keys import ObjectKey
from kopf_cogs.structs.memos import AnyMemo
from kopf_cogs.structs.patches import Patch
from kopf_cogs.structs.resources import Resource
from kopf_cogs.structs.versions import parse_version
from kopf_core.engines.background.relevance import changes, is_changed

if TYPE_CHECKING:
    from kopf_core.engines.background.spawned import SpawnedHandler


class LiveObject:
    """The newest state of one object, shared by all functions that work for it in background."""

    __slots__ = (
        "_streamed",
        "_written",
        "body",
        "changed_at",
        "finished",
        "form",
        "is_deleted",
        "key",
        "memo",
        "resource",
        "spawned",
    )

    def __init__(
        self, *, key: ObjectKey, resource: Resource, body: Body, memo: AnyMemo, now: float
    ) -> None:
        self.key = key
        self.is_deleted = False
        self.resource = resource
        self.form = WHOLE
        """The form of the shown object; it is known when the handlers are."""

        self.memo = memo

        self.body = Body({})
        """The live body. The views of it that functions have always show the newest state."""
        replace_source(self.body, body)
        self._streamed = body
        self._written: int | None = None

        self.finished: frozenset[HandlerId] = frozenset()
        """The handlers that have ended for good, and do not start again in this process."""

        self.spawned: dict[HandlerId, SpawnedHandler] = {}
        """The current daemons and timers: working, waiting, stopping, or abandoned but not ended
        yet.
        """

        self.changed_at = now
        """The time of the last real change, monotonic; the first sight is a change, too."""

    def refresh(self, body: Body, now: float, persistence: PersistenceSettings | None) -> bool:
        """Show the new state to all functions; return whether it is a change that resets the
        idling.

        Without ``persistence``, nothing is compared: no function idles there.
        """
        changed = persistence is not None and is_changed(self._streamed, body, persistence)
        if changed:
            self.changed_at = now
        replace_source(self.body, body)
        self._streamed = body
        return changed

    def show(self, body: RawBody) -> None:
        """Show the object after our own patch. It is a change when the stream brings it."""
        replace_source(self.body, Body(body))
        self._written = parse_version(body)

    def has_all(self, *patches: Patch) -> bool:
        """Whether the object surely has these changes already, so that the patches change nothing.

        The shown state can be older than our own latest patch, if the stream is late.
        """
        version = parse_version(cast("RawBody", self.body))
        is_late = self._written is not None and (version is None or version < self._written)
        return not is_late and not any(changes(patch, self.body) for patch in patches)

    def finish(self, id: HandlerId) -> None:
        self.finished |= {id}

    def forget(self, spawned: "SpawnedHandler") -> None:
        """The daemon or timer has ended; keep another one in its place."""
        if self.spawned.get(spawned.handler.id) is spawned:
            del self.spawned[spawned.handler.id]
