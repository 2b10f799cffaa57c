"""``kopf sandbox``: a local cluster until Ctrl+C."""

from __future__ import annotations

import pathlib
import threading
from collections.abc import Collection

import click

from kopf_kits.cli.interrupts import exiting_when_interrupted
from kopf_kits.cli.options import logging_options, manifest_options


@click.command()
@logging_options
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="The port; any by default.")
@click.option(
    "--kubeconfig",
    metavar="PATH",
    help="The file for the kubeconfig; a temporary file by default.",
)
@click.option("--rbac", is_flag=True, help="Check permissions by the roles and their bindings.")
@manifest_options
def sandbox(
    port: int, kubeconfig: str | None, rbac: bool, engine: str, files: Collection[str]
) -> None:
    """Serve a local Kubernetes API for development and tests, until Ctrl+C.

    It listens on the loopback interface only. The emulator checks no credentials without --rbac.
    With --rbac, the kubeconfig belongs to the admin of the cluster. It has a context for each
    service account in the manifests, too.
    """
    from kopf_kits.locals import Engine, local_cluster  # the help does not need it
    from kopf_kits.manifests import describe_applied, read_manifests
    from kopf_kits.sandbox.kubeconfigs import add_accounts

    path = None if kubeconfig is None else pathlib.Path(kubeconfig)
    with (
        exiting_when_interrupted(),
        local_cluster(Engine(engine), port=port, kubeconfig=path, rbac=rbac) as cluster,
    ):
        paths = [pathlib.Path(name) for name in files]
        for line in describe_applied(cluster.apply(paths)):
            click.echo(line)
        click.echo(f"The sandbox is ready at {cluster.url}")
        click.echo(f"Use it with: export KUBECONFIG={cluster.kubeconfig.resolve()}")
        if rbac and Engine(engine) is Engine.EMULATOR:
            for name in add_accounts(cluster.kubeconfig, [obj for _, obj in read_manifests(paths)]):
                click.echo(f"Use it as a service account with: kopf run --context {name}")
        click.echo("Press Ctrl+C to stop.")
        threading.Event().wait()  # until interrupted
