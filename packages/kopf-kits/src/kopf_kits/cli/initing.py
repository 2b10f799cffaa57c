"""``kopf init``: a project to begin with; and its updates by newer versions."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import TYPE_CHECKING

import click
from click.exceptions import Exit

if TYPE_CHECKING:
    from kopf_cogs.structs.resources import Resource
    from kopf_core.reactor.life.essentials import OperatorOptions
    from kopf_kits.scaffold.projects import Answers

CONFLICTS = 1
"""The exit code if there are conflicts that people must resolve."""


@click.command()
@click.argument("name", required=False)
@click.option("--group", default="example.com", help="The API group; example.com by default.")
@click.option(
    "--namespaced/--cluster-wide",
    "is_namespaced",
    default=False,
    help="Serve one namespace, or all namespaces (the default).",
)
@click.option("--update", is_flag=True, help="Merge the newer scaffold into the current project.")
@click.option(
    "-d",
    "--directory",
    "folder",
    type=click.Path(file_okay=False, path_type=pathlib.Path),
    help="The folder of the project. By default, it has the name of the project. "
    "With --update, it is the current folder.",
)
def init(
    name: str | None, group: str, is_namespaced: bool, update: bool, folder: pathlib.Path | None
) -> None:
    """Make a project of an operator: handlers, tests, checks, an image, and manifests."""
    if update and name is not None:
        raise click.UsageError("Use either a NAME or --update, not both.")
    if update:
        _update(folder or pathlib.Path())
        return
    if name is None:
        raise click.UsageError("Name the project: in small letters, such as 'website'.")
    # These imports take time, and the help and wrong options do not need them.
    from kopf_cogs.helpers.versions import get_version
    from kopf_kits.scaffold import projects

    answers = projects.Answers(
        name=name, group=group, version=get_version() or "1.46", is_namespaced=is_namespaced
    )
    folder = folder or pathlib.Path(name)
    projects.create(folder, answers, render_project(answers))
    click.echo(f"The project is in {folder}. Now: cd {folder} && make test demo")


def _update(folder: pathlib.Path) -> None:
    from kopf_cogs.helpers.versions import get_version
    from kopf_kits.scaffold import projects

    answers, base = projects.load(folder)
    answers = dataclasses.replace(answers, version=get_version() or answers.version)
    changed = projects.update(folder, answers, render_project(answers), base)
    for path, has_conflicts in changed.items():
        click.echo(f"{'Conflicts in' if has_conflicts else 'Updated'} {path}")
    if not changed:
        click.echo("Everything is up to date.")
    if any(changed.values()):
        raise Exit(CONFLICTS)


def render_project(answers: Answers) -> dict[str, str]:
    """All the files of the project: the scaffold, and its deployment."""
    import yaml

    from kopf_kits.cli.shipping import make_files, make_values
    from kopf_kits.scaffold import projects
    from kopf_kits.shipping.choosing import make_permissions
    from kopf_kits.shipping.writing import Deployment

    files = projects.render(answers)
    values = make_values(
        make_permissions(*_declare(answers)),
        image=answers.image,
        namespaces=answers.namespaces,
        args=("-m", f"{answers.package}.handlers"),
    )
    definitions = [yaml.safe_load(files["manifests/crd.yaml"])]
    deployment = Deployment(answers.name, answers.name, values, definitions)
    for form, place in (("helm", "deploy/chart"), ("kustomize", "deploy/kustomize")):
        made = make_files(form, deployment)
        files |= {f"{place}/{path}": text for path, text in made.items()}
    return files


def _declare(answers: Answers) -> tuple[OperatorOptions, list[Resource]]:
    """The same operator as the files of the project declare, and the kinds that it knows."""
    from kopf_cogs.structs.resources import Resource
    from kopf_core.intents.decorators import reconcile
    from kopf_core.intents.registries import OperatorRegistry
    from kopf_core.reactor.life.essentials import OperatorOptions
    from kopf_kits.roles.kinds import VERBS

    registry = OperatorRegistry()
    names = [(answers.group, answers.plural), ("", "configmaps")]
    reconcile(*names[0], owns=["configmaps"], registry=registry)(lambda **_: [])
    operator = OperatorOptions(registry=registry, namespaces=answers.namespaces)
    status = frozenset({"status"})
    return operator, [
        Resource(group, "v1", plural, namespaced=True, subresources=status, verbs=VERBS)
        for group, plural in names
    ]
