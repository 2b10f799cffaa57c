"""Local clusters for development: the emulated one, or real servers, started in this process.

Both are used in the same way: by a kubeconfig, as any other cluster.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import os
import pathlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from kopf_cogs.clients.kubeconfig import read_kubeconfig
from kopf_cogs.clients.session import Client
from kopf_kits.manifests import apply_manifests


class LocalClusterError(Exception):
    """A local cluster cannot start with these parameters; the message says why."""

    expected = True


class Engine(enum.StrEnum):
    """The server of the API of a local cluster."""

    EMULATOR = "emulator"
    """The sandbox of this framework: needs nothing, starts at once."""

    ENVTEST = "envtest"
    """The real kube-apiserver with etcd: needs their binaries, starts in some seconds."""


@dataclass(frozen=True)
class LocalCluster:
    """A running local cluster."""

    url: str
    kubeconfig: pathlib.Path

    def apply(self, paths: Sequence[pathlib.Path]) -> list[str]:
        """Apply manifests; returns the names of objects. Raises :class:`ManifestError`."""
        return asyncio.run(self._apply(paths))

    async def _apply(self, paths: Sequence[pathlib.Path]) -> list[str]:
        async with Client(read_kubeconfig([self.kubeconfig])) as client:
            return await apply_manifests(client, paths)


@contextlib.contextmanager
def local_cluster(
    engine: Engine = Engine.EMULATOR,
    *,
    port: int = 0,
    kubeconfig: pathlib.Path | None = None,
    rbac: bool = False,
) -> Iterator[LocalCluster]:
    """Start a local cluster, and stop it at exit.

    :param port: The port on the loopback interface; 0 is any free port.
    :param kubeconfig: Where to write the kubeconfig, in an existing folder; by default,
        to a temporary file, which is removed at exit. A file at a chosen path stays.
    :param rbac: Whether roles decide who may do what; with the real servers, they always do.

    Raises :class:`LocalClusterError` if the port is taken or if the kubeconfig cannot be written.
    Raises :class:`EnvtestError` if the real servers cannot start.
    """
    with contextlib.ExitStack() as stack:
        if kubeconfig is not None:
            _check_kubeconfig(kubeconfig)
        else:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="kopf-sandbox-"))
            kubeconfig = pathlib.Path(folder) / "kubeconfig"
        # Operators in clusters do not need these modules, so they are not imported at once.
        if engine is Engine.EMULATOR:
            from kopf_kits.sandbox import ClusterOptions, SandboxThread

            with _explained(f"Cannot serve on port {port}"):
                thread = SandboxThread(port=port, options=ClusterOptions(rbac=rbac), tls=rbac)
                sandbox = stack.enter_context(thread)
            with _explained(f"Cannot write the kubeconfig {kubeconfig}"):
                sandbox.write_kubeconfig(kubeconfig)
            yield LocalCluster(sandbox.url, kubeconfig)
        else:
            from kopf_kits.envtest import Envtest

            envtest = stack.enter_context(Envtest(port=port or None))
            with _explained(f"Cannot write the kubeconfig {kubeconfig}"):
                envtest.write_kubeconfig(kubeconfig)
            yield LocalCluster(envtest.url, kubeconfig)


def _check_kubeconfig(path: pathlib.Path) -> None:
    """Check that the kubeconfig can be at this path, before the cluster starts."""
    message = f"Cannot write the kubeconfig {path}"
    with _explained(message):
        if path.is_dir():
            raise LocalClusterError(f"{message}: it is a directory")
        if path.exists() and not path.is_file():  # e.g. /dev/null: it must stay
            raise LocalClusterError(f"{message}: it is not a regular file")
        if not path.parent.is_dir():
            raise LocalClusterError(f"{message}: the folder {path.parent} does not exist")


@contextlib.contextmanager
def _explained(message: str) -> Iterator[None]:
    try:
        yield
    except OSError as e:
        # The errors of asyncio have longer texts, with no more sense for users.
        reason = os.strerror(e.errno) if e.errno else str(e)
        raise LocalClusterError(f"{message}: {reason.lower()}") from e


@contextlib.contextmanager
def using_kubeconfig(path: pathlib.Path) -> Iterator[None]:
    """Make the kubeconfig the current one of this process, for all client libraries."""
    with using_environment({"KUBECONFIG": str(path)}):
        yield


@contextlib.contextmanager
def using_environment(variables: Mapping[str, str | None]) -> Iterator[None]:
    """Set the variables inside of the block; remove the variables with no value."""
    before = {name: os.environ.get(name) for name in variables}
    _set_environment(variables)
    try:
        yield
    finally:
        _set_environment(before)


def _set_environment(variables: Mapping[str, str | None]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
