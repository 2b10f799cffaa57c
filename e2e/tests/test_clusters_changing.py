"""What is around the objects comes, changes, and goes: namespaces, owners, definitions."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from typing import Any

import aiohttp
import pytest

from e2e.tests.harness import CRDS, GROUP, PATIENCE, get_essence, make_crd
from kopf_core.actions.errors import TemporaryError
from kopf_core.intents import decorators as on
from kopf_kits.hierarchies import adopt

KEX = (GROUP, "kexes")
NAMESPACES = "/api/v1/namespaces"


async def until(world: Any, path: str, *, is_there: bool) -> None:
    """Wait until there is something, or until it is really removed from the cluster."""
    async with asyncio.timeout(PATIENCE):
        while True:
            if (await find(world, path) is not None) == is_there:
                return
            await asyncio.sleep(0.05)


async def find(world: Any, path: str) -> Any:
    with contextlib.suppress(AssertionError, aiohttp.ContentTypeError):  # of absent resources
        return await world.request("GET", path)


@contextlib.asynccontextmanager
async def namespaces(world: Any, *names: str) -> Any:
    for name in names:
        await world.request("POST", NAMESPACES, {"metadata": {"name": name}})
    try:
        yield
    finally:
        for name in names:
            if await find(world, f"{NAMESPACES}/{name}") is not None:
                await world.request("DELETE", f"{NAMESPACES}/{name}")


@contextlib.asynccontextmanager
async def inside(world: Any, namespace: str) -> Any:
    """Work with the objects of another namespace."""
    original, world.namespace = world.namespace, namespace
    try:
        yield
    finally:
        world.namespace = original


# --- Namespaces ---


async def test_c18_deletion_of_a_namespace_is_handled_and_does_not_get_stuck(world, logged):
    """Events cannot be posted there anymore; deletion handlers with retries still can run."""
    world.settings.posting.enabled = True
    name = f"{world.namespace}-c18"

    @on.create(*KEX, id="fn", registry=world.registry)
    def create_fn(**_):
        world.calls("create")

    @on.delete(*KEX, id="fn", registry=world.registry)
    def delete_fn(body, name, retry, **_):
        from kopf_core.engines.posting import info

        info(body, reason="Deleting", message="It is refused by the API.")
        world.calls(("delete", name, retry))
        if not retry:
            raise TemporaryError("not yet", delay=0.01)

    @on.daemon(*KEX, id="daemon", registry=world.registry)
    async def daemon(stopped, **_):
        await stopped.wait()
        world.calls("stopped")

    async with namespaces(world, name), world.operator(namespaces=[name]):
        async with inside(world, name):
            for n in range(3):
                await world.create({"n": n}, f"obj-{n}")
            for n in range(3):
                await world.until_handled(f"obj-{n}")
        await world.request("DELETE", f"{NAMESPACES}/{name}")
        await until(world, f"{NAMESPACES}/{name}", is_there=False)
    deletions = [call for call in world.calls if call[0] == "delete"]
    assert sorted(deletions) == sorted(
        ("delete", f"obj-{n}", retry) for n in range(3) for retry in (0, 1)
    )
    assert world.calls.count("stopped") == 3
    assert not [text for text in logged("", logging.ERROR) if "failed temporarily" not in text]


@pytest.mark.docs("scopes")
async def test_absent_namespaces_are_one_warning_until_they_are_created(world, logged):
    absent = f"{world.namespace}-later"

    @on.create(*KEX, id="fn", registry=world.registry)
    def fn(namespace, **_):
        world.calls(namespace)

    async with world.operator(namespaces=[world.namespace, absent]):
        await world.create()
        await world.calls.until(lambda calls: calls == [world.namespace])
        async with namespaces(world, absent), inside(world, absent):
            await world.create()
            await world.calls.until(lambda calls: absent in calls)
    (warning,) = logged("There are no such namespaces", logging.WARNING)
    assert warning.startswith(f"There are no such namespaces: {absent!r}.")


async def test_c19_namespaces_that_come_and_go_are_followed_by_their_patterns(world):
    """A re-created namespace has nothing to do with the old one, not even memos."""
    prefix = f"{world.namespace}-c19"
    names = [f"{prefix}-a", f"{prefix}-b", f"{prefix}-ignored"]

    @on.create(*KEX, id="fn", registry=world.registry)
    def fn(namespace, memo, **_):
        memo["times"] = memo.get("times", 0) + 1
        world.calls((namespace, memo["times"]))

    @on.daemon(*KEX, id="daemon", registry=world.registry)
    async def daemon(namespace, stopped, **_):
        await stopped.wait()
        world.calls(("stopped", namespace))

    patterns = [f"{prefix}-*", "!*-ignored"]
    async with world.operator(namespaces=[",".join(patterns)]), namespaces(world, *names):
        for name in reversed(names):
            async with inside(world, name):
                await world.create()
        await world.calls.until(lambda calls: len(calls) == 2)
        await world.request("DELETE", f"{NAMESPACES}/{names[0]}")
        await world.calls.until(lambda calls: ("stopped", names[0]) in calls)
        await until(world, f"{NAMESPACES}/{names[0]}", is_there=False)
        await world.request("POST", NAMESPACES, {"metadata": {"name": names[0]}})
        async with inside(world, names[0]):
            await world.create()
        await world.calls.until(lambda calls: calls.count((names[0], 1)) == 2)
        async with inside(world, names[2]):
            assert get_essence(await world.get()) is None
    assert world.calls.count((names[1], 1)) == 1


# --- Owners ---


async def test_adopted_children_are_gone_with_their_owner(world):
    children = f"/api/v1/namespaces/{world.namespace}/configmaps"

    @on.create(*KEX, id="fn", registry=world.registry)
    async def fn(name, **_):
        child = {"metadata": {"name": f"{name}-child"}, "data": {"key": "value"}}
        adopt(child)
        await world.request("POST", children, child)

    async with world.operator():
        obj = await world.create()
        await world.until_handled()
        child = await world.request("GET", f"{children}/obj-child")
        assert [owner["uid"] for owner in child["metadata"]["ownerReferences"]] == [
            obj["metadata"]["uid"]
        ]
        await world.delete()
        await until(world, f"{children}/obj-child", is_there=False)


# --- Definitions ---


@pytest.fixture
def rare():
    """A resource of this test alone."""
    return f"rare{secrets.token_hex(4)}s"


@contextlib.asynccontextmanager
async def defined(world: Any, definition: Any) -> Any:
    url = f"{CRDS}/{definition['metadata']['name']}"
    path = world.path(plural=definition["spec"]["names"]["plural"])
    await world.request("POST", CRDS, definition)
    try:
        await until(world, path, is_there=True)
        yield
    finally:
        await world.request("DELETE", url)
        await until(world, url, is_there=False)


async def test_c20_definitions_are_served_as_they_come_go_and_come_again(world, rare, logged):
    kind = rare[:-1].capitalize()

    @on.create(GROUP, rare, id="fn", registry=world.registry)
    def fn(spec, memo, **_):
        memo["times"] = memo.get("times", 0) + 1
        world.calls((spec["n"], memo["times"]))

    @on.delete(GROUP, rare, id="fn", registry=world.registry)
    def delete_fn(spec, **_):
        world.calls(("deleted", spec["n"]))

    async with world.operator():
        for n in (1, 2):
            async with defined(world, make_crd(rare, kind)):
                body = {
                    "apiVersion": f"{GROUP}/v1",
                    "kind": kind,
                    "metadata": {"name": "obj"},
                    "spec": {"n": n},
                }
                await world.request("POST", world.path(plural=rare), body)
                await world.calls.until(lambda calls, n=n: (n, 1) in calls)
            # The instances are deleted together with the definition; our finalizers delay that.
            await world.calls.until(lambda calls, n=n: ("deleted", n) in calls)
    assert world.calls == [(1, 1), ("deleted", 1), (2, 1), ("deleted", 2)]
    assert not logged("", logging.ERROR)


async def test_c20_objects_are_handled_once_when_served_in_several_versions(world, rare):
    kind = rare[:-1].capitalize()
    definition = make_crd(rare, kind)
    version = definition["spec"]["versions"][0]
    definition["spec"]["versions"].append({**version, "name": "v1beta1", "storage": False})

    @on.create(rare, id="fn", registry=world.registry)
    def fn(name, resource, **_):
        world.calls((name, resource.version))

    async with defined(world, definition), world.operator():
        for name, served in [("one", "v1"), ("two", "v1beta1")]:
            body = {"apiVersion": f"{GROUP}/{served}", "kind": kind, "metadata": {"name": name}}
            path = world.path(plural=rare).replace("/v1/", f"/{served}/")
            await world.request("POST", path, body)
            await world.calls.until(lambda calls, name=name: (name, "v1") in calls)
    assert world.calls == [("one", "v1"), ("two", "v1")]


@pytest.mark.parametrize(("one", "other"), [("v1", "v1beta1"), ("v1beta1", "v1")])
async def test_c20_d7_daemons_of_one_version_end_whichever_version_tells_of_the_deletion(
    world, rare, monkeypatch, one, other
):
    """There is no finalizer: somebody has removed it."""
    monkeypatch.setattr("kopf_core.engines.records.holds.LOST_MARKS_DELAYS", (3600.0,))
    kind = rare[:-1].capitalize()
    definition = make_crd(rare, kind)
    version = definition["spec"]["versions"][0]
    definition["spec"]["versions"].append({**version, "name": "v1beta1", "storage": False})

    @on.event(GROUP, one, rare, id="event", registry=world.registry)
    def event(meta, **_):
        if meta.get("finalizers"):
            world.calls("held")

    @on.daemon(GROUP, other, rare, id="daemon", registry=world.registry)
    async def daemon(stopped, **_):
        world.calls("begin")
        await stopped.wait()
        world.calls("end")

    async with defined(world, definition), world.operator():
        body = {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": {"name": "obj"}}
        await world.request("POST", world.path(plural=rare), body)
        await world.calls.until(lambda calls: {"begin", "held"} <= {*calls})
        path = world.path("obj", plural=rare)
        patch, type = {"metadata": {"finalizers": None}}, "application/merge-patch+json"
        await world.request("PATCH", path, patch, type)
        await world.request("DELETE", path)
        await world.calls.until(lambda calls: "end" in calls)


async def test_c20_the_other_version_is_served_when_the_first_one_is_gone(world, rare):
    kind = rare[:-1].capitalize()
    definition = make_crd(rare, kind)
    version = definition["spec"]["versions"][0]
    definition["spec"]["versions"] = [
        {**version, "name": "v2", "storage": False},
        {**version, "name": "v1"},
    ]
    url = f"{CRDS}/{definition['metadata']['name']}"

    @on.event(rare, id="fn", registry=world.registry)
    def fn(resource, **_):
        world.calls(resource.version)

    async with defined(world, definition), world.operator():
        body = {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": {"name": "obj"}}
        await world.request("POST", world.path(plural=rare), body)
        await world.calls.until(lambda calls: "v2" in calls)
        op = {"op": "replace", "path": "/spec/versions/0/served", "value": False}
        await world.request("PATCH", url, [op], "application/json-patch+json")
        await world.calls.until(lambda calls: "v1" in calls)
    assert world.calls == ["v2", "v1"]
