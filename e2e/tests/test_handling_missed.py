"""Changes in the middle of cycles: nobody misses them, whatever happens to the operator."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from e2e.tests.harness import GROUP, LAST_HANDLED, PREFIX, get_essence, get_progress
from kopf_cogs.aiokits.clocks import SystemClock
from kopf_core.actions.errors import TemporaryError
from kopf_core.intents import decorators as on
from kopf_core.intents.registries import OperatorRegistry

KEX = (GROUP, "kexes")
SEEN = f"{PREFIX}seen-states"

pytestmark = pytest.mark.docs("continuity/restarts")


def make_registry(world, blocked=("b",), *, delay=60):
    """A and B for the creation, U for updates. Those that are blocked are retried later."""
    registry = OperatorRegistry()

    def fn(id):
        def call(spec, reason, old, new, **_):
            n = (old or {}).get("spec", {}).get("n"), new["spec"]["n"]
            world.calls((id, str(reason), *n))
            if id in blocked:
                raise TemporaryError("not yet", delay=delay)

        return call

    for id in "ab":
        on.create(*KEX, id=id, registry=registry)(fn(id))
    on.update(*KEX, id="u", registry=registry)(fn("u"))
    return registry


def is_over(id):
    return lambda obj: get_progress(obj).get(id, {}).get("success")


def is_tried(id):
    return lambda obj: get_progress(obj).get(id, {}).get("retries")


async def test_r1_changes_in_the_middle_of_creation_are_updates(world):
    """Even for those who handle only updates; with no restarts."""
    blocked = {"b"}
    registry = make_registry(world, blocked, delay=0.5)
    async with world.operator(registry):
        await world.create({"n": 1})
        await world.until(is_over("a"))
        await world.patch({"spec": {"n": 2}})
        await world.calls.until(lambda calls: ("b", "create", None, 2) in calls)
        blocked.clear()
        obj = await world.until_handled(spec={"n": 2})
    calls = [call for call in world.calls if call[0] != "b"]
    assert calls == [("a", "create", None, 1), ("u", "update", 1, 2)]
    assert world.calls[-2] == ("b", "create", None, 2)
    assert [*obj["metadata"]["annotations"]] == [LAST_HANDLED]


async def test_c11_changes_in_the_middle_are_updates_also_of_objects_that_hardly_fit(world):
    """There is no place for both the last handled state and what the others have seen."""
    blocked, big = {"b"}, "x" * 140_000
    registry = make_registry(world, blocked, delay=0.1)
    on.update(*KEX, id="b", registry=registry)(lambda **_: None)  # so, its progress is kept
    async with world.operator(registry):
        await world.create({"n": 1, "data": big})
        await world.until(is_over("a"))
        await world.patch({"spec": {"n": 2}})
        await world.until(lambda _: ("b", "create", None, 2) in world.calls)
        blocked.clear()
        obj = await world.until_handled(spec={"n": 2, "data": big})
    calls = [call for call in world.calls if call[0] != "b"]
    assert calls == [("a", "create", None, 1), ("u", "update", 1, 2)]
    assert [*obj["metadata"]["annotations"]] == [LAST_HANDLED]


async def test_what_handlers_do_to_their_arguments_is_not_stored_as_handled(world):
    registry = OperatorRegistry()
    on.create(*KEX, id="a", registry=registry)(lambda **_: None)

    @on.create(*KEX, id="b", registry=registry)
    def fn(new, retry, **_):
        if not retry:
            raise TemporaryError("not yet", delay=0.1)
        new["spec"]["n"] = 99

    async with world.operator(registry):
        await world.create({"n": 1})
        obj = await world.until_handled(spec={"n": 1})
    assert get_essence(obj)["spec"] == {"n": 1}


@pytest.mark.parametrize(
    ("target", "is_patching"), [("new", False), ("new", True), ("body", False)]
)
async def test_r1_what_handlers_do_to_their_arguments_is_not_a_missed_change(
    world, target, is_patching
):
    """Neither in the first step, nor in the next ones, nor in those after a real change."""
    registry, blocked = OperatorRegistry(), [True]
    on.update(*KEX, id="u", field="spec.deep", registry=registry)(lambda **_: world.calls("u"))

    def spoil(id, new, kwargs):
        world.calls((id, new["spec"]["n"]))
        (kwargs | {"new": new})[target]["spec"]["deep"]["x"] += len(world.calls)

    @on.create(*KEX, id="a", registry=registry)
    def over(new, patch, **kwargs):
        spoil("a", new, kwargs)
        if is_patching:
            patch.metadata.labels["x"] = "y"

    @on.create(*KEX, id="b", registry=registry)
    def unfinished(new, **kwargs):
        spoil("b", new, kwargs)
        if blocked:
            raise TemporaryError("not yet", delay=0.1)

    async with world.operator(registry):
        await world.create({"n": 1, "deep": {"x": 1}})
        await world.until(is_over("a"))
        await world.calls.until(lambda calls: ("b", 1) in calls)
        await world.patch({"spec": {"n": 2}})
        await world.until(lambda _: ("b", 2) in world.calls)
        blocked.clear()
        obj = await world.until_handled(spec={"n": 2, "deep": {"x": 1}})
    assert {*world.calls} == {("a", 1), ("b", 1), ("b", 2)}
    assert get_essence(obj)["spec"] == {"n": 2, "deep": {"x": 1}}
    assert [*obj["metadata"]["annotations"]] == [LAST_HANDLED]


@pytest.mark.parametrize("is_edited_before", [True, False], ids=["before", "after"])
async def test_r14_changes_before_or_after_a_restart_amid_creation_are_updates(
    world, is_edited_before
):
    async with world.operator(make_registry(world)):
        await world.create({"n": 1})
        await world.until(lambda obj: is_over("a")(obj) and is_tried("b")(obj))
        if is_edited_before:
            await world.patch({"spec": {"n": 2}})
    if not is_edited_before:
        await world.patch({"spec": {"n": 2}})
    obj = await world.get()
    progress = {key: None for key in obj["metadata"]["annotations"] if key == f"{PREFIX}b"}
    await world.patch({"metadata": {"annotations": progress}})  # it need not wait anymore
    async with world.operator(make_registry(world, ())):
        obj = await world.until_handled(spec={"n": 2})
    assert [call for call in world.calls if call[0] != "b"] == [
        ("a", "create", None, 1),
        ("u", "update", 1, 2),
    ]
    assert [*obj["metadata"]["annotations"]] == [LAST_HANDLED]


async def test_r14_d11_the_clock_can_be_behind_after_a_restart(world, monkeypatch):
    """On another node, or set back: the changes are not lost, and the delays are not longer."""
    async with world.operator(make_registry(world, delay=1)):
        await world.create({"n": 1})
        await world.until(lambda obj: is_over("a")(obj) and is_tried("b")(obj))
    await world.patch({"spec": {"n": 2}})
    real = SystemClock.now
    monkeypatch.setattr(SystemClock, "now", lambda self: real(self) - timedelta(hours=1))
    async with world.operator(make_registry(world, ())):
        obj = await world.until_handled(spec={"n": 2})
    assert world.calls[-2:] == [("b", "create", None, 2), ("u", "update", 1, 2)]
    assert world.calls.count(("a", "create", None, 1)) == 1
    assert [*obj["metadata"]["annotations"]] == [LAST_HANDLED]


@pytest.mark.parametrize("days", [-1, 1])
async def test_r12_d11_jumps_of_the_clock_in_the_middle_of_attempts_fail_nobody(
    world, monkeypatch, days
):
    """E.g. of a suspended machine: neither those who run, nor the next ones, nor sub-handlers."""
    real, jumps, registry = SystemClock.now, [], OperatorRegistry()
    monkeypatch.setattr(
        SystemClock, "now", lambda self: real(self) + timedelta(days=days) * len(jumps)
    )

    def attempt(id, retry, runtime):
        world.calls((id, retry))
        assert timedelta(0) <= runtime < timedelta(hours=1)
        if not retry:
            jumps.append(id)
            raise TemporaryError("not yet", delay=0.1)

    @on.create(*KEX, id="a", timeout=3600, param="a", registry=registry)
    @on.create(*KEX, id="b", timeout=3600, param="b", registry=registry)
    def plain(param, retry, runtime, **_):
        attempt(param, retry, runtime)

    @on.create(*KEX, id="c", registry=registry)
    def parent(**_):
        @on.subhandler(id="x", timeout=3600, param="c/x")
        @on.subhandler(id="y", timeout=3600, param="c/y")
        def sub(param, retry, runtime, **_):
            attempt(param, retry, runtime)

    async with world.operator(registry):
        await world.create({"n": 1})
        await world.until_handled()
    for id in ("a", "b", "c/x", "c/y"):
        assert [call for call in world.calls if call[0] == id] == [(id, 0), (id, 1)]


async def test_r14_stacked_handlers_see_the_change_after_a_restart(world):
    """O1 for `@on.create @on.update`; nobody sees the same state twice."""

    def make(is_blocked):
        registry = OperatorRegistry()
        for id in "ab":

            @on.create(*KEX, id=id, registry=registry)
            @on.update(*KEX, id=id, registry=registry)
            def fn(spec, reason, id=id, **_):
                world.calls((id, str(reason), spec["n"]))
                if id == "b" and is_blocked:
                    raise TemporaryError("not yet", delay=0.1)

        return registry

    async with world.operator(make(True)):
        await world.create({"n": 0})
        await world.until(is_over("a"))
    await world.patch({"spec": {"n": 1}})
    async with world.operator(make(False)):
        await world.until_handled(spec={"n": 1})
    assert [c for c in world.calls if c[0] == "a"] == [("a", "create", 0), ("a", "update", 1)]
    assert [c for c in world.calls if c[0] == "b"][-1] == ("b", "create", 1)


@pytest.mark.parametrize("is_restarted", [False, True], ids=["alive", "restarted"])
async def test_r14_changes_in_the_middle_of_updates_are_not_lost(world, is_restarted):
    def make(is_blocked):
        registry = OperatorRegistry()
        for id in "ab":

            @on.update(*KEX, id=id, registry=registry)
            def fn(old, new, id=id, **_):
                world.calls((id, old["spec"]["n"], new["spec"]["n"]))
                if id == "b" and is_blocked():
                    raise TemporaryError("not yet", delay=0.2)

        return registry

    blocked = [True]
    async with world.operator(make(lambda: bool(blocked))):
        await world.create({"n": 0})
        await world.until_handled()
        await world.patch({"spec": {"n": 1}})
        await world.until(is_over("a"))
        if not is_restarted:
            await world.patch({"spec": {"n": 2}})
            await world.calls.until(lambda calls: ("b", 0, 2) in calls)
            blocked.clear()
            await world.until_handled(spec={"n": 2})
    if is_restarted:
        await world.patch({"spec": {"n": 2}})
        async with world.operator(make(lambda: False)):
            await world.until_handled(spec={"n": 2})
    assert [c for c in world.calls if c[0] == "a"] == [("a", 0, 1), ("a", 1, 2)]
    assert [c for c in world.calls if c[0] == "b"][-1] == ("b", 0, 2)


async def test_r1_changes_in_the_middle_of_resuming_are_updates(world):
    """The resuming is over for some of the handlers when the object is changed."""

    def make(blocked):
        registry = OperatorRegistry()
        for id in "ab":

            @on.resume(*KEX, id=id, registry=registry)
            @on.update(*KEX, id=id, registry=registry)
            def fn(spec, reason, id=id, **_):
                world.calls((id, str(reason), spec["n"]))
                if id in blocked:
                    raise TemporaryError("not yet", delay=0.2)

        on.create(*KEX, id="c", registry=registry)(lambda **_: None)
        return registry

    async with world.operator(make(())):
        await world.create({"n": 1})
        await world.until_handled()
    blocked = {"b"}
    async with world.operator(make(blocked)):
        await world.until(is_over("a"))
        await world.patch({"spec": {"n": 2}})
        blocked.clear()
        await world.until_handled(spec={"n": 2})
    assert [c for c in world.calls if c[0] == "a"] == [("a", "resume", 1), ("a", "update", 2)]
    assert world.calls.count(("b", "update", 2)) == 1


async def test_r14_reverted_changes_are_told_to_those_who_have_seen_them(world):
    def make(is_blocked):
        registry = OperatorRegistry()
        for id in "abc":

            @on.update(*KEX, id=id, registry=registry, **({"field": "spec.n"} if id == "c" else {}))
            def fn(new, id=id, **_):
                world.calls((id, new if id == "c" else new["spec"]["n"]))
                if id != "a" and is_blocked:
                    raise TemporaryError("not yet", delay=60)

        return registry

    async with world.operator(make(True)):
        await world.create({"n": 1})
        await world.until_handled()
        await world.patch({"spec": {"n": 2}})
        await world.until(is_over("a"))
    world.calls.clear()
    await world.patch({"spec": {"n": 1}})
    async with world.operator(make(False)):
        obj = await world.until_handled(spec={"n": 1})
        await world.calls.until(lambda calls: calls)
        obj = await world.until_handled(spec={"n": 1})
    assert world.calls == [("a", 1)]
    assert [*obj["metadata"]["annotations"]] == [LAST_HANDLED]


async def test_r14_subhandlers_make_their_parents_see_the_change(world):
    def make(is_blocked):
        registry = OperatorRegistry()

        @on.create(*KEX, id="parent", registry=registry)
        @on.update(*KEX, id="parent", registry=registry)
        def parent(**_):
            for id in "xy":

                @on.subhandler(id=id)
                def sub(spec, id=id, **_):
                    world.calls((id, spec["n"]))
                    if id == "y" and is_blocked:
                        raise TemporaryError("not yet", delay=0.1)

        return registry

    async with world.operator(make(True)):
        await world.create({"n": 1})
        await world.until(is_over("parent.x"))
    await world.patch({"spec": {"n": 2}})
    async with world.operator(make(False)):
        await world.until_handled(spec={"n": 2})
    assert [n for id, n in world.calls if id == "x"] == [1, 2]
    assert [n for id, n in world.calls if id == "y"][-1] == 2


async def test_r14_subhandlers_that_have_seen_the_change_are_not_repeated(world):
    """One has seen the object before the change, the other one only after it."""
    changed = asyncio.Event()

    @on.create(*KEX, id="parent", registry=world.registry)
    @on.update(*KEX, id="parent", registry=world.registry)
    def parent(**_):
        @on.subhandler(id="x")
        async def early(spec, **_):
            world.calls(("x", spec["n"]))

        @on.subhandler(id="y")
        async def late(spec, retry, **_):
            if not retry:
                await changed.wait()
                raise TemporaryError("not yet", delay=0)
            world.calls(("y", spec["n"]))

    async with world.operator():
        await world.create({"n": 1})
        await world.until(is_over("parent.x"))
        await world.patch({"spec": {"n": 2}})
        changed.set()
        await world.until_handled(spec={"n": 2})
        await world.patch({"spec": {"n": 3}})
        await world.until_handled(spec={"n": 3})
    assert [n for id, n in world.calls if id == "x"] == [1, 2, 3]
    assert [n for id, n in world.calls if id == "y"] == [2, 3]


async def test_r14_subhandlers_see_the_last_of_several_changes_amid_one_cycle(world):
    """Others have missed more: the parent is not repeated with them, but its own turn comes."""

    def wait_for(spec, n):
        if spec["n"] < n:
            raise TemporaryError("not yet", delay=0.1)

    @on.create(*KEX, id="a", registry=world.registry)
    @on.update(*KEX, id="a", registry=world.registry)
    def first(spec, **_):
        world.calls(("a", spec["n"]))

    @on.create(*KEX, id="parent", registry=world.registry)
    @on.update(*KEX, id="parent", registry=world.registry)
    def parent(spec, **_):
        wait_for(spec, 2)

        @on.subhandler(id="x")
        def early(spec, **_):
            world.calls(("x", spec["n"]))

        @on.subhandler(id="y")
        def late(spec, **_):
            wait_for(spec, 3)
            world.calls(("y", spec["n"]))

    async with world.operator():
        await world.create({"n": 1})
        await world.until(is_over("a"))
        await world.patch({"spec": {"n": 2}})
        await world.until(is_over("parent.x"))
        await world.patch({"spec": {"n": 3}})
        obj = await world.until_handled(spec={"n": 3})
    for id, seen in {"a": [1, 3], "x": [2, 3], "y": [3]}.items():
        assert [n for called, n in world.calls if called == id] == seen
    assert [*obj["metadata"]["annotations"]] == [LAST_HANDLED]


async def test_r14_nothing_extra_is_written_for_one_step_cycles(faulty):
    @on.create(*KEX, id="a", registry=faulty.registry)
    def fn(**_):
        pass

    async with faulty.operator():
        await faulty.create({"n": 1})
        await faulty.until_handled()
        (patch,) = await faulty.requested("PATCH", "*/kexes/obj")
    assert "seen" not in str(patch)


@pytest.mark.parametrize("plural", ["kexes", "subs"])
async def test_r9_shared_ids_do_not_skip_the_deletion(world, plural):
    """The handler succeeds for the update while another one is retried; then it is deleted."""
    world.plural = plural
    resource = (GROUP, plural)

    @on.update(*resource, id="x", registry=world.registry)
    @on.delete(*resource, id="x", registry=world.registry)
    def fn(reason, **_):
        world.calls(("x", str(reason)))

    @on.update(*resource, id="y", registry=world.registry)
    def other(**_):
        raise TemporaryError("never", delay=60)

    async with world.operator():
        await world.create({"n": 1})
        await world.until_handled()
        await world.patch({"spec": {"n": 2}})
        await world.until(lambda obj: is_over("x")(obj) and is_tried("y")(obj))
        await world.delete()
        await world.until_gone()
    assert world.calls == [("x", "update"), ("x", "delete")]


async def test_r34_own_changes_of_finished_handlers_are_not_missed_by_them(world):
    """O2: the handlers change their own field in the middle of the cycle."""

    @on.update(*KEX, id="a", field="spec.f", new="on", registry=world.registry)
    def a(patch, **_):
        world.calls("a")
        patch.spec["f"] = "done"

    @on.update(*KEX, id="b", registry=world.registry)
    def b(retry, **_):
        world.calls("b")
        if not retry:
            raise TemporaryError("not yet", delay=0.1)

    async with world.operator():
        await world.create({"f": "off"})
        await world.until_handled()
        await world.patch({"spec": {"f": "on"}})
        await world.until(lambda obj: get_essence(obj) == {"spec": {"f": "done"}})
        obj = await world.until_handled(spec={"f": "done"})
    assert world.calls == ["a", "b", "b"]
    assert SEEN not in obj["metadata"]["annotations"]


async def test_r24_the_progress_goes_away_together_with_the_finalizer(faulty):
    """Otherwise, all deletion handlers would be called again after a kill in between."""

    def make(is_blocked):
        registry = OperatorRegistry()
        for id in "ab":

            @on.delete(*KEX, id=id, registry=registry)
            def fn(id=id, **_):
                faulty.calls(id)
                if id == "b" and is_blocked:
                    raise TemporaryError("not yet", delay=0.1)

        return registry

    async with faulty.operator(make(True)):
        await faulty.create(metadata={"finalizers": ["foreign.com/f"]})
        await faulty.until(lambda obj: len(obj["metadata"]["finalizers"]) == 2)
        await faulty.delete()
        await faulty.until(is_over("a"))
    async with faulty.operator(make(False)):
        obj = await faulty.until(lambda obj: len(obj["metadata"]["finalizers"]) == 1)
        assert not get_progress(obj)
    patches = await faulty.requested("PATCH", "*/kexes/obj")
    await faulty.patch({"metadata": {"finalizers": None}})
    await faulty.until_gone()
    assert faulty.calls.count("a") == 1
    bodies = [str(patch) for patch in patches]
    assert bodies
