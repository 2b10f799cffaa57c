"""Operators inside of tests, and the objects that they serve, over real HTTP.

Nothing here sleeps: the tests wait for the calls of handlers, for the states of objects
(by watching them), or for requests in the journal of the sandbox.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import pathlib
import secrets
import ssl
import sys
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from typing import Any, NamedTuple

import aiohttp

from kopf_cogs.clients.kubeconfig import login_with_kubeconfig
from kopf_cogs.configs.settings import OperatorSettings
from kopf_cogs.structs.memos import Memo
from kopf_core.actions.lifecycles import Lifecycle, asap
from kopf_core.intents import decorators as on
from kopf_core.intents.registries import OperatorRegistry
from kopf_core.reactor.life.operator import Operator, OperatorOptions
from kopf_kits.sandbox import Sandbox

PATIENCE = 120.0  # seconds to wait for what must come: busy machines are slow
GROUP, VERSION = "e2e.kopf.dev", "v1"
PREFIX = "kopf.zalando.org/"
LAST_HANDLED = f"{PREFIX}last-handled-configuration"
FINALIZER = f"{PREFIX}KopfFinalizerMarker"
MERGE, JSON = "application/merge-patch+json", "application/json-patch+json"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

Obj = dict[str, Any]
Check = Callable[[Any], object]


def make_crd(plural: str, kind: str, **version: Any) -> Obj:
    """A definition where everything is allowed in the objects."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind},
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    **version,
                }
            ],
        },
    }


def make_strict_schema(*status: str) -> Obj:
    """A schema where everything that is not mentioned is pruned by the server."""
    return {
        "openAPIV3Schema": {
            "type": "object",
            "properties": {
                "spec": {"type": "object", "properties": {"n": {"type": "integer"}}},
                "status": {
                    "type": "object",
                    "properties": {key: {"type": "string"} for key in status},
                },
            },
        }
    }


DEFAULTING_SCHEMA = {
    "openAPIV3Schema": {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "mode": {"type": "string"},
                    "level": {"type": "integer", "default": 3},
                    "set": {
                        "type": "array",
                        "items": {"type": "string"},
                        "x-kubernetes-list-type": "set",
                    },
                    "items": {
                        "type": "array",
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["name"],
                        "items": {
                            "type": "object",
                            "required": ["name"],
                            "properties": {
                                "name": {"type": "string"},
                                "size": {"type": "integer", "default": 1},
                            },
                        },
                    },
                },
            }
        },
    }
}
"""A schema with defaults, and with lists that are merged by the server-side apply."""

SCALE = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}

DEFINITIONS = [
    make_crd("kexes", "Kex"),
    make_crd("subs", "Sub", subresources={"status": {}}),
    make_crd("scalables", "Scalable", subresources={"status": {}, "scale": SCALE}),
    make_crd("defaulteds", "Defaulted", schema=DEFAULTING_SCHEMA),
    make_crd("stricts", "Strict", schema=make_strict_schema("phase")),
    make_crd(
        "strictsubs", "StrictSub", schema=make_strict_schema("phase"), subresources={"status": {}}
    ),
]


class Calls(list[Any]):
    """What handlers report, from the loop or from threads; and what tests wait for."""

    def __init__(self) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()

    def __call__(self, item: Any) -> None:
        """Add an item. For use in handlers."""
        self.append(item)
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._changed.set)

    async def until(self, check: Callable[[Calls], object]) -> None:
        try:
            async with asyncio.timeout(PATIENCE):
                while not check(self):
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise AssertionError(f"It has not happened; calls: {[*self]!r}") from None


class Answer(NamedTuple):
    """What the API has answered to a request."""

    status: int
    body: Any
    warnings: list[str]


class World:
    """A namespace in a cluster, with the objects of one resource in it."""

    def __init__(
        self,
        url: str,
        namespace: str,
        kubeconfig: pathlib.Path,
        *,
        headers: Mapping[str, str] | None = None,
        context: ssl.SSLContext | None = None,
        sandbox: Sandbox | None = None,
        plural: str = "kexes",
    ) -> None:
        self.url = url.rstrip("/")
        self.namespace = namespace
        self.kubeconfig = kubeconfig
        self.plural = plural
        self._sandbox = sandbox
        self._session = aiohttp.ClientSession(
            headers=headers, connector=aiohttp.TCPConnector(ssl=context or True)
        )
        self.calls = Calls()
        self.patience = PATIENCE
        self.registry = OperatorRegistry()
        self.settings = OperatorSettings()
        self.settings.posting.enabled = False
        self.settings.queueing.error_delays = [0.01]
        self.settings.networking.error_backoffs = [0.01, 0.01]

    @property
    def sandbox(self) -> Sandbox:
        assert self._sandbox is not None, "There are no faults in real clusters."
        return self._sandbox

    async def close(self) -> None:
        await self._session.close()

    # --- Objects ---

    def path(self, name: str = "", plural: str | None = None) -> str:
        root = f"/apis/{GROUP}/{VERSION}/namespaces/{self.namespace}/{plural or self.plural}"
        return f"{root}/{name}" if name else root

    async def request(self, method: str, path: str, body: Any = None, type: str = "") -> Any:
        """Make a request; raise an error if it is refused."""
        data = None if body is None else json.dumps(body)
        headers = {"Content-Type": type or "application/json"}
        while True:
            async with self._session.request(
                method, self.url + path, data=data, headers=headers
            ) as response:
                result = await response.json()
                if response.status == 429:  # real servers do so right after a CRD is created
                    await asyncio.sleep(0.1)
                elif response.status >= 400:
                    raise AssertionError(f"{method} {path}: {response.status} {result!r}")
                else:
                    return result

    async def attempt(self, method: str, path: str, body: Any = None, type: str = "") -> Answer:
        """Make a request, and get what it is answered, be it accepted or refused."""
        data = None if body is None else json.dumps(body)
        headers = {"Content-Type": type or "application/json"}
        async with self._session.request(
            method, self.url + path, data=data, headers=headers
        ) as response:
            warnings = [text.split('"')[1] for text in response.headers.getall("Warning", [])]
            # Kinds that are not served yet are answered with a plain text.
            known = response.content_type == "application/json"
            content = await response.json() if known else await response.text()
            return Answer(response.status, content, warnings)

    async def create(self, spec: Obj | None = None, name: str = "obj", **fields: Any) -> Obj:
        return await self.request("POST", self.path(), self.make(spec, name, **fields))

    def make(self, spec: Obj | None = None, name: str = "obj", **fields: Any) -> Obj:
        """The body of an object, which is not created yet."""
        kind = {
            item["spec"]["names"]["plural"]: item["spec"]["names"]["kind"] for item in DEFINITIONS
        }[self.plural]
        meta = {"name": name, **fields.pop("metadata", {})}
        return {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": kind,
            "metadata": meta,
            "spec": spec or {},
            **fields,
        }

    async def get(self, name: str = "obj") -> Obj:
        return await self.request("GET", self.path(name))

    async def patch(self, patch: Any, name: str = "obj") -> Obj:
        type = JSON if isinstance(patch, list) else MERGE
        return await self.request("PATCH", self.path(name), patch, type)

    async def delete(self, name: str = "obj") -> None:
        await self.request("DELETE", self.path(name))

    async def until(self, check: Check, name: str = "obj") -> Obj | None:
        """Watch the object until it is as expected; ``None`` stands for an absent object."""
        seen: Obj | None = None
        try:
            async with asyncio.timeout(self.patience):
                async for seen in self._follow(name):
                    if check(seen):
                        return seen
        except TimeoutError:
            pass
        raise AssertionError(f"The object is not as expected: {seen!r}; calls: {[*self.calls]!r}")

    async def until_event(self, reason: str, name: str = "obj") -> Obj:
        """Wait for a Kubernetes event about the object."""
        path = f"/api/v1/namespaces/{self.namespace}/events"
        query = f"fieldSelector=reason%3D{reason},involvedObject.name%3D{name}"
        async with (
            asyncio.timeout(self.patience),
            self._session.get(f"{self.url}{path}?watch=true&{query}") as response,
        ):
            event: Obj = json.loads(await response.content.readline())["object"]
            return event

    async def until_gone(self, name: str = "obj") -> None:
        await self.until(lambda obj: obj is None, name)

    async def until_handled(self, name: str = "obj", spec: Obj | None = None) -> Obj:
        """Wait until the whole cycle is over: with that spec, if it is given."""

        def check(obj: Obj | None) -> bool:
            essence = get_essence(obj)
            return (
                essence is not None
                and not get_progress(obj)
                and (spec is None or essence.get("spec") == spec)
            )

        obj = await self.until(check, name)
        assert obj is not None
        return obj

    async def _follow(self, name: str) -> AsyncIterator[Obj | None]:
        query = f"?fieldSelector=metadata.name%3D{name}"
        while True:
            page = await self.request("GET", self.path() + query)
            yield page["items"][0] if page["items"] else None
            watch = f"{query}&watch=true&resourceVersion={page['metadata']['resourceVersion']}"
            async with self._session.get(self.url + self.path() + watch) as response:
                if response.status >= 400:  # e.g. 429 or 410: begin anew
                    await asyncio.sleep(0.1)
                    continue
                async for line in response.content:
                    event = json.loads(line)
                    if event["type"] in ("ADDED", "MODIFIED"):
                        yield event["object"]
                    elif event["type"] == "DELETED":
                        yield None
                    elif event["type"] == "ERROR":
                        break

    # --- Operators ---

    @contextlib.asynccontextmanager
    async def operator(
        self,
        registry: OperatorRegistry | None = None,
        *,
        settings: OperatorSettings | None = None,
        lifecycle: Lifecycle = asap,
        memo: Any = None,
        namespaces: Collection[str] = (),
        login: Callable[..., Any] = login_with_kubeconfig,
    ) -> AsyncIterator[Operator]:
        """Run an operator in the background of the test; its errors are raised in the end."""
        registry = registry or self.registry
        on.login(id="e2e-login", registry=registry)(login)
        ready = asyncio.Event()
        operator = Operator(
            OperatorOptions(
                registry=registry,
                settings=settings or self.settings,
                lifecycle=lifecycle,
                memo=Memo() if memo is None else memo,
                namespaces=namespaces or [self.namespace],
                ready_flag=ready,
            )
        )
        task = asyncio.create_task(operator.run())
        starting = asyncio.create_task(ready.wait())
        await asyncio.wait([task, starting], return_when=asyncio.FIRST_COMPLETED)
        starting.cancel()
        try:
            yield operator
        finally:
            operator.stop()
            async with asyncio.timeout(PATIENCE):
                await task

    @contextlib.asynccontextmanager
    async def process(
        self, path: pathlib.Path, *options: str, env: Mapping[str, str] | None = None
    ) -> AsyncIterator[asyncio.subprocess.Process]:
        """Run an operator as a separate process; kill it if it is still there in the end."""
        import os

        args = ["run", "--verbose", "-n", self.namespace, *options, str(path)]
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "kopf",
            *args,
            env={**os.environ, "KUBECONFIG": str(self.kubeconfig), **(env or {})},
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()

    async def requested(self, method: str, path: str = "*", **options: Any) -> list[Any]:
        """Wait for the requests in the journal of the sandbox."""
        try:
            async with asyncio.timeout(PATIENCE):
                return await self.sandbox.journal.wait(method, path, **options)
        except TimeoutError:
            log = "\n".join(str(entry) for entry in self.sandbox.journal)
            raise AssertionError(f"No such requests: {method} {path}:\n{log}") from None


def get_essence(obj: Obj | None) -> Obj | None:
    """The last handled state of the object, if it was handled."""
    annotations = (obj or {}).get("metadata", {}).get("annotations") or {}
    return json.loads(annotations[LAST_HANDLED]) if LAST_HANDLED in annotations else None


def get_progress(obj: Obj | None) -> dict[str, Obj]:
    """The records of handlers on the object."""
    annotations = (obj or {}).get("metadata", {}).get("annotations") or {}
    return {
        key.removeprefix(PREFIX): json.loads(value)
        for key, value in annotations.items()
        if key.startswith(PREFIX) and value.startswith('{"started"')
    }


def get_finalizers(obj: Obj | None) -> list[str]:
    return list((obj or {}).get("metadata", {}).get("finalizers") or [])


def is_ours(call: Any) -> bool:
    """Whether the request to the sandbox is made by the operator: for faults not to hit tests."""
    return bool(call.agent.lower().startswith("kopf"))


def make_namespace() -> str:
    return f"e2e-{secrets.token_hex(4)}"
