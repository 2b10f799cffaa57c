"""``kopf models``: typed dictionaries of the kinds that the cluster serves."""

from __future__ import annotations

import pathlib
from collections.abc import Collection
from typing import TYPE_CHECKING

import click

from kopf_kits.cli.controls import CLIControls
from kopf_kits.cli.duty.options import configure_output, make_access
from kopf_kits.cli.targets import target_options

if TYPE_CHECKING:
    from kopf_cogs.clients.session import Client


@click.command()
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=pathlib.Path),
    metavar="PATH",
    help="Write to this file.",
)
@click.option("-v", "--verbose", is_flag=True, help="Show also the tracebacks.")
@target_options
@click.argument("kinds", nargs=-1, required=True, metavar="KIND...")
@click.make_pass_decorator(CLIControls, ensure=True)
def models(
    controls: CLIControls,
    /,
    kinds: Collection[str],
    output: pathlib.Path | None,
    verbose: bool,
) -> None:
    """Write the kinds of the cluster as typed dictionaries of Python.

    KIND is any name of a kind: deployments, deploy, deployments.apps, apps/v1/deployments.
    """
    from kopf_kits.cli.duty.visiting import visit
    from kopf_kits.typed.fetching import fetch_kinds
    from kopf_kits.typed.reading import read_structures
    from kopf_kits.typed.writing import write_module

    configure_output(verbose=verbose, debug=False, color=None)

    async def errand(client: Client) -> str:
        found = await fetch_kinds(client, kinds)
        names = ", ".join(str(resource) for resource, _ in found)
        return write_module(read_structures(found), f"Made by `kopf models` of {names}.")

    text = visit(make_access(controls), errand)
    if output is None:
        click.echo(text, nl=False)
    else:
        output.write_text(text, "utf-8")
        click.echo(f"Written {output}", err=True)
