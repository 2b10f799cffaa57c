"""Joint snapshots: several processes or clusters of an operator, as if they were one."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from kopf_core.engines.serving.snapshots import (
    AttemptSnapshot,
    BackgroundSnapshot,
    ClusterSnapshot,
    ErrorSnapshot,
    PausedSnapshot,
    ProcessSnapshot,
    QueueSnapshot,
    RetrySnapshot,
    RowSnapshot,
    Snapshot,
    StreamSnapshot,
    WebhookSnapshot,
)

_TABLES: Mapping[str, type[Any]] = {
    "streams": StreamSnapshot,
    "queues": QueueSnapshot,
    "retries": RetrySnapshot,
    "attempts": AttemptSnapshot,
    "paused": PausedSnapshot,
    "background": BackgroundSnapshot,
    "webhooks": WebhookSnapshot,
    "errors": ErrorSnapshot,
}
"""The fields that have rows of tables."""

_TEXTS = "unready", "problems"
_SUMS = "pending_retries", "long_attempts", "paused_objects", "posted_events", "dropped_events"
_PEAKS = "uptime", "time", "loop_lag"


def parse_snapshot(data: Mapping[str, Any]) -> Snapshot:
    """The snapshot of one process out of its JSON."""
    tables = {key: tuple(row(**one) for one in data[key]) for key, row in _TABLES.items()}
    texts = {key: tuple(data[key]) for key in _TEXTS}
    return Snapshot(**{**data, **tables, **texts})


def join_snapshots(snapshots: Mapping[int, Snapshot], absent: Collection[str] = ()) -> Snapshot:
    """Join the snapshots of the processes by their numbers; at least of one process.

    Rows of tables get the number of their process. ``absent`` says which processes are missing.
    """
    joint = _join(snapshots, "process")
    joint["unready"] += tuple(absent)
    ones = snapshots.values()
    return replace(
        next(iter(ones)),
        indices=_join_indices(ones, max),  # each process indexes all objects; some can be late
        processes=tuple(_summarize(number, one) for number, one in snapshots.items()),
        shards=None,
        **joint,
    )


def join_clusters(empty: Snapshot, snapshots: Mapping[str, Snapshot | None]) -> Snapshot:
    """Join the snapshots of the clusters by their names.

    Rows of tables get the name of their cluster. Clusters that are not served yet have no snapshot.
    ``empty`` is the snapshot for no clusters at all.
    """
    known = {name: one for name, one in snapshots.items() if one is not None}
    clusters = tuple(_summarize_cluster(name, one) for name, one in snapshots.items())
    if not known:
        joint: dict[str, Any] = {}
    else:
        joint = {**_join(known, "cluster"), "uptime": empty.uptime}
        joint["indices"] = _join_indices(known.values(), sum)
    absent = tuple(f"cluster {name}: not served" for name in snapshots if name not in known)
    unready = (*joint.pop("unready", ()), *absent)
    return replace(empty, clusters=clusters, unready=unready, **joint)


def _join(snapshots: Mapping[Any, Snapshot], label: str) -> dict[str, Any]:
    ones = snapshots.values()
    joint: dict[str, Any] = {key: tuple(_join_rows(snapshots, key, label)) for key in _TABLES}
    joint |= {key: tuple(_join_texts(snapshots, key, label)) for key in _TEXTS}
    joint |= {key: sum(getattr(one, key) for one in ones) for key in _SUMS}
    joint |= {key: max(getattr(one, key) for one in ones) for key in _PEAKS}
    joint["errors"] = tuple(sorted(joint["errors"], key=lambda row: row.time, reverse=True))
    times = [one.cut_off for one in ones if one.cut_off is not None]
    joint["cut_off"] = min(times) if len(times) == len(ones) else None
    return {**joint, "is_paused": all(one.is_paused for one in ones)}


def _join_rows(snapshots: Mapping[Any, Snapshot], key: str, label: str) -> Iterator[RowSnapshot]:
    for name, snapshot in snapshots.items():
        for row in getattr(snapshot, key):
            yield replace(row, **{label: name})


def _join_texts(snapshots: Mapping[Any, Snapshot], key: str, label: str) -> Iterator[str]:
    for name, snapshot in snapshots.items():
        for text in getattr(snapshot, key):
            yield f"{label} {name}: {text}"


def _join_indices(
    snapshots: Collection[Snapshot], join: Callable[[Iterable[int]], int]
) -> dict[str, int]:
    names = dict.fromkeys(name for one in snapshots for name in one.indices)
    return {name: join(one.indices.get(name, 0) for one in snapshots) for name in names}


def _summarize(number: int, snapshot: Snapshot) -> ProcessSnapshot:
    return ProcessSnapshot(
        process=number,
        uptime=snapshot.uptime,
        loop_lag=snapshot.loop_lag,
        shards=snapshot.shards,
    )


def _summarize_cluster(name: str, snapshot: Snapshot | None) -> ClusterSnapshot:
    return ClusterSnapshot(
        cluster=name,
        uptime=None if snapshot is None else snapshot.uptime,
        is_ready=snapshot is not None and not (snapshot.unready or snapshot.problems),
        is_paused=snapshot is not None and snapshot.is_paused,
        cut_off=None if snapshot is None else snapshot.cut_off,
        lease=None if snapshot is None else snapshot.lease,
        shards=None if snapshot is None else snapshot.shards,
        objects=0 if snapshot is None else sum(stream.objects for stream in snapshot.streams),
    )
