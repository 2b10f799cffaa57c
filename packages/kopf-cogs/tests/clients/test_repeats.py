"""Requests whose reply is lost: they are repeated, and what is there then can be our own."""

import datetime
from collections.abc import Callable
from typing import Any

import pytest

from kopf_cogs.clients import errors
from kopf_cogs.clients.objects import ObjectsAPI
from kopf_cogs.clients.repeats import is_created
from kopf_cogs.clients.session import Client
from kopf_cogs.configs.settings import OperatorSettings
from kopf_cogs.structs.resources import Resource

WANTED = {
    "apiVersion": "kopf.dev/v1",
    "kind": "KopfExample",
    "metadata": {"name": "x", "labels": None},
    "spec": {"ports": [{"port": 80}]},
    "stringData": {"key": "value"},
}

Repeat = Callable[..., Any]


def make_live(*, manager: str = "kopf", minutes: int = 0, port: int = 80) -> dict[str, Any]:
    """The object as the server keeps it, with the defaults added."""
    moment = datetime.datetime.now(datetime.UTC) - datetime.timedelta(minutes=minutes)
    entry = {"manager": manager, "operation": "Update", "fieldsV1": {}}
    metadata = {
        "name": "x",
        "namespace": "ns",
        "uid": "u",
        "creationTimestamp": moment.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "managedFields": [entry],
    }
    return {**WANTED, "metadata": metadata, "spec": {"ports": [{"port": port, "tls": False}]}}


@pytest.fixture
def create(server: Any, client: Client, resource: Resource, settings: OperatorSettings) -> Repeat:
    settings.networking.error_backoffs = [0]

    async def create(*steps: Any, live: dict[str, Any], **options: Any) -> Any:
        server.script(*steps, server.error(409, reason="AlreadyExists"), server.reply(live))
        return await ObjectsAPI(client).create(WANTED, kind=resource, namespace="ns", **options)

    return create


@pytest.fixture(params=["500", "504", "RST", "EOF", "cut"])
def lost(server: Any, request: pytest.FixtureRequest) -> Any:
    return {
        "500": server.error(500),
        "504": server.error(504),
        "RST": server.raw(server.RST),
        "EOF": server.raw(server.EOF),
        "cut": server.reply(b'{"kind": "Ko'),
    }[request.param]


async def test_h2_what_is_created_with_no_reply_is_no_conflict(
    create: Repeat, server: Any, lost: Any
) -> None:
    live = make_live()
    assert await create(lost, live=live) == live
    assert [request.method for request in server.requests] == ["POST", "POST", "GET"]
    assert server.requests[2].path.endswith("/namespaces/ns/kopfexamples/x")


async def test_k37_what_is_created_with_no_reply_is_known_after_refused_repeats(
    create: Repeat, server: Any, settings: OperatorSettings
) -> None:
    """A server that is too busy to repeat the request has nevertheless executed the first one."""
    settings.networking.error_backoffs = [0, 0]
    live = make_live()
    assert await create(server.error(500), server.error(429), live=live) == live
    assert [request.method for request in server.requests] == ["POST", "POST", "POST", "GET"]


@pytest.mark.parametrize(
    "live",
    [
        pytest.param({"manager": "kubectl"}, id="made by others"),
        pytest.param({"minutes": 10}, id="made long ago"),
        pytest.param({"port": 443}, id="different"),
    ],
)
async def test_h2_what_was_there_before_is_a_conflict(
    create: Repeat, server: Any, live: Any
) -> None:
    with pytest.raises(errors.APIConflictError):
        await create(server.error(500), live=make_live(**live))


@pytest.mark.parametrize("status", [None, 429])
async def test_h2_conflicts_of_what_was_not_executed_before_are_conflicts(
    create: Repeat, server: Any, status: int | None
) -> None:
    with pytest.raises(errors.APIConflictError):
        await create(*([] if status is None else [server.error(status)]), live=make_live())
    assert {request.method for request in server.requests} == {"POST"}


async def test_h2_dry_runs_create_nothing(create: Repeat, server: Any) -> None:
    with pytest.raises(errors.APIConflictError):
        await create(server.error(500), live=make_live(), dry_run=True)


@pytest.mark.parametrize(
    ("wanted", "stored"),
    [
        pytest.param({"paused": False, "replicas": 2}, {"replicas": 2}, id="false"),
        pytest.param({"clusterIP": ""}, {"clusterIP": "10.0.0.1"}, id="default"),
        pytest.param({"args": [], "labels": {}}, {}, id="empty"),
        pytest.param({"limits": {"cpu": "1000m"}}, {"limits": {"cpu": "1"}}, id="quantity"),
        pytest.param({"data": {"x": "YWFh\nYWFh"}}, {"data": {"x": "YWFhYWFh"}}, id="base64"),
        pytest.param(
            {"containers": [{"name": "main", "env": []}]},
            {"containers": [{"name": "sidecar"}, {"name": "main", "image": "x"}]},
            id="webhook",
        ),
    ],
)
def test_h2_what_is_created_is_recognised_as_servers_store_it(wanted: Any, stored: Any) -> None:
    since = datetime.datetime.now(datetime.UTC)
    live = {**make_live(), "spec": stored}
    assert is_created(live, {"spec": wanted}, manager="kopf", since=since)


@pytest.mark.parametrize(
    ("wanted", "stored"),
    [
        pytest.param({"replicas": 2}, {"replicas": 1}, id="number"),
        pytest.param({"paused": True}, {}, id="true"),
        pytest.param({"args": ["a", "b"]}, {"args": ["a"]}, id="list"),
        pytest.param({"text": "a b"}, {"text": "ab"}, id="space"),
        pytest.param({"text": "a b"}, {"text": "a c"}, id="text"),
    ],
)
def test_h2_what_differs_in_values_is_of_others(wanted: Any, stored: Any) -> None:
    since = datetime.datetime.now(datetime.UTC)
    live = {**make_live(), "spec": stored}
    assert not is_created(live, {"spec": wanted}, manager="kopf", since=since)


def test_h2_what_is_created_empty_has_no_managers() -> None:
    since = datetime.datetime.now(datetime.UTC)
    live = make_live()
    del live["metadata"]["managedFields"]
    assert is_created(live, {"data": {}}, manager="kopf", since=since)


def test_h2_what_is_being_deleted_is_not_created() -> None:
    since = datetime.datetime.now(datetime.UTC)
    live = make_live()
    assert is_created(live, WANTED, manager="kopf", since=since)
    live["metadata"]["deletionTimestamp"] = live["metadata"]["creationTimestamp"]
    assert not is_created(live, WANTED, manager="kopf", since=since)


@pytest.fixture
def delete(server: Any, client: Client, resource: Resource, settings: OperatorSettings) -> Repeat:
    settings.networking.error_backoffs = [0]

    async def delete(*steps: Any, **options: Any) -> None:
        server.script(*steps, server.error(404, reason="NotFound", details={"name": "x"}))
        await ObjectsAPI(client).delete(resource, "x", "ns", **options)

    return delete


@pytest.mark.parametrize("lost", ["500", "504", "cut"], indirect=True)
async def test_h2_what_is_deleted_with_no_reply_is_not_missed(
    delete: Repeat, server: Any, lost: Any
) -> None:
    # If the connection is broken before the reply, aiohttp repeats deletions by itself, unnoticed.
    await delete(lost)
    assert [request.method for request in server.requests] == ["DELETE", "DELETE"]


async def test_k37_what_is_deleted_with_no_reply_is_known_after_refused_repeats(
    delete: Repeat, server: Any, settings: OperatorSettings
) -> None:
    settings.networking.error_backoffs = [0, 0]
    await delete(server.error(500), server.error(429))
    assert [request.method for request in server.requests] == ["DELETE"] * 3


@pytest.mark.parametrize("status", [None, 429])
async def test_h2_what_was_not_there_before_the_deletion_is_missed(
    delete: Repeat, server: Any, status: int | None
) -> None:
    with pytest.raises(errors.APINotFoundError):
        await delete(*([] if status is None else [server.error(status)]))


async def test_h2_dry_runs_delete_nothing(delete: Repeat, server: Any) -> None:
    with pytest.raises(errors.APINotFoundError):
        await delete(server.error(500), dry_run=True)
