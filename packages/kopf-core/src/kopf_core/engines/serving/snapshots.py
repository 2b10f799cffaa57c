"""Snapshots: the work of the operator at a moment, as plain data. It is the stable JSON, too.

Names of objects are only in the lists of a limited length. All times are in seconds.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

NOT_SHOWN = "not shown, as it is of a Secret: see the log"
"""In place of messages which can have the values of Secrets in them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSnapshot:
    """One line of any table."""

    process: int | None = None
    """The number of the process, if there are several: from 1."""

    cluster: str | None = None
    """The name of the cluster, if there are several."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSnapshot(RowSnapshot):
    """One watch-stream: of one kind, in one namespace or in all of them."""

    resource: str
    namespace: str | None
    objects: int
    """How many objects there are."""

    is_listed: bool
    """Whether all the objects that existed initially are known."""

    age: float
    """For how long there were no signs of life."""

    connects: int
    """How many times the changes were requested: streams end regularly, it is normal."""

    lists: int
    """How many times everything was listed: more than once means that changes were lost."""

    events: int
    """How many changes have come."""

    problem: str | None = None
    """Why nothing can come now, e.g. the API is out of reach."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSnapshot(RowSnapshot):
    """The objects of one watch-stream that have something to be done for, by what they wait for."""

    resource: str
    namespace: str | None
    queued: int
    """They wait for a free worker."""

    working: int
    """They are being worked on."""

    delayed: int
    """They wait for their time, or for our own patch to come back."""

    held: int
    """They are throttled after errors of the framework or of the API."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrySnapshot(RowSnapshot):
    """One handler of one object that has failed or waits, and is going to be called again."""

    resource: str
    namespace: str | None
    name: str
    handler: str
    retries: int
    """How many attempts there were; 0 if it waits for something else, and was not even tried."""

    delayed: str | None
    """The time of the next attempt, in ISO-8601."""

    message: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptSnapshot(RowSnapshot):
    """One attempt that works for a minute already. Activities have no object."""

    resource: str | None
    namespace: str | None
    name: str | None
    handler: str
    age: float
    """For how long it works, within a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PausedSnapshot(RowSnapshot):
    """One object that is left alone, as people ask."""

    resource: str
    namespace: str | None
    name: str
    reason: str
    """As it is written on the object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackgroundSnapshot(RowSnapshot):
    """One daemon or timer of all objects."""

    handler: str
    kind: str
    """Either ``daemon`` or ``timer``."""

    working: int
    waiting: int
    stopping: int
    orphaned: int
    """The ones that did not stop when Kopf asked, and that Kopf does not wait for anymore."""

    lag: float
    """By how much the most late of those waiting is late."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookSnapshot(RowSnapshot):
    """One webhook, as it was used since the start."""

    handler: str
    kind: str
    """Either ``validating`` or ``mutating``."""

    working: int
    """How many reviews are in work."""

    reviews: int
    """How many are over, the denied ones included."""

    denied: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorSnapshot(RowSnapshot):
    """One of the latest messages in the logs with the level of errors."""

    time: str
    logger: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseSnapshot:
    """The leader, if the operators choose one."""

    is_leading: bool
    holder: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSnapshot(RowSnapshot):
    """One of several processes as a whole."""

    uptime: float
    loop_lag: float
    shards: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSnapshot(RowSnapshot):
    """One of several clusters as a whole."""

    uptime: float | None
    """For how long it is served, if it is."""

    is_ready: bool
    is_paused: bool
    cut_off: float | None
    lease: LeaseSnapshot | None
    shards: int | None
    objects: int
    """How many objects are watched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Everything of one operator."""

    version: str
    uptime: float
    time: str
    unready: tuple[str, ...]
    """The parts that are not ready yet; one phrase each."""

    problems: tuple[str, ...]
    """Why the operator does not work though it should: the same that the liveness probe tells."""

    is_paused: bool
    cut_off: float | None = None
    """For how many seconds no stream shows signs of life, if all of them have problems."""

    loop_lag: float = 0.0
    """By how much the latest timer of the event loop was late."""

    lease: LeaseSnapshot | None = None
    shards: int | None = None
    """How many shards this process has, if other processes have the others."""

    processes: tuple[ProcessSnapshot, ...] = ()
    clusters: tuple[ClusterSnapshot, ...] = ()
    streams: tuple[StreamSnapshot, ...] = ()
    queues: tuple[QueueSnapshot, ...] = ()
    retries: tuple[RetrySnapshot, ...] = ()
    """Not all of them, if there are many."""

    pending_retries: int = 0
    """How many objects wait for another attempt."""

    attempts: tuple[AttemptSnapshot, ...] = ()
    """Not all of them, if there are many: the longest ones."""

    long_attempts: int = 0
    """How many attempts work for a minute already."""

    paused: tuple[PausedSnapshot, ...] = ()
    """Not all of them, if there are many."""

    paused_objects: int = 0
    """How many objects are paused by people, one by one."""

    background: tuple[BackgroundSnapshot, ...] = ()
    webhooks: tuple[WebhookSnapshot, ...] = ()
    indices: dict[str, int] = field(default_factory=dict)
    """How many keys there are in each index."""

    posted_events: int = 0
    dropped_events: int = 0
    errors: tuple[ErrorSnapshot, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Make the JSON, without the fields for several processes or clusters, if there is one."""
        return asdict(self, dict_factory=_select_fields)


_OPTIONAL = {"process": None, "processes": (), "cluster": None, "clusters": (), "shards": None}


def _select_fields(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    return {key: value for key, value in pairs if _OPTIONAL.get(key, ...) != value}


class StatusSource(Protocol):
    """The part that knows the work of the operator."""

    def take(self) -> Snapshot:
        """Take the snapshot; it can be of a second ago."""

    def look(self) -> None:
        """Note the facts that can only be noted regularly. The pulse calls this every second."""

    def find_unready(self) -> Iterable[str]:
        """The parts of the operator that are not ready now, with no texts of errors."""
