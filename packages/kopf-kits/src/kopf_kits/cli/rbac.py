"""``kopf rbac``: the least role for the handlers in files, or its missing rules."""

from __future__ import annotations

import asyncio
import inspect
import pathlib
from collections.abc import Awaitable, Callable, Collection
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.exceptions import Exit

from kopf_kits.cli.controls import CLIControls
from kopf_kits.cli.declarations import Declarations, load_operator
from kopf_kits.cli.duty.options import configure_output
from kopf_kits.cli.interrupts import exiting_when_interrupted
from kopf_kits.cli.options import LabelsParamType, used_option
from kopf_kits.cli.targets import is_chosen, target_options

if TYPE_CHECKING:
    from kopf_cogs.clients.session import Client
    from kopf_core.reactor.life.essentials import OperatorOptions
    from kopf_kits.roles.demands import Demand
    from kopf_kits.roles.needing import Findings
    from kopf_kits.roles.writing import Account

T = TypeVar("T")

BACKOFFS = (0.5, 1.0)
"""In seconds: people do not wait for the cluster for as long as operators do."""


@click.command()
@click.option(
    "-A", "--all-namespaces", "clusterwide", is_flag=True, help="Write roles for all namespaces."
)
@click.option(
    "-n",
    "--namespace",
    "namespaces",
    multiple=True,
    help="For this namespace, or for those matching the pattern (repeatable).",
)
@click.option(
    "--namespace-selector",
    type=LabelsParamType(),
    metavar="LABELS",
    help="For the namespaces with these labels.",
)
@click.option("-P", "--peering", "peering_name", help="The name of the peering object.")
@click.option("--standalone", is_flag=True, default=None, help="Ignore all other operators.")
@click.option("--lease", metavar="NAME[@NAMESPACE]", help="The Lease to elect a leader by.")
@click.option("--shards", metavar="NAME[@NAMESPACE]", help="The Leases to share objects by.")
@click.option("--ring", metavar="NAME[@NAMESPACE]", help="The ControllerRing to be a shard of.")
@click.option("-m", "--module", "modules", multiple=True, help="Import a module (repeatable).")
@click.option(
    "-f",
    "--file",
    "files",
    multiple=True,
    metavar="PATH",
    help="A manifest with definitions of custom kinds (repeatable).",
)
@click.option("--name", help="The name of the roles; settings.name by default.")
@click.option(
    "--account",
    metavar="NAME[@NAMESPACE]",
    help="The service account that gets the roles; with --verify, the account to verify.",
)
@used_option
@click.option("--apply-crds", is_flag=True, help='Add the rights for "kopf run --apply-crds".')
@click.option(
    "--verify", is_flag=True, help="Name the rules that the cluster lacks; write no roles."
)
@click.option(
    "--startup/--no-startup",
    default=True,
    help="Call the startup handlers that accept the settings, or skip them; called by default.",
)
@target_options
@click.argument("paths", nargs=-1)
@click.make_pass_decorator(CLIControls, ensure=True)
def rbac(
    controls: CLIControls,
    /,
    paths: Collection[str],
    modules: Collection[str],
    files: Collection[str],
    name: str | None,
    account: str | None,
    used: Collection[pathlib.Path],
    apply_crds: bool,
    verify: bool,
    startup: bool,
    **options: Any,
) -> None:
    """Write the least roles for the handlers from the files and modules.

    Name the namespaces, the peering, and the leases as for "kopf run". With --context or
    --kubeconfig, the command asks the cluster for its kinds and namespaces. With --verify, it names
    the missing rules of the cluster, and fails if a rule is missing.
    """
    if options["namespaces"] and options["clusterwide"]:
        raise click.UsageError("Use either --namespace or --all-namespaces, not both.")
    if not paths and not modules:
        raise click.UsageError("Name a file or a module with handlers.")
    configure_output(verbose=False, debug=False, color=None)
    declared = load_operator(controls, paths, modules, **options)
    operator, models, _ = declared
    subject = _parse_account(account, operator)
    with exiting_when_interrupted():
        if startup:
            asyncio.run(_configure(operator))
        _decide_on_leader(operator, subject)
        demands = _list_demands(declared, subject, used, models if apply_crds else ())
        if verify:
            _tell_missing(asyncio.run(_verify(operator, subject, demands)))
        else:
            found = asyncio.run(_find(operator, files, models, demands))
            _write(found, name or operator.settings.name, subject)


def _list_demands(
    declared: Declarations,
    account: Account | None,
    used: Collection[pathlib.Path],
    applied: Collection[type],
) -> Collection[Demand]:
    from kopf_kits.roles.demands import list_applied, list_kubeconfigs, list_served, list_used
    from kopf_kits.roles.usage import merge_usages

    home = _choose_namespace(account, declared.operator)
    served = list_served(declared.operator.settings.admission.server, home)
    kubeconfigs = list_kubeconfigs(declared.kubeconfigs, home)
    return [*list_used(merge_usages(used)), *list_applied(applied), *served, *kubeconfigs]


async def _configure(operator: OperatorOptions) -> None:
    """Run only the startup handlers that can change the settings."""
    from kopf_core.engines.activities import ActivityError, ActivityRunner
    from kopf_core.intents.causes import Activity

    every = operator.registry.get_activity_handlers(Activity.STARTUP)
    handlers = [h for h in every if "settings" in inspect.signature(h.fn).parameters]
    runner = ActivityRunner(operator.settings, operator.memo, operator.indices)
    try:
        await runner.run(Activity.STARTUP, handlers, get_left=lambda: 0.0)  # no handler is retried
    except ActivityError as e:
        raise click.ClickException(f"{e}. Use --no-startup to go on without it.") from e
    finally:
        runner.close()


def _parse_account(text: str | None, operator: OperatorOptions) -> Account | None:
    from kopf_kits.roles.writing import Account

    if text is None:
        return None
    name, _, namespace = text.partition("@")
    return Account(name, namespace or _choose_namespace(None, operator))


def _choose_namespace(account: Account | None, operator: OperatorOptions) -> str:
    """The namespace of the account; without an account, the most likely one of the operator."""
    from kopf_cogs.structs.namespaces import select_specific_namespaces

    if account is not None:
        return account.namespace
    return min(map(str, select_specific_namespaces(operator.namespaces)), default="default")


def _decide_on_leader(operator: OperatorOptions, account: Account | None) -> None:
    """Adjust the settings of leaders and shards as the operator does at its start."""
    leasing, sharding = operator.settings.leasing, operator.settings.sharding
    for group in (leasing, sharding):
        group.namespace = group.namespace or _choose_namespace(account, operator)
    names = (leasing.name, sharding.name, sharding.ring)
    operator.settings.peering.standalone |= any(name is not None for name in names)


async def _find(
    operator: OperatorOptions,
    files: Collection[str],
    models: Collection[type],
    demands: Collection[Demand],
) -> Findings:
    from kopf_kits.definitions.known import gather_definitions
    from kopf_kits.roles.needing import ask_needs, find_needs

    if is_chosen():
        return await _run_errand(operator, lambda client: ask_needs(client, operator, demands))
    definitions = gather_definitions([pathlib.Path(path) for path in files], models)
    return await find_needs(operator, definitions, demands)


async def _verify(
    operator: OperatorOptions, account: Account | None, demands: Collection[Demand]
) -> list[str]:
    from kopf_kits.roles.needing import ask_needs, verify

    async def errand(client: Client) -> list[str]:
        needs, _ = await ask_needs(client, operator, demands)
        return await verify(client, needs, account)

    return await _run_errand(operator, errand)


async def _run_errand(operator: OperatorOptions, errand: Callable[[Client], Awaitable[T]]) -> T:
    from kopf_core.reactor.process.errands import Access, run_errand

    operator.settings.networking.error_backoffs = BACKOFFS
    access = Access(settings=operator.settings, registry=operator.registry)
    return await run_errand(access, errand)


def _write(found: Findings, name: str | None, account: Account | None) -> None:
    from kopf_kits.roles.writing import write_roles

    name = name or (account.name if account else "operator")
    manifest = write_roles(found.needs, name, account=account, remarks=found.remarks)
    click.echo(manifest, nl=False)


def _tell_missing(lines: Collection[str]) -> None:
    for line in lines:
        click.echo(line)
    if lines:
        raise Exit(1)
    click.echo("Nothing is missing.")
