"""The whole operator against scripted responses: the conversation itself is under test.

There is no cluster behind it, and no state: only what is scripted is ever answered.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import kmock
import pytest

from kopf_cogs.clients.vault import Vault
from kopf_cogs.configs.settings import OperatorSettings
from kopf_cogs.structs.credentials import ConnectionInfo
from kopf_core.intents import decorators as on
from kopf_core.intents.registries import OperatorRegistry
from kopf_core.reactor.running import operator

pytestmark = pytest.mark.kmock(cls=kmock.RawHandler)

PATIENCE = 30.0
"""In seconds; it is only reached when a test fails."""

LIST = "/apis/kopf.dev/v1/kopfexamples"
ONE = "/apis/kopf.dev/v1/namespaces/ns/kopfexamples/x"
VERBS = ["list", "watch", "patch", "get"]
KIND = {"name": "kopfexamples", "singularName": "kopfexample", "kind": "KopfExample",
        "namespaced": True, "verbs": VERBS}  # fmt: skip
VERSION = {"groupVersion": "kopf.dev/v1", "version": "v1"}
GROUP = {"name": "kopf.dev", "versions": [VERSION], "preferredVersion": VERSION}


def make_object(version: int = 1, **fields: Any) -> dict[str, Any]:
    metadata = {"name": "x", "namespace": "ns", "uid": "u1", "resourceVersion": str(version)}
    return {"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": metadata,
            "spec": {"field": "v1"}, **fields}  # fmt: skip


def make_line(type: str, obj: dict[str, Any]) -> bytes:
    return json.dumps({"type": type, "object": obj}).encode() + b"\n"


class Script:
    """What is answered to lists, watches, and patches: one by one, the last one repeatedly."""

    def __init__(self, server: Any) -> None:
        self.lists: list[Any] = [{"metadata": {"resourceVersion": "1"}, "items": []}]
        self.watches: list[Any] = [b""]
        self.patches: list[Any] = []
        self.listed: list[dict[str, str]] = []
        self.watched: list[dict[str, str]] = []
        self.patched: list[Any] = []
        self._news = asyncio.Condition()
        server["get /api"] << {"versions": []}
        server["get /apis"] << {"groups": [GROUP]}
        server["get /apis/kopf.dev"] << GROUP
        server["get /apis/kopf.dev/v1"] << {"groupVersion": "kopf.dev/v1", "resources": [KIND]}
        server[f"get {LIST}"] << self._answer_list_or_watch
        server[kmock.method("PATCH")] << self._answer_patch

    async def _answer_list_or_watch(self, request: Any) -> Any:
        params = dict(request.params)
        if params.get("watch"):
            self.watched.append(params)
            return await self._next(self.watches)
        self.listed.append(params)
        return await self._next(self.lists)

    async def _answer_patch(self, request: Any) -> Any:
        self.patched.append(request.data)
        return await self._next(self.patches)

    async def _next(self, answers: list[Any]) -> Any:
        async with self._news:
            self._news.notify_all()
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        return answer() if callable(answer) else answer

    async def until(self, predicate: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE), self._news:
            await self._news.wait_for(predicate)


@pytest.fixture
def script(kmock: Any) -> Script:
    return Script(kmock)


@pytest.fixture
def registry() -> OperatorRegistry:
    return OperatorRegistry()


@contextlib.asynccontextmanager
async def running(server: Any, registry: OperatorRegistry) -> AsyncIterator[None]:
    settings = OperatorSettings()
    settings.scanning.disabled = True
    settings.watching.reconnect_backoff = 0.001
    settings.networking.error_backoffs = [0.001] * 3
    settings.queueing.error_delays = [0.001]
    stop = asyncio.Event()
    task = asyncio.create_task(operator(
        registry=registry, settings=settings, stop_flag=stop, clusterwide=True,
        vault=Vault({"test": ConnectionInfo(server=str(server.url).rstrip("/"))})))
    try:
        yield
    finally:
        stop.set()
        async with asyncio.timeout(PATIENCE):
            await task


async def test_a1_ended_watches_are_continued_from_the_same_version(
    kmock: Any, script: Script, registry: OperatorRegistry
) -> None:
    @on.event("kopf.dev", "kopfexamples", registry=registry)
    async def fn(**_: Any) -> None:
        pass

    script.lists = [{"metadata": {"resourceVersion": "7"}, "items": []}]
    async with running(kmock, registry):
        await script.until(lambda: len(script.watched) >= 3)
    assert len(script.listed) == 1
    assert {params["resourceVersion"] for params in script.watched} == {"7"}


async def test_a5_expired_versions_lead_to_a_new_list(
    kmock: Any, script: Script, registry: OperatorRegistry
) -> None:
    @on.event("kopf.dev", "kopfexamples", registry=registry)
    async def fn(**_: Any) -> None:
        pass

    gone = {"kind": "Status", "status": "Failure", "code": 410, "reason": "Expired"}
    script.watches = [make_line("ERROR", gone), b""]
    script.lists = [
        {"metadata": {"resourceVersion": "7"}, "items": []},
        {"metadata": {"resourceVersion": "9"}, "items": []},
    ]
    async with running(kmock, registry):
        await script.until(lambda: len(script.watched) >= 2)
    assert [params["resourceVersion"] for params in script.watched][:2] == ["7", "9"]
    assert len(script.listed) == 2


async def test_a10_nulls_are_the_same_as_nothing(
    kmock: Any, script: Script, registry: OperatorRegistry
) -> None:
    @on.event("kopf.dev", "kopfexamples", registry=registry)
    async def fn(**_: Any) -> None:
        pass

    script.lists = [{"metadata": {"resourceVersion": "7"}, "items": None}]
    async with running(kmock, registry):
        await script.until(lambda: bool(script.watched))
    assert len(script.listed) == 1


async def test_a7_cut_lines_are_read_again(
    kmock: Any, script: Script, registry: OperatorRegistry
) -> None:
    seen = []

    @on.event("kopf.dev", "kopfexamples", registry=registry)
    async def fn(name: str, type: str, **_: Any) -> None:
        seen.append((type, name))

    line = make_line("ADDED", make_object(8))
    script.watches = [line[:40], line, b""]
    async with running(kmock, registry):
        await script.until(lambda: len(script.watched) >= 3)
    assert seen == [("ADDED", "x")]
    assert [params["resourceVersion"] for params in script.watched][:3] == ["1", "1", "8"]


async def test_a11_versions_of_bookmarks_are_continued(
    kmock: Any, script: Script, registry: OperatorRegistry
) -> None:
    seen = []

    @on.event("kopf.dev", "kopfexamples", registry=registry)
    async def fn(type: str, **_: Any) -> None:
        seen.append(type)

    bookmark = {"kind": "KopfExample", "metadata": {"resourceVersion": "100"}}
    script.watches = [make_line("BOOKMARK", bookmark), b""]
    async with running(kmock, registry):
        await script.until(lambda: len(script.watched) >= 2)
    assert [params["resourceVersion"] for params in script.watched][:2] == ["1", "100"]
    assert not seen


async def test_one_handler_costs_one_patch(
    kmock: Any, script: Script, registry: OperatorRegistry
) -> None:
    @on.create("kopf.dev", "kopfexamples", id="fn", registry=registry)
    async def fn(**_: Any) -> dict[str, int]:
        return {"r": 1}

    script.lists = [{"metadata": {"resourceVersion": "1"}, "items": [make_object()]}]
    script.patches = [make_object(2)]
    async with running(kmock, registry):
        await script.until(lambda: bool(script.patched))
    essence = "kopf.zalando.org/last-handled-configuration"
    assert script.patched == [{
        "metadata": {"uid": "u1", "annotations": {essence: '{"spec":{"field":"v1"}}\n'}},
        "status": {"fn": {"r": 1}},
    }]


async def test_b9_absent_objects_are_quiet(
    kmock: Any, script: Script, registry: OperatorRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    calls = []

    @on.create("kopf.dev", "kopfexamples", registry=registry)
    async def fn(**_: Any) -> None:
        calls.append(1)

    kind = {"kind": "Status", "code": 404, "reason": "NotFound"}
    script.lists = [{"metadata": {"resourceVersion": "1"}, "items": [make_object()]}]
    script.patches = [lambda: respond(404, kind)]
    async with running(kmock, registry):
        await script.until(lambda: bool(script.patched))
    assert calls == [1]
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


async def test_b4_refused_patches_do_not_repeat_handlers(
    kmock: Any, script: Script, registry: OperatorRegistry
) -> None:
    calls = []

    @on.create("kopf.dev", "kopfexamples", registry=registry)
    async def fn(**_: Any) -> None:
        calls.append(1)

    kind = {"kind": "Status", "code": 403, "reason": "Forbidden", "message": "no"}
    script.lists = [{"metadata": {"resourceVersion": "1"}, "items": [make_object()]}]
    script.patches = [lambda: respond(403, kind)]
    async with running(kmock, registry):
        await script.until(lambda: len(script.patched) >= 3)
    assert calls == [1]


def respond(status: int, body: dict[str, Any]) -> Any:
    return kmock.Response(status=status, payload=body)
