"""``kopf retry``, ``pause``, ``unpause``, ``forget``, ``release``: the changes of marks on objects.

Each of the commands shows its plan, and asks.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kopf_kits.cli.duty.looking import finish, tell, tell_of_others
from kopf_kits.cli.duty.options import (
    Selection,
    access_options,
    output_option,
    scope_options,
    select,
)

if TYPE_CHECKING:
    from kopf_cogs.clients.session import Client
    from kopf_core.engines.inspection import Change, ObjectState
    from kopf_core.reactor.process.errands import Access
    from kopf_kits.cli.duty.applying import Step
    from kopf_kits.cli.duty.confirming import Unconfirmed

F = TypeVar("F", bound=Callable[..., Any])

SCOPE = ("namespace", "clusterwide", "labels", "fields")
"""The arguments that :func:`scope_options` gives to a command."""

MAX_SHOWN = 50
"""How many objects the plan names before the question; it only counts the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How the command makes its changes."""

    dry_run: bool
    yes: bool
    output: str


def changing_options(fn: F) -> F:
    """Add everything that the changing commands have in common.

    The command gets ``access``, ``selection``, and ``manner``.
    """

    @access_options
    @scope_options
    @click.option("--all", "everything", is_flag=True, help="All objects of the kind.")
    @click.option("--dry-run", is_flag=True, help="Only show the plan.")
    @click.option("-y", "--yes", is_flag=True, help="Do not ask.")
    @output_option
    @click.argument("kind", required=False)
    @click.argument("names", nargs=-1)
    @functools.wraps(fn)
    def wrapper(
        access: Access,
        kind: str | None,
        names: tuple[str, ...],
        everything: bool,
        dry_run: bool,
        yes: bool,
        output: str,
        **kwargs: Any,
    ) -> Any:
        scope = {name: kwargs.pop(name) for name in SCOPE}
        selection = select(kind, names, **scope)
        _check(selection, everything=everything)
        manner = Manner(dry_run=dry_run, yes=yes, output=output)
        return fn(access, selection, manner, **kwargs)

    return wrapper  # type: ignore[return-value]


def _check(selection: Selection, *, everything: bool) -> None:
    """Refuse to change many objects only because of an omitted argument."""
    if selection.names and everything:
        raise click.UsageError("Use either names or --all, not both.")
    if selection.kind is None and not everything:
        raise click.UsageError("Missing argument 'KIND'.")
    if not selection.names and not selection.is_filtered and not everything:
        raise click.UsageError("Name the objects, or use --selector or --all.")


@click.command()
@changing_options
def retry(access: Access, selection: Selection, manner: Manner) -> None:
    """Start the next attempts of the failed handlers at once.

    Handlers that have failed for good have no next attempts. To handle their objects anew, use
    "kopf forget": it makes the objects look new.
    """
    from kopf_core.engines.inspection import plan_retry

    persistence, now = access.settings.persistence, access.clock.now()
    _require_kind(selection)
    _change(
        access,
        selection,
        manner,
        lambda state: plan_retry(state, persistence, now),
        "Nothing is lost.",
    )


@click.command()
@click.option("-m", "--message", help="The reason, for other people and for the logs.")
@click.option(
    "--wait",
    "patience",
    type=click.FloatRange(min=0),
    default=5.0,
    show_default=True,
    help="Seconds to wait until an operator confirms the pause.",
)
@changing_options
def pause(
    access: Access, selection: Selection, manner: Manner, message: str | None, patience: float
) -> None:
    """Let the operator ignore the objects, until you unpause them.

    Only operators with settings.execution.honor_pauses do so, and confirm it by an event.
    """
    from kopf_core.engines.inspection import plan_pause
    from kopf_core.engines.peering.identities import detect_person
    from kopf_kits.cli.duty.confirming import pause_all
    from kopf_kits.cli.duty.words import clean

    async def apply(client: Client, steps: Sequence[Step]) -> None:
        _tell_of_unconfirmed(await pause_all(client, steps, patience))

    _require_kind(selection)
    reason = clean(f"by {detect_person()}" + (f": {message}" if message else ""))
    loss = "Nothing is lost: the operator handles the changes of the pause after it, all at once."
    _change(access, selection, manner, lambda state: plan_pause(state, reason), loss, apply)


def _tell_of_unconfirmed(unconfirmed: Unconfirmed) -> None:
    from kopf_kits.cli.duty.words import clean

    steps, error = unconfirmed
    if not steps:
        return
    names = ", ".join(step.found.name for step in steps[:MAX_SHOWN])
    others = f", and {len(steps) - MAX_SHOWN} more" if len(steps) > MAX_SHOWN else ""
    if error is None:
        text = (
            f"No operator has confirmed the pause: {names}{others}. These objects can be handled "
            f"still. Operators honor pauses only with settings.execution.honor_pauses = True; "
            f"then they post the Kubernetes event Paused. While a handler of an object runs, "
            f"its pause has not begun."
        )
    else:
        text = (
            f"Kopf cannot tell whether an operator has confirmed the pause: {names}{others}. "
            f"The Kubernetes events cannot be listed: {error}"
        )
    click.echo(clean(text), err=True)


@click.command()
@changing_options
def unpause(access: Access, selection: Selection, manner: Manner) -> None:
    """Let the operator handle all changes since the pause."""
    from kopf_core.engines.inspection import plan_unpause

    _require_kind(selection)
    loss = "The reasons of the pauses are lost. The operator handles the changes since then now."
    _change(access, selection, manner, plan_unpause, loss)


@click.command()
@changing_options
def forget(access: Access, selection: Selection, manner: Manner) -> None:
    """Make the objects look new, as if no operator had handled them."""
    from kopf_core.engines.inspection import plan_forgetting

    persistence = access.settings.persistence
    _require_kind(selection)
    loss = "The progress and the last handled states are lost: all is handled as new, once more."
    _change(access, selection, manner, lambda state: plan_forgetting(state, persistence), loss)


@click.command()
@changing_options
def release(access: Access, selection: Selection, manner: Manner) -> None:
    """Remove the finalizer of the operator, e.g. when it is uninstalled.

    Without KIND and with --all, it is for all kinds in the cluster. Other finalizers stay.
    """
    from kopf_core.engines.inspection import plan_release

    persistence = access.settings.persistence
    loss = (
        "The finalizers are lost. Objects that are being deleted vanish with no deletion handlers."
    )
    _change(access, selection, manner, lambda state: plan_release(state, persistence), loss)


def _require_kind(selection: Selection) -> None:
    if selection.kind is None:
        raise click.UsageError("Missing argument 'KIND'.")


def _change(
    access: Access,
    selection: Selection,
    manner: Manner,
    plan: Callable[[ObjectState], Change],
    loss: str,
    apply: Callable[[Client, Sequence[Step]], Awaitable[None]] | None = None,
) -> None:
    """Find the objects, show the plan, ask, make the changes, and show the results.

    ``loss`` tells what the user cannot take back: for the question.
    """
    from kopf_core.engines.inspection import find_doubtful, find_others
    from kopf_kits.cli.duty.applying import apply_all, plan_all
    from kopf_kits.cli.duty.visiting import visit
    from kopf_kits.cli.targets import describe_target

    problems: list[str] = []
    others: set[str] = set()
    finalizers: set[str] = set()

    def look_and_plan(state: ObjectState) -> Change:
        others.update(find_others(state))
        finalizers.update(find_doubtful(state, access.settings.persistence))
        return plan(state)

    async def change(client: Client) -> Sequence[Step]:
        is_named = bool(selection.names)
        steps = await plan_all(
            client, access, selection, look_and_plan, problems, keep_idle=is_named
        )
        _show_plan(steps, manner)
        if any(step.is_needed for step in steps) and not manner.dry_run:
            _ask(steps, manner, describe_target(client), loss)
            await (apply or apply_all)(client, steps)
        return steps

    steps = visit(access, change)
    _show_results(steps, manner)
    tell_of_others(others, finalizers)
    failures = [f"{step.found.name}: {step.error}" for step in steps if step.error]
    finish([*problems, *failures])


def _show_plan(steps: Sequence[Step], manner: Manner) -> None:
    """Show the plan: in stderr, unless it is the whole output of a dry run."""
    from kopf_kits.cli.duty.words import clean

    if manner.output == "json" and (manner.yes or manner.dry_run):
        return
    for step in steps[:MAX_SHOWN]:
        click.echo(clean(f"{step.found.name}: {step.change.summary}"), err=not manner.dry_run)
    if len(steps) > MAX_SHOWN:
        click.echo(f"... and {len(steps) - MAX_SHOWN} more objects", err=not manner.dry_run)


def _ask(steps: Sequence[Step], manner: Manner, place: str, loss: str) -> None:
    count = sum(step.is_needed for step in steps)
    agree(manner, f"{loss}\nChange {count} object{'s' if count > 1 else ''} at {place}?")


def agree(manner: Manner, question: str) -> None:
    """Ask the user, unless the user has agreed beforehand.

    Raises :class:`click.ClickException` if the answer is no, or if there is no answer.
    """
    if manner.yes:
        return
    try:
        is_agreed = click.confirm(question, err=True)
    except click.Abort:
        raise click.ClickException("Nothing is changed: there was no answer. See --yes.") from None
    if not is_agreed:
        raise click.ClickException("Nothing is changed.")


def _show_results(steps: Sequence[Step], manner: Manner) -> None:
    if manner.output == "json":
        items = [step.as_json() for step in steps]
        tell(json.dumps({"dryRun": manner.dry_run, "items": items}, indent=2))
        return
    if manner.dry_run or not any(step.is_needed for step in steps):
        if not any(step.is_needed for step in steps):
            click.echo("There is nothing to do.", err=True)
        return
    counts = {word: sum(step.result == word for step in steps) for word in ("changed", "gone")}
    gone = f", {counts['gone']} gone meanwhile" if counts["gone"] else ""
    tell(f"{counts['changed']} changed{gone}.")
