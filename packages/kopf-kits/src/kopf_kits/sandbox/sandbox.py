"""The sandbox: a local Kubernetes API server for trying and testing operators."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, overload

import yaml

from kopf_kits.certificates import make_self_signed
from kopf_kits.pipes import Pipe, Send

from . import kubeconfigs, waiting
from .access.users import make_token
from .base import jsons
from .cluster import Cluster, ClusterOptions
from .fields import patches
from .http.door import is_loopback
from .http.faults import Faults
from .http.journal import Journal
from .http.server import Server
from .store.resources import Endpoint
from .store.storage import Stored
from .store.writeoptions import WriteOptions
from .verbs.deletions import DeleteOptions
from .verbs.reads import list_page
from .verbs.writes import Modify

Obj = dict[str, Any]
Objs = list[Obj]
Manifest = Obj | Objs | str | Path


class Sandbox:
    """A Kubernetes API server in memory, on the loopback interface only.

    A tool for development and tests: it keeps nothing, and accepts any credentials, or none,
    unless there is ``ClusterOptions(rbac=True)``.
    Use it as an asynchronous context manager::

        async with Sandbox() as sandbox:
            await sandbox.apply(Path("crd.yaml"))
            ...  # run an operator with sandbox.kubeconfig()

    ``port`` is the port to listen on, 0 is for any free port. If it is ``None``, nothing listens,
    and `connect()` serves connections of other kinds, e.g. where there are no sockets.
    ``host`` must be a loopback address.

    With ``tls``, the sandbox makes a certificate and serves HTTPS. ``kubectl`` needs it for RBAC:
    it sends no tokens over plain HTTP. Raises ``MissingLibraryError`` with no ``cryptography``.
    """

    def __init__(
        self,
        *,
        port: int | None = 0,
        host: str = "127.0.0.1",
        options: ClusterOptions | None = None,
        tls: bool = False,
    ) -> None:
        if not is_loopback(host):
            raise ValueError(f"The sandbox listens only on loopback addresses, not on {host!r}.")
        self._port = port
        self._host = host
        self._options = options or ClusterOptions()
        self._pair = make_self_signed([host, "localhost"]) if tls else None
        self.faults = Faults()
        """Faults on demand, for tests."""
        self.journal = Journal(self._options.nature.clock)
        """The requests that were made."""
        self._cluster: Cluster | None = None
        self._server: Server | None = None

    async def __aenter__(self) -> Sandbox:
        self._cluster = Cluster(self._options)
        self.faults.bind(asyncio.get_running_loop())
        self._server = Server(self._cluster, self.faults, self.journal)
        await self._cluster.start()
        await self._server.start(self._host)
        if self._port is not None:
            try:
                context = None if self._pair is None else self._pair.make_context()
                await self._server.listen(self._host, self._port, context)
            except BaseException:
                await self._server.stop()
                raise
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.faults.clear()
        if self._server is not None:
            await self._server.stop()

    @property
    def cluster(self) -> Cluster:
        """The inside of the sandbox."""
        if self._cluster is None:
            raise RuntimeError("The sandbox is not started: use it as a context manager.")
        return self._cluster

    @property
    def port(self) -> int:
        """The port that the sandbox listens on; 0 if it does not."""
        return self._server.port if self._server is not None else self._port or 0

    @property
    def url(self) -> str:
        """The address of the API, e.g. ``http://127.0.0.1:34567``."""
        scheme = "http" if self._pair is None else "https"
        return f"{scheme}://{self._host}" + (f":{self.port}" if self._port is not None else "")

    def connect(self, send: Send) -> Pipe:
        """Serve one more connection, which is not one of sockets: get its end.

        ``send`` takes the bytes for the client, or ``None`` when the server has closed it.
        The bytes of the client go to ``kopf_kits.pipes.Pipe.receive()``.
        """
        if self._server is None:
            raise RuntimeError("The sandbox is not started: use it as a context manager.")
        return Pipe(self._server.make_protocol(), send)

    def kubeconfig(self, *, namespace: str = "default", account: str | None = None) -> Obj:
        """The content of a kubeconfig for this sandbox: of the admin, or of a service account.

        The account is in the namespace, which is the one of the context, too. With
        ``ClusterOptions(rbac=True)``, its roles decide on its rights.
        """
        token = make_token(namespace, account or "")
        authority = None if self._pair is None else self._pair.certificate
        return kubeconfigs.make_kubeconfig(
            self.url, namespace=namespace, token=token, authority=authority
        )

    def write_kubeconfig(
        self,
        path: str | os.PathLike[str],
        *,
        namespace: str = "default",
        account: str | None = None,
    ) -> Path:
        """Write a kubeconfig for this sandbox to a file: of the admin, or of a service account."""
        content = self.kubeconfig(namespace=namespace, account=account)
        return kubeconfigs.write_kubeconfig(path, content)

    async def apply(self, manifest: Manifest) -> Objs:
        """Create or update objects from a manifest: a dict, YAML, or a :class:`~pathlib.Path`.

        Returns the objects as they are stored. The kinds of just applied CRDs can be used at once.
        """
        applied = []
        for body in _read_manifests(manifest):
            endpoint = self._endpoint_of(body)
            meta = body.get("metadata") or {}
            namespace, name = self._namespace(endpoint, meta.get("namespace")), meta.get("name")
            if name and endpoint.resource.store.get((namespace, name)) is not None:
                applied.append(await self._update(endpoint, (namespace, name), body))
            else:
                applied.append(await self.create(body))
        return applied

    async def create(self, body: Obj, *, namespace: str | None = None) -> Obj:
        """Create an object; raises `StatusError` as the API would respond."""
        endpoint = self._endpoint_of(body)
        meta = body.get("metadata") or {}
        space = self._namespace(endpoint, namespace or meta.get("namespace"))
        writer = self.cluster.writer
        stored = await writer.create(endpoint, space, jsons.clone(body), WriteOptions())
        self._settle(endpoint, stored)
        return self._export(endpoint, stored)

    async def get(self, resource: str, name: str, *, namespace: str | None = None) -> Obj:
        """Get an object by any name of its resource: ``pods``, ``po``, ``plural.group``, a kind.

        Objects of namespaced resources are in the namespace ``default`` if not told otherwise.
        """
        endpoint = self._find(resource)
        key = (self._namespace(endpoint, namespace), name)
        return self._export(endpoint, self.cluster.writer.require(endpoint, key))

    async def list(
        self, resource: str, *, namespace: str | None = None, selector: str = ""
    ) -> Objs:
        """List the objects of the namespace, or of all namespaces, by a label selector."""
        endpoint = self._find(resource)
        page = list_page(endpoint, namespace, {"labelSelector": selector})
        return [self._export(endpoint, stored) for stored in page.items]

    async def patch(
        self,
        resource: str,
        name: str,
        patch: Obj | Objs,
        *,
        namespace: str | None = None,
        subresource: str = "",
    ) -> Obj:
        """Patch an object: with a merge patch if it is a dict, with a JSON patch if a list."""
        endpoint = self._find(resource)
        key = (self._namespace(endpoint, namespace), name)
        return await self._update(endpoint, key, patch, subresource)

    async def delete(
        self, resource: str, name: str, *, namespace: str | None = None, policy: str | None = None
    ) -> bool:
        """Delete an object; true if it is gone, false if something holds it (e.g. finalizers)."""
        endpoint = self._find(resource)
        key = (self._namespace(endpoint, namespace), name)
        options = DeleteOptions(policy=policy)
        _, gone = await self.cluster.deleter.delete(endpoint, key, options, WriteOptions())
        return gone

    @overload
    async def wait(
        self,
        resource: str,
        name: str,
        check: waiting.Check | None = None,
        *,
        namespace: str | None = None,
        condition: str | None = None,
        jsonpath: str | None = None,
        value: Any = waiting.ANY,
        gone: Literal[False] = False,
        timeout: float = 30,
    ) -> Obj: ...

    @overload
    async def wait(
        self,
        resource: str,
        name: str,
        check: waiting.Check | None = None,
        *,
        namespace: str | None = None,
        condition: str | None = None,
        jsonpath: str | None = None,
        value: Any = waiting.ANY,
        gone: Literal[True],
        timeout: float = 30,
    ) -> None: ...

    @overload
    async def wait(
        self,
        resource: str,
        name: str,
        check: waiting.Check | None = None,
        *,
        namespace: str | None = None,
        condition: str | None = None,
        jsonpath: str | None = None,
        value: Any = waiting.ANY,
        gone: bool,
        timeout: float = 30,
    ) -> Obj | None: ...

    async def wait(
        self,
        resource: str,
        name: str,
        check: waiting.Check | None = None,
        *,
        namespace: str | None = None,
        condition: str | None = None,
        jsonpath: str | None = None,
        value: Any = waiting.ANY,
        gone: bool = False,
        timeout: float = 30,
    ) -> Obj | None:
        """Wait until an object exists and is as expected, or is gone; get the object.

        ``check`` is a function of the object. ``condition`` is that of its status, e.g. ``Ready``
        or ``Ready=False``. ``jsonpath`` must be there, with the ``value`` if it is specified.
        ``timeout`` is in seconds; then, :class:`TimeoutError` tells how the object is.
        """
        endpoint = self._find(resource)
        key = (self._namespace(endpoint, namespace), name)
        expectation = waiting.make_expectation(
            check, condition=condition, jsonpath=jsonpath, value=value
        )
        obj = await waiting.wait_for(endpoint, key, expectation, gone=gone, timeout=timeout)
        return None if obj is None else jsons.clone(obj)

    async def make_ready(self, resource: str, name: str, *, namespace: str | None = None) -> Obj:
        """Make a workload ready: its status becomes as if everything went well in the cluster.

        It is for deployments, replica sets, stateful sets, daemon sets, jobs, and pods. With
        ``ClusterOptions(ready=True)``, all of them become ready by themselves.
        """
        endpoint = self._find(resource)
        key = (self._namespace(endpoint, namespace), name)
        obj = await self.cluster.workloads.complete(endpoint, key)
        return jsons.clone(endpoint.encode(obj))  # type: ignore[no-any-return]

    def compact(self) -> None:
        """Forget the past: watching and listing from older versions fails with 410 since now."""
        self.cluster.compact()

    def cut_watches(self, path: str = "*") -> int:
        """Break the watch-streams opened now, by their paths; returns how many there were."""
        return self._server.cut(path) if self._server is not None else 0

    async def _update(
        self, endpoint: Endpoint, key: tuple[str, str], patch: Any, subresource: str = ""
    ) -> Obj:
        patch = jsons.clone(patch)
        modify: Modify
        if isinstance(patch, list):
            modify = lambda obj: patches.apply_json_patch(obj, patch)  # noqa: E731
        else:
            modify = lambda obj: patches.merge(obj, patch)  # noqa: E731
        writer = self.cluster.writer
        stored = await writer.update(endpoint, key, subresource, modify, WriteOptions())
        self._settle(endpoint, stored)
        return self._export(endpoint, stored)

    def _settle(self, endpoint: Endpoint, stored: Stored) -> None:
        if endpoint.resource.qualified == "customresourcedefinitions.apiextensions.k8s.io":
            self.cluster.definitions.sync(stored.key[1])

    def _find(self, resource: str) -> Endpoint:
        return self.cluster.registry.find(resource)

    def _endpoint_of(self, body: Obj) -> Endpoint:
        api_version, kind = body.get("apiVersion", ""), body.get("kind", "")
        endpoint = self.cluster.registry.by_kind(api_version, kind)
        if endpoint is None:
            raise LookupError(f"The sandbox serves no kind {kind!r} of {api_version!r}.")
        return endpoint

    @staticmethod
    def _namespace(endpoint: Endpoint, namespace: str | None) -> str:
        return (namespace or "default") if endpoint.resource.namespaced else ""

    @staticmethod
    def _export(endpoint: Endpoint, stored: Stored) -> Obj:
        return jsons.clone(endpoint.encode(stored.obj))  # type: ignore[no-any-return]


def _read_manifests(manifest: Manifest) -> Iterator[Obj]:
    documents: Any = manifest
    if isinstance(manifest, dict):
        documents = [manifest]
    elif isinstance(manifest, str | Path):
        text = manifest if isinstance(manifest, str) else manifest.read_text(encoding="utf-8")
        documents = list(yaml.safe_load_all(text))
    for document in documents:
        if not document:
            continue
        if not isinstance(document, dict):
            hint = f": for a file, use Path({document!r})" if document == manifest else ""
            raise ValueError(f"{document!r:.200} is not a manifest{hint}.")
        if str(document.get("kind", "")).endswith("List") and "items" in document:
            yield from document["items"]
        else:
            yield document
