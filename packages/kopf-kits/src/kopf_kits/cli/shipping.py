"""``kopf manifests``: the deployment of an operator, in the form that the user wants."""

from __future__ import annotations

import asyncio
import pathlib
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import click

from kopf_kits.cli.controls import CLIControls
from kopf_kits.cli.interrupts import exiting_when_interrupted
from kopf_kits.cli.options import LabelsParamType, NameParamType, used_option

if TYPE_CHECKING:
    from kopf_core.reactor.life.essentials import OperatorOptions
    from kopf_kits.shipping.choosing import NamespacedRight
    from kopf_kits.shipping.writing import Deployment

FORMS = ("plain", "kustomize", "helm")


@click.command()
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMS),
    default="plain",
    help="The form: 'plain' (by default), a base for 'kustomize', or a 'helm' chart.",
)
@click.option(
    "-d",
    "--directory",
    "folder",
    type=click.Path(file_okay=False, path_type=pathlib.Path),
    help="Where to write the files; the plain ones are printed by default.",
)
@click.option(
    "--name",
    type=NameParamType(),
    required=True,
    help="The name of the operator, and of all its objects.",
)
@click.option(
    "--into",
    "home",
    type=NameParamType(),
    default="default",
    help="The namespace of the operator; 'default' by default.",
)
@click.option("--image", required=True, metavar="REPOSITORY:TAG", help="The image to run.")
@click.option(
    "-n", "--namespace", "namespaces", multiple=True, help="Serve this namespace (repeatable)."
)
@click.option(
    "--namespace-selector",
    type=LabelsParamType(),
    metavar="LABELS",
    help="Serve the namespaces with these labels, such as 'tenant in (a, b)'.",
)
@click.option(
    "--processes",
    type=click.IntRange(min=1),
    default=1,
    help="Run so many processes in the pod; 1 by default.",
)
@click.option(
    "--replicas",
    type=click.IntRange(min=0),
    help="The number of pods; by default, 2 with --shards or --ring, otherwise 1.",
)
@click.option("--shards", is_flag=True, help="All pods work, each with its part of the objects.")
@click.option(
    "--ring",
    metavar="NAME",
    help="All pods work, each as a shard of this ControllerRing of kubernetes-controller-sharding.",
)
@click.option(
    "--arg",
    "args",
    multiple=True,
    help="A file of the image instead of /app/main.py, or another option (repeatable).",
)
@click.option("-m", "--module", "modules", multiple=True, help="Import a module (repeatable).")
@click.option(
    "-f",
    "--file",
    "files",
    multiple=True,
    type=click.Path(exists=True, path_type=pathlib.Path),
    metavar="PATH",
    help="A manifest with definitions to deploy (repeatable).",
)
@used_option
@click.argument("paths", nargs=-1)
@click.make_pass_decorator(CLIControls, ensure=True)
def manifests(
    controls: CLIControls,
    /,
    form: str,
    folder: pathlib.Path | None,
    name: str,
    home: str,
    namespaces: Collection[str],
    files: Collection[pathlib.Path],
    used: Collection[pathlib.Path],
    paths: Collection[str],
    modules: Collection[str],
    **options: Any,
) -> None:
    """Write how to deploy the operator with the handlers from the files and modules.

    The operator gets the rights for the kinds that its handlers serve, own, index, or relate to,
    and for --arg=--apply-crds. The definitions of its models are written, too.
    """
    if folder is None and form != "plain":
        raise click.UsageError("Use --directory: there are several files.")
    _check_sharing(options)
    # These imports take time, and the help and wrong options do not need them.
    from kopf_cogs.structs.namespaces import select_specific_namespaces
    from kopf_kits.cli.declarations import load_operator
    from kopf_kits.definitions.known import gather_definitions
    from kopf_kits.shipping.writing import Deployment

    for pattern in {*namespaces} - select_specific_namespaces(namespaces):
        raise click.UsageError(f"{pattern!r} is a pattern: name the namespaces, each with its -n.")
    ring = options["ring"]
    declared = load_operator(controls, paths, modules, namespaces=namespaces, ring=ring)
    definitions = gather_definitions(files, declared.models)
    more = _list_more_rights(used, declared.models if "--apply-crds" in options["args"] else ())
    with exiting_when_interrupted():
        permissions = asyncio.run(_find_permissions(declared.operator, definitions, more))
    if places := sorted({source.namespace or "" for source in declared.kubeconfigs}):
        permissions["clusters"] = {"kubeconfigNamespaces": places}
    values = make_values(permissions, namespaces=namespaces, **options)
    _write(form, folder, Deployment(name, home, values, definitions))


def _write(form: str, folder: pathlib.Path | None, deployment: Deployment) -> None:
    """Print the plain manifests, or write the files and print their names."""
    from kopf_kits.shipping.writing import write_plain

    if "webhooks" in deployment.values:
        server = f'kopf.WebhookServiceServer("{deployment.name}")'
        click.echo(f"The webhooks need {server} in the pod: set it if you have not yet.", err=True)
    if folder is None:
        click.echo(write_plain(deployment), nl=False)
        return
    for path in save(make_files(form, deployment), folder):
        click.echo(f"Written {path}", err=True)


def _check_sharing(options: Mapping[str, Any]) -> None:
    """Refuse several ways to share the objects, and a ring with a namespace."""
    processes, ring = options["processes"] > 1, options["ring"]
    excluded = {
        ("processes", "replicas"): processes and (options["replicas"] or 0) > 1,
        ("processes", "shards"): processes and options["shards"],
        ("processes", "ring"): processes and ring is not None,
        ("shards", "ring"): options["shards"] and ring is not None,
    }
    for one, other in [names for names, is_excluded in excluded.items() if is_excluded]:
        raise click.UsageError(f"Use either --{one} or --{other}, not both.")
    if ring is not None and "@" in ring:
        raise click.UsageError("Use --ring with a name only: the Leases are where the pods are.")


def _list_more_rights(
    used: Collection[pathlib.Path], applied: Collection[type]
) -> list[NamespacedRight]:
    """The rights that handlers used in tests, and the rights to apply these models."""
    from kopf_kits.roles.demands import list_applied, list_used
    from kopf_kits.roles.usage import merge_usages

    demands = [*list_used(merge_usages(used)), *list_applied(applied)]
    return [(demand.right, demand.namespaced) for demand in demands]


async def _find_permissions(
    operator: OperatorOptions,
    definitions: Collection[Mapping[str, Any]],
    more: Collection[NamespacedRight],
) -> dict[str, Any]:
    from kopf_kits.definitions.known import list_kinds
    from kopf_kits.roles.kinds import choose_kinds
    from kopf_kits.shipping import choosing

    kinds = choose_kinds(await list_kinds(definitions), operator)
    for remark in kinds.remarks:
        click.echo(f"Warning: {remark}", err=True)
    return choosing.make_permissions(operator, kinds.resources, more)


def make_values(
    permissions: Mapping[str, Any],
    *,
    image: str,
    namespaces: Collection[str],
    args: Collection[str],
    namespace_selector: str | None = None,
    replicas: int | None = None,
    processes: int = 1,
    shards: bool = False,
    ring: str | None = None,
) -> dict[str, Any]:
    """The values of the chart that differ from its defaults.

    If the pods share the objects, there are two by default: a single one has nothing to share.
    """
    if replicas is None:
        replicas = 2 if shards or ring else 1
    repository, _, tag = image.rpartition(":")
    if not repository or "/" in tag:
        repository, tag = image, "latest"
    values = {"image": {"repository": repository, "tag": tag}, **permissions}
    chosen: dict[str, Any] = {"namespaces": [*namespaces], "args": _complete(args)}
    chosen |= {"namespaceSelector": namespace_selector, "shards": shards, "ring": ring}
    values |= {key: value for key, value in chosen.items() if value}
    numbers = {"replicas": replicas, "processes": processes}
    return values | {key: number for key, number in numbers.items() if number != 1}


def _complete(args: Collection[str]) -> list[str]:
    """The arguments, with the usual file if there are only options, and none of a module."""
    is_named = any(arg.startswith(("-m", "--module")) or not arg.startswith("-") for arg in args)
    return [*args] if is_named or not args else [*args, "/app/main.py"]


def make_files(form: str, deployment: Deployment) -> dict[str, str]:
    """The files of the deployment in this form, by their paths."""
    from kopf_kits.shipping import writing

    if form == "helm":
        return writing.write_chart(deployment)
    if form == "kustomize":
        return writing.write_kustomize(deployment)
    return {"operator.yaml": writing.write_plain(deployment)}


def save(files: Mapping[str, str], folder: pathlib.Path) -> list[pathlib.Path]:
    """Write the files; get their paths."""
    written = []
    for name, text in sorted(files.items()):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        written.append(path)
    return written
