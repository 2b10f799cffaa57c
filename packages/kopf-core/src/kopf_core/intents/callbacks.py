"""The functions of users, as type checkers see them: a protocol for each kind of handlers.

A function fits if it takes any part of these arguments by their names, and the others with
``**kwargs`` (or ``**_``). Functions without these arguments, and arguments without annotations,
always fit. The types are for usual cases. For example, cluster-scoped objects have no
namespace, but it is ``str`` here, so that both ``str`` and ``str | None``
fit.

``cluster`` is given only if the operator serves several clusters.

All other arguments are indices, by their names. Values that depend on the users' own types or
options (memos, params, values of fields) can be annotated with anything. So can ``body``, ``spec``,
``status``: with :class:`kopf.Spec` and the like, or with the users' own models.
"""

import datetime
from collections.abc import AsyncIterator, Callable
from typing import Any, Protocol, TypeVar

from kopf_cogs.configs.settings import OperatorSettings
from kopf_cogs.structs.bodies import Annotations, Labels, Meta, RawEvent
from kopf_cogs.structs.diffs import Diff
from kopf_cogs.structs.patches import Patch
from kopf_cogs.structs.resources import Resource
from kopf_cogs.structs.reviews import Headers, SSLPeer, UserInfo
from kopf_core.actions.conditions import Conditions
from kopf_core.actions.happenings import Happening
from kopf_core.intents.causes import Activity, Reason
from kopf_core.intents.families import Family
from kopf_core.intents.filters import ValueFn as MetaFilterFn
from kopf_core.intents.filters import WhenFn as WhenFilterFn
from kopf_core.intents.indices import Index

__all__ = [
    "ActivityFn",
    "AdmissionFn",
    "ChangingFn",
    "DaemonFn",
    "DelayFn",
    "IndexingFn",
    "MetaFilterFn",
    "ReconcilingFn",
    "TimerFn",
    "WatchingFn",
    "WhenFilterFn",
]

DelayFn = Callable[..., float]
"""A function that chooses the initial delay by all keyword arguments of the handler."""


class ActivityFn(Protocol):
    """A handler of the operator's own life: ``@kopf.on.startup`` and the like."""

    def __call__(
        self,
        *,
        activity: Activity,
        settings: OperatorSettings,
        retry: int,
        started: datetime.datetime,
        runtime: datetime.timedelta,
        dryrun: bool,
        logger: Any,
        memo: Any,
        cluster: str,
        param: Any,
        **indices: Index[Any, Any],
    ) -> Any: ...


class SourceFn(Protocol):
    """An asynchronous generator of external happenings: ``@kopf.on.external``."""

    def __call__(
        self,
        *,
        activity: Activity,
        settings: OperatorSettings,
        retry: int,
        started: datetime.datetime,
        runtime: datetime.timedelta,
        dryrun: bool,
        logger: Any,
        memo: Any,
        cluster: str,
        param: Any,
        **indices: Index[Any, Any],
    ) -> AsyncIterator[Happening]: ...


class WatchingFn(Protocol):
    """A handler of low-level events: ``@kopf.on.event``."""

    def __call__(
        self,
        *,
        type: Any,
        event: RawEvent,
        retry: int,
        started: datetime.datetime,
        runtime: datetime.timedelta,
        dryrun: bool,
        annotations: Annotations,
        labels: Labels,
        body: Any,
        meta: Meta,
        spec: Any,
        status: Any,
        resource: Resource,
        uid: str,
        name: str,
        namespace: str,
        patch: Patch,
        conditions: Conditions,
        logger: Any,
        memo: Any,
        cluster: str,
        param: Any,
        **indices: Index[Any, Any],
    ) -> Any: ...


class ChangingFn(Protocol):
    """A handler of changes: ``@kopf.on.create/update/delete/resume/field``, and sub-handlers."""

    def __call__(
        self,
        *,
        reason: Reason,
        diff: Diff,
        old: Any,
        new: Any,
        retry: int,
        started: datetime.datetime,
        runtime: datetime.timedelta,
        dryrun: bool,
        annotations: Annotations,
        labels: Labels,
        body: Any,
        meta: Meta,
        spec: Any,
        status: Any,
        resource: Resource,
        uid: str,
        name: str,
        namespace: str,
        patch: Patch,
        conditions: Conditions,
        logger: Any,
        memo: Any,
        cluster: str,
        param: Any,
        **indices: Index[Any, Any],
    ) -> Any: ...


class AdmissionFn(Protocol):
    """A handler of requests to the API: ``@kopf.on.validate``, ``@kopf.on.mutate``."""

    def __call__(
        self,
        *,
        operation: Any,
        subresource: Any,
        userinfo: UserInfo,
        headers: Headers,
        sslpeer: SSLPeer,
        warnings: list[str],
        diff: Diff,
        old: Any,
        new: Any,
        retry: int,
        started: datetime.datetime,
        runtime: datetime.timedelta,
        dryrun: bool,
        annotations: Annotations,
        labels: Labels,
        body: Any,
        meta: Meta,
        spec: Any,
        status: Any,
        resource: Resource,
        uid: Any,
        name: Any,
        namespace: str,
        patch: Patch,
        conditions: Conditions,
        logger: Any,
        memo: Any,
        cluster: str,
        param: Any,
        **indices: Index[Any, Any],
    ) -> Any: ...


class IndexingFn(Protocol):
    """A function of an index: ``@kopf.index``. The result goes into the index."""

    def __call__(
        self,
        *,
        retry: int,
        started: datetime.datetime,
        runtime: datetime.timedelta,
        dryrun: bool,
        annotations: Annotations,
        labels: Labels,
        body: Any,
        meta: Meta,
        spec: Any,
        status: Any,
        resource: Resource,
        uid: str,
        name: str,
        namespace: str,
        patch: Patch,
        conditions: Conditions,
        logger: Any,
        memo: Any,
        cluster: str,
        param: Any,
        **indices: Index[Any, Any],
    ) -> Any: ...


class ReconcilingFn(Protocol):
    """A reconciler: ``@kopf.reconcile``. A function, or a generator, of the wanted objects."""

    def __call__(
        self,
        *,
        children: Family,
        related: Family,
        triggers: frozenset[Any],
        retry: int,
        started: datetime.datetime,
        runtime: datetime.timedelta,
        dryrun: bool,
        annotations: Annotations,
        labels: Labels,
        body: Any,
        meta: Meta,
        spec: Any,
        status: Any,
        resource: Resource,
        uid: str,
        name: str,
        namespace: str,
        patch: Patch,
        conditions: Conditions,
        logger: Any,
        memo: Any,
        cluster: str,
        param: Any,
        **indices: Index[Any, Any],
    ) -> Any: ...


class TimerFn(Protocol):
    """A timer: ``@kopf.timer``. The body and its parts are live, but only between the calls.

    ``scheduled`` is the planned moment of the call, if the timer has a schedule.
    """

    def __call__(
        self,
        *,
        scheduled: datetime.datetime | None,
        stopped: Any,
        retry: int,
        started: datetime.datetime,
        runtime: datetime.timedelta,
        dryrun: bool,
        annotations: Annotations,
        labels: Labels,
        body: Any,
        meta: Meta,
        spec: Any,
        status: Any,
        resource: Resource,
        uid: str,
        name: str,
        namespace: str,
        patch: Patch,
        conditions: Conditions,
        logger: Any,
        memo: Any,
        cluster: str,
        param: Any,
        **indices: Index[Any, Any],
    ) -> Any: ...


class DaemonFn(Protocol):
    """A daemon: ``@kopf.daemon``. The body and its parts are live.

    ``stopped`` is :class:`kopf.SyncDaemonStopperChecker` in usual functions, and
    :class:`kopf.AsyncDaemonStopperChecker` in async ones. :class:`kopf.DaemonStopped` fits both.
    """

    def __call__(
        self,
        *,
        stopped: Any,
        retry: int,
        started: datetime.datetime,
        runtime: datetime.timedelta,
        dryrun: bool,
        annotations: Annotations,
        labels: Labels,
        body: Any,
        meta: Meta,
        spec: Any,
        status: Any,
        resource: Resource,
        uid: str,
        name: str,
        namespace: str,
        patch: Patch,
        conditions: Conditions,
        logger: Any,
        memo: Any,
        cluster: str,
        param: Any,
        **indices: Index[Any, Any],
    ) -> Any: ...


ActivityF = TypeVar("ActivityF", bound=ActivityFn)
AdmissionF = TypeVar("AdmissionF", bound=AdmissionFn)
ChangingF = TypeVar("ChangingF", bound=ChangingFn)
DaemonF = TypeVar("DaemonF", bound=DaemonFn)
IndexingF = TypeVar("IndexingF", bound=IndexingFn)
ReconcilingF = TypeVar("ReconcilingF", bound=ReconcilingFn)
SourceF = TypeVar("SourceF", bound=SourceFn)
TimerF = TypeVar("TimerF", bound=TimerFn)
WatchingF = TypeVar("WatchingF", bound=WatchingFn)


# The decorators register a function as a handler, and return it unchanged.


class ActivityDecorator(Protocol):
    def __call__(self, fn: ActivityF, /) -> ActivityF: ...


class AdmissionDecorator(Protocol):
    def __call__(self, fn: AdmissionF, /) -> AdmissionF: ...


class ChangingDecorator(Protocol):
    def __call__(self, fn: ChangingF, /) -> ChangingF: ...


class DaemonDecorator(Protocol):
    def __call__(self, fn: DaemonF, /) -> DaemonF: ...


class IndexingDecorator(Protocol):
    def __call__(self, fn: IndexingF, /) -> IndexingF: ...


class ReconcilingDecorator(Protocol):
    def __call__(self, fn: ReconcilingF, /) -> ReconcilingF: ...


class SourceDecorator(Protocol):
    def __call__(self, fn: SourceF, /) -> SourceF: ...


class TimerDecorator(Protocol):
    def __call__(self, fn: TimerF, /) -> TimerF: ...


class WatchingDecorator(Protocol):
    def __call__(self, fn: WatchingF, /) -> WatchingF: ...
