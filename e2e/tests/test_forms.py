"""Forms of objects: what the API server sends of them, and what is left of them."""

from __future__ import annotations

from e2e.tests.harness import GROUP, Calls
from kopf_core.intents import decorators as on

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
