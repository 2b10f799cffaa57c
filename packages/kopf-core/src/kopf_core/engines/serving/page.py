"""The page for people: one snapshot in HTML, with no scripts and no other files.

It works in any browser, without access to the Internet, and refreshes itself.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import datetime, timedelta
from html import escape
from typing import TypeVar

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

REFRESH = 5
"""How often (in seconds) the page is reloaded."""

STYLE = """
:root { color-scheme: light dark; --line: #8884; --bad: #c22; --good: #282; --dim: #888 }
@media (prefers-color-scheme: dark) { :root { --bad: #f77; --good: #7c7; --dim: #999 } }
body { font: 14px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.3rem } h2 { font-size: 1rem; margin: 1.6rem 0 .3rem }
table { border-collapse: collapse; width: 100% }
th, td { text-align: left; padding: .2rem .8rem .2rem 0; border-bottom: 1px solid var(--line) }
th { font-weight: 600; color: var(--dim) } td { overflow-wrap: anywhere }
.time { white-space: nowrap }
.bad { color: var(--bad) } .good { color: var(--good) } .dim { color: var(--dim) }
"""

PROCESS_COLUMNS = "for", "shards", "the event loop is late by"
CLUSTER_COLUMNS = "for", "state", "shards", "objects"
PAUSED_COLUMNS = "kind", "namespace", "name", "reason"
ERROR_COLUMNS = "time", "logger", "message"
STREAM_COLUMNS = "kind", "namespace", "objects", "last sign of life", "lists", "streams", "events"
STAGES = "wait for a worker", "in work", "wait for their time", "throttled"
QUEUE_COLUMNS = "kind", "namespace", *STAGES
RETRY_COLUMNS = "kind", "namespace", "name", "handler", "attempts", "next", "error"
ATTEMPT_COLUMNS = "kind", "namespace", "name", "handler", "for"
BACKGROUND_COLUMNS = "kind", "handler", "in work", "waiting", "stopping", "orphaned", "late by"
WEBHOOK_COLUMNS = "kind", "handler", "in work", "reviews", "denied"

Row = Iterable[object]
R = TypeVar("R", bound=RowSnapshot)


class _Time(str):
    """A time, which browsers must not break into lines."""

    __slots__ = ()


def render_page(snapshot: Snapshot) -> str:
    """Make the page. Everything that comes from the cluster is escaped."""
    body = "\n".join(_render_sections(snapshot))
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="refresh" content="{REFRESH}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Kopf operator</title><style>{STYLE}</style></head>\n<body>\n{body}\n</body></html>"
    )


def _render_sections(snapshot: Snapshot) -> Iterator[str]:
    yield f"<h1>Kopf operator {_render_health(snapshot)}</h1>"
    yield f'<p class="dim">{escape(_describe(snapshot))}</p>'
    yield from _render_problems(snapshot)
    if snapshot.processes:
        yield _render_rows("Processes", PROCESS_COLUMNS, snapshot.processes, _show_process)
    if snapshot.clusters:
        yield _render_rows("Clusters", CLUSTER_COLUMNS, snapshot.clusters, _show_cluster)
    yield from _render_work(snapshot)
    if snapshot.paused:
        title = f"Paused by people: {_objects(snapshot.paused_objects)}, left alone"
        yield _render_rows(title, PAUSED_COLUMNS, snapshot.paused, _show_paused)
    yield from _render_background(snapshot)
    yield _render_table("Indices", ("index", "keys"), snapshot.indices.items())
    yield _render_rows("Last errors", ERROR_COLUMNS, snapshot.errors, _show_error)


def _render_work(snapshot: Snapshot) -> Iterator[str]:
    """The watched kinds, and the work for their objects."""
    yield _render_rows("Watched", STREAM_COLUMNS, snapshot.streams, _show_stream)
    yield _render_rows("Queues", QUEUE_COLUMNS, snapshot.queues, _show_queue)
    title = f"Retried or waiting: {_objects(snapshot.pending_retries)}"
    yield _render_rows(title, RETRY_COLUMNS, snapshot.retries, _show_retry)
    if snapshot.attempts:
        title = f"Attempts of over a minute: {snapshot.long_attempts}"
        yield _render_rows(title, ATTEMPT_COLUMNS, snapshot.attempts, _show_attempt)


def _render_background(snapshot: Snapshot) -> Iterator[str]:
    """The work beside the objects: daemons, timers, and webhooks."""
    title = "Daemons and timers"
    yield _render_rows(title, BACKGROUND_COLUMNS, snapshot.background, _show_background)
    if snapshot.webhooks:
        yield _render_rows("Webhooks", WEBHOOK_COLUMNS, snapshot.webhooks, _show_webhook)


def _show_process(one: ProcessSnapshot) -> Row:
    return f"{one.uptime:.0f} s", one.shards, f"{one.loop_lag * 1000:.0f} ms"


def _show_cluster(one: ClusterSnapshot) -> Row:
    uptime = None if one.uptime is None else f"{one.uptime:.0f} s"
    state = _name_state(one) if one.is_ready else "is not ready"
    return uptime, state, one.shards, one.objects


def _name_state(one: ClusterSnapshot | Snapshot) -> str:
    if one.cut_off is not None:
        return "is cut off from the API"
    if one.lease is not None and not one.lease.is_leading:
        return "follows"
    return "is paused" if one.is_paused else "works"


def _show_stream(one: StreamSnapshot) -> Row:
    place = one.resource, one.namespace or "all"
    life = f"{_ago(one.age)}: {one.problem}" if one.problem else _ago(one.age)
    return *place, _count(one), life, one.lists, one.connects, one.events


def _show_queue(one: QueueSnapshot) -> Row:
    return one.resource, one.namespace or "all", one.queued, one.working, one.delayed, one.held


def _show_retry(one: RetrySnapshot) -> Row:
    place = one.resource, one.namespace, one.name, one.handler
    return *place, one.retries or "waits", _Time(one.delayed or "soon"), one.message


def _show_attempt(one: AttemptSnapshot) -> Row:
    place = one.resource or "the operator", one.namespace, one.name
    return *place, one.handler, f"{one.age:.0f} s"


def _show_paused(one: PausedSnapshot) -> Row:
    return one.resource, one.namespace, one.name, one.reason


def _show_background(one: BackgroundSnapshot) -> Row:
    counts = one.working, one.waiting, one.stopping, one.orphaned
    return one.kind, one.handler, *counts, f"{one.lag:.1f} s"


def _show_webhook(one: WebhookSnapshot) -> Row:
    return one.kind, one.handler, one.working, one.reviews, one.denied


def _show_error(one: ErrorSnapshot) -> Row:
    return _Time(one.time), one.logger, one.message


def _render_health(snapshot: Snapshot) -> str:
    if snapshot.problems:
        return '<span class="bad">does not work</span>'
    if snapshot.unready:
        return '<span class="bad">is not ready</span>'
    look = "good" if snapshot.cut_off is None else "bad"
    return f'<span class="{look}">{_name_state(snapshot)}</span>'


def _describe(snapshot: Snapshot) -> str:
    lease = snapshot.lease
    leader = "" if lease is None else f", the leader is {lease.holder or 'nobody'}"
    return (
        f"Version {snapshot.version}, for {snapshot.uptime:.0f} s, at {snapshot.time}{leader}. "
        f"The event loop was late by {snapshot.loop_lag * 1000:.0f} ms in the last minute. "
        f"Kubernetes events: {snapshot.posted_events} posted, {snapshot.dropped_events} dropped."
    )


def _render_problems(snapshot: Snapshot) -> Iterator[str]:
    for problem in snapshot.unready:
        yield f'<p class="bad">Not ready: {escape(problem)}</p>'
    for problem in snapshot.problems:
        yield f'<p class="bad">{escape(problem)}</p>'
    if snapshot.cut_off is not None:
        since = datetime.fromisoformat(snapshot.time) - timedelta(seconds=int(snapshot.cut_off))
        reason = next((stream.problem for stream in snapshot.streams if stream.problem), "")
        text = f"Nothing comes from the API since {since.isoformat()}. {reason}"
        yield f'<p class="bad">{escape(text)}</p>'


def _objects(count: int) -> str:
    return "1 object" if count == 1 else f"{count} objects"


def _count(stream: StreamSnapshot) -> str:
    return f"{stream.objects}" if stream.is_listed else f"{stream.objects}, being listed"


def _ago(seconds: float) -> str:
    return f"{seconds:.0f} s ago"


def _show(cell: object) -> str:
    text = "" if cell is None else escape(str(cell))
    return f'<td class="time">{text}</td>' if isinstance(cell, _Time) else f"<td>{text}</td>"


def _render_rows(
    title: str, columns: Iterable[str], ones: Collection[R], show: Callable[[R], Row]
) -> str:
    """A section with its table; with the processes or the clusters if there are several."""
    for label in ("process", "cluster"):
        if any(getattr(one, label) is not None for one in ones):
            rows: Iterable[Row] = ((getattr(one, label), *show(one)) for one in ones)
            return _render_table(title, (label, *columns), rows)
    return _render_table(title, columns, map(show, ones))


def _render_table(title: str, columns: Iterable[str], rows: Iterable[Row]) -> str:
    """A section with its table; or with one word, if there are no rows."""
    lines = ["".join(map(_show, row)) for row in rows]
    heading = f"<h2>{escape(title)}</h2>"
    if not lines:
        return f'{heading}<p class="dim">None.</p>'
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f"{heading}<table><tr>{head}</tr>{body}</table>"
