"""Joint snapshots: the work of several processes of one operator, as if they were one."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

from kopf_core.engines.serving.snapshots import (
    AttemptSnapshot,
    BackgroundSnapshot,
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
"""Which fields have rows of tables."""

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
    ones = snapshots.values()
    joint: dict[str, Any] = {key: tuple(_join_rows(snapshots, key)) for key in _TABLES}
    joint |= {key: tuple(_join_texts(snapshots, key)) for key in _TEXTS}
    joint |= {key: sum(getattr(one, key) for one in ones) for key in _SUMS}
    joint |= {key: max(getattr(one, key) for one in ones) for key in _PEAKS}
    joint["errors"] = tuple(sorted(joint["errors"], key=lambda row: row.time, reverse=True))
    joint["unready"] += tuple(absent)
    return replace(
        next(iter(ones)),
        is_paused=any(one.is_paused for one in ones),
        indices=_join_indices(ones),
        processes=tuple(_summarize(number, one) for number, one in snapshots.items()),
        shards=None,
        **joint,
    )


def _join_rows(snapshots: Mapping[int, Snapshot], key: str) -> Iterator[RowSnapshot]:
    for number, snapshot in snapshots.items():
        for row in getattr(snapshot, key):
            yield replace(row, process=number)


def _join_texts(snapshots: Mapping[int, Snapshot], key: str) -> Iterator[str]:
    for number, snapshot in snapshots.items():
        for text in getattr(snapshot, key):
            yield f"process {number}: {text}"


def _join_indices(snapshots: Collection[Snapshot]) -> dict[str, int]:
    """Each process indexes all objects; but some processes can be late."""
    names = dict.fromkeys(name for one in snapshots for name in one.indices)
    return {name: max(one.indices.get(name, 0) for one in snapshots) for name in names}


def _summarize(number: int, snapshot: Snapshot) -> ProcessSnapshot:
    return ProcessSnapshot(
        process=number,
        uptime=snapshot.uptime,
        loop_lag=snapshot.loop_lag,
        shards=snapshot.shards,
    )
