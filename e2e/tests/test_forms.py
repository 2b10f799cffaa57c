"""Forms of objects: what the API server sends of them, and what is left of them."""

from __future__ import annotations

import pytest

from e2e.tests.harness import GROUP, Calls
from kopf_core.intents import decorators as on
from kopf_core.reactor.streams import referenced

KEX = (GROUP, "kexes")


async def test_o_only_the_metadata_of_objects_is_sent_and_nothing_else_is_lost(world):
    calls = Calls()
    options = {"registry": world.registry, "metadata_only": True}

    @on.event(*KEX, **options)
    def see(body, **_):
        calls(("event", *sorted(body), body["apiVersion"], body["kind"]))

    @on.create(*KEX, **options)
    @on.update(*KEX, **options, field="metadata.generation")
    @on.delete(*KEX, **options)
    def fn(reason, name, patch, **_):
        calls((str(reason), name))
        patch.fns.append(lambda body: body["metadata"].update(labels={"n": str(body["spec"]["n"])}))

    listed = await world.create({"n": 1}, "listed")
    shown = ("event", "apiVersion", "kind", "metadata", listed["apiVersion"], listed["kind"])
    async with world.operator():
        await world.until_handled("listed")
        await world.patch({"spec": {"n": 2}}, "listed")
        await world.until(lambda obj: obj["metadata"]["labels"] == {"n": "2"}, "listed")
        await world.create({"n": 1}, "streamed")
        await world.until_handled("streamed")
        await world.delete("streamed")
        await world.until_gone("streamed")
    assert {item for item in calls if item[0] == "event"} == {shown}
    assert [item for item in calls if item[0] != "event"] == [
        ("create", "listed"),
        ("update", "listed"),
        ("create", "streamed"),
        ("delete", "streamed"),
    ]
    assert (await world.get("listed"))["spec"] == {"n": 2}


@pytest.mark.parametrize("many", [100, 1])
async def test_o_only_referenced_objects_are_sent(world, monkeypatch, many):
    monkeypatch.setattr(referenced, "MANY", many)
    world.settings.watching.referenced_only = True
    calls, path = Calls(), f"/api/v1/namespaces/{world.namespace}/configmaps"

    @on.reconcile(*KEX, related={"configmaps": "spec.uses"}, registry=world.registry)
    def see(related, **_):
        calls({name: one["data"]["n"] for name, one in related["ConfigMap"].items()})

    for name in ("one", "two", "other"):
        config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
        await world.request("POST", path, {**config, "data": {"n": "1"}})
    await world.create({"uses": ["one", "two"]})
    async with world.operator():
        await calls.until(lambda items: {"one": "1", "two": "1"} in items)
        for name in ("other", "two"):
            change = {"data": {"n": "2"}}
            await world.request("PATCH", f"{path}/{name}", change, "application/merge-patch+json")
        await calls.until(lambda items: {"one": "1", "two": "2"} in items)
        await world.request("DELETE", f"{path}/one")
        await calls.until(lambda items: {"two": "2"} in items)
    assert calls == [{"one": "1", "two": "1"}, {"one": "1", "two": "2"}, {"two": "2"}]
