"""``kopf crds``: the custom resource definitions of the models in files and modules."""

from __future__ import annotations

import pathlib
from collections.abc import Collection
from typing import Any

import click


@click.command()
@click.option("-m", "--module", "modules", multiple=True, help="Import a module (repeatable).")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=pathlib.Path),
    metavar="PATH",
    help="Write to this file, or to a file for each kind in this folder.",
)
@click.option("-v", "--verbose", is_flag=True, help="Show also the tracebacks of users' code.")
@click.argument("paths", nargs=-1)
def crds(
    paths: Collection[str], modules: Collection[str], output: pathlib.Path | None, verbose: bool
) -> None:
    """Show the custom resource definitions of the models. No cluster is needed."""
    from kopf_kits.definitions.writing import dump

    if not paths and not modules:
        raise click.UsageError("Name a file or a module with models.")
    definitions = load_definitions(paths, modules)
    if output is None:
        click.echo(dump(definitions), nl=False)
    elif output.is_dir() or not output.suffix:
        output.mkdir(parents=True, exist_ok=True)
        for definition in definitions:
            path = output / f"{definition['metadata']['name']}.yaml"
            path.write_text(dump([definition]), "utf-8")
            click.echo(f"Written {path}", err=True)
    else:
        output.write_text(dump(definitions), "utf-8")
        click.echo(f"Written {output}", err=True)


def load_definitions(paths: Collection[str], modules: Collection[str]) -> list[dict[str, Any]]:
    """The definitions of all models there. Raises :class:`DefinitionError` if there are none."""
    from kopf_kits.definitions.collecting import collect_models
    from kopf_kits.definitions.crds import make_definitions
    from kopf_kits.definitions.errors import DefinitionError
    from kopf_kits.loading import preload

    definitions = make_definitions(collect_models(preload(paths, modules)))
    if not definitions:
        names = ", ".join([*paths, *modules])
        raise DefinitionError(f"There are no models with @kopf.resource() in {names}.")
    return definitions
