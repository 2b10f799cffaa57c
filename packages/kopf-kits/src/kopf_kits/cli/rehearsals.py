"""The results of a rehearsal, for people and for programs; and the exit code of the run."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from kopf_cogs.structs.diffs import DiffOperation, diff
from kopf_kits.logs import escape

if TYPE_CHECKING:
    from kopf_cogs.clients.rehearsal.overlay import Difference
    from kopf_core.reactor.life.once import Once

DIFFERENT = 3
"""The exit code if something would be changed. It is not 2: that is for wrong options."""

UNFINISHED = 4
"""The exit code if something has failed, or if its retry is later than the run could wait."""

HIDDEN = "(hidden)"
SIGNS = {DiffOperation.ADD: "+", DiffOperation.CHANGE: "~", DiffOperation.REMOVE: "-"}
_VOLATILE = ("managedFields", "resourceVersion", "generation")
_OF_SERVERS = ("uid", "creationTimestamp", "name", "namespace", *_VOLATILE)
_SECRETS = "/api/v1/secrets"


def get_code(once: Once) -> int:
    """The exit code of the process."""
    return UNFINISHED if once.unfinished else DIFFERENT if once.differences else 0


def report(once: Once, output: str) -> None:
    """Print the differences of a rehearsal to stdout, and the unfinished work to stderr."""
    if once.dry_run and output == "json":
        changes = [make_change(found) for found in once.differences]
        click.echo(json.dumps({"changes": changes, "unfinished": once.unfinished}, indent=2))
    elif once.dry_run:
        for line in iter_lines(once.differences):
            click.echo(line)
    for line in once.unfinished:
        click.echo(f"Unfinished: {escape(line)}", err=True)


def iter_lines(differences: Iterable[Difference]) -> Iterator[str]:
    """All differences as a text, with a summary in the end."""
    counts = {"create": 0, "change": 0, "delete": 0}
    for found in differences:
        change = make_change(found)
        counts[change["action"]] += 1
        sign = {"create": "+", "change": "~", "delete": "-"}[change["action"]]
        name = "/".join(filter(None, (change["namespace"], change["name"])))
        yield f"{sign} {change['kind']} {name} ({change['apiVersion']})"
        for field in change["fields"]:
            yield f"  {_show_field(field)}"
    summary = ", ".join(f"{count} to {action}" for action, count in counts.items())
    yield f"Rehearsed: {summary}. Nothing is committed."


def make_change(found: Difference) -> dict[str, Any]:
    """One difference as a structure, for JSON. It hides the values of secrets."""
    body = found.after or found.before or {}
    action = "create" if found.before is None else "delete" if found.after is None else "change"
    return {
        "action": action,
        "apiVersion": body.get("apiVersion"),
        "kind": body.get("kind"),
        "namespace": found.address.namespace,
        "name": found.address.name,
        "fields": [] if action == "delete" else [*_iter_fields(found)],
    }


def _iter_fields(found: Difference) -> Iterator[dict[str, Any]]:
    is_secret = found.address.collection == _SECRETS
    before, after = _simplify(found.before), _simplify(found.after)
    for op, path, old, new in sorted(diff(before, after), key=lambda item: item.field):
        for leaf, value in _iter_leaves(path, new) if op is DiffOperation.ADD else [(path, new)]:
            hides = (is_secret and leaf[:1] != ("metadata",)) or (leaf[:2] == _NOTES and is_secret)
            yield {
                "op": op.value,
                "field": _show_path(leaf),
                "old": HIDDEN if hides and old is not None else old,
                "new": HIDDEN if hides and value is not None else value,
            }


_NOTES = ("metadata", "annotations")
"""The annotations: with the last handled states of Secrets, which are as secret."""


def _simplify(body: Mapping[str, Any] | None) -> dict[str, Any]:
    """The comparable part of the object: with neither its name nor the fields of servers."""
    if body is None:
        return {}
    metadata = {key: val for key, val in body["metadata"].items() if key not in _OF_SERVERS}
    rest = {key: val for key, val in body.items() if key not in ("apiVersion", "kind")}
    return {**rest, "metadata": metadata or None}


def _iter_leaves(path: tuple[str, ...], value: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(value, Mapping) and value:
        for key in sorted(value):
            yield from _iter_leaves((*path, key), value[key])
    else:
        yield path, value


def _show_path(path: tuple[str, ...]) -> str:
    plain = (part if part.replace("_", "").isalnum() else json.dumps(part) for part in path)
    return ".".join(plain)


def _show_field(field: Mapping[str, Any]) -> str:
    sign, name = SIGNS[DiffOperation(field["op"])], field["field"]
    old, new = (json.dumps(field[key], ensure_ascii=True, sort_keys=True) for key in ("old", "new"))
    if field["op"] == DiffOperation.CHANGE:
        return f"{sign} {name}: {old} -> {new}"
    return f"{sign} {name}: {new if field['op'] == DiffOperation.ADD else old}"
