"""Handlers: users' functions with everything that was declared about them."""

import dataclasses
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from kopf_cogs.structs.dicts import FieldPath, resolve
from kopf_cogs.structs.diffs import reduce
from kopf_cogs.structs.selectors import Selector
from kopf_core.actions.bases import BaseHandler
from kopf_core.intents.causes import Activity, Reason
from kopf_core.intents.crons import Cron
from kopf_core.intents.filters import MetaFilter, ValueFilter, WhenFn
from kopf_core.intents.views import Views


@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class ActivityHandler(BaseHandler):
    """Called for something that happens to the operator itself."""

    activity: Activity

    def __str__(self) -> str:
        return f"Activity {self.id!r}"


class SourceHandler(ActivityHandler):
    """``@kopf.on.external``: yields what happens outside of the cluster."""

    __slots__ = ()

    # It ends with every pause of the operator.
    success_level: ClassVar[int] = logging.DEBUG
    is_endless: ClassVar[bool] = True

    def __str__(self) -> str:
        return f"Source {self.id!r}"


@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class ResourceHandler(BaseHandler):
    """Called for the objects of the selected resources that match the filters."""

    selector: Selector | None = None
    """Sub-handlers have none: they follow their parents."""

    labels: MetaFilter | None = None
    annotations: MetaFilter | None = None
    when: WhenFn | None = None
    field: FieldPath | None = None
    value: ValueFilter = None
    views: Views | None = None
    """The arguments that are given as instances of models, if the function asks for any."""

    metadata_only: bool = False
    """Whether the metadata of objects is enough for it, as it is declared."""

    @property
    def has_filters(self) -> bool:
        """Whether it is interested in some of the objects only: e.g., in valid ones."""
        return bool(self.labels or self.annotations or self.field or self.when or self.views)

    @property
    def requires_patching(self) -> bool:
        """Whether the framework leaves its marks on the objects because of this handler."""
        return True

    def adjust_kwargs(self, kwargs: dict[str, Any]) -> None:
        if self.views is not None:
            kwargs.update(self.views.read(kwargs))


class WatchingHandler(ResourceHandler):
    """``@kopf.on.event``: called for every event, never retried."""

    __slots__ = ()

    @property
    def requires_patching(self) -> bool:
        return False


class IndexingHandler(ResourceHandler):
    """``@kopf.index``: computes what goes to the index named by the handler's id."""

    __slots__ = ()

    # It happens for every event of every object, and is of no interest on its own.
    success_level: ClassVar[int] = logging.DEBUG

    def __str__(self) -> str:
        return f"Indexer {self.id!r}"

    @property
    def requires_patching(self) -> bool:
        return False


@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class ChangingHandler(ResourceHandler):
    """``@kopf.on.create/update/delete/resume/field``: called for changes, retried until done."""

    reason: Reason | None = None
    """The only reason to be called for; ``None`` means any reason (resuming, fields)."""

    initial: bool = False
    """Called only for objects seen for the first time in this process (resuming)."""

    deleted: bool = False
    """For resuming: called even if the object is being deleted."""

    requires_finalizer: bool = False
    field_needs_change: bool = False
    """Called only if the field is affected by the change (updates and fields)."""

    old: ValueFilter = None
    new: ValueFilter = None

    scope: FieldPath | None = None
    """For sub-handlers: the field of their parents, which they see but are not filtered by."""

    unmatched: Exception | None = None
    """Why it is not known if it matches: its filters have failed, and so does each attempt."""

    @property
    def is_for_deletions(self) -> bool:
        """Whether it can be called when the object is being deleted."""
        return self.deleted if self.reason is None else self.reason is Reason.DELETE

    def adjust_kwargs(self, kwargs: dict[str, Any]) -> None:
        if self.unmatched is not None:
            raise self.unmatched
        views = None if self.views is None else self.views.read(kwargs)
        field = self.field or self.scope
        if field and "diff" in kwargs:
            kwargs["old"] = resolve(kwargs["old"], field, None)
            kwargs["new"] = resolve(kwargs["new"], field, None)
            kwargs["diff"] = reduce(kwargs["diff"], field)
        if views:
            kwargs.update(views)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class SpawningHandler(ResourceHandler):
    """Runs in background for as long as the object exists and matches."""

    initial_delay: float | Callable[..., float] | None = None
    requires_finalizer: bool = True


@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class DaemonHandler(SpawningHandler):
    """``@kopf.daemon``: a long-running function for every object."""

    is_endless: ClassVar[bool] = True

    cancellation_backoff: float | None = None
    cancellation_timeout: float | None = None
    cancellation_polling: float | None = None

    def __str__(self) -> str:
        return f"Daemon {self.id!r}"


@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class TimerHandler(SpawningHandler):
    """``@kopf.timer``: a function called for every object by schedule."""

    interval: float | None = None
    sharp: bool | None = None
    idle: float | None = None
    cron: Cron | None = None

    # It happens all the time; what is worth telling is told by the function itself.
    success_level: ClassVar[int] = logging.DEBUG

    def __str__(self) -> str:
        return f"Timer {self.id!r}"


@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class ReconcilingHandler(ResourceHandler):
    """``@kopf.reconcile``: yields the objects that must exist; called until they do."""

    # It happens all the time; what is worth telling are the objects that were applied.
    success_level: ClassVar[int] = logging.DEBUG

    owns: tuple[Selector, ...] = ()
    """The kinds of objects that it makes."""

    related: Mapping[Selector, FieldPath | str | Callable[..., Any]] = dataclasses.field(
        default_factory=dict
    )
    """The kinds of objects that it depends on: by a field, by an index, or by a function."""

    every: float | None = None
    limit: int | None = None
    cooldown: float | None = None
    prune: bool = True
    force: bool = True

    @property
    def status_field(self) -> FieldPath | None:
        """The field of the status whose changes are a reason for a pass, if it is declared so."""
        return self.field if self.field and self.field[0] == "status" else None

    def __str__(self) -> str:
        return f"Reconciler {self.id!r}"
