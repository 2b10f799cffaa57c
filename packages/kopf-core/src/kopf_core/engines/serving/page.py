"""The page for people: one snapshot in HTML, with no scripts and no other files.

It works in any browser, without access to the Internet, and refreshes itself.
"""

from collections.abc import Iterable, Iterator
from html import escape

from kopf_core.engines.serving.snapshots import RetrySnapshot, Snapshot, StreamSnapshot

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

Row = Iterable[object]


class _Time(str):
    """It is never broken into lines."""

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
    yield from _render_work(snapshot)
    if snapshot.paused:
        title = f"Paused by people: {_objects(snapshot.paused_objects)}, left alone"
        rows = ((p.resource, p.namespace, p.name, p.reason) for p in snapshot.paused)
        yield _render_table(title, ("kind", "namespace", "name", "reason"), rows)
    yield from _render_background(snapshot)
    yield _render_table("Indices", ("index", "keys"), snapshot.indices.items())
    errors = ((_Time(e.time), e.logger, e.message) for e in snapshot.errors)
    yield _render_table("Last errors", ("time", "logger", "message"), errors)


def _render_work(snapshot: Snapshot) -> Iterator[str]:
    """What is watched, and what is to be done for the objects."""
    columns = "kind", "namespace", "objects", "last sign of life", "lists", "streams", "events"
    streams = (
        (s.resource, s.namespace or "all", _count(s), _ago(s.age), s.lists, s.connects, s.events)
        for s in snapshot.streams
    )
    yield _render_table("Watched", columns, streams)
    queues = (
        (q.resource, q.namespace or "all", q.queued, q.working, q.delayed, q.held)
        for q in snapshot.queues
    )
    stages = "wait for a worker", "in work", "wait for their time", "throttled"
    yield _render_table("Queues", ("kind", "namespace", *stages), queues)
    retries = (
        (*(r.resource, r.namespace, r.name, r.handler), r.retries or "waits", _when(r), r.message)
        for r in snapshot.retries
    )
    columns = "kind", "namespace", "name", "handler", "attempts", "next", "error"
    title = f"Retried or waiting: {_objects(snapshot.pending_retries)}"
    yield _render_table(title, columns, retries)


def _render_background(snapshot: Snapshot) -> Iterator[str]:
    """What works beside the objects: daemons, timers, and webhooks."""
    columns = "kind", "handler", "in work", "waiting", "stopping", "orphaned", "late by"
    background = (
        (b.kind, b.handler, b.working, b.waiting, b.stopping, b.orphaned, f"{b.lag:.1f} s")
        for b in snapshot.background
    )
    yield _render_table("Daemons and timers", columns, background)
    if snapshot.webhooks:
        webhooks = ((w.kind, w.handler, w.working, w.reviews, w.denied) for w in snapshot.webhooks)
        yield _render_table(
            "Webhooks", ("kind", "handler", "in work", "reviews", "denied"), webhooks
        )


def _render_health(snapshot: Snapshot) -> str:
    if snapshot.problems:
        return '<span class="bad">does not work</span>'
    if snapshot.unready:
        return '<span class="bad">is not ready</span>'
    if snapshot.lease is not None and not snapshot.lease.is_leading:
        return '<span class="good">follows</span>'
    return f'<span class="good">{"is paused" if snapshot.is_paused else "works"}</span>'


def _describe(snapshot: Snapshot) -> str:
    lease = snapshot.lease
    leader = "" if lease is None else f", the leader is {lease.holder or 'nobody'}"
    return (
        f"Version {snapshot.version}, for {snapshot.uptime:.0f} s, at {snapshot.time}{leader}; "
        f"the event loop is late by {snapshot.loop_lag * 1000:.0f} ms; Kubernetes events: "
        f"{snapshot.posted_events} posted, {snapshot.dropped_events} dropped."
    )


def _render_problems(snapshot: Snapshot) -> Iterator[str]:
    for problem in snapshot.unready:
        yield f'<p class="bad">Not ready: {escape(problem)}</p>'
    for problem in snapshot.problems:
        yield f'<p class="bad">{escape(problem)}</p>'


def _objects(count: int) -> str:
    return "1 object" if count == 1 else f"{count} objects"


def _count(stream: StreamSnapshot) -> str:
    return f"{stream.objects}" if stream.is_listed else f"{stream.objects}, being listed"


def _when(retry: RetrySnapshot) -> _Time:
    return _Time(retry.delayed or "soon")


def _ago(seconds: float) -> str:
    return f"{seconds:.0f} s ago"


def _show(cell: object) -> str:
    text = "" if cell is None else escape(str(cell))
    return f'<td class="time">{text}</td>' if isinstance(cell, _Time) else f"<td>{text}</td>"


def _render_table(title: str, columns: Iterable[str], rows: Iterable[Row]) -> str:
    """A section with its table; or with nothing, said in a word."""
    lines = ["".join(map(_show, row)) for row in rows]
    heading = f"<h2>{escape(title)}</h2>"
    if not lines:
        return f'{heading}<p class="dim">None.</p>'
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f"{heading}<table><tr>{head}</tr>{body}</table>"
