"""``kopf objects`` and ``kopf object``: the states of objects by the marks on them."""

from __future__ import annotations

import collections
import json
import sys
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from kopf_kits.cli.duty.options import (
    Selection,
    access_options,
    clusters_access_options,
    output_option,
    scope_options,
    select,
)

if TYPE_CHECKING:
    from kopf_cogs.clients.session import Client
    from kopf_core.engines.inspection import ObjectState
    from kopf_core.reactor.process.errands import Access

PAUSED = "paused"
PHASES = (
    "blocked",
    PAUSED,
    "retried",
    "deleting",
    "in progress",
    "served",
    "unknown",
    "changed",
    "handled",
)
"""The values of :class:`kopf_core.engines.inspection.Phase`: the help does not import it."""

UNSEEN = ("served", "unknown", "changed", "deleting")
"""The states of objects that can have more work than the objects show."""

DEFAULT_PREFIX = "kopf.zalando.org"
"""The prefix of the annotations of operators that have no names."""


@click.command()
@clusters_access_options
@scope_options
@click.option(
    "--state",
    "phases",
    type=click.Choice(PHASES),
    multiple=True,
    help="Only the objects in this state (repeatable).",
)
@output_option
@click.argument("kind")
@click.argument("names", nargs=-1, metavar="")
def objects(
    access: Access,
    kind: str,
    names: Sequence[str],
    phases: Sequence[str],
    output: str,
    clusters: Sequence[str] | None,
    **scope: Any,
) -> None:
    """Show the state of the objects of a kind."""
    if names:
        raise click.UsageError(f"For one object, use: kopf object {kind} {names[0]}")
    selection = select(kind, **scope)
    found, problems = _look_around(access, selection, clusters)
    states = [one.state for one in found]
    shown = [one for one in found if not phases or one.state.phase.value in phases]
    if output == "json":
        tell(json.dumps({"items": [one.as_json() for one in shown]}, indent=2))
    elif shown:
        _show_table(access, shown, with_namespaces=selection.clusterwide)
    _summarise(states, selection, len(shown))
    _tell_of_unseen([one.state for one in shown])
    _tell_of_pauses([one.state for one in shown])
    _tell_of_others(access, states)
    finish(problems)


@click.command(name="object")
@access_options
@click.option("-n", "--namespace", help="The namespace; by default, of the current context.")
@output_option
@click.argument("kind")
@click.argument("name")
def object_(access: Access, kind: str, name: str, namespace: str | None, output: str) -> None:
    """Show everything about one object."""
    selection = select(kind, (name,), namespace=namespace, clusterwide=False)
    states, problems = _look(access, selection)
    from kopf_kits.cli.duty.views import make_json, make_text

    for state in states:
        if output == "json":
            tell(json.dumps(make_json(state, is_full=True), indent=2))
        else:
            for line in make_text(state, access.clock.now()):
                tell(line)
    _tell_of_pauses(states)
    _tell_of_others(access, states)
    finish(problems)


class Sighting(NamedTuple):
    """The state of an object, and its cluster, if there are several clusters."""

    state: ObjectState
    cluster: str | None = None

    def as_json(self) -> dict[str, Any]:
        from kopf_kits.cli.duty.views import make_json

        return ({} if self.cluster is None else {"cluster": self.cluster}) | make_json(self.state)


def _look_around(
    access: Access, selection: Selection, clusters: Sequence[str] | None
) -> tuple[list[Sighting], list[str]]:
    """Look at the only cluster, or at all named ones. A failure of one does not hide others."""
    if clusters is None:
        states, problems = _look(access, selection)
        return [Sighting(state) for state in states], problems
    found, problems = [], []
    for name in clusters:
        settings = access.settings.for_cluster(name)
        try:
            states, mistakes = _look(replace(access, settings=settings, vault=None), selection)
        except Exception as e:
            if not getattr(e, "expected", False):
                raise
            states, mistakes = [], [str(e)]
        found += [Sighting(state, name) for state in states]
        problems += [f"Cluster {name}: {mistake}" for mistake in mistakes]
    return found, problems


def _look(access: Access, selection: Selection) -> tuple[list[ObjectState], list[str]]:
    from kopf_cogs.clients.objects import ObjectsAPI
    from kopf_cogs.structs.bodies import Body
    from kopf_core.engines.inspection import inspect
    from kopf_kits.cli.duty.finding import Finder
    from kopf_kits.cli.duty.visiting import visit

    problems: list[str] = []

    async def look(client: Client) -> list[ObjectState]:
        finder = Finder(ObjectsAPI(client), selection, problems)
        now, persistence = access.clock.now(), access.settings.persistence
        return [inspect(Body(f.body), persistence, now) async for f in finder.find()]

    return visit(access, look), problems


def _show_table(access: Access, found: Sequence[Sighting], *, with_namespaces: bool) -> None:
    from kopf_kits.cli.duty import tables, views

    now = access.clock.now()
    has_namespaces = with_namespaces and any(one.state.body.metadata.namespace for one in found)
    columns = views.make_columns(with_namespaces=has_namespaces)
    rows = [views.make_row(one.state, now, with_namespaces=has_namespaces) for one in found]
    if found[0].cluster is not None:
        columns = [tables.Column("CLUSTER", 8), *columns]
        pairs = zip(found, rows, strict=True)
        rows = [[tables.Cell(one.cluster or ""), *row] for one, row in pairs]
    for line in tables.render(columns, rows, tables.get_width()):
        tell(line)


def _summarise(states: Sequence[ObjectState], selection: Selection, count: int) -> None:
    """Count the objects by states: for people only, so not in the output that scripts read."""
    if not states:
        where = f" in the namespace {selection.namespace!r}" if selection.namespace else ""
        click.echo(f"No objects of {selection.kind!r} are found{where}.", err=True)
        return
    counts = collections.Counter(state.phase.value for state in states)
    parts = ", ".join(f"{counts[phase]} {phase}" for phase in PHASES if counts[phase])
    shown = "" if count == len(states) else f"; {count} shown"
    objects = "1 object" if len(states) == 1 else f"{len(states)} objects"
    click.echo(f"{objects}: {parts}{shown}.", err=True)


def _tell_of_unseen(states: Sequence[ObjectState]) -> None:
    """Tell that operators do not store all of their work on the objects."""
    if any(state.phase.value in UNSEEN for state in states):
        click.echo(
            "Timers, daemons, finished reconcilers, and running first attempts leave no progress "
            "on objects: see /status of the operator.",
            err=True,
        )


def _tell_of_pauses(states: Sequence[ObjectState]) -> None:
    """Tell when pauses have an effect: objects do not show whether the operator honours them."""
    if any(state.phase.value == PAUSED for state in states):
        click.echo(
            "Objects are paused only for operators with settings.execution.honor_pauses = True.",
            err=True,
        )


def _tell_of_others(access: Access, states: Sequence[ObjectState]) -> None:
    """Tell of operators with names: objects that look new or blocked can belong to them."""
    from kopf_core.engines.inspection import find_doubtful, find_others

    persistence = access.settings.persistence
    tell_of_others(
        {name for state in states for name in find_others(state)},
        {name for state in states for name in find_doubtful(state, persistence)},
    )


def tell_of_others(names: Collection[str], finalizers: Collection[str]) -> None:
    """Name the operators whose marks were found, by the prefixes of the marks."""
    for name in sorted({*names} - {DEFAULT_PREFIX}):
        click.echo(f"There are data of another operator: add --operator {name}.", err=True)
    if DEFAULT_PREFIX in names:
        text = "leave out --operator, or unset KOPF_OPERATOR"
        click.echo(f"There are data of an operator without a name: {text}.", err=True)
    for name in sorted(finalizers):
        click.echo(f"If this operator has the finalizer {name}, add --finalizer {name}.", err=True)


def tell(text: str) -> None:
    """Print the text; replace the characters that the terminal cannot show."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    click.echo(text.encode(encoding, "replace").decode(encoding))


def finish(problems: Sequence[str]) -> None:
    """Print the problems, and exit with an error if there are any."""
    from kopf_kits.cli.duty.words import clean

    for problem in problems:
        click.echo(f"Error: {clean(problem)}", err=True)
    if problems:
        click.get_current_context().exit(1)
