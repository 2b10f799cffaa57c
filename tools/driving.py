"""Driving of an operator: objects are created, changed, and deleted, so that all is called."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import json
import logging
from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from typing import Any

import aiohttp
from free_ports import find_free_port
from snippets import Block, Journal

import kopf
from kopf_cogs.structs.selectors import Selector
from kopf_core.intents.causes import Activity
from kopf_core.intents.handlers import (
    ActivityHandler,
    ChangingHandler,
    DaemonHandler,
    ResourceHandler,
)
from kopf_core.intents.webhooks import WebhookHandler
from kopf_kits.sandbox import Sandbox

PATIENCE = 10.0
"""Seconds to wait for creations to be handled; it ends as soon as all is called."""

PAUSES = (0.02, 0.1, 0.5, 2.0, 5.0)
"""Seconds between the changes, in the rounds of trying."""

POD: dict[str, Any] = {"containers": [{"name": "main", "image": "busybox"}]}
TEMPLATE: dict[str, Any] = {"metadata": {"labels": {"app": "one"}}, "spec": POD}
MATCHING: dict[str, Any] = {"selector": {"matchLabels": {"app": "one"}}, "template": TEMPLATE}
SPECS: dict[str, dict[str, Any]] = {
    "Pod": POD,
    "Deployment": MATCHING,
    "StatefulSet": {**MATCHING, "serviceName": "one"},
    "DaemonSet": MATCHING,
    "ReplicaSet": MATCHING,
    "Job": {"template": {"spec": {**POD, "restartPolicy": "Never"}}},
    "Service": {"ports": [{"port": 80}], "selector": {"app": "one"}},
    "PersistentVolumeClaim": {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    },
}
"""The least specs that the API accepts."""

RICH = {"field": "value", "items": ["item1"], "replicas": 1, "pages": {"a": "b"}, "maxDelay": 0}
LABELS = {"somelabel": "somevalue"}


class Driver:
    """Drives the handlers of one block on a sandbox."""

    def __init__(
        self,
        block: Block,
        sandbox: Sandbox,
        registry: kopf.OperatorRegistry,
        expected: Collection[str],
        journal: Journal,
        memo: Any,
    ) -> None:
        self.block = block
        self.sandbox = sandbox
        self.journal = journal
        self.memo = memo
        self.expected = {*expected} - block.not_called
        self.registry = copy_without_logins(registry)
        self.logins = registry.get_activity_handlers(Activity.AUTHENTICATION)
        self.reviews: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.objects: list[tuple[str, str, str | None]] = []

    async def drive(self) -> set[str]:
        """Make everything happen; get the names of the functions that were not run to the end."""
        await self._log_in()
        if self.registry.handlers:
            bodies = self.block.objects or [*self._make_bodies()]
            bodies = [complete(number, body) for number, body in enumerate(bodies, start=1)]
            await self._create(bodies[:1])
            async with self._operator() as port:
                await self._probe(port)
                await self._review(bodies)
                await self._live(bodies)
        return self.expected - self.journal.ended

    async def _live(self, bodies: list[dict[str, Any]]) -> None:
        """Let the objects live and die, slower and slower, until all is called."""
        for pause in PAUSES:
            await self._create(bodies)
            await self._until_called(PATIENCE, besides=self._get_late())
            await self._change(pause)
            await self._until_called(pause, besides=self._get_last())
            await self._delete()
            await self._until_called(pause)
            if not self._get_missing():
                return

    # --- What is called when ---

    def _get_missing(self) -> set[str]:
        """What is to be called while objects live, and is not yet; daemons can end with us."""
        exiting = self._named(ActivityHandler)
        daemons = self._named(DaemonHandler) & {*self.journal.entered}
        return self.expected - self.journal.ended - exiting - daemons

    def _get_late(self) -> set[str]:
        """Not called by mere creation: what needs changes or deletions."""
        changing = [h for h in self.registry.resource_handlers if isinstance(h, ChangingHandler)]
        late = {name_of(h) for h in changing if h.reason == "update" or h.field_needs_change}
        return late | self._get_last()

    def _get_last(self) -> set[str]:
        """Not called by changes: what needs deletions."""
        changing = [h for h in self.registry.resource_handlers if isinstance(h, ChangingHandler)]
        return {name_of(h) for h in changing if h.reason == "delete"}

    def _named(self, kind: type[Any]) -> set[str]:
        return {name_of(h) for h in self.registry.handlers if isinstance(h, kind)}

    async def _until_called(self, timeout: float, besides: Collection[str] = ()) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                while self._get_missing() - {*besides} and not self.journal.failed:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)

    # --- The operator ---

    @contextlib.asynccontextmanager
    async def _operator(self) -> AsyncIterator[int]:
        stop, ready = asyncio.Event(), asyncio.Event()
        port = find_free_port()

        @kopf.on.login(registry=self.registry)
        def log_in_for_driver(**_: Any) -> kopf.ConnectionInfo:  # blocks can have a `login`
            return kopf.ConnectionInfo(server=self.sandbox.url)

        @kopf.on.startup(registry=self.registry, id="driver")
        def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
            settings.execution.default_backoff = 0.02
            settings.admission.managed = None
            settings.admission.server = self._serve

        task = asyncio.create_task(
            kopf.operator(
                registry=self.registry,
                memo=self.memo,
                clusterwide=True,
                standalone=True,
                stop_flag=stop,
                ready_flag=ready,
                liveness_endpoint=f"http://127.0.0.1:{port}/healthz",
            )
        )
        waiting = asyncio.create_task(ready.wait())
        try:
            await asyncio.wait([waiting, task], return_when=asyncio.FIRST_COMPLETED)
            yield port
        finally:
            waiting.cancel()
            stop.set()
            await task

    async def _serve(self, fn: Any) -> AsyncIterator[Any]:
        self.reviews.set_result(fn)
        yield {"url": "https://127.0.0.1:1/"}
        await asyncio.Event().wait()

    async def _log_in(self) -> None:
        for handler in self.logins:
            if name_of(handler) in self.block.not_called:
                continue
            kwargs = {"settings": kopf.OperatorSettings(), "memo": kopf.Memo(), "retry": 0}
            result = handler.fn(logger=logging.getLogger(), param=None, **kwargs)
            if asyncio.iscoroutine(result):
                await result

    async def _probe(self, port: int) -> None:
        if not self.registry.get_activity_handlers(Activity.PROBE):
            return
        async with aiohttp.ClientSession() as session, asyncio.timeout(PATIENCE):
            while not self.expected & self.journal.ended & self._named(ActivityHandler):
                with contextlib.suppress(aiohttp.ClientConnectionError):
                    async with session.get(f"http://127.0.0.1:{port}/healthz") as response:
                        await response.read()
                await asyncio.sleep(0.01)

    # --- The objects ---

    def _make_bodies(self) -> Iterator[dict[str, Any]]:
        seen: set[str] = set()
        for handler in self.registry.resource_handlers:
            for kind in self._find_kinds(handler.selector):
                body = make_body(kind, handler)
                text = json.dumps(body, default=str, sort_keys=True)
                if text not in seen:
                    seen.add(text)
                    yield body

    def _find_kinds(self, selector: Selector | None) -> Iterator[Any]:
        """The kinds that the selector means, one of them if it means all; defined when unknown."""
        if selector is None:
            return
        name = get_any_name(selector) or "kopfexamples"
        qualified = f"{name}.{selector.group}" if selector.group else name
        yield self.sandbox.cluster.registry.find(qualified)

    async def _create(self, bodies: list[dict[str, Any]]) -> None:
        for body in bodies:
            [created] = await self.sandbox.apply(body)
            meta = created["metadata"]
            endpoint = self.sandbox.cluster.registry.by_kind(body["apiVersion"], body["kind"])
            assert endpoint is not None
            key = (endpoint.resource.qualified, meta["name"], meta.get("namespace"))
            if key not in self.objects:
                self.objects.append(key)

    async def _change(self, pause: float) -> None:
        """Change to the old values, and then to the new ones."""
        for change in self._make_changes():
            for name, object_name, namespace in self.objects:
                for subresource in ("", "status"):
                    with contextlib.suppress(Exception):  # not all changes are for all kinds
                        await self.sandbox.patch(
                            name, object_name, change, namespace=namespace, subresource=subresource
                        )
            await asyncio.sleep(pause)

    def _make_changes(self) -> Iterator[dict[str, Any]]:
        if self.block.changes:
            yield from self.block.changes
            return
        changing = [h for h in self.registry.resource_handlers if isinstance(h, ChangingHandler)]
        for handler in changing:
            if handler.field and handler.old is not None:
                yield nest(handler.field, get_value(handler.old, "value"))
        for handler in changing:
            if handler.field:
                yield nest(handler.field, get_new_value(handler))
        yield {"metadata": {"labels": {"changed": "yes"}}, "spec": {"field": "changed"}}
        yield {"metadata": {"labels": {"changed": "again"}}}

    async def _delete(self) -> None:
        for name, object_name, namespace in self.objects:
            with contextlib.suppress(Exception):  # it may be deleted by the handlers
                await self.sandbox.delete(
                    name, object_name, namespace=namespace, policy="Background"
                )

    async def _review(self, bodies: list[dict[str, Any]]) -> None:
        handlers = [h for h in self.registry.resource_handlers if isinstance(h, WebhookHandler)]
        for handler in handlers:
            fn = await self.reviews
            for body in bodies:
                for operation in handler.operations or ("CREATE", "UPDATE", "DELETE"):
                    request = self._make_request(body, operation)
                    await fn(request, webhook=handler.id, headers={}, sslpeer={})

    def _make_request(self, body: dict[str, Any], operation: str) -> dict[str, Any]:
        endpoint = self.sandbox.cluster.registry.by_kind(body["apiVersion"], body["kind"])
        assert endpoint is not None
        group, _, version = body["apiVersion"].rpartition("/")
        resource = {"group": group, "version": version, "resource": endpoint.resource.plural}
        stored = {**body, "metadata": {"namespace": "default", "uid": "1", **body["metadata"]}}
        return {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": {
                "uid": "1",
                "kind": {"group": group, "version": version, "kind": body["kind"]},
                "resource": resource,
                "requestKind": {"group": group, "version": version, "kind": body["kind"]},
                "requestResource": resource,
                "name": body["metadata"]["name"],
                "namespace": "default",
                "operation": operation,
                "userInfo": {"username": "user", "uid": "1", "groups": []},
                "object": None if operation == "DELETE" else stored,
                "oldObject": None if operation == "CREATE" else stored,
                "dryRun": False,
                "options": {},
            },
        }


def copy_without_logins(registry: kopf.OperatorRegistry) -> kopf.OperatorRegistry:
    """The same handlers, but for logins: they are called apart, and the result is not used."""
    copied = kopf.OperatorRegistry()
    for handler in registry.handlers:
        if not isinstance(handler, ActivityHandler) or handler.activity != Activity.AUTHENTICATION:
            copied.append(handler)
    return copied


def get_any_name(selector: Selector) -> str | None:
    """The name in the selector, of whatever kind; none if it has no names."""
    names = (selector.any_name, selector.plural, selector.kind, selector.singular)
    return next((name for name in (*names, selector.shortcut) if isinstance(name, str)), None)


def name_of(handler: Any) -> str:
    """The name of the function behind a handler."""
    return str(getattr(handler.fn, "__name__", handler.id))


def make_body(endpoint: Any, handler: ResourceHandler) -> dict[str, Any]:
    """An object of the kind that the handler is interested in, as far as it can be guessed."""
    resource = endpoint.resource
    body: dict[str, Any] = {
        "apiVersion": endpoint.api_version,
        "kind": resource.kind,
        "metadata": {"labels": dict(LABELS), "annotations": {}},
    }
    if resource.kind in SPECS:
        body["spec"] = copy.deepcopy(SPECS[resource.kind])
    elif "." in resource.group and not resource.group.endswith("k8s.io"):
        body["spec"] = copy.deepcopy(RICH)
    for name in ("labels", "annotations"):
        for key, value in (getattr(handler, name) or {}).items():
            merge(body, nest(("metadata", name, key), get_value(value, "somevalue")))
    expected = handler.value if handler.value is not None else getattr(handler, "old", None)
    if handler.field and (expected is not None or handler.field[0] not in body):
        merge(body, nest(handler.field, get_value(expected, "value")))
    elif handler.field and len(handler.field) > 1:
        merge(body, nest(handler.field, "value"))
    return body


def complete(number: int, body: dict[str, Any]) -> dict[str, Any]:
    """Name the object; it is of the kind of the examples, unless it says otherwise."""
    meta = {"name": f"kopf-example-{number}", **body.get("metadata", {})}
    return {"apiVersion": "kopf.dev/v1", "kind": "KopfExample", **body, "metadata": meta}


def get_value(expected: Any, default: Any) -> Any:
    """A value that is as expected; none if there must be none."""
    if expected is kopf.ABSENT:
        return None
    return (
        default if expected is None or expected is kopf.PRESENT or callable(expected) else expected
    )


def get_new_value(handler: ChangingHandler) -> Any:
    """What the field is changed to."""
    return get_value(handler.new if handler.new is not None else handler.value, "changed")


def nest(path: Collection[str], value: Any) -> dict[str, Any]:
    """A dictionary with the only value deep inside."""
    for key in reversed([*path]):
        value = {key: value}
    return dict(value)


def merge(target: dict[str, Any], patch: Mapping[str, Any]) -> None:
    """Merge as merge patches do."""
    for key, value in patch.items():
        if isinstance(value, Mapping) and isinstance(target.get(key), dict):
            merge(target[key], value)
        elif value is None:
            target.pop(key, None)
        else:
            target[key] = value
