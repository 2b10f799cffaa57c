"""Registries: all handlers of an operator, and the handlers of one resource.

Handlers are selected once for every resource, when the resource is discovered. The events of its
objects concern only these few handlers.
"""

import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from kopf_cogs.configs.forms import WHOLE, Form
from kopf_cogs.structs.dicts import FieldPath
from kopf_cogs.structs.ids import HandlerId
from kopf_cogs.structs.models import Problem
from kopf_cogs.structs.resources import Resource
from kopf_cogs.structs.selectors import Selector
from kopf_core.actions.bases import BaseHandler
from kopf_core.intents.causes import Activity, ChangingCause, Reason, ResourceCause
from kopf_core.intents.conversions import ConversionHandler
from kopf_core.intents.handlers import (
    ActivityHandler,
    ChangingHandler,
    IndexingHandler,
    ReconcilingHandler,
    ResourceHandler,
    SpawningHandler,
    WatchingHandler,
)
from kopf_core.intents.matching import FilterError, may_be_interested, prematches, select
from kopf_core.intents.views import InvalidObjectError

H = TypeVar("H", bound=ResourceHandler)

_FORMER_PARTS = frozenset({"_indexing", "_watching", "_spawning", "_changing", "_webhooks"})


class OperatorRegistry:
    """All handlers of an operator, in the order of their registration.

    Usually, a process has one: the default one, where decorators put the handlers. Several
    operators in one process need several registries.
    """

    def __init__(self) -> None:
        self._activities: list[ActivityHandler] = []
        self._resources: list[ResourceHandler] = []
        self._conversions: list[ConversionHandler] = []

    def __getattr__(self, name: str) -> "OperatorRegistry":
        """Stand in for the parts of the registry of kopf 1.45 to which handlers were appended."""
        if name not in _FORMER_PARTS:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        warnings.warn(
            f"OperatorRegistry.{name} was never public; append handlers to the registry itself.",
            DeprecationWarning,
            stacklevel=2,
        )
        return self

    def append(self, handler: BaseHandler) -> None:
        """Add a handler of any kind."""
        if isinstance(handler, ActivityHandler):
            self._activities.append(handler)
        elif isinstance(handler, ResourceHandler):
            self._resources.append(handler)
        elif isinstance(handler, ConversionHandler):
            self._conversions.append(handler)
        else:
            raise TypeError(f"Handlers of this kind cannot be registered: {handler!r}")

    def get_activity_handlers(self, activity: Activity) -> list[ActivityHandler]:
        return deduplicate(handler for handler in self._activities if handler.activity == activity)

    def narrow(self, activities: Collection[Activity]) -> "OperatorRegistry":
        """Another registry with the same handlers, but only with these activities."""
        mine = OperatorRegistry()
        mine._activities = [one for one in self._activities if one.activity in activities]
        mine._resources, mine._conversions = [*self._resources], [*self._conversions]
        return mine

    @property
    def handlers(self) -> Collection[BaseHandler]:
        """All handlers of all kinds."""
        return (*self._activities, *self._resources)

    @property
    def resource_handlers(self) -> Collection[ResourceHandler]:
        return tuple(self._resources)

    @property
    def conversions(self) -> Collection[ConversionHandler]:
        """The functions for conversions between the versions of kinds."""
        return tuple(self._conversions)

    @property
    def reconcilers(self) -> Collection[ReconcilingHandler]:
        return tuple(h for h in self._resources if isinstance(h, ReconcilingHandler))

    @property
    def index_ids(self) -> Collection[str]:
        return {str(h.id) for h in self._resources if isinstance(h, IndexingHandler)}

    @property
    def selectors(self) -> Collection[Selector]:
        """All distinct selectors of resources used by the handlers."""
        return {
            *(handler.selector for handler in self._resources if handler.selector is not None),
            *self.observed_selectors,
        }

    @property
    def observed_selectors(self) -> Collection[Selector]:
        """The selectors of kinds with reconcilers, owned, or related: Kopf keeps their states."""
        found = {s for h in self.reconcilers for s in (h.selector, *h.owns, *h.related)}
        return {selector for selector in found if selector is not None}

    @property
    def related_names(self) -> Collection[str]:
        """The words by which reconcilers relate to objects: names of indices, or fields."""
        return {s for h in self.reconcilers for s in h.related.values() if isinstance(s, str)}

    def get_resource_handlers(
        self,
        resource: Resource,
        is_selected: Callable[[Selector], bool] | None = None,
    ) -> "ResourceHandlers":
        """Select the handlers of one resource.

        ``is_selected`` checks selectors among all resources of the cluster (e.g. preferred
        versions). By default, each selector decides alone.
        """
        check = is_selected if is_selected is not None else (lambda s: s.check(resource))
        handlers = [h for h in self._resources if h.selector is not None and check(h.selector)]
        return ResourceHandlers(
            indexing=tuple(h for h in handlers if isinstance(h, IndexingHandler)),
            watching=tuple(h for h in handlers if isinstance(h, WatchingHandler)),
            spawning=tuple(h for h in handlers if isinstance(h, SpawningHandler)),
            changing=tuple(h for h in handlers if isinstance(h, ChangingHandler)),
            reconciling=tuple(h for h in handlers if isinstance(h, ReconcilingHandler)),
        )


@dataclass(frozen=True, slots=True)
class ResourceHandlers:
    """The handlers of one resource, sorted by their kind."""

    indexing: tuple[IndexingHandler, ...] = ()
    watching: tuple[WatchingHandler, ...] = ()
    spawning: tuple[SpawningHandler, ...] = ()
    changing: tuple[ChangingHandler, ...] = ()
    reconciling: tuple[ReconcilingHandler, ...] = ()
    form: Form = WHOLE
    """The form in which the handlers get the objects."""

    shared_ids: frozenset[HandlerId] = field(init=False, compare=False)
    """The ids of reconcilers under which the progress of change handlers is stored, too."""

    is_unambiguous: bool = field(init=False, compare=False)
    """Whether all change handlers have different stored ids, so there can be no duplicates."""

    is_unfiltered: bool = field(init=False, compare=False)
    """Whether some change handlers are interested in all objects, so that filters need no check."""

    seeing_all: Sequence[WatchingHandler] | None = field(init=False, compare=False)
    """The handlers of events, if all of them are interested in all objects."""

    blocking: Sequence[ChangingHandler | SpawningHandler] = field(init=False, compare=False)
    """The handlers that must see the deletion."""

    viewing: Sequence[ResourceHandler] = field(init=False, compare=False)
    """The handlers with models, for which objects can be invalid."""

    deleting: tuple[ChangingHandler, ...] = field(init=False, compare=False)
    """The change handlers that can be called for deletions; handlers of fields cannot."""

    def __post_init__(self) -> None:
        finalizable: Sequence[ChangingHandler | SpawningHandler] = (*self.changing, *self.spawning)
        unique = {get_stored_id(handler) for handler in self.changing}
        shared = frozenset(h.id for h in self.reconciling if get_stored_id(h) in unique)
        is_filtering = any(handler.has_filters for handler in self.watching)
        set_field = partial(object.__setattr__, self)
        set_field("shared_ids", shared)
        set_field("is_unambiguous", len(unique) == len(self.changing))
        set_field("is_unfiltered", not all(handler.has_filters for handler in self.changing))
        set_field("blocking", tuple(h for h in finalizable if h.requires_finalizer))
        everybody = (*finalizable, *self.watching, *self.reconciling)
        set_field("viewing", tuple(handler for handler in everybody if handler.views))
        set_field("deleting", tuple(h for h in self.changing if h.is_for_deletions))
        set_field("seeing_all", None if is_filtering else deduplicate(self.watching))

    def __bool__(self) -> bool:
        return bool(self.indexing or self.watching or self.requires_patching)

    @property
    def all(self) -> Sequence[ResourceHandler]:
        """The handlers of all kinds."""
        quiet = (*self.indexing, *self.watching)
        return (*quiet, *self.spawning, *self.changing, *self.reconciling)

    @property
    def requires_patching(self) -> bool:
        return bool(self.spawning or self.changing or self.reconciling)

    @property
    def extra_fields(self) -> frozenset[FieldPath]:
        """The fields to be tracked for changes even if they are not essential."""
        return frozenset(h.field for h in self.changing if h.field)

    def select_watching(self, cause: ResourceCause) -> Sequence[WatchingHandler]:
        return _select(self.watching, cause) if self.seeing_all is None else self.seeing_all

    def select_spawning(
        self,
        cause: ResourceCause,
        running: Collection[HandlerId] = (),
    ) -> list[SpawningHandler]:
        return deduplicate(select(self.spawning, cause, running=running))

    def select_changing(self, cause: ChangingCause) -> list[ChangingHandler]:
        handlers = self.deleting if cause.reason is Reason.DELETE else self.changing
        return select(handlers, cause) if self.is_unambiguous else _select(handlers, cause)

    def is_interested(self, cause: ChangingCause) -> bool:
        """Whether any change handler can ever be called for the object in its current state."""
        return self.is_unfiltered or any(may_be_interested(h, cause) for h in self.changing)

    def find_problems(self, cause: ResourceCause) -> list[Problem]:
        """Find out why the object is invalid for its interested handlers."""
        problems: list[Problem] = []
        for handler in self.viewing:
            try:
                prematches(handler, cause)
            except InvalidObjectError as e:
                problems.extend(e.problems)
            except FilterError:
                pass  # failing filters are logged when the handler is called
        return problems

    def requires_finalizer(
        self,
        cause: ResourceCause,
        finished: Collection[HandlerId] = (),
    ) -> bool:
        """Whether the object must not vanish before its deletion is handled.

        The ``finished`` daemons and timers never run for the object anymore.
        """
        return any(
            (h.id not in finished or isinstance(h, ChangingHandler)) and may_be_interested(h, cause)
            for h in self.blocking
        )


def _select(handlers: tuple[H, ...], cause: ResourceCause) -> list[H]:
    selected = select(handlers, cause)
    return selected if len(selected) <= 1 else deduplicate(selected)


HH = TypeVar("HH", bound=BaseHandler)


def deduplicate(handlers: Iterable[HH]) -> list[HH]:
    """Keep only the first one of the handlers with the same function and the same id."""
    unique: dict[Any, HH] = {}
    for handler in handlers:
        unique.setdefault((identify_fn(handler.fn), handler.id), handler)
    return list(unique.values())


def find_clashes(handlers: Iterable[HH]) -> Iterator[tuple[HH, HH]]:
    """Find the pairs of handlers with different functions, but with the same stored id."""
    seen: dict[Any, HH] = {}
    for handler in handlers:
        other = seen.setdefault(get_stored_id(handler), handler)
        if identify_fn(other.fn) != identify_fn(handler.fn):
            yield other, handler


def get_stored_id(handler: BaseHandler) -> str:
    """The id as in annotations: handlers with the same stored id cannot be told apart."""
    return handler.id.replace("/", ".")


def identify_fn(fn: Any) -> Any:
    """The identity of the function: bound methods are made anew on every access."""
    bound = getattr(fn, "__self__", None)
    inner = getattr(fn, "__func__", None)
    return (id(bound), id(inner)) if inner is not None else id(fn)


class DefaultRegistry:
    """The registry of the whole process, for decorators and operators without another one."""

    def __init__(self) -> None:
        self.current: OperatorRegistry | None = None

    def get(self) -> OperatorRegistry:
        if self.current is None:
            self.current = OperatorRegistry()
        return self.current


_default = DefaultRegistry()


def get_default_registry() -> OperatorRegistry:
    """The registry of decorators and operators that have no other one."""
    return _default.get()


def set_default_registry(registry: OperatorRegistry) -> None:
    """Replace the default registry of this process."""
    _default.current = registry
