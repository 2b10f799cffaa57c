"""A real control plane on this machine: etcd, kube-apiserver, and a few controllers."""

from __future__ import annotations

import asyncio
import os
import pathlib
import tempfile
import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

from . import commands, histories, kubeconfigs
from .assets import Assets, find_assets
from .certificates import write_certificates
from .errors import EnvtestError
from .probes import HOST, Probe, find_free_port, is_port_free
from .processes import Servers
from .supervisor import remove_folder

POLLING = 0.05  # seconds between the questions to a server that is starting
ATTEMPTS = 3  # with other ports, if another process takes the free port first
APISERVER = "kube-apiserver"
PORT_TAKEN = "address already in use"


class Envtest:
    """A real Kubernetes control plane for development and tests, without nodes.

    It is a context manager, both sync and async. Without a context manager, use :meth:`start` and
    :meth:`stop`. The servers listen on loopback only and keep their data in a private temporary
    folder. They stop with the process that has started them, even if that process is killed.

    :param assets: The binaries; by default, they are looked for: see ``find_assets()``.
    :param port: The port of the API server; by default, any that is free.
    :param timeout: Seconds for the API server to become ready.
    :param apiserver_args: Additional arguments for kube-apiserver.

    Raises :class:`EnvtestError` if the binaries are missing or broken, or if the port is in use.
    Raises it, too, if a server dies at its start, or if the API server is not ready in time.
    No process is left running then.
    """

    assets: Assets
    """The binaries in use, and where they came from."""

    url: str
    """The URL of the API server; it needs the credentials of the kubeconfig."""

    version: str
    """The version of the API server, as it tells it: e.g. "v1.36.3"."""

    folder: pathlib.Path
    """The private folder with the logs and the data; it disappears when stopped."""

    def __init__(
        self,
        *,
        assets: Assets | None = None,
        port: int | None = None,
        timeout: float = 60.0,
        apiserver_args: Sequence[str] = (),
    ) -> None:
        super().__init__()
        self._given_assets = assets
        self._given_port = port
        self._timeout = timeout
        self._apiserver_args = tuple(apiserver_args)
        self._aborted = threading.Event()
        self._servers: Servers | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        starting = asyncio.ensure_future(asyncio.to_thread(self.start))
        try:
            await asyncio.shield(starting)
        except asyncio.CancelledError:
            self._aborted.set()
            await asyncio.wait([starting])
            if not starting.cancelled() and starting.exception() is None:
                await asyncio.to_thread(self.stop)
            raise
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await asyncio.shield(asyncio.to_thread(self.stop))

    def start(self) -> None:
        """Start the servers, and wait until they are ready. It blocks for some seconds."""
        if self._servers is not None:
            raise EnvtestError("This control plane is already running.")
        self.assets = self._given_assets or find_assets()
        if self._given_port is not None and not is_port_free(self._given_port):
            raise EnvtestError(f"Port {self._given_port} is in use: choose another one.")
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return self._start_once(self._given_port or find_free_port())
            except _PortTakenError as e:
                if self._given_port is not None or attempt == ATTEMPTS:
                    raise EnvtestError(str(e)) from None

    def stop(self) -> None:
        """Stop the servers, and remove their files. Stopping twice is fine."""
        servers, self._servers = self._servers, None
        if servers is not None:
            servers.close()
            remove_folder(os.fspath(servers.folder))

    @property
    def pids(self) -> dict[str, int]:
        """The process ids of the running servers, by the names of their programs."""
        return dict(self._servers.pids) if self._servers is not None else {}

    def kubeconfig(self) -> dict[str, Any]:
        """Get the kubeconfig of the admin: with all certificates and keys inside."""
        if self._servers is None:
            raise EnvtestError("This control plane is not running.")
        return kubeconfigs.make_kubeconfig(self.folder, self.url)

    def write_kubeconfig(self, path: str | os.PathLike[str]) -> pathlib.Path:
        """Write the kubeconfig of the admin to a file that only its owner can read."""
        kubeconfigs.write_kubeconfig(pathlib.Path(path), self.kubeconfig())
        return pathlib.Path(path)

    def compact(self, resource_version: int) -> None:
        """Make the control plane forget all states of all objects before the resource version.

        Real clusters do so by themselves every few minutes. Then, lists to be continued from there
        fail with HTTP 410 "Expired".
        """
        if self._servers is None:
            raise EnvtestError("This control plane is not running.")
        histories.compact(self.folder, resource_version)

    def restart(self) -> None:
        """Kill the API server, and start it again with the same data at the same port.

        It is as in a crash: all connections are lost, all caches are empty. It blocks for some
        seconds until the API server is ready. Raises :class:`EnvtestError` if it never is.
        """
        if self._servers is None:
            raise EnvtestError("This control plane is not running.")
        port = int(self.url.rpartition(":")[2])
        self._servers.kill(APISERVER)
        self._start_apiserver(self._servers, port)
        self._wait_until_ready(self._servers, Probe(self.folder, port))

    def _start_once(self, port: int) -> None:
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="kopf-envtest-")).resolve()
        self._servers = Servers(self.folder)
        self.url = f"https://{HOST}:{port}"
        try:
            write_certificates(self.folder)
            self._start_servers(self._servers, port)
            self.version = self._wait_until_ready(self._servers, Probe(self.folder, port))
            self._start_controllers(self._servers)
        except EnvtestError:
            taken = PORT_TAKEN in self._servers.read_log(APISERVER).lower()
            self.stop()
            if taken:
                raise _PortTakenError(f"Port {port} is in use: choose another one.") from None
            raise
        except BaseException:
            self.stop()
            raise

    def _start_servers(self, servers: Servers, port: int) -> None:
        servers.start("etcd", commands.make_etcd_command(self.assets, self.folder))
        self._start_apiserver(servers, port)

    def _start_apiserver(self, servers: Servers, port: int) -> None:
        extra = self._apiserver_args
        command = commands.make_apiserver_command(self.assets, self.folder, port, extra)
        servers.start(APISERVER, command)

    def _start_controllers(self, servers: Servers) -> None:
        binary = self.assets.controller_manager
        if binary is not None:
            path = self.write_kubeconfig(self.folder / "admin.kubeconfig")
            command = commands.make_manager_command(binary, self.folder, path)
            servers.start("kube-controller-manager", command)
            while "kube-controller-manager" not in servers.pids:
                servers.check(timeout=POLLING)

    def _wait_until_ready(self, servers: Servers, probe: Probe) -> str:
        deadline = time.monotonic() + self._timeout
        while not probe.is_ready():
            if self._aborted.is_set():
                raise EnvtestError("The start of the control plane is aborted.")
            if time.monotonic() > deadline:
                raise EnvtestError(
                    f"kube-apiserver is not ready after {self._timeout:g} seconds"
                    f"{servers.quote_log(APISERVER)}"
                )
            servers.check(timeout=POLLING)
        return probe.get_version()


class _PortTakenError(EnvtestError):
    """Another process listens on the chosen port."""
