"""The clusters that the end-to-end tests can run on."""

from __future__ import annotations

import asyncio
import base64
import concurrent.futures
import contextlib
import dataclasses
import functools
import json
import os
import pathlib
import shutil
import ssl
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from typing import Any

import yaml

NAMES = ("emulator", "envtest", "k3d", "current")
K3D_NAME = "kopf-e2e"
# Otherwise, continued lists are served from its memory after their versions are compacted.
FORGETFUL = "ListFromCacheSnapshot=false"
SHARDED = "ShardedListAndWatch=true"


class ClusterError(Exception):
    """The requested cluster cannot be had."""


@dataclasses.dataclass(frozen=True)
class Cluster:
    """A running cluster, and how to access it as its admin."""

    name: str
    url: str
    kubeconfig: dict[str, Any]
    kubeconfig_path: pathlib.Path
    compact: Callable[[int], None] | None = None
    """Make the cluster forget its history up to a resource version, if there is a way to do so."""

    restart: Callable[[], None] | None = None
    """Crash the API server, and wait until it is up again, if there is a way to do so."""

    authority: pathlib.Path | None = None
    """The folder with ``ca.crt`` and ``ca.key``, which can sign the certificates of clients."""

    @property
    def is_local(self) -> bool:
        """Can the API server call this process back, e.g. for admission?"""
        return self.name in ("emulator", "envtest")

    @property
    def _user(self) -> dict[str, Any]:
        users = self.kubeconfig.get("users") or [{}]
        user: dict[str, Any] = users[0].get("user") or {}
        return user

    def make_headers(self) -> dict[str, str]:
        token = self._user.get("token")
        return {"Authorization": f"Bearer {token}"} if token else {}

    def make_ssl_context(self) -> ssl.SSLContext | None:
        """Make the context for the connections; none is needed for plain HTTP."""
        if not self.url.startswith("https:"):
            return None
        described = self.kubeconfig["clusters"][0]["cluster"]
        authority = described.get("certificate-authority-data")
        context = ssl.create_default_context(
            cadata=base64.b64decode(authority).decode() if authority else None
        )
        if described.get("insecure-skip-tls-verify"):
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self._user.get("client-certificate-data"):
            with tempfile.NamedTemporaryFile("wb") as file:  # only files can be loaded
                file.write(base64.b64decode(self._user["client-certificate-data"]))
                file.write(b"\n" + base64.b64decode(self._user["client-key-data"]))
                file.flush()
                context.load_cert_chain(file.name)
        return context


@contextlib.contextmanager
def open_cluster(
    name: str, folder: pathlib.Path, *, rbac: bool = False, sharded: bool = False
) -> Iterator[Cluster]:
    """Have the cluster for as long as the context lasts; its kubeconfig is put to the folder.

    With ``rbac``, the emulator checks permissions; all others always do. With ``sharded``, local
    clusters select objects by shards.
    """
    openers: dict[str, Callable[[pathlib.Path], contextlib.AbstractContextManager[Cluster]]] = {
        "emulator": functools.partial(_open_emulator, rbac=rbac, sharded=sharded),
        "envtest": functools.partial(_open_envtest, sharded=sharded),
        "k3d": _open_k3d,
        "current": _open_current,
    }
    with openers[name](folder / f"{name}.kubeconfig") as cluster:
        yield cluster


@contextlib.contextmanager
def _open_emulator(path: pathlib.Path, *, rbac: bool, sharded: bool) -> Iterator[Cluster]:
    from kopf_kits.sandbox import ClusterOptions, Sandbox

    options = ClusterOptions(rbac=rbac, sharded=sharded)
    with _in_background(lambda: Sandbox(options=options)) as (sandbox, loop):

        def compact(_: int) -> None:
            compacted: concurrent.futures.Future[None] = concurrent.futures.Future()
            loop.call_soon_threadsafe(lambda: compacted.set_result(sandbox.compact()))
            compacted.result()

        kubeconfig = sandbox.kubeconfig()
        path.write_text(yaml.safe_dump(kubeconfig), encoding="utf-8")
        yield Cluster("emulator", sandbox.url.rstrip("/"), kubeconfig, path, compact)


@contextlib.contextmanager
def _open_envtest(path: pathlib.Path, *, sharded: bool) -> Iterator[Cluster]:
    from kopf_kits.envtest import Envtest, EnvtestError

    gates = ",".join([FORGETFUL, *([SHARDED] if sharded else [])])
    try:
        with Envtest(apiserver_args=[f"--feature-gates={gates}"]) as envtest:
            envtest.write_kubeconfig(path)
            yield Cluster(
                "envtest",
                envtest.url,
                envtest.kubeconfig(),
                path,
                compact=envtest.compact,
                restart=envtest.restart,
                authority=envtest.folder,
            )
    except EnvtestError as e:
        raise ClusterError(str(e)) from None


@contextlib.contextmanager
def _open_k3d(path: pathlib.Path) -> Iterator[Cluster]:
    """Create and delete a K3s cluster in containers; of the version in `K3S_VERSION`, if set."""
    k3d = shutil.which("k3d")
    if k3d is None:
        raise ClusterError("k3d is not found on PATH: install it, or use another --cluster.")
    version = os.environ.get("K3S_VERSION")
    image = ["--image", f"rancher/k3s:{version.replace('+', '-')}"] if version else []
    options = ["--wait", "--timeout=180s", "--no-lb", "--kubeconfig-update-default=false"]
    subprocess.run([k3d, "cluster", "create", K3D_NAME, *options, *image], check=True)
    try:
        text = subprocess.check_output([k3d, "kubeconfig", "get", K3D_NAME], text=True)
        path.write_text(text, encoding="utf-8")
        kubeconfig = yaml.safe_load(text)
        url = kubeconfig["clusters"][0]["cluster"]["server"]
        yield Cluster("k3d", url, kubeconfig, path)
    finally:
        subprocess.run([k3d, "cluster", "delete", K3D_NAME], check=True)


@contextlib.contextmanager
def _open_current(path: pathlib.Path) -> Iterator[Cluster]:
    """Use the cluster of the current context of kubectl."""
    command = ["kubectl", "config", "view", "--raw", "--minify", "--flatten", "-o", "json"]
    try:
        text = subprocess.check_output(command, text=True)
        kubeconfig = json.loads(text)
        url = kubeconfig["clusters"][0]["cluster"]["server"]
    except (OSError, subprocess.CalledProcessError, LookupError, TypeError) as e:
        raise ClusterError(f"There is no current cluster in the kubeconfig: {e!r}") from None
    path.write_text(text, encoding="utf-8")
    yield Cluster("current", url.rstrip("/"), kubeconfig, path)


@contextlib.contextmanager
def _in_background(factory: Callable[[], Any]) -> Iterator[tuple[Any, asyncio.AbstractEventLoop]]:
    """Run an async context manager in a thread of its own, so that it outlives any one test."""
    started: concurrent.futures.Future[tuple[Any, asyncio.AbstractEventLoop]]
    started = concurrent.futures.Future()
    stopping: list[asyncio.Event] = []

    async def serve() -> None:
        stopping.append(asyncio.Event())
        async with factory() as context:
            started.set_result((context, asyncio.get_running_loop()))
            await stopping[0].wait()

    def run() -> None:
        try:
            asyncio.run(serve())
        except BaseException as e:
            if started.done():
                raise
            started.set_exception(e)

    thread = threading.Thread(target=run, name="emulator")
    thread.start()
    try:
        context, loop = started.result()
        try:
            yield context, loop
        finally:
            loop.call_soon_threadsafe(stopping[0].set)
    finally:
        thread.join()
