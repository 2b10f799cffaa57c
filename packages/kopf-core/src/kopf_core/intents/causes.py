"""Causes: events and changes, with all facts that handlers may want to know.

There is one cause for an event or a step of a cycle, shared by all its handlers. The keyword
arguments are made once, too, when the first handler or filter needs them.
"""

import datetime
import enum
from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

from kopf_cogs.configs.settings import OperatorSettings
from kopf_cogs.structs.bodies import Body, RawEvent
from kopf_cogs.structs.diffs import Diff
from kopf_cogs.structs.memos import AnyMemo
from kopf_cogs.structs.patches import Patch
from kopf_cogs.structs.resources import Resource
from kopf_core.actions.conditions import Conditions
from kopf_core.actions.loggers import AnyLogger, LocalObjectLogger, ObjectLogger
from kopf_core.actions.marks import Marks
from kopf_core.intents.stoppers import AnyStopperChecker


class Reason(enum.StrEnum):
    """The change of an object, detected by its last handled state."""

    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"
    RESUME = "resume"
    NOOP = "noop"
    FREE = "free"
    GONE = "gone"

    @property
    def is_handled(self) -> bool:
        """Whether there can be handlers for this reason."""
        return self in _HANDLED


_HANDLED = frozenset({Reason.CREATE, Reason.UPDATE, Reason.DELETE, Reason.RESUME})

TITLES: Mapping[str, str] = {
    Reason.CREATE: "creation",
    Reason.UPDATE: "updating",
    Reason.DELETE: "deletion",
    Reason.RESUME: "resuming",
}
"""The names of the reasons in the logs."""


class Activity(enum.StrEnum):
    """The moments in the life of the operator that can be handled."""

    STARTUP = "startup"
    CLEANUP = "cleanup"
    AUTHENTICATION = "authentication"
    PROBE = "probe"
    LEADING = "leading"
    FOLLOWING = "following"
    EXTERNAL = "external"


class Remembered(Protocol):
    """The keeper of an object's memo, which is made when it is first needed."""

    @property
    def memo(self) -> AnyMemo: ...

    def warn_once(self, topic: str) -> bool: ...


class Cause:
    """The base of all causes. Its ``kwargs`` are made once, and must not be modified."""

    __slots__ = ("_kwargs", "indices", "logger")

    logger: AnyLogger

    def __init__(self, *, logger: AnyLogger, indices: Mapping[str, Any]) -> None:
        self.logger = logger
        self.indices = indices
        self._kwargs: dict[str, Any] | None = None

    @property
    def kwargs(self) -> dict[str, Any]:
        if self._kwargs is None:
            self._kwargs = self._make_kwargs()
            if self.indices:
                self._kwargs.update(self.indices)
        return self._kwargs

    def _make_kwargs(self) -> dict[str, Any]:
        raise NotImplementedError


class ActivityCause(Cause):
    """Something happens to the operator as a whole."""

    __slots__ = ("activity", "memo", "settings")

    def __init__(
        self,
        *,
        activity: Activity,
        settings: OperatorSettings,
        logger: AnyLogger,
        memo: AnyMemo,
        indices: Mapping[str, Any],
    ) -> None:
        super().__init__(logger=logger, indices=indices)
        self.memo = memo
        self.activity = activity
        self.settings = settings

    def _make_kwargs(self) -> dict[str, Any]:
        return {
            "activity": self.activity,
            "settings": self.settings,
            "memo": self.memo,
            "logger": self.logger,
        }


class ResourceCause(Cause):
    """Something happens to one object of a resource."""

    __slots__ = ("body", "patch", "record", "resource", "settings")

    logger_type: ClassVar[type[ObjectLogger]] = ObjectLogger

    def __init__(
        self,
        *,
        resource: Resource,
        body: Body,
        patch: Patch,
        settings: OperatorSettings,
        record: Remembered,
        indices: Mapping[str, Any],
    ) -> None:
        # No call of the base class: causes are made for every event, and must be quick.
        self.logger = self.logger_type(body=body, settings=settings)
        self.record = record
        self.indices = indices
        self._kwargs = None
        self.resource = resource
        self.body = body
        self.patch = patch
        self.settings = settings

    @property
    def is_status_counted(self) -> bool:
        """Whether each change of the status makes a new generation of the object."""
        return "status" not in self.resource.subresources

    def _make_kwargs(self) -> dict[str, Any]:
        body = self.body
        meta = body.metadata
        uid, name, namespace = meta.identify()
        return {
            "logger": self.logger,
            "memo": self.record.memo,
            "resource": self.resource,
            "patch": self.patch,
            "body": body,
            "spec": body.spec,
            "meta": meta,
            "status": body.status,
            "uid": uid,
            "name": name,
            "namespace": namespace,
            "labels": meta.labels,
            "annotations": meta.annotations,
            "conditions": Conditions(body, self.patch, is_counted=self.is_status_counted),
        }


class WatchingCause(ResourceCause):
    """An event of the watch-stream, as it has come."""

    __slots__ = ("event", "type")

    logger_type = LocalObjectLogger

    def __init__(self, *, event: RawEvent, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.event = event
        self.type = event["type"]

    def _make_kwargs(self) -> dict[str, Any]:
        kwargs = super()._make_kwargs()
        kwargs["event"] = self.event
        kwargs["type"] = self.type
        return kwargs


class IndexingCause(ResourceCause):
    """The indices need the values of an object."""

    __slots__ = ()

    logger_type = LocalObjectLogger


class ChangingCause(ResourceCause):
    """A change of an object, compared to its last handled state.

    ``initial`` is true when the object is seen for the first time since the operator's start. Then
    Kopf calls the handlers of resuming besides the handlers of the change.
    """

    __slots__ = ("diff", "initial", "marks", "new", "old", "reason")

    def __init__(
        self,
        *,
        initial: bool,
        reason: Reason,
        diff: Diff,
        old: Any,
        new: Any,
        marks: Marks,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.initial = initial
        self.reason = reason
        self.diff = diff
        self.old = old
        self.new = new
        self.marks = marks
        """The framework's own changes of the object, apart from the handlers' patch."""

    def _make_kwargs(self) -> dict[str, Any]:
        kwargs = super()._make_kwargs()
        kwargs["reason"] = self.reason
        kwargs["diff"] = self.diff
        kwargs["old"] = self.old
        kwargs["new"] = self.new
        return kwargs


class SpawningCause(ResourceCause):
    """An object is checked for daemons and timers to be spawned or stopped."""

    __slots__ = ()


class DaemonCause(ResourceCause):
    """A daemon or a timer lives along with the object. The body is a live view."""

    __slots__ = ("stopper",)

    def __init__(self, *, stopper: AnyStopperChecker, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.stopper = stopper

    def _make_kwargs(self) -> dict[str, Any]:
        return super()._make_kwargs() | {"stopped": self.stopper}


class TimerCause(DaemonCause):
    """A timer is due. The body is a live view; ``scheduled`` is the moment of its schedule."""

    __slots__ = ("scheduled",)

    def __init__(self, *, scheduled: datetime.datetime | None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.scheduled = scheduled

    def _make_kwargs(self) -> dict[str, Any]:
        return super()._make_kwargs() | {"scheduled": self.scheduled}


class ReconcilingCause(ResourceCause):
    """A pass of a reconciler: it brings the wanted objects into the cluster."""

    __slots__ = ("children", "related", "triggers")

    def __init__(
        self,
        *,
        children: Mapping[str, Mapping[str, Any]],
        related: Mapping[str, Mapping[str, Any]],
        triggers: frozenset[Any],
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.children = children
        self.related = related
        self.triggers = triggers

    def _make_kwargs(self) -> dict[str, Any]:
        return super()._make_kwargs() | {
            "children": self.children,
            "related": self.related,
            "triggers": self.triggers,
        }
