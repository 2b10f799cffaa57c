"""Handlers: the functions of users with all their declared options."""

import dataclasses
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from kopf_cogs.configs.checks import UnknownSettingError
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
    """Called at a moment in the operator's own life."""

    # Handlers of objects are retried: a repaired operator must find their work undone.
    final_errors = (*BaseHandler.final_errors, UnknownSettingError)

    activity: Activity

    def __str__(self) -> str:
        return f"Activity {self.id!r}"


class SourceHandler(ActivityHandler):
    """``@kopf.on.external``: yields the happenings outside of the cluster."""

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
    """The selector of resources. Sub-handlers have none: they follow their parents."""

    labels: MetaFilter | None = None
    annotations: MetaFilter | None = None
    when: WhenFn | None = None
    field: FieldPath | None = None
    value: ValueFilter = None
    views: Views | None = None
    """The arguments that the function gets as instances of models, if it asks for any."""

    metadata_only: bool = False
    """Whether the metadata of objects is enough for it, as declared."""

    @property
    def has_filters(self) -> bool:
        """Whether it is interested in a part of the objects only, e.g. in valid ones."""
        return bool(self.labels or self.annotations or self.field or self.when or self.views)

    @property
    def requires_patching(self) -> bool:
        """Whether the framework leaves its marks on objects because of this handler."""
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
    """``@kopf.index``: computes the values for the index with the handler's id."""

    __slots__ = ()

    # It runs for every event of every object: such lines would only flood the log.
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
    """The only reason of its calls; ``None`` means any reason (resuming, fields)."""

    initial: bool = False
    """Whether it is called only for objects seen for the first time in this process (resuming)."""

    deleted: bool = False
    """For resuming: whether it is called even if the object is being deleted."""

    requires_finalizer: bool = False
    field_needs_change: bool = False
    """Whether it is called only if the change affects the field (updates and fields)."""

    old: ValueFilter = None
    new: ValueFilter = None

    scope: FieldPath | None = None
    """For sub-handlers: the field of their parents, which they see, but which does not filter
    them.
    """

    unmatched: Exception | None = None
    """The error of its filters: it is unknown whether the handler matches, so attempts fail."""

    @property
    def is_for_deletions(self) -> bool:
        """Whether it can be called while the object is being deleted."""
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
    """``@kopf.timer``: a function called for every object by a schedule."""

    interval: float | None = None
    sharp: bool | None = None
    idle: float | None = None
    cron: Cron | None = None

    # It runs all the time: the function itself logs its important news.
    success_level: ClassVar[int] = logging.DEBUG

    def __str__(self) -> str:
        return f"Timer {self.id!r}"


@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class ReconcilingHandler(ResourceHandler):
    """``@kopf.reconcile``: yields the objects that must exist; called until they do."""

    # It runs all the time: the applied objects are logged instead.
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
