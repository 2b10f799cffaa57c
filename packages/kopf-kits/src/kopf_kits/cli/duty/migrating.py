"""``kopf migrate``: rewrite the stored objects of a kind to its storage version."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import click

from kopf_kits.cli.duty.changing import Manner, agree
from kopf_kits.cli.duty.looking import finish, tell
from kopf_kits.cli.duty.options import Selection, output_option, visit_options

if TYPE_CHECKING:
    from kopf_cogs.clients.session import Client
    from kopf_core.reactor.process.errands import Access
    from kopf_kits.definitions.migrations import Migration

ADVICE = (
    "To keep the fields, declare conversions with @kopf.on.convert(), or add the fields "
    "to the storage version. To lose them, use --drop-fields."
)


@click.command()
@visit_options
@click.option(
    "--patience",
    type=click.FloatRange(min=0),
    default=30.0,
    show_default=True,
    help="Seconds with no progress of the migrator of the cluster; with 0, it is not asked.",
)
@click.option("--drop-fields", is_flag=True, help="Let the objects lose fields of older versions.")
@click.option("--dry-run", is_flag=True, help="Only show the plan.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@output_option
@click.argument("kind")
def migrate(
    access: Access,
    kind: str,
    patience: float,
    drop_fields: bool,
    dry_run: bool,
    yes: bool,
    output: str,
) -> None:
    """Rewrite the stored objects of a custom kind to its storage version.

    Then, older versions can be removed from the definition. If it is interrupted, start it again.
    """
    from kopf_kits.cli.duty.visiting import visit

    manner = Manner(dry_run=dry_run, yes=yes, output=output)
    migration = visit(access, lambda client: _migrate(client, kind, patience, manner, drop_fields))
    if output == "json":
        tell(json.dumps(_make_json(migration, manner), indent=2))
    elif migration.is_needed and not dry_run and not migration.problems:
        tell(_show_result(migration))
    left = ["The definition still has the older versions: repair, and start the command again."]
    finish([*migration.problems, *(left if migration.problems else [])])


async def _migrate(
    client: Client, name: str, patience: float, manner: Manner, drop_fields: bool
) -> Migration:
    from kopf_cogs.clients.objects import ObjectsAPI
    from kopf_kits.cli.duty.finding import Finder
    from kopf_kits.cli.targets import describe_target
    from kopf_kits.definitions.migrations import MigrationError, migrate, plan_migration

    resource = await Finder(ObjectsAPI(client), Selection(kind=name)).resolve()
    migration = await plan_migration(client, resource.name, with_cluster=patience > 0)
    _show_plan(migration, manner)
    if migration.is_needed and not manner.dry_run:
        if migration.kind.lost and not drop_fields:
            raise MigrationError(f"Nothing is migrated. {ADVICE}")
        question = f"Migrate {migration.kind.name} at {describe_target(client)}?"
        promise = "" if migration.kind.lost else "The objects do not change.\n"
        agree(manner, f"{promise}{question}")
        await migrate(client, migration, patience, lambda text: click.echo(text, err=True))
    return migration


def _show_plan(migration: Migration, manner: Manner) -> None:
    """Show the plan: in stderr, unless it is the whole output of a dry run."""
    if manner.output == "json" and (manner.yes or manner.dry_run):
        return
    for line in _describe(migration):
        click.echo(line, err=not manner.dry_run or not migration.is_needed)


def _describe(migration: Migration) -> Collection[str]:
    kind = migration.kind
    if not migration.is_needed:
        return [f"There is nothing to do: all of {kind.name} is stored in {kind.storage}."]
    lines = []
    if migration.is_rewriting_needed:
        count = len(migration.records)
        objects = f"1 object of {kind.name}" if count == 1 else f"{count} objects of {kind.name}"
        stored = "older versions" if migration.is_unfinished else " and ".join(kind.stored)
        lines.append(f"{objects} can be stored in {stored}: rewrite to {kind.storage}.")
    if migration.stale:
        lines.append(
            f"Of them, {len(migration.stale)} have managed fields of versions that are not served: "
            f"move these to {kind.storage}."
        )
    for version, fields in kind.lost.items():
        lines.append(
            f"The objects lose these fields of {version}, as {kind.storage} does not have them "
            f"and no webhook converts the objects: {', '.join(fields)}."
        )
    if migration.is_rewriting_needed:
        lines.append(f"Then, leave only {kind.storage} in status.storedVersions.")
    if migration.is_rewriting_needed and migration.migrator is not None:
        lines.append(f"{migration.migrator.version} is served, so it is tried first.")
    return lines


def _show_result(migration: Migration) -> str:
    kind = migration.kind
    if migration.done_by == "cluster":
        return f"The cluster has migrated {kind.name} to {kind.storage}."
    others = len(migration.records) - migration.rewritten
    current = f", {others} needed nothing" if others > 0 else ""
    return (
        f"{migration.rewritten} rewritten{current}: all of {kind.name} is stored in {kind.storage}."
    )


def _make_json(migration: Migration, manner: Manner) -> dict[str, Any]:
    """The migration for scripts: the names are stable."""
    kind = migration.kind
    return {
        "dryRun": manner.dry_run,
        "kind": kind.name,
        "storageVersion": kind.storage,
        "storedVersions": kind.stored,
        "objects": len(migration.records),
        "staleManagers": len(migration.stale),
        "lostFields": kind.lost,
        "clusterMigrator": migration.migrator.version if migration.migrator else None,
        "result": _get_result(migration, manner),
        "doneBy": migration.done_by,
        "rewritten": migration.rewritten,
        "problems": migration.problems,
    }


def _get_result(migration: Migration, manner: Manner) -> str:
    if not migration.is_needed:
        return "unchanged"
    if manner.dry_run:
        return "planned"
    return "failed" if migration.problems else "migrated"
