"""Choices of the command line for one run, besides the options of the operator itself."""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

import click

from kopf_kits.cli import reloading
from kopf_kits.cli.interrupts import exiting_when_interrupted

if TYPE_CHECKING:
    from kopf_core.reactor.life.once import Once


@dataclasses.dataclass(frozen=True, kw_only=True)
class Choices:
    """The options of ``kopf run`` by their names."""

    paths: Collection[str]
    modules: Collection[str]
    dev: bool
    reload: bool | None
    processes: int
    once: Once | None
    sandbox: bool
    files: Collection[str]
    engine: str
    apply_crds: bool
    force: bool

    @property
    def needs_supervisor(self) -> bool:
        """Whether the operator runs in other processes than that of the command."""
        is_single = self.processes == 1
        return not is_single or (self.once is None and reloading.is_wanted(self.reload, self.dev))

    @contextlib.contextmanager
    def started_sandbox(self) -> Iterator[None]:
        """Run a sandbox inside of the block, if it is chosen."""
        if not self.sandbox:
            yield
            return
        # These imports take time, and the help and wrong options do not need them.
        from kopf_kits.locals import Engine, local_cluster, using_kubeconfig
        from kopf_kits.manifests import describe_applied

        with contextlib.ExitStack() as stack:
            with exiting_when_interrupted():
                cluster = stack.enter_context(local_cluster(Engine(self.engine)))
                stack.enter_context(using_kubeconfig(cluster.kubeconfig))
                applied = cluster.apply([pathlib.Path(path) for path in self.files])
                for line in describe_applied(applied):
                    click.echo(line, err=True)
            click.echo(f"The sandbox is ready: export KUBECONFIG={cluster.kubeconfig}", err=True)
            yield
