"""The handling of changes as a whole: which handlers are called, and what is left on objects."""

from __future__ import annotations

import asyncio

import pytest

from e2e.tests.harness import (
    FINALIZER,
    GROUP,
    LAST_HANDLED,
    PREFIX,
    get_essence,
    get_finalizers,
    get_progress,
)
from kopf_core.actions.errors import PermanentError, TemporaryError
from kopf_core.actions.lifecycles import all_at_once
from kopf_core.intents import decorators as on
from kopf_core.intents.filters import ABSENT, PRESENT
from kopf_core.intents.registries import OperatorRegistry

KEX = (GROUP, "kexes")


@pytest.fixture(params=["sync", "async"])
def style(request):
    """Make a handler of either style of a regular function."""

    def convert(fn):
        async def afn(**kwargs):
            return fn(**kwargs)

        return fn if request.param == "sync" else afn

    return convert


@pytest.mark.docs("handlers/state-changing")
async def test_the_whole_life_of_an_object(world, style):
    calls, registry = world.calls, world.registry

    def handle(reason, old, new, diff, **_):
        calls((str(reason), (old or {}).get("spec"), new["spec"], [tuple(d) for d in diff]))
        return {"reason": str(reason)}

    for decorator in (on.create, on.update, on.delete):
        decorator(*KEX, id=decorator.__name__, registry=registry)(style(handle))

    async with world.operator():
        await world.create({"f": "v1"})
        obj = await world.until_handled(spec={"f": "v1"})
        assert get_finalizers(obj) == [FINALIZER]
        assert obj["metadata"]["annotations"] == {LAST_HANDLED: '{"spec":{"f":"v1"}}\n'}
        assert obj["status"] == {"create": {"reason": "create"}}

        await world.patch({"spec": {"f": "v2"}})
        obj = await world.until_handled(spec={"f": "v2"})
        assert obj["status"]["update"] == {"reason": "update"}

        await world.delete()
        await world.until_gone()

    create, update, delete = calls
    assert create[:3] == ("create", None, {"f": "v1"})
    assert create[3][0][:3] == ("add", (), None)
    assert update == ("update", {"f": "v1"}, {"f": "v2"}, [("change", ("spec", "f"), "v1", "v2")])
    assert delete == ("delete", {"f": "v2"}, {"f": "v2"}, [])


@pytest.mark.docs("results")
async def test_results_are_merged_with_own_patches(world):
    @on.create(*KEX, id="fn", registry=world.registry)
    def fn(patch, **_):
        patch.status["fn"] = {"own": 1}
        patch.status["other"] = "x"
        patch.spec["added"] = True
        patch.metadata.annotations["mine"] = "yes"
        return {"result": 2}

    async with world.operator():
        await world.create({"f": 1})
        obj = await world.until(
            lambda obj: obj and (get_essence(obj) or {}).get("spec") == {"f": 1, "added": True}
        )
    assert obj["status"] == {"fn": {"own": 1, "result": 2}, "other": "x"}
    assert obj["metadata"]["annotations"]["mine"] == "yes"


@pytest.mark.docs("errors/temporary")
@pytest.mark.docs("continuity/persistence")
async def test_progress_is_on_the_object_between_the_attempts(world):
    release = asyncio.Event()

    @on.create(*KEX, id="a", registry=world.registry)
    async def a(retry, **_):
        world.calls(("a", retry))
        if not release.is_set():
            raise TemporaryError("not yet", delay=0.1)

    @on.create(*KEX, id="b", registry=world.registry)
    def b(**_):
        world.calls("b")
        return "done"

    async with world.operator():
        await world.create()
        obj = await world.until(
            lambda obj: (
                get_progress(obj).get("b", {}).get("success")
                and get_progress(obj).get("a", {}).get("retries")
            )
        )
        record = get_progress(obj)["a"]
        assert record["message"] == "not yet"
        assert record["purpose"] == "create"
        assert (record["success"], record["failure"]) == (False, False)
        assert obj["status"] == {"b": "done"}
        assert get_essence(obj) is None
        release.set()
        await world.until_handled()
    assert world.calls.count("b") == 1
    retries = [call[1] for call in world.calls if call != "b"]
    assert retries == [*range(len(retries))]


@pytest.mark.docs("errors/permanent")
@pytest.mark.parametrize("exc", [PermanentError("never"), TemporaryError("x"), ValueError("x")])
async def test_failed_handlers_end_the_cycle(world, exc):
    @on.create(*KEX, id="a", retries=1, registry=world.registry)
    def a(**_):
        world.calls("a")
        raise exc

    @on.create(*KEX, id="b", registry=world.registry)
    def b(**_):
        world.calls("b")

    async with world.operator():
        await world.create()
        await world.until_handled()
    assert sorted(world.calls) == ["a", "b"]


@pytest.mark.docs("errors/timeouts")
async def test_async_handlers_are_cancelled_at_their_timeout(world):
    @on.create(*KEX, id="a", timeout=0.1, registry=world.registry)
    async def a(**_):
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            world.calls("cancelled")
            raise

    async with world.operator():
        await world.create()
        await world.until_handled()
    assert world.calls == ["cancelled"]


@pytest.mark.docs("patching")
async def test_patches_of_failed_attempts_are_applied(world):
    @on.create(*KEX, id="a", registry=world.registry)
    def a(retry, patch, **_):
        patch.status["attempts"] = retry + 1
        if not retry:
            raise TemporaryError("x", delay=0)

    async with world.operator():
        await world.create()
        assert await world.until(lambda obj: obj and obj.get("status") == {"attempts": 1})
        obj = await world.until_handled()
    assert obj["status"] == {"attempts": 2}


@pytest.mark.docs("patching/functions")
async def test_transformation_functions(world):
    @on.create(*KEX, id="a", registry=world.registry)
    def a(patch, **_):
        patch.fns.append(lambda body: body["spec"]["items"].append("c"))
        patch.status["x"] = 1

    async with world.operator():
        await world.create({"items": ["a", "b"]})
        obj = await world.until(lambda obj: obj and obj["spec"]["items"] == ["a", "b", "c"])
    assert obj["status"] == {"x": 1}


@pytest.mark.docs("patching")
async def test_status_as_a_subresource(world):
    world.plural = "subs"

    @on.create(GROUP, "subs", id="fn", registry=world.registry)
    def fn(patch, **_):
        patch.spec["x"] = 1
        patch.fns.append(lambda body: body.setdefault("status", {}).update(fns=True))
        return "result"

    async with world.operator():
        await world.create({})
        obj = await world.until(lambda obj: obj and (obj.get("status") or {}).get("fns"))
    assert obj["status"] == {"fn": "result", "fns": True}
    assert obj["spec"] == {"x": 1}


@pytest.mark.docs("handlers/field")
async def test_field_handlers(world):
    @on.field(*KEX, field="spec.f", id="fn", registry=world.registry)
    def fn(old, new, diff, reason, **_):
        world.calls((str(reason), old, new, [tuple(d) for d in diff]))

    async with world.operator():
        await world.create({"f": 1, "g": 1})
        await world.until_handled(spec={"f": 1, "g": 1})
        await world.patch({"spec": {"g": 2}})
        await world.until_handled(spec={"f": 1, "g": 2})
        await world.patch({"spec": {"f": 2}})
        await world.until_handled(spec={"f": 2, "g": 2})
        await world.patch({"spec": {"f": None}})
        await world.until(lambda obj: len(world.calls) == 3)
    assert world.calls == [
        ("create", None, 1, [("add", (), None, 1)]),
        ("update", 1, 2, [("change", (), 1, 2)]),
        ("update", 2, None, [("remove", (), 2, None)]),
    ]


@pytest.mark.docs("handlers/state-changing")
async def test_status_is_essential_only_for_those_who_name_it(world):
    @on.update(*KEX, field="status.done", id="fn", registry=world.registry)
    def fn(old, new, **_):
        world.calls((old, new))

    async with world.operator():
        await world.create({})
        await world.create({}, "last")
        await world.patch({"status": {"done": False, "other": 1}})
        await world.until_handled()
        await world.patch({"status": {"done": True}})
        await world.calls.until(lambda calls: (False, True) in calls)
        await world.patch({"status": {"other": 2}})
        await world.patch({"status": {"done": None}})
        await world.calls.until(lambda calls: (True, None) in calls)
    assert world.calls[-2:] == [(False, True), (True, None)]


@pytest.mark.docs("handlers/event")
async def test_event_handlers_see_everything_and_leave_no_marks(world):
    @on.event(*KEX, id="fn", registry=world.registry)
    def fn(type, body, **_):
        world.calls((type, body["spec"]))
        raise ValueError("ignored")

    await world.create({"f": 0}, "old")
    async with world.operator():
        await world.calls.until(lambda calls: (None, {"f": 0}) in calls)
        await world.create({"f": 1})
        await world.calls.until(lambda calls: len(calls) == 2)
        await world.patch({"spec": {"f": 2}})
        await world.calls.until(lambda calls: len(calls) == 3)
        obj = await world.get()
        await world.delete()
        await world.calls.until(lambda calls: len(calls) == 4)
    assert world.calls[1:] == [("ADDED", {"f": 1}), ("MODIFIED", {"f": 2}), ("DELETED", {"f": 2})]
    assert "annotations" not in obj["metadata"]
    assert "finalizers" not in obj["metadata"]


@pytest.mark.docs("filtering/stealth")
async def test_objects_that_no_handler_matches_are_left_alone_until_they_match(world):
    @on.create(*KEX, id="fn", labels={"mine": PRESENT}, registry=world.registry)
    @on.update(*KEX, id="fn", labels={"mine": PRESENT}, registry=world.registry)
    def fn(reason, name, **_):
        world.calls((str(reason), name))

    async with world.operator():
        await world.create({}, "stranger")
        await world.create({}, metadata={"labels": {"mine": ""}})
        await world.until_handled()
        stranger = await world.get("stranger")
        assert "annotations" not in stranger["metadata"]
        await world.patch({"metadata": {"labels": {"mine": "yes"}}}, "stranger")
        await world.until_handled("stranger")
    assert world.calls == [("create", "obj"), ("create", "stranger")]


@pytest.mark.docs("tips/never-again")
async def test_handlers_can_exclude_themselves_for_ever(world):
    @on.update(*KEX, id="fn", annotations={"never-again": ABSENT}, registry=world.registry)
    def fn(patch, new, **_):
        world.calls(new["spec"])
        patch.metadata.annotations["never-again"] = "yes"
        raise PermanentError("Never call it again.")

    @on.update(*KEX, id="other", registry=world.registry)
    def other(new, **_):
        world.calls(("other", new["spec"]))

    async with world.operator():
        await world.create({"f": 1})
        await world.until_handled(spec={"f": 1})
        await world.patch({"spec": {"f": 2}})
        await world.calls.until(lambda calls: {"f": 2} in calls)
        await world.until_handled(spec={"f": 2})
        await world.patch({"spec": {"f": 3}})
        await world.calls.until(lambda calls: ("other", {"f": 3}) in calls)
        await world.until_handled(spec={"f": 3})
    assert [call for call in world.calls if isinstance(call, dict)] == [{"f": 2}]


@pytest.mark.docs("handlers/resuming")
@pytest.mark.docs("continuity/restarts")
async def test_resuming_is_once_per_lifetime_of_the_operator(world):
    def make():
        registry = OperatorRegistry()

        @on.create(*KEX, registry=registry)
        @on.resume(*KEX, registry=registry)
        def fn(reason, name, **_):
            world.calls((str(reason), name))

        @on.resume(*KEX, id="pure", registry=registry)
        def pure(reason, name, **_):
            world.calls((str(reason), name, "pure"))

        return registry

    async with world.operator(make()):
        await world.create({"f": 1})
        await world.until_handled()
    assert world.calls == [("create", "obj")]
    async with world.operator(make()):
        await world.calls.until(lambda calls: len(calls) == 3)
        await world.patch({"spec": {"f": 2}})
        await world.until_handled(spec={"f": 2})
    assert world.calls[1:] == [("resume", "obj"), ("resume", "obj", "pure")]


@pytest.mark.docs("continuity/downtime")
async def test_changes_during_the_downtime_are_handled_together(world):
    def make():
        registry = OperatorRegistry()

        @on.update(*KEX, id="fn", registry=registry)
        def fn(old, new, **_):
            world.calls((old["spec"], new["spec"]))

        return registry

    async with world.operator(make()):
        await world.create({"f": 1})
        await world.until_handled()
    for value in (2, 3, 4):
        await world.patch({"spec": {"f": value}})
    async with world.operator(make()):
        await world.until_handled(spec={"f": 4})
    assert world.calls == [({"f": 1}, {"f": 4})]


@pytest.mark.docs("configuration/finalizers")
async def test_finalizers_come_and_go_with_the_handlers(world):
    @on.delete(*KEX, id="fn", labels={"mine": PRESENT}, registry=world.registry)
    def fn(**_):
        world.calls("deleted")

    async with world.operator():
        await world.create()
        await world.patch({"metadata": {"labels": {"mine": "yes"}}})
        await world.until(lambda obj: get_finalizers(obj) == [FINALIZER])
        await world.patch({"metadata": {"labels": {"mine": None}}})
        await world.until(lambda obj: not get_finalizers(obj))
        await world.patch({"metadata": {"labels": {"mine": "yes"}}})
        await world.until(lambda obj: get_finalizers(obj) == [FINALIZER])
        await world.delete()
        await world.until_gone()
    assert world.calls == ["deleted"]


@pytest.mark.docs("handlers/state-changing")
async def test_optional_deletion_holds_nothing(world):
    @on.delete(*KEX, id="fn", optional=True, registry=world.registry)
    def fn(**_):
        world.calls("deleted")

    async with world.operator():
        await world.create()
        obj = await world.until_handled()
        assert not get_finalizers(obj)
        await world.delete()
        await world.until_gone()


@pytest.mark.docs("memos")
async def test_memos_are_per_object_and_new_for_re_created_ones(world):
    memo = {"shared": []}

    @on.startup(registry=world.registry)
    def startup(memo, **_):
        memo["started"] = True

    @on.event(*KEX, id="fn", registry=world.registry)
    def fn(memo, name, type, **_):
        memo["counter"] = memo.get("counter", 0) + 1
        memo["shared"].append(name)
        world.calls((name, type, memo["counter"], memo["started"]))

    async with world.operator(memo=memo):
        await world.create({}, "a")
        await world.calls.until(lambda calls: len(calls) == 1)
        await world.create({}, "b")
        await world.calls.until(lambda calls: len(calls) == 2)
        await world.patch({"spec": {"x": 1}}, "a")
        await world.calls.until(lambda calls: len(calls) == 3)
        await world.delete("a")
        await world.calls.until(lambda calls: len(calls) == 4)
        await world.create({}, "a")
        await world.calls.until(lambda calls: len(calls) == 5)
    assert [call[2] for call in world.calls] == [1, 1, 2, 3, 1]
    assert all(call[3] for call in world.calls)
    assert memo["shared"] == ["a", "b", "a", "a", "a"]


@pytest.mark.docs("subhandlers")
async def test_subhandlers_over_several_cycles(world):
    @on.create(*KEX, id="parent", registry=world.registry)
    def parent(spec, **_):
        for item in spec["items"]:

            @on.subhandler(id=item)
            def sub(retry, item=item, **_):
                world.calls((item, retry))
                if item == "b" and retry < 2:
                    raise TemporaryError("x", delay=0)
                return item

        return "done"

    async with world.operator():
        await world.create({"items": ["a", "b", "c"]})
        obj = await world.until_handled()
    assert sorted(world.calls) == [("a", 0), ("b", 0), ("b", 1), ("b", 2), ("c", 0)]
    assert obj["status"] == {"parent": "done", "parent/a": "a", "parent/b": "b", "parent/c": "c"}
    assert [*obj["metadata"]["annotations"]] == [LAST_HANDLED]


@pytest.mark.docs("configuration/progress")
async def test_custom_names_of_everything(world):
    from kopf_cogs.configs.diffbase import AnnotationsDiffBaseStorage
    from kopf_cogs.configs.progress import AnnotationsProgressStorage

    persistence = world.settings.persistence
    persistence.finalizer = "my.example.com/finalizer"
    persistence.progress_storage = AnnotationsProgressStorage(prefix="my.example.com")
    persistence.diffbase_storage = AnnotationsDiffBaseStorage(prefix="my.example.com", key="lhc")
    release = asyncio.Event()

    @on.create(*KEX, id="fn", registry=world.registry)
    async def fn(**_):
        if not release.is_set():
            raise TemporaryError("x", delay=0.1)

    @on.delete(*KEX, id="fn", registry=world.registry)
    async def delete(**_):
        pass

    async with world.operator():
        await world.create()
        obj = await world.until(
            lambda obj: obj and "my.example.com/fn" in (obj["metadata"].get("annotations") or {})
        )
        assert get_finalizers(obj) == ["my.example.com/finalizer"]
        release.set()
        obj = await world.until(lambda obj: "my.example.com/lhc" in obj["metadata"]["annotations"])
        assert "my.example.com/fn" not in obj["metadata"]["annotations"]
        assert not [key for key in obj["metadata"]["annotations"] if key.startswith(PREFIX)]
        await world.delete()
        await world.until_gone()


@pytest.mark.parametrize("lifecycle", [None, all_at_once], ids=["asap", "all_at_once"])
async def test_lifecycles_make_the_same_in_the_end(world, lifecycle):
    for id in "abc":

        @on.create(*KEX, id=id, registry=world.registry)
        def fn(id=id, **_):
            world.calls(id)
            return id

    async with world.operator(**({} if lifecycle is None else {"lifecycle": lifecycle})):
        await world.create()
        obj = await world.until_handled()
    assert world.calls == ["a", "b", "c"]
    assert obj["status"] == {"a": "a", "b": "b", "c": "c"}
