"""The views of the states of objects: as rows of a table, as a text, and as JSON. Pure."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator, Sequence
from typing import Any

from kopf_cogs.structs.bodies import Body
from kopf_core.actions.states import HandlerState
from kopf_core.engines.inspection import HandlerPhase, HandlerProgress, ObjectState, Phase
from kopf_kits.cli.duty.tables import Cell, Column
from kopf_kits.cli.duty.words import clean, show_duration, show_moment, show_time, show_value

HIDDEN = "(hidden)"
VALUE_WIDTH = 200

COLOURS = {
    Phase.BLOCKED: "red",
    Phase.PAUSED: "yellow",
    Phase.RETRIED: "red",
    Phase.DELETING: "yellow",
    Phase.PROGRESSING: "yellow",
    Phase.CHANGED: "yellow",
    Phase.HANDLED: "green",
    Phase.SERVED: "green",
    Phase.UNKNOWN: None,
}

COLUMNS = (
    Column("NAMESPACE", 9),
    Column("NAME", 12, is_key=True),
    Column("STATE"),
    Column("HANDLER", 8),
    Column("TRIES"),
    Column("NEXT TRY"),
    Column("DETAILS", 10),
)


def make_columns(*, with_namespaces: bool) -> Sequence[Column]:
    return COLUMNS if with_namespaces else COLUMNS[1:]


def make_row(
    state: ObjectState, now: datetime.datetime, *, with_namespaces: bool
) -> Sequence[Cell]:
    """The object in one line."""
    current = state.current
    others = len(state.unfinished) - 1
    row = (
        Cell(state.body.metadata.namespace or ""),
        Cell(state.body.metadata.name or ""),
        Cell(state.phase.value, COLOURS[state.phase]),
        Cell("" if current is None else current.id + (f" +{others}" if others > 0 else "")),
        Cell("" if current is None else str(current.state.retries)),
        Cell("" if current is None else show_next_try(current, now)),
        Cell(_describe(state)),
    )
    return row if with_namespaces else row[1:]


def show_next_try(handler: HandlerProgress, now: datetime.datetime) -> str:
    """When the next attempt is due. It is late if it has not ended by then: it can be running."""
    if not handler.is_unfinished:
        return ""
    moment = handler.state.delayed
    if moment is None:
        return "due"
    late = (now - moment).total_seconds()
    return show_moment(moment, now) if late < 1 else f"{show_duration(late)} late"


def _describe(state: ObjectState) -> str:
    """The most important detail of the object in its phase."""
    message = state.current.state.message if state.current is not None else None
    match state.phase:
        case Phase.BLOCKED:
            return f"deletion is blocked by {', '.join(state.other_finalizers) or 'nobody'}"
        case Phase.PAUSED:
            return f"{state.pause}" + (f"; {message}" if message else "")
        case Phase.CHANGED:
            return f"changed: {', '.join(_show_field(item.field) for item in state.differences)}"
        case Phase.DELETING:
            others = ", ".join(state.other_finalizers)
            return f"blocked also by {others}" if others else "its operator has not finished"
        case Phase.SERVED | Phase.HANDLED:
            return _show_conditions(state)
    deleting = "being deleted: " if state.deleted_at is not None else ""
    return f"{deleting}{message}" if message else ""


def _show_conditions(state: ObjectState) -> str:
    shown = ", ".join(f"{item['type']}={item.get('status')}" for item in state.conditions)
    return f"{shown} (of an earlier generation)" if state.is_outdated and shown else shown


def _show_field(field: Sequence[str]) -> str:
    return ".".join(field)


def make_text(state: ObjectState, now: datetime.datetime) -> Iterator[str]:
    """Everything about the object, for people."""
    meta = state.body.metadata
    name = f"{meta.namespace}/{meta.name}" if meta.namespace else f"{meta.name}"
    yield f"{state.body.get('kind')} {clean(name)}: {state.phase.value}"
    if state.pause is not None:
        yield f"  Paused: {clean(state.pause)}"
    if state.deleted_at is not None:
        yield f"  Deletion was requested at {clean(state.deleted_at)}."
    if state.is_held and state.deleted_at is None:
        yield "  If it is deleted, our finalizer holds it until the deletion is handled."
    elif state.is_held:
        yield "  The deletion is blocked by our finalizer until it is handled."
    if state.other_finalizers:
        yield f"  Finalizers of others: {clean(', '.join(state.other_finalizers))}"
    yield ""
    yield from _make_conditions(state)
    yield from _make_handlers(state.handlers, now)
    yield from _make_last_handled(state)


def _make_conditions(state: ObjectState) -> Iterator[str]:
    if not state.conditions:
        return
    outdated = " (of an earlier generation of the object)" if state.is_outdated else ""
    yield f"Conditions{outdated}:"
    for item in state.conditions:
        details = ": ".join(str(item[key]) for key in ("reason", "message") if item.get(key))
        yield f"  {clean(item['type'])}: {clean(item.get('status'))}" + (
            f" ({clean(details)})" if details else ""
        )


def _make_handlers(handlers: Sequence[HandlerProgress], now: datetime.datetime) -> Iterator[str]:
    if not handlers:
        yield "Handlers: none has stored its progress. Failures for good are only in the log."
        yield "  This command cannot see timers, daemons, and running first attempts."
        return
    yield "Handlers:"
    for handler in handlers:
        state = handler.state
        doubt = ", unless its attempt still runs: see /status of the operator"
        is_doubtful = handler.phase is HandlerPhase.SUPERSEDED
        yield f"  {clean(handler.id)}: {handler.phase.value}{doubt * is_doubtful}"
        yield f"    for: {clean(state.purpose or 'unknown')}, attempts: {state.retries}"
        yield f"    started: {show_time(state.started)} ({show_moment(state.started, now)})"
        if state.stopped is not None:
            yield f"    ended: {show_time(state.stopped)} ({show_moment(state.stopped, now)})"
        if state.delayed is not None and handler.is_unfinished:
            yield f"    next try: {show_time(state.delayed)} ({show_next_try(handler, now)})"
        if state.message and not handler.waits_for_subhandlers:
            yield f"    error: {clean(state.message)}"
        if state.subrefs:
            yield f"    sub-handlers: {clean(', '.join(sorted(state.subrefs)))}"


def _make_last_handled(state: ObjectState) -> Iterator[str]:
    if state.last_handled is None:
        yield "Last handled state: none. There are no change handlers, or they have never finished."
        return
    hidden = is_secret(state.body)
    if state.differences:
        yield "Changed since the last handled state:"
        for item in state.differences:
            old, new = (
                HIDDEN if hidden else show_value(v, VALUE_WIDTH) for v in (item.old, item.new)
            )
            yield f"  {clean(_show_field(item.field))}: {old} -> {new}"
    else:
        yield "Changed since the last handled state: nothing."
    yield "Last handled state:"
    shown = HIDDEN if hidden else json.dumps(state.last_handled, indent=2, ensure_ascii=False)
    yield from (f"  {line}" for line in map(_clean_line, shown.split("\n")))


def _clean_line(line: str) -> str:
    """Clean a line as other texts, but keep its indentation."""
    return " " * (len(line) - len(line.lstrip(" "))) + clean(line)


def make_json(state: ObjectState, *, is_full: bool = False) -> dict[str, Any]:
    """The object for scripts: the names are stable; unknown values are ``null``."""
    meta = state.body.metadata
    summary = {
        "apiVersion": state.body.get("apiVersion"),
        "kind": state.body.get("kind"),
        "namespace": meta.namespace,
        "name": meta.name,
        "uid": meta.uid,
        "state": state.phase.value,
        "paused": state.pause,
        "deletionTimestamp": state.deleted_at,
        "held": state.is_held,
        "otherFinalizers": list(state.other_finalizers),
        "conditions": {item["type"]: item.get("status") for item in state.conditions},
        "outdated": state.is_outdated,
        "handlers": [_make_handler_json(handler) for handler in state.handlers],
        "changedFields": [list(item.field) for item in state.differences],
    }
    if not is_full:
        return summary
    hidden = is_secret(state.body)
    changes = [
        {
            "operation": item.operation.value,
            "field": list(item.field),
            "old": HIDDEN if hidden else item.old,
            "new": HIDDEN if hidden else item.new,
        }
        for item in state.differences
    ]
    last = HIDDEN if hidden and state.last_handled is not None else state.last_handled
    return {**summary, "changes": changes, "lastHandled": last}


def _make_handler_json(handler: HandlerProgress) -> dict[str, Any]:
    state: HandlerState = handler.state
    return {
        "id": handler.id,
        "state": handler.phase.value,
        "purpose": state.purpose,
        "attempts": state.retries,
        "started": state.started.isoformat(),
        "stopped": None if state.stopped is None else state.stopped.isoformat(),
        "nextTry": state.delayed.isoformat() if handler.is_unfinished and state.delayed else None,
        "error": state.message,
        "subhandlers": sorted(state.subrefs),
    }


def is_secret(body: Body) -> bool:
    """Whether the output must hide the values of the object from people near the screen."""
    return (body.get("apiVersion"), body.get("kind")) == ("v1", "Secret")
