"""The whole operator against scripted responses: the conversation itself is under test.

There is no cluster behind it, and no state: only what is scripted is ever answered.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
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
from kopf_core.reactor.process.running import operator

pytestmark = pytest.mark.kmock(cls=kmock.RawHandler)

PATIENCE = 90.0
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
        self.objects: list[Any] = [lambda: respond(404, {"kind": "Status", "code": 404})]
        self.listed: list[dict[str, str]] = []
        self.watched: list[dict[str, str]] = []
        self.patched: list[Any] = []
        self.on_patch: Callable[[Any], object] = lambda request: None
        self._news = asyncio.Condition()
        server["get /api"] << {"versions": []}
        server["get /apis"] << {"groups": [GROUP]}
        server["get /apis/kopf.dev"] << GROUP
        server["get /apis/kopf.dev/v1"] << {"groupVersion": "kopf.dev/v1", "resources": [KIND]}
        server[f"get {LIST}"] << self._answer_list_or_watch
        server["get /apis/kopf.dev/v1/namespaces/ns/kopfexamples/x"] << self._answer_object
        server[kmock.method("PATCH")] << self._answer_patch

    async def _answer_list_or_watch(self, request: Any) -> Any:
        params = dict(request.params)
        if params.get("watch"):
            self.watched.append(params)
            return await self._next(self.watches)
        self.listed.append(params)
        return await self._next(self.lists)

    async def _answer_object(self, request: Any) -> Any:
        return await self._next(self.objects)

    async def _answer_patch(self, request: Any) -> Any:
        self.patched.append(request.data)
        self.on_patch(request)
        return await self._next(self.patches)

    async def _next(self, answers: list[Any]) -> Any:
        async with self._news:
            self._news.notify_all()
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        answer = answer() if callable(answer) else answer
        return await answer if inspect.isawaitable(answer) else answer

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
async def running(
    server: Any,
    registry: OperatorRegistry,
    *,
    reconnect_backoff: float = 0.001,
    is_logged_in: bool = True,
) -> AsyncIterator[None]:
    """Run an operator which is logged in already, or which logs in by its handlers."""
    settings = OperatorSettings()
    settings.scanning.disabled = True
    settings.watching.reconnect_backoff = reconnect_backoff
    settings.networking.error_backoffs = [0.001] * 3
    settings.queueing.error_delays = [0.001]
    stop = asyncio.Event()
    task = asyncio.create_task(
        operator(
            registry=registry,
            settings=settings,
            stop_flag=stop,
            clusterwide=True,
            vault=Vault({"test": ConnectionInfo(server=str(server.url).rstrip("/"))})
            if is_logged_in
            else None,
        )
    )
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
    assert script.patched == [
        {
            "metadata": {"uid": "u1", "annotations": {essence: '{"spec":{"field":"v1"}}\n'}},
            "status": {"fn": {"r": 1}},
        }
    ]


async def test_b9_absent_objects_are_quiet(
    kmock: Any, script: Script, registry: OperatorRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    calls = []

    @on.create("kopf.dev", "kopfexamples", registry=registry)
    async def fn(**_: Any) -> None:
        calls.append(1)

    details = {"name": make_object()["metadata"]["name"], "kind": "kopfexamples"}
    kind = {"kind": "Status", "code": 404, "reason": "NotFound", "details": details}
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


async def test_a5_lists_in_pages_start_anew_when_the_token_expires(
    kmock: Any, script: Script, registry: OperatorRegistry
) -> None:
    seen = []

    @on.event("kopf.dev", "kopfexamples", registry=registry)
    async def fn(uid: str, **_: Any) -> None:
        seen.append(uid)

    gone = {"kind": "Status", "code": 410, "reason": "Expired"}
    old, new = {"resourceVersion": "7"}, {"resourceVersion": "9"}
    script.lists = [
        {"metadata": {**old, "continue": "next"}, "items": [make_other(1)]},
        lambda: respond(410, gone),
        lambda: respond(200, {"metadata": {**new, "continue": "more"}, "items": [make_other(1)]}),
        lambda: respond(200, {"metadata": new, "items": [make_other(2)]}),
    ]
    async with running(kmock, registry):
        await script.until(lambda: bool(script.watched))
    assert [params.get("continue") for params in script.listed] == [None, "next", None, "more"]
    assert script.watched[0]["resourceVersion"] == "9"
    assert sorted(set(seen)) == ["u1", "u2"]


async def test_a1_streams_that_end_at_once_are_not_a_busy_loop(
    kmock: Any, script: Script, registry: OperatorRegistry
) -> None:
    """Each one in a row is opened later than the previous one."""
    delays: list[float] = []

    @on.event("kopf.dev", "kopfexamples", registry=registry)
    async def fn(**_: Any) -> None:
        pass

    loop = asyncio.get_running_loop()
    script.watches = [lambda: delays.append(loop.time()) or b""]
    async with running(kmock, registry, reconnect_backoff=0.01):
        await script.until(lambda: len(script.watched) >= 8)
    assert delays[7] - delays[6] > 0.01  # with jitter, but far from nothing
    assert len(script.listed) == 1


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_b1_b2_failed_requests_are_repeated_as_they_were(
    kmock: Any, script: Script, registry: OperatorRegistry, status: int
) -> None:
    calls = []

    @on.create("kopf.dev", "kopfexamples", registry=registry)
    async def fn(**_: Any) -> None:
        calls.append(1)

    kind = {"kind": "Status", "code": status, "reason": "Whatever"}
    script.lists = [{"metadata": {"resourceVersion": "1"}, "items": [make_object()]}]
    failure = lambda: respond(status, kind)  # noqa: E731
    script.patches = [failure, failure, lambda: respond(200, make_object(2))]
    async with running(kmock, registry):
        await script.until(lambda: len(script.patched) >= 3)
    assert script.patched[0] == script.patched[1] == script.patched[2]
    assert calls == [1]


async def test_b6_credentials_are_renewed_when_refused(
    kmock: Any, script: Script, registry: OperatorRegistry
) -> None:
    logins, tokens = [], []

    @on.login(registry=registry)
    async def login(**_: Any) -> ConnectionInfo:
        logins.append(1)
        return ConnectionInfo(server=str(kmock.url).rstrip("/"), token=f"token{len(logins)}")

    @on.create("kopf.dev", "kopfexamples", registry=registry)
    async def fn(**_: Any) -> None:
        pass

    kind = {"kind": "Status", "code": 401, "reason": "Unauthorized"}
    script.on_patch = lambda request: tokens.append(request.headers.get("Authorization"))
    script.lists = [{"metadata": {"resourceVersion": "1"}, "items": [make_object()]}]
    script.patches = [lambda: respond(401, kind), lambda: respond(200, make_object(2))]
    async with running(kmock, registry, is_logged_in=False):
        await script.until(lambda: len(script.patched) >= 2)
    assert tokens == ["Bearer token1", "Bearer token2"]
    assert len(logins) == 2
    assert script.patched[0] == script.patched[1]


async def test_b10_functions_are_sent_with_the_version_they_were_made_for(
    kmock: Any, script: Script, registry: OperatorRegistry
) -> None:
    """When the version is not the latest one, they are called again for the newer body."""
    calls = []

    @on.create("kopf.dev", "kopfexamples", id="fn", registry=registry)
    async def fn(patch: Any, **_: Any) -> None:
        calls.append(1)
        patch.fns.append(lambda body: body["spec"].update(field=body["spec"]["field"] + "+"))

    kind = {"kind": "Status", "code": 422, "reason": "Invalid"}
    handled = {"kopf.zalando.org/last-handled-configuration": '{"spec":{"field":"v1"}}\n'}
    ours, newer = make_object(2), make_object(3, status={"counter": 1})
    ours["metadata"]["annotations"] = newer["metadata"]["annotations"] = handled
    script.lists = [{"metadata": {"resourceVersion": "1"}, "items": [make_object()]}]
    script.patches = [ours, lambda: respond(422, kind), lambda: respond(200, make_object(4))]
    script.objects = [newer]
    script.watches = [lambda: until_patched(script, 2, make_line("MODIFIED", newer)), b""]
    async with running(kmock, registry):
        await script.until(lambda: len(script.patched) >= 3)
    test = {"op": "test", "path": "/metadata/resourceVersion"}
    change = {"op": "replace", "path": "/spec/field"}
    assert script.patched[1] == [{**test, "value": "2"}, {**change, "value": "v1+"}]
    assert script.patched[2] == [{**test, "value": "3"}, {**change, "value": "v1+"}]
    assert calls == [1]


async def test_a18_overloaded_servers_are_watched_again_with_no_new_list(
    kmock: Any, script: Script, registry: OperatorRegistry
) -> None:
    @on.event("kopf.dev", "kopfexamples", registry=registry)
    async def fn(**_: Any) -> None:
        pass

    kind = {"kind": "Status", "code": 429, "reason": "TooManyRequests"}
    line = make_line("ADDED", make_object(8))
    script.watches = [
        lambda: respond(429, kind),
        lambda: respond(200, line),
        lambda: respond(200, b""),
    ]
    async with running(kmock, registry):
        await script.until(lambda: len(script.watched) >= 3)
    assert [params["resourceVersion"] for params in script.watched][:3] == ["1", "1", "8"]
    assert len(script.listed) == 1


async def test_c21_broken_groups_do_not_prevent_others_from_being_served(
    kmock: Any, registry: OperatorRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    broken = {"groupVersion": "broken.io/v1", "version": "v1"}
    groups = [{"name": "broken.io", "versions": [broken], "preferredVersion": broken}, GROUP]
    kmock["get /apis"] << {"groups": groups}
    kmock["get /apis/broken.io/v1"] << respond(503, {"kind": "Status", "code": 503})
    script = Script(kmock)

    @on.event("kopfexamples", registry=registry)
    async def fn(**_: Any) -> None:
        pass

    async with running(kmock, registry):
        await script.until(lambda: bool(script.watched))
    warnings = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    assert len([text for text in warnings if "'broken.io' cannot be discovered" in text]) == 1


async def until_patched(script: Script, count: int, answer: bytes) -> bytes:
    await script.until(lambda: len(script.patched) >= count)
    return answer


def make_other(number: int) -> dict[str, Any]:
    obj = make_object(number)
    obj["metadata"] |= {"name": f"x{number}", "uid": f"u{number}"}
    return obj


def respond(status: int, body: dict[str, Any] | bytes) -> Any:
    return kmock.Response(status=status, payload=body)
