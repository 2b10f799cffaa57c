"""``kopf sandbox``: a local cluster until stopped."""

from __future__ import annotations

import contextlib
import pathlib
import signal
import threading
from collections.abc import Collection, Iterator
from typing import Any

import click

from kopf_kits.cli.options import logging_options, manifest_options
from kopf_kits.locals import Engine, local_cluster


@click.command()
@logging_options
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="The port; any by default.")
@click.option(
    "--kubeconfig",
    metavar="PATH",
    help="Where to write the kubeconfig; by default, to a temporary file.",
)
@manifest_options
def sandbox(port: int, kubeconfig: str | None, engine: str, files: Collection[str]) -> None:
    """
    Serve a local Kubernetes API until stopped, for development and tests.

    It listens on the loopback interface only. The emulator checks no credentials.
    """
    path = None if kubeconfig is None else pathlib.Path(kubeconfig)
    with (
        _stop_flag() as stopped,
        _explained_ports(port),
        local_cluster(Engine(engine), port=port, kubeconfig=path) as cluster,
    ):
        for title in cluster.apply([pathlib.Path(name) for name in files]):
            click.echo(f"Applied {title}")
        click.echo(f"The sandbox is ready at {cluster.url}")
        click.echo(f"Use it with: export KUBECONFIG={cluster.kubeconfig.resolve()}")
        click.echo("Press Ctrl+C to stop.")
        stopped.wait()


@contextlib.contextmanager
def _explained_ports(port: int) -> Iterator[None]:
    try:
        yield
    except OSError as e:
        raise click.ClickException(f"Cannot serve on port {port}: {e.strerror or e}") from e


@contextlib.contextmanager
def _stop_flag() -> Iterator[threading.Event]:
    """A flag that is raised by the signals, so that everything started is stopped."""
    flag = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield flag
        return

    def stop(*_: Any) -> None:
        flag.set()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield flag
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
