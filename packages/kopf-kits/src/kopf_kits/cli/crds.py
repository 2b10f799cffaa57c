"""``kopf crds``: the custom resource definitions of the models in files and modules."""

from __future__ import annotations

import asyncio
import logging
import pathlib
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

import click
from click.exceptions import Exit

from kopf_kits.cli.controls import CLIControls
from kopf_kits.cli.duty.options import configure_output, make_access
from kopf_kits.cli.targets import target_options

if TYPE_CHECKING:
    from kopf_cogs.clients.session import Client
    from kopf_kits.definitions.comparing import Change

Obj = dict[str, Any]
Found = Mapping[str, "list[Change] | None"]
"""The breaking changes of each definition; ``None`` if the definition is not known there."""

APPLYING = "apply-crds"
"""The id of the startup activity of ``kopf run --apply-crds``."""

logger = logging.getLogger("kopf.cli")


@click.command()
@click.option("-m", "--module", "modules", multiple=True, help="Import a module (repeatable).")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=pathlib.Path),
    metavar="PATH",
    help="Write to this file, or to a file for each kind in this folder.",
)
@click.option(
    "--against",
    metavar="FILE|cluster",
    help="Show the breaking changes; if there are any, write nothing and exit with 1.",
)
@click.option("--force", is_flag=True, help="With --against: write even breaking changes.")
@click.option("-v", "--verbose", is_flag=True, help="Show also the tracebacks of users' code.")
@target_options
@click.argument("paths", nargs=-1)
@click.make_pass_decorator(CLIControls, ensure=True)
def crds(
    controls: CLIControls,
    /,
    paths: Collection[str],
    modules: Collection[str],
    output: pathlib.Path | None,
    against: str | None,
    force: bool,
    verbose: bool,
) -> None:
    """Show the custom resource definitions of the models. No cluster is needed."""
    from kopf_kits.definitions.costs import find_excesses
    from kopf_kits.definitions.known import make_manifests

    if not paths and not modules:
        raise click.UsageError("Name a file or a module with models.")
    if force and against is None:
        raise click.UsageError("Use --force with --against only.")
    configure_output(verbose=verbose, debug=False, color=None)
    manifests = make_manifests(load_models(paths, modules))
    definitions = [definition for definition, *_ in manifests.values()]
    for definition in definitions:
        for text in find_excesses(definition):
            click.echo(f"Warning: {text}", err=True)
    if against is not None:
        _tell_uncompared([policy for _, *policies in manifests.values() for policy in policies])
        _compare(controls, definitions, against, force=force)
    if against is None or output is not None:
        _write(manifests, output)


def _tell_uncompared(policies: Iterable[Obj]) -> None:
    """Name the policies: Kopf cannot compare their expressions, which are code."""
    names = ", ".join(dict.fromkeys(policy["metadata"]["name"] for policy in policies))
    if names:
        text = "A new or changed policy can refuse the next update of a stored object."
        click.echo(f"Policies are not compared: {names}. {text}", err=True)


def _compare(
    controls: CLIControls, definitions: Sequence[Obj], against: str, *, force: bool
) -> None:
    """Show the breaking changes; exit if there are any, unless ``force`` is set."""
    if against == "cluster":
        found = _compare_with_cluster(controls, definitions)
    else:
        found = asyncio.run(_compare_with_file(pathlib.Path(against), definitions))
    for name, known in found.items():
        if known is None:
            click.echo(f"{name} is not defined there: it is a new kind.", err=True)
    changes = [change for known in found.values() for change in known or ()]
    for change in changes:
        click.echo(str(change))
    click.echo(f"Breaking changes: {len(changes)}." if changes else "Nothing breaks.", err=True)
    if changes and not force:
        raise Exit(1)


def _compare_with_cluster(controls: CLIControls, definitions: Iterable[Obj]) -> Found:
    from kopf_kits.cli.duty.visiting import visit
    from kopf_kits.definitions.applying import find_changes

    async def errand(client: Client) -> Found:
        return {d["metadata"]["name"]: await find_changes(client, d) for d in definitions}

    return visit(make_access(controls), errand)


async def _compare_with_file(path: pathlib.Path, definitions: Iterable[Obj]) -> Found:
    """The breaking changes for the definitions and the objects in the file."""
    from kopf_kits.definitions.comparing import compare
    from kopf_kits.definitions.objects import find_misfits
    from kopf_kits.manifests import read_manifests

    known = [obj for _, obj in read_manifests([path])]
    found: dict[str, list[Change] | None] = {}
    for definition in definitions:
        spec, name = definition["spec"], definition["metadata"]["name"]

        async def select(spec: Obj = spec) -> AsyncIterator[Obj]:
            for obj in known:
                group = str(obj["apiVersion"]).partition("/")[0]
                if (group, obj["kind"]) == (spec["group"], spec["names"]["kind"]):
                    yield obj

        found[name] = None
        for old in known:
            if old["kind"] == definition["kind"] and old["metadata"].get("name") == name:
                misfits = await find_misfits(old, definition, select())
                found[name] = [*(found[name] or ()), *compare(old, definition), *misfits]
    return found


def apply_at_start(modules: Iterable[ModuleType], *, force: bool) -> None:
    """Let the operator define the kinds of the models in the cluster when it starts.

    This is the last startup handler: the others can prepare the credentials for the login.
    """
    from kopf_core.actions.context import operator_var
    from kopf_core.actions.errors import PermanentError
    from kopf_core.intents.decorators import startup
    from kopf_core.intents.registries import get_default_registry
    from kopf_kits.definitions.applying import apply_definitions, apply_policies
    from kopf_kits.definitions.collecting import collect_models
    from kopf_kits.definitions.errors import DefinitionError
    from kopf_kits.definitions.known import make_manifests

    registry = get_default_registry()
    manifests = make_manifests(collect_models(modules))
    definitions = [definition for definition, *_ in manifests.values()]
    if not definitions:
        logger.warning("There are no models with @kopf.resource() to be defined by --apply-crds.")
        return

    @startup(registry=registry, id=APPLYING)
    async def apply(**_: Any) -> None:
        client = operator_var.get().client
        assert client is not None
        converted = {handler.kind for handler in registry.conversions}
        try:
            names = await apply_definitions(client, definitions, force=force, converted=converted)
            policies = [policy for name in names for policy in manifests[name][1:]]
            await apply_policies(client, policies)
        except DefinitionError as e:
            raise PermanentError(str(e)) from e
        logger.info(f"The definitions are applied: {', '.join(names)}")


def _write(manifests: Mapping[str, Sequence[Obj]], output: pathlib.Path | None) -> None:
    from kopf_kits.definitions.writing import dump

    everything = [obj for objects in manifests.values() for obj in objects]
    if output is None:
        click.echo(dump(everything), nl=False)
    elif output.is_dir() or not output.suffix:
        output.mkdir(parents=True, exist_ok=True)
        for name, objects in manifests.items():
            path = output / f"{name}.yaml"
            path.write_text(dump(objects), "utf-8")
            click.echo(f"Written {path}", err=True)
    else:
        output.write_text(dump(everything), "utf-8")
        click.echo(f"Written {output}", err=True)


def load_models(paths: Collection[str], modules: Collection[str]) -> list[type]:
    """The models in the files and modules. Raises :class:`DefinitionError` if there are none."""
    from kopf_kits.definitions.collecting import collect_models
    from kopf_kits.definitions.errors import DefinitionError
    from kopf_kits.loading import preload

    models = collect_models(preload(paths, modules))
    if not models:
        names = ", ".join([*paths, *modules])
        raise DefinitionError(f"There are no models with @kopf.resource() in {names}.")
    return models
