"""Streams and lists with poison in them: the rest is served."""

from __future__ import annotations

import json
import sys

import pytest

from e2e.chaos.driver.notes import at
from e2e.chaos.fake.faults import alter, reply_with
from e2e.chaos.fake.journal import where
from e2e.chaos.fake.kinds import KEX, VEX

CANCELLING = """
def raise_once(name, **_):
    if name == "one":
        raise asyncio.CancelledError("out of nowhere")
    return True

@kopf.index(*KEXES, when=raise_once)
def indexed(name, **_):
    return {name: 1}

@kopf.on.create(*KEXES)
@noted
def a(**_):
    pass
"""


async def test_r18_cancelled_errors_of_filters_do_not_end_the_stream(world):
    async with world.operator(CANCELLING):
        await world.api.until_watched()
        world.api.create("one", spec={"x": 1})
        world.api.create("two", spec={"x": 1})
        await world.until_handled("two")
        await world.until_handled("one")


TWO_KINDS = """
@kopf.on.create(*KEXES)
@noted
def a(**_):
    pass

@kopf.on.create(*VEXES)
@noted
def v(**_):
    pass
"""

POISONED_LISTS = {
    "no metadata": [{"metadata": None}],
    "null": [None],
    "empty": [{}],
    "strings": "abc",
    "number": 1,
    "dict name": [{"metadata": {"name": {}, "uid": "u", "namespace": "default"}}],
    "annotations": [
        {"metadata": {"name": "x", "uid": "u", "namespace": "default", "annotations": {"a": 1}}}
    ],
    "version": [{"metadata": {"name": "x", "uid": "u", "resourceVersion": 5}}],
}


@pytest.mark.parametrize("poison", POISONED_LISTS)
async def test_r19_a_poisoned_list_of_a_kind_spares_other_kinds(world, poison):
    """When there is no poison anymore, that kind is served too."""
    items = POISONED_LISTS[poison]
    world.tolerated["O6"] = "the tracebacks of strange objects are checked separately"
    world.api.create("good", kind=VEX, spec={"x": 1})
    hook = world.api.on(where("list", "vexes"), alter(lambda reply: {**reply, "items": items}))
    async with world.operator(TWO_KINDS) as process:
        await world.api.journal.until(where("list", "vexes"))
        world.api.create(spec={"x": 1})
        await world.until_handled()
        hook.stop()
        if world.api.get_streams(VEX):  # the item was skipped, the rest goes on
            [stream] = world.api.get_streams(VEX)
            await stream.expire()
        await world.until_handled("good", kind=VEX)
        assert process.code is None


def make_event(type="ADDED", **metadata):
    """An event for the stream, in all ways strange."""
    meta = {"name": "x", "namespace": "default", "uid": "u", "resourceVersion": "9", **metadata}
    obj = {"apiVersion": VEX.api_version, "kind": VEX.kind, "metadata": meta, "spec": {}}
    return {"type": type, "object": obj}


POISONED_EVENTS = {
    "dict type": make_event(type={}),
    "list type": make_event(type=[]),
    "null type": make_event(type=None),
    "dict name": make_event(name={}),
    "dict namespace": make_event(namespace={}),
    "list uid": make_event(uid=[]),
    "number version": make_event(resourceVersion=7),
    "dict version": make_event(resourceVersion={}),
    "bookmark": make_event(type="BOOKMARK", resourceVersion=7),
    "annotations": make_event(annotations={"a": 1, "b": None, "c": {}}),
    "list annotations": make_event(annotations=["a"]),
    "labels": make_event(labels={"a": 1}),
    "list finalizers": make_event(finalizers={"a": 1}),
    "no metadata": {"type": "ADDED", "object": {"metadata": None}},
    "null object": {"type": "ADDED", "object": None},
    "string object": {"type": "ADDED", "object": "abc"},
    "error of text": {"type": "ERROR", "object": "abc"},
    "number": 1,
    "list": [],
    "string": "abc",
}


async def test_r19_poisoned_events_of_a_kind_spare_other_kinds_and_objects(world):
    """One after another, with good objects in between."""
    world.tolerated["O6"] = "the tracebacks of strange objects are checked separately"
    async with world.operator(TWO_KINDS) as process:
        await world.api.until_watched(KEX)
        for n, event in enumerate(POISONED_EVENTS.values()):
            [stream] = await world.api.until_watched(VEX)
            line = json.dumps(event).replace('"uid": "u"', f'"uid": "u{n}"')
            await stream.send_raw(line.encode() + b"\n")
            world.api.create(f"n{n}", kind=KEX, spec={"x": 1})
            await world.until_handled(f"n{n}", kind=KEX)
            world.api.create(f"n{n}", kind=VEX, spec={"x": 1})
            await world.until_handled(f"n{n}", kind=VEX)
            assert process.code is None


PLAIN = """
@kopf.on.create(*KEXES)
def a(**_):
    pass
"""


@pytest.fixture
def unlimited_depth():
    """The API itself and the tests have no troubles with what is deep."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(20_000)
    yield
    sys.setrecursionlimit(limit)


@pytest.mark.usefixtures("unlimited_depth")
@pytest.mark.parametrize("depth", [480, 600, 800, 950])
async def test_r22_deep_objects_are_quarantined_by_what_processing_can_bear(world, depth):
    """They are either handled or left alone, with few words, and others do not wait."""
    spec = {}
    for _ in range(depth):
        spec = {"x": spec}
    world.tolerated["O1"] = "deep objects cannot be handled"
    async with world.operator(PLAIN) as process:
        await world.api.until_watched()
        world.api.create("deep", spec=spec)
        for n in range(5):
            world.api.create(f"n{n}", spec={"x": n})
            await world.until_handled(f"n{n}")
        assert process.code is None
    assert not process.find("RecursionError")
    assert sum(map(len, process.log)) < 100_000


async def test_r19_the_pages_of_proxies_instead_of_lists_spare_other_kinds(world):
    page = b"<html><body>It works!</body></html>"
    hook = world.api.on(where("list", "vexes"), reply_with(page, content_type="text/html"))
    async with world.operator(TWO_KINDS):
        await world.api.journal.until(where("list", "vexes"))
        world.api.create(spec={"x": 1})
        await world.until_handled()
        hook.stop()
        world.api.create("good", kind=VEX, spec={"x": 1})
        await world.notebook.until(at("end", "v"))
        await world.until_handled("good", kind=VEX)
