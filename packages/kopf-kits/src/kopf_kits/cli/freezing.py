"""``kopf freeze`` and ``kopf resume``: pause the operators from outside, and let them go on."""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable, Collection, Coroutine
from typing import Any, TypeVar

import click

from kopf_cogs.aiokits.clocks import SystemClock
from kopf_cogs.configs.settings import OperatorSettings
from kopf_core.engines.peering.identities import detect_person
from kopf_core.engines.peering.peers import Peer
from kopf_core.intents.registries import get_default_registry
from kopf_core.reactor.process.freezing import Gathering, Peerings
from kopf_core.reactor.process.freezing import freeze as freeze_peerings
from kopf_core.reactor.process.freezing import resume as resume_peerings
from kopf_kits.cli.controls import CLIControls
from kopf_kits.cli.interrupts import interruptible
from kopf_kits.cli.options import logging_options
from kopf_kits.cli.running import DEV_PRIORITY
from kopf_kits.cli.targets import target_options

PRIORITY = 100
"""Above the default priority of operators, which is zero."""

F = TypeVar("F", bound=Callable[..., Any])


def scope_options(fn: F) -> F:
    """Add the options that select operators; the command gets them as :class:`Peerings`."""

    @target_options
    @click.option(
        "-A", "--all-namespaces", "clusterwide", is_flag=True, help="Only cluster-wide operators."
    )
    @click.option(
        "-n",
        "--namespace",
        "namespaces",
        multiple=True,
        help="Only operators of this namespace or pattern (repeatable).",
    )
    @click.option("-i", "--id", "identity", help="The identity that pauses; user@host by default.")
    @click.option(
        "-P", "--peering", "peering_name", required=True, help="The name of the peering object."
    )
    @click.make_pass_decorator(CLIControls, ensure=True)
    @functools.wraps(fn)
    def wrapper(
        controls: CLIControls,
        /,
        clusterwide: bool,
        namespaces: Collection[str],
        identity: str | None,
        peering_name: str,
        **kwargs: Any,
    ) -> Any:
        if namespaces and clusterwide:
            raise click.UsageError("Use either --namespace or --all-namespaces, not both.")
        peerings = Peerings(
            name=peering_name,
            namespaces=namespaces,
            vault=controls.vault,
            settings=controls.settings or OperatorSettings(),
            registry=controls.registry or get_default_registry(),
        )
        return fn(peerings, identity or detect_person(), **kwargs)

    return wrapper  # type: ignore[return-value]


@click.command()
@logging_options
@click.option("--dev", is_flag=True, help=f"The priority of {DEV_PRIORITY}, as of developers.")
@click.option(
    "-p",
    "--priority",
    type=int,
    help=f"Pause operators with lower or equal priorities; {PRIORITY} by default.",
)
@click.option(
    "-t", "--lifetime", type=click.IntRange(min=1), required=True, help="The seconds of the pause."
)
@click.option("-m", "--message", help="The reason; the operators log it.")
@scope_options
def freeze(
    peerings: Peerings,
    identity: str,
    /,
    dev: bool,
    priority: int | None,
    lifetime: int,
    message: str | None,
) -> None:
    """Pause the operators, until resumed or for the time specified."""
    if priority is None:
        priority = DEV_PRIORITY if dev else PRIORITY
    now = SystemClock().now()
    peer = Peer(identity, priority, lifetime, now, message)
    for gathering in _run(freeze_peerings(peerings, peer)):
        remark = _remark(gathering, priority)
        click.echo(f"Frozen for {lifetime} seconds: {_title(gathering)}.{remark}")


@click.command()
@logging_options
@scope_options
def resume(peerings: Peerings, identity: str, /) -> None:
    """Let the frozen operators continue."""
    for gathering in _run(resume_peerings(peerings, identity)):
        click.echo(f"Resumed: {_title(gathering)}.{_remark_rest(gathering)}")


def _run(action: Coroutine[Any, Any, Collection[Gathering]]) -> Collection[Gathering]:
    if not click.get_current_context().meta["kopf.verbose"]:
        logging.getLogger().setLevel(logging.WARNING)  # a successful login is no news
    with interruptible():
        return asyncio.run(action)


def _title(gathering: Gathering) -> str:
    return f"the operators of the peering {gathering.place}"


def _remark(gathering: Gathering, priority: int) -> str:
    """A remark if the effect of the pause can surprise the user."""
    if not gathering.others:
        return " There are none of them now; those that start will be paused."
    higher = [str(peer) for peer in gathering.others if peer.priority > priority]
    return f" Not paused, as they have higher priorities: {', '.join(higher)}." if higher else ""


def _remark_rest(gathering: Gathering) -> str:
    """Name the members that still pause others: the same person can have another identity."""
    priorities = {peer.priority for peer in gathering.others}
    if len(priorities) < 2:
        return ""
    first = [str(peer) for peer in gathering.others if peer.priority == max(priorities)]
    return f" Members with lower priorities are still paused by {', '.join(first)}."
