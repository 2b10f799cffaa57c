"""The handling of changes when something goes wrong, by the ids of failure scenarios."""

from __future__ import annotations

import asyncio
import datetime
import json
import logging
import random
import string
import threading
from functools import partial

import pytest

from e2e.tests.harness import (
    FINALIZER,
    GROUP,
    LAST_HANDLED,
    PREFIX,
    Calls,
    get_essence,
    get_finalizers,
    get_progress,
    is_ours,
)
from kopf_core.actions.errors import PermanentError, TemporaryError
from kopf_core.intents import decorators as on
from kopf_core.intents.registries import OperatorRegistry

KEX = (GROUP, "kexes")


def is_done(obj):
    return obj is not None and get_essence(obj) is not None and not get_progress(obj)


# --- A: watching, as far as it concerns handling ---


async def test_a16_re_created_objects_are_new_ones(faulty):
    """The name is the same, the uid is not; all that while the operator was blind."""

    @on.create(*KEX, id="fn", registry=faulty.registry)
    def fn(uid, memo, spec, **_):
        faulty.calls(("create", spec["n"], dict(memo)))
        memo["n"] = spec["n"]

    @on.event(*KEX, id="ev", registry=faulty.registry)
    def ev(type, uid, **_):
        faulty.calls((type, uid))

    async with faulty.operator():
        await faulty.create({"n": 1})
        await faulty.until_handled()
        with faulty.sandbox.faults.hold(watch=True, path="*/kexes", match=is_ours):
            await faulty.delete()
            await faulty.create({"n": 2})
        await faulty.until_handled(spec={"n": 2})
    assert [call for call in faulty.calls if call[0] == "create"] == [
        ("create", 1, {}),
        ("create", 2, {}),
    ]


async def test_a16_patches_for_the_old_object_do_not_hit_the_new_one(faulty):
    started, release = asyncio.Event(), asyncio.Event()

    @on.create(*KEX, id="fn", registry=faulty.registry)
    async def fn(spec, **_):
        faulty.calls(spec["n"])
        started.set()
        if spec["n"] == 1:
            await release.wait()
        return f"result of {spec['n']}"

    async with faulty.operator():
        await faulty.create({"n": 1})
        await started.wait()
        await faulty.delete()
        await faulty.create({"n": 2})
        release.set()
        obj = await faulty.until(is_done)
    assert get_essence(obj)["spec"] == {"n": 2}
    assert obj["status"] == {"fn": "result of 2"}
    assert faulty.calls == [1, 2]


async def test_a17_repeated_events_do_not_repeat_handlers(faulty):
    @on.create(*KEX, id="fn", registry=faulty.registry)
    @on.update(*KEX, id="fn", registry=faulty.registry)
    def fn(reason, **_):
        faulty.calls(str(reason))

    async with faulty.operator():
        await faulty.create({"n": 1})
        old = await faulty.get()
        await faulty.until_handled()
        lines = [{"type": type, "object": old} for type in ("ADDED", "MODIFIED", "UNKNOWN")]
        replay = "\n".join(json.dumps(line) for line in lines).encode()
        with faulty.sandbox.faults.inject(replay, path="*/kexes", match=is_ours):
            before = len(faulty.sandbox.journal)
            faulty.sandbox.cut_watches("*/kexes")
            await faulty.create({}, "last")
            await faulty.until_handled("last")
        assert len(faulty.sandbox.journal) > before
    assert faulty.calls == ["create", "create"]  # one for each of the objects


# --- B: requests ---


def is_json_patch(call):
    return call.content_type.startswith("application/json-patch")


@pytest.mark.parametrize("status", [403, 500, 503])
async def test_b4_handlers_are_not_repeated_when_patches_fail(faulty, status):
    """The outcome is known, and only remains to be stored."""

    @on.create(*KEX, id="fn", registry=faulty.registry)
    def fn(**_):
        faulty.calls("fn")
        return "result"

    async with faulty.operator():
        with faulty.sandbox.faults.fail(status, method="PATCH") as fault:
            await faulty.create()
            await faulty.requested("PATCH", count=8)
            assert fault.hits >= 8
        obj = await faulty.until(is_done)
    assert obj["status"] == {"fn": "result"}
    assert faulty.calls == ["fn"]


async def test_b4_several_handlers_are_not_repeated_when_patches_fail(faulty):
    for id in "abc":

        @on.create(*KEX, id=id, registry=faulty.registry)
        def fn(id=id, **_):
            faulty.calls(id)
            return id

    async with faulty.operator():
        with faulty.sandbox.faults.fail(403, method="PATCH", skip=1, times=5):
            await faulty.create()
            obj = await faulty.until(is_done)
    assert obj["status"] == {"a": "a", "b": "b", "c": "c"}
    assert faulty.calls == ["a", "b", "c"]


async def test_b4_e1_forbidden_events_do_not_affect_handling(faulty, logged):
    from kopf_core.engines.posting import info

    faulty.settings.posting.enabled = True

    @on.create(*KEX, id="fn", registry=faulty.registry)
    def fn(body, **_):
        for n in range(5):
            info(body, reason=f"Reason{n}", message="message")
        faulty.calls("fn")

    async with faulty.operator():
        with faulty.sandbox.faults.fail(403, method="POST", path="*/events") as fault:
            await faulty.create()
            await faulty.until_handled()
            await faulty.requested("POST", "*/events", count=5)
    assert fault.hits == 5  # no retries: permissions do not come by themselves
    assert faulty.calls == ["fn"]
    assert logged("Failed to post an event", logging.WARNING)


async def test_b9_objects_gone_while_handled_are_quiet(faulty, logged):
    started, release = asyncio.Event(), asyncio.Event()

    @on.create(*KEX, id="fn", registry=faulty.registry)
    async def fn(**_):
        started.set()
        await release.wait()
        return "result"

    async with faulty.operator():
        await faulty.create()
        await started.wait()
        await faulty.delete()
        release.set()
        await faulty.requested("PATCH", "*/kexes/obj")
        await faulty.create({}, "other")
        await faulty.until_handled("other")
    assert not logged("", logging.WARNING)


async def test_b10_conflicts_of_finalizers_are_retried_until_done(faulty):
    """A hot object: it changes between our reads and writes, five times in a row."""

    @on.create(*KEX, id="fn", registry=faulty.registry)
    @on.delete(*KEX, id="fn2", registry=faulty.registry)
    def fn(reason, **_):
        faulty.calls(str(reason))

    async with faulty.operator():
        await faulty.create()
        await faulty.until_handled()
        with faulty.sandbox.faults.fail(422, method="PATCH", match=is_json_patch, times=5) as fault:
            await faulty.delete()
            for hits in range(1, 6):
                await _until_hits(faulty, fault, hits)
                await faulty.patch({"status": {"heat": hits}})
            await faulty.until_gone()
    assert faulty.calls == ["create", "delete"]


async def _until_hits(world, fault, hits):
    """Wait until the fault has hit that many requests, all of which are answered."""
    async with asyncio.timeout(60):
        answered = 0
        while fault.hits < hits:
            answered += 1
            await world.sandbox.journal.wait("PATCH", count=answered)


async def test_deny1_a_webhook_that_denies_the_end_of_a_deletion_is_told_of(faulty, messages):
    """Its code is the one of outdated states, but the object does not change."""
    denial = 'admission webhook "no.example.com" denied the request: no'

    @on.delete(*KEX, id="fn", registry=faulty.registry)
    def fn(**_):
        faulty.calls("deleted")

    async with faulty.operator():
        await faulty.create()
        await faulty.until(get_finalizers)
        fault = {"message": denial, "method": "PATCH", "match": is_json_patch}
        with faulty.sandbox.faults.fail(422, **fault):
            await faulty.delete()
            await messages.until(denial)
        await faulty.until_gone()
    assert messages.find(denial)
    assert faulty.calls == ["deleted"]


async def test_b10_conflicts_of_adding_finalizers(faulty):
    @on.create(*KEX, id="fn", registry=faulty.registry)
    @on.delete(*KEX, id="fn2", registry=faulty.registry)
    def fn(reason, **_):
        faulty.calls(str(reason))

    async with faulty.operator():
        with faulty.sandbox.faults.fail(422, method="PATCH", match=is_json_patch, times=5) as fault:
            await faulty.create()
            for hits in range(1, 6):
                await _until_hits(faulty, fault, hits)
                await faulty.patch({"status": {"heat": hits}})
            obj = await faulty.until_handled()
            assert get_finalizers(obj) == [FINALIZER]
        await faulty.delete()
        await faulty.until_gone()
    assert faulty.calls == ["create", "delete"]


@pytest.mark.docs("patching/functions")
async def test_b10_functions_are_carried_to_the_next_cycle(faulty):
    @on.create(*KEX, id="fn", registry=faulty.registry)
    def fn(patch, **_):
        faulty.calls("fn")
        patch.fns.append(lambda body: body["spec"].setdefault("items", []).append("x"))

    async with faulty.operator():
        with faulty.sandbox.faults.fail(422, method="PATCH", match=is_json_patch, times=1) as fault:
            await faulty.create({})
            await _until_hits(faulty, fault, 1)
            await faulty.patch({"status": {"heat": 1}})
            await faulty.until(lambda obj: obj["spec"].get("items") == ["x"])
    assert faulty.calls == ["fn"]


async def test_b11_applied_patches_with_lost_replies_are_idempotent(faulty):
    @on.create(*KEX, id="fn", registry=faulty.registry)
    @on.delete(*KEX, id="fn2", registry=faulty.registry)
    def fn(reason, **_):
        faulty.calls(str(reason))
        return str(reason)

    async with faulty.operator():
        with faulty.sandbox.faults.drop(method="PATCH", times=1):
            await faulty.create()
            await faulty.until_handled()
        with faulty.sandbox.faults.drop(method="PATCH", times=1):
            await faulty.delete()
            await faulty.until_gone()
    assert faulty.calls == ["create", "delete"]


# --- C: states of objects ---


async def test_c2_lagging_watches_do_not_repeat_handlers(faulty):
    """Our own patches do not come back, and others' changes come with the old state."""
    faulty.settings.persistence.consistency_timeout = 60
    for id in "ab":

        @on.create(*KEX, id=id, registry=faulty.registry)
        def fn(id=id, **_):
            faulty.calls(id)

    async with faulty.operator():
        await faulty.create({}, "probe")
        await faulty.until_handled("probe")
        faulty.calls.clear()
        created = asyncio.create_task(faulty.create())
        await faulty.calls.until(lambda calls: calls)
        await created
        with faulty.sandbox.faults.hold(watch=True, path="*/kexes", match=is_ours):
            await faulty.patch({"metadata": {"labels": {"foreign": "1"}}})
        await faulty.until(
            lambda obj: is_done(obj) and get_essence(obj).get("metadata", {}).get("labels")
        )
    assert faulty.calls == ["a", "b"]


async def test_c2_stale_states_are_not_handled_even_after_the_timeout(faulty):
    """The deadline passes, and then the old state comes, from before our own patch."""
    faulty.settings.persistence.consistency_timeout = 0.01

    @on.create(*KEX, id="fn", registry=faulty.registry)
    def fn(**_):
        faulty.calls("fn")

    async with faulty.operator():
        await faulty.create({"n": 1})
        old = await faulty.get()
        await faulty.until_handled()
        if get_essence(old) is None:  # seen before it was handled
            line = json.dumps({"type": "MODIFIED", "object": old}).encode()
            with faulty.sandbox.faults.inject(line, path="*/kexes", match=is_ours):
                faulty.sandbox.cut_watches("*/kexes")
                await faulty.create({}, "last")
                await faulty.until_handled("last")
    assert faulty.calls == ["fn", "fn"]


async def test_c3_every_handler_sees_the_final_spec(world):
    """The spec is changed while the handlers of the previous change are still running."""
    started, release = asyncio.Event(), asyncio.Event()

    for id in "abc":

        @on.create(*KEX, id=id, registry=world.registry)
        @on.update(*KEX, id=id, registry=world.registry)
        async def fn(spec, id=id, **_):
            world.calls((id, spec["n"]))
            started.set()
            if spec["n"] == 1:
                await release.wait()

    async with world.operator():
        await world.create({"n": 1})
        await started.wait()
        await world.patch({"spec": {"n": 2}})
        release.set()
        await world.until_handled(spec={"n": 2})
        await world.patch({"spec": {"n": 3}})
        await world.until_handled(spec={"n": 3})
    seen = {id: [n for call, n in world.calls if call == id][-1] for id in "abc"}
    assert seen == {"a": 3, "b": 3, "c": 3}


async def test_c3_the_final_spec_is_seen_with_no_further_changes(world):
    """What the first handler has missed is handled as an update after the creation."""
    started, release = asyncio.Event(), asyncio.Event()

    for id in "ab":

        @on.create(*KEX, id=id, registry=world.registry)
        @on.update(*KEX, id=id, registry=world.registry)
        async def fn(spec, id=id, **_):
            world.calls((id, spec["n"]))
            started.set()
            if spec["n"] == 1:
                await release.wait()

    async with world.operator():
        await world.create({"n": 1})
        await started.wait()
        await world.patch({"spec": {"n": 2}})
        release.set()
        await world.create({"n": 0}, "last")
        await world.until_handled("last")
        await world.until_handled(spec={"n": 2})
    calls = [(id, n) for id, n in world.calls if n]
    assert calls == [("a", 1), ("b", 2), ("a", 2)]  # nobody sees the same state twice


@pytest.mark.parametrize("is_fn", [False, True], ids=["fields", "fns"])
async def test_c3_changes_of_others_are_not_mistaken_for_our_own(world, is_fn):
    """Both are in the response to the patch of a handler, while another one is over already."""

    @on.create(*KEX, id="early", registry=world.registry)
    @on.update(*KEX, id="early", registry=world.registry, field="spec.n")
    async def early(spec, **_):
        world.calls(spec["n"])

    @on.update(*KEX, id="late", registry=world.registry, field="spec.n")
    async def late(spec, patch, retry, **_):
        if spec["n"] == 1:
            await world.patch({"spec": {"n": 2}})
        if is_fn:
            patch.fns.append(lambda body: body["spec"].update(own=True))
        else:
            patch.spec["own"] = True
        if not retry:
            raise TemporaryError("not yet", delay=0.01)

    async with world.operator():
        await world.create({"n": 0})
        await world.until_handled()
        await world.patch({"spec": {"n": 1}})
        await world.until_handled(spec={"n": 2, "own": True})
    assert world.calls == [0, 1, 2]


async def test_c3_o2_changes_of_other_fields_are_not_missed_by_handlers_of_fields(world):
    """One of them has seen the final value of its field, though not the final object."""
    blocked, release = asyncio.Event(), asyncio.Event()

    for id in "abc":

        @on.update(*KEX, id=id, registry=world.registry, field="spec.n")
        async def fn(spec, id=id, **_):
            world.calls((id, spec["n"]))
            if (id, spec["n"]) in (("a", 1), ("c", 2)):
                blocked.set()
                await release.wait()

    async with world.operator():
        await world.create({"n": 0})
        await world.until_handled()
        await world.patch({"spec": {"n": 1}})
        await blocked.wait()
        blocked.clear()
        await world.patch({"spec": {"n": 2}})
        release.set()
        release = asyncio.Event()
        await blocked.wait()  # the first one is over with 1, the second one is over with 2
        await world.patch({"spec": {"other": True}})
        release.set()
        await world.until_handled(spec={"n": 2, "other": True})
    assert world.calls == [("a", 1), ("b", 2), ("c", 2), ("a", 2)]


async def test_c5_foreign_finalizers_are_left_alone(world):
    @on.delete(*KEX, id="fn", registry=world.registry)
    def fn(**_):
        world.calls("deleted")

    async with world.operator():
        await world.create(metadata={"finalizers": ["foreign.com/first"]})
        await world.until(lambda obj: get_finalizers(obj) == ["foreign.com/first", FINALIZER])
        await world.delete()
        await world.until(lambda obj: get_finalizers(obj) == ["foreign.com/first"])
        # The object is still there, but it is not ours: whatever happens to it, we do not return.
        await world.patch({"spec": {"x": 1}})
        await world.create({}, "last")
        await world.until(lambda obj: get_finalizers(obj) == [FINALIZER], "last")
        obj = await world.get()
        assert get_finalizers(obj) == ["foreign.com/first"]
        await world.patch({"metadata": {"finalizers": None}})
        await world.until_gone()
    assert world.calls == ["deleted"]


async def test_c6_deletion_right_before_our_finalizer_is_no_error_loop(faulty, logged):
    @on.delete(*KEX, id="fn", registry=faulty.registry)
    def fn(**_):
        faulty.calls("deleted")

    async with faulty.operator():
        await faulty.create({}, "probe")
        await faulty.until(lambda obj: get_finalizers(obj) == [FINALIZER], "probe")
        hit = asyncio.Event()
        with faulty.sandbox.faults.hang(
            method="PATCH", path="*/obj", match=lambda call: hit.set() or True
        ):
            await faulty.create(metadata={"finalizers": ["foreign.com/f"]})
            await hit.wait()
            await faulty.delete()
        await faulty.requested("PATCH", "*/obj")
        await faulty.patch({"spec": {"x": 1}})
        await faulty.create({}, "last")
        await faulty.until(lambda obj: get_finalizers(obj) == [FINALIZER], "last")
        assert get_finalizers(await faulty.get()) == ["foreign.com/f"]
    ours = [e for e in faulty.sandbox.journal.select("PATCH", "*/obj") if "kopf" in e.agent.lower()]
    assert len(ours) <= 2
    assert not logged("", logging.ERROR)


@pytest.mark.parametrize("exc", [PermanentError("x"), TemporaryError("x", delay=0), ValueError()])
async def test_c7_failing_deletion_is_bounded_and_releases_the_object(world, exc):
    @on.delete(*KEX, id="fn", retries=3, backoff=0, registry=world.registry)
    def fn(**_):
        world.calls("deleted")
        raise exc

    async with world.operator():
        await world.create()
        await world.until(lambda obj: get_finalizers(obj) == [FINALIZER])
        await world.delete()
        await world.until_gone()
    assert len(world.calls) == (1 if isinstance(exc, PermanentError) else 3)


async def test_c7_hanging_deletion_ends_by_timeout(world):
    @on.delete(*KEX, id="fn", timeout=0.1, registry=world.registry)
    async def fn(**_):
        await asyncio.get_running_loop().create_future()

    async with world.operator():
        await world.create()
        await world.until(lambda obj: get_finalizers(obj) == [FINALIZER])
        await world.delete()
        await world.until_gone()


IDS = [
    "a" * 100,
    "b" * 63 + "1",
    "b" * 63 + "2",
    "with space",
    "уникод",
    ".leading",
    "trailing.",
    "with:colon",
    "/slashes//everywhere/",
    "UPPER",
    "<lambda>",
    "a@b",
    "quote'\"",
    "x" * 300,
]


async def test_c9_ids_of_all_kinds_have_valid_unique_stable_keys(world):
    def make():
        registry = OperatorRegistry()
        for id in IDS:

            @on.create(*KEX, id=id, registry=registry)
            def fn(retry, id=id, **_):
                if retry:
                    world.calls(id)
                else:
                    raise TemporaryError("x", delay=0)

        return registry

    async with world.operator(make()):
        await world.create()
        obj = await world.until(is_done)
    assert sorted(world.calls) == sorted(IDS)
    assert [*obj["metadata"]["annotations"]] == [LAST_HANDLED]


async def test_c9_lambdas_are_handlers_too(world):
    on.create(*KEX, registry=world.registry)(lambda **_: world.calls("a"))
    on.create(*KEX, registry=world.registry)(lambda **_: world.calls("b"))
    async with world.operator():
        await world.create()
        await world.until(is_done)
    assert sorted(world.calls) == ["a", "b"]


async def test_c10_clashing_ids_are_one_warning_naming_both(world, logged):
    @on.create(*KEX, id="fn", registry=world.registry)
    def one(**_):
        world.calls("one")

    @on.create(*KEX, id="fn", registry=world.registry)
    def two(**_):
        world.calls("two")

    async with world.operator():
        await world.create()
        await world.until(is_done)
    (warning,) = logged("'fn'", logging.WARNING)
    assert "one" in warning
    assert "two" in warning


async def test_c10_disjoint_handlers_with_one_id_are_no_warning(world, logged):
    @on.create(*KEX, id="fn", field="spec.n", value=1, registry=world.registry)
    def one(**_):
        world.calls("one")

    @on.create(*KEX, id="fn", field="spec.n", value=2, registry=world.registry)
    def two(**_):
        world.calls("two")

    async with world.operator():
        await world.create({"n": 1}, "a")
        await world.create({"n": 2}, "b")
        await world.until(is_done, "a")
        await world.until(is_done, "b")
    assert sorted(world.calls) == ["one", "two"]
    assert not logged("fn", logging.WARNING)


def make_noise(size: int, seed: int = 1) -> str:
    """A text that no compression makes smaller."""
    return "".join(random.Random(seed).choices(string.ascii_letters + string.digits, k=size))


async def test_c11_no_place_for_annotations_is_found_out_before_handling(world, logged):
    @on.create(*KEX, id="fn", registry=world.registry)
    def fn(name, **_):
        world.calls(name)

    async with world.operator():
        await world.create({"data": make_noise(300_000)})
        await world.create({}, "other")
        await world.until(is_done, "other")
        await world.patch({"metadata": {"labels": {"again": "1"}}})
        await world.create({}, "last")
        await world.until(is_done, "last")
        assert sorted(world.calls) == ["last", "other"]
        # It is handled as soon as there is the place.
        await world.patch({"spec": {"data": "small"}})
        await world.until(is_done)
    assert logged("no place for the last handled state", logging.ERROR)
    assert sorted(world.calls) == ["last", "obj", "other"]


@pytest.mark.parametrize("size", [140_000, 250_000])
async def test_c11_what_is_remembered_amid_a_cycle_takes_no_place_from_what_is_handled(
    world, logged, size
):
    """The last handled state fits, as well as what the first one has seen; but not both."""
    for id in "ab":
        on.create(*KEX, id=id, registry=world.registry)(lambda **_: None)
        fn = partial(lambda id, **_: world.calls(id), id)
        on.update(*KEX, id=id, registry=world.registry)(fn)

    async with world.operator():
        await world.create({"data": (before := make_noise(size))})
        await world.until_handled(spec={"data": before})
        await world.patch({"spec": {"data": (after := make_noise(size, seed=2))}})
        obj = await world.until_handled(spec={"data": after})
    assert sorted(world.calls) == ["a", "b"]
    assert [*obj["metadata"]["annotations"]] == [LAST_HANDLED]
    warnings = logged("", logging.WARNING)
    assert all(text.startswith("Objects of this kind are large") for text in warnings)


@pytest.mark.parametrize(
    "result",
    [
        {1, 2},
        datetime.datetime(2020, 1, 1),
        b"bytes",
        float("nan"),
        (x for x in "abc"),
        threading.Lock(),
        "\ud800",
        "x" * 700_000,
        object(),
        {"deep": {"set": {1}}},
    ],
    ids=lambda value: type(value).__name__,
)
async def test_c13_results_that_cannot_be_stored_are_dropped_with_one_error(world, logged, result):
    @on.create(*KEX, id="fn", registry=world.registry)
    def fn(**_):
        world.calls("fn")
        return result

    @on.create(*KEX, id="good", registry=world.registry)
    def good(**_):
        return "good"

    async with world.operator():
        await world.create()
        obj = await world.until(is_done)
    assert obj["status"] == {"good": "good"}
    assert world.calls == ["fn"]
    (error,) = logged("", logging.ERROR)
    assert "'fn'" in error


async def test_c13_circular_results(world, logged):
    circular = {}
    circular["self"] = circular

    @on.create(*KEX, id="fn", registry=world.registry)
    def fn(**_):
        world.calls("fn")
        return circular

    async with world.operator():
        await world.create()
        await world.until(is_done)
    assert world.calls == ["fn"]
    assert len(logged("", logging.ERROR)) == 1


@pytest.mark.docs("patching")
async def test_c13_patches_that_cannot_be_sent_are_dropped_with_one_error(world, logged):
    @on.create(*KEX, id="fn", registry=world.registry)
    def fn(patch, **_):
        world.calls("fn")
        patch.spec["bad"] = {1, 2}
        patch.status["good"] = True

    async with world.operator():
        await world.create()
        obj = await world.until(is_done)
    assert obj["status"] == {"good": True}
    assert world.calls == ["fn"]
    assert len(logged("", logging.ERROR)) == 1


async def test_c12_patches_rejected_by_the_server_are_dropped_with_one_error(world, logged):
    """Such as wrong values in typed fields: labels are strings, for example."""

    @on.create(*KEX, id="fn", registry=world.registry)
    def fn(patch, **_):
        world.calls("fn")
        patch.metadata.labels["x"] = {"not": "a string"}
        return "result"

    async with world.operator():
        await world.create()
        obj = await world.until(is_done)
    assert obj["status"] == {"fn": "result"}
    assert world.calls == ["fn"]
    assert len(logged("", logging.ERROR)) == 1


@pytest.mark.parametrize(
    "value",
    [
        "",
        "{",
        "null",
        "[]",
        '"text"',
        "1",
        '{"started":"garbage","retries":-1}',
        '{"started":"2020-01-01T00:00:00","delayed":"2020-01-01T00:00:00","retries":"x"}',
        '{"started":"2999-01-01T00:00:00+00:00","delayed":"2999-01-01T00:00:00.100000+00:00","retries":1}',
        '{"purpose":1,"success":"no","failure":[]}',
    ],
)
async def test_c14_corrupted_progress_heals(world, value):
    @on.create(*KEX, id="fn", registry=world.registry)
    def fn(**_):
        world.calls("fn")

    await world.create(metadata={"annotations": {f"{PREFIX}fn": value}})
    async with world.operator():
        obj = await world.until(is_done)
    assert world.calls == ["fn"]
    assert [*obj["metadata"]["annotations"]] == [LAST_HANDLED]


@pytest.mark.parametrize("value", ["", "{", "null", "[]", "1", '"text"'])
async def test_c14_corrupted_last_handled_state_heals(world, value):
    @on.create(*KEX, id="fn", registry=world.registry)
    @on.update(*KEX, id="fn", registry=world.registry)
    def fn(**_):
        world.calls("fn")

    await world.create({"n": 1}, metadata={"annotations": {LAST_HANDLED: value}})
    async with world.operator():
        await world.until(
            lambda obj: obj["metadata"]["annotations"][LAST_HANDLED] == '{"spec":{"n":1}}\n'
        )
    assert world.calls == ["fn"]


@pytest.mark.parametrize("delay", [0.01, 3600])
async def test_c15_reverted_annotations_are_not_a_storm(world, logged, monkeypatch, delay):
    """Another tool restores the object as it was, again and again; and changes it further."""
    monkeypatch.setattr("kopf_core.engines.records.holds.LOST_MARKS_DELAYS", (0.0, delay))

    @on.create(*KEX, id="fn", registry=world.registry)
    def fn(name, **_):
        world.calls(name)

    @on.event(*KEX, id="event", registry=world.registry)
    def event(name, labels, **_):
        if "n" in labels and name == "obj":
            world.calls(labels["n"])

    async with world.operator():
        await world.create()
        await world.until(is_done)
        await world.patch({"metadata": {"annotations": None}})
        await world.calls.until(lambda calls: calls.count("obj") == 2)
        await world.until(is_done)
        await world.patch({"metadata": {"annotations": None}})
        for n in "123":  # the delay is not bypassed by any events
            await world.patch({"metadata": {"labels": {"n": n}}})
            await world.calls.until(lambda calls, n=n: n in calls)
            await world.create({}, f"other{n}")
            await world.until(is_done, f"other{n}")
        if delay < 1:
            await world.until(is_done)
    assert world.calls.count("obj") == (3 if delay < 1 else 2)
    assert logged("was removed from the object", logging.WARNING)


async def test_b9_objects_deleted_while_being_created_are_not_created_once_more(faulty):
    """There is no finalizer; and an event was on its way when the object has vanished."""
    past = []
    watches = {"watch": True, "path": "*/kexes", "match": is_ours}

    @on.create(*KEX, id="a", registry=faulty.registry)
    async def a(name, **_):
        faulty.calls(name)
        if name == "obj":
            past.append(faulty.sandbox.faults.hold(**watches))
            past.append(await faulty.get())
            await faulty.delete()

    @on.event(*KEX, id="event", registry=faulty.registry)
    def event(name, type, **_):
        if name == "obj":
            faulty.calls(type)

    async with faulty.operator():
        await faulty.create()
        await faulty.requested("PATCH", "*/kexes/obj")
        held, obj = past
        line = json.dumps({"type": "MODIFIED", "object": obj}).encode()
        with faulty.sandbox.faults.inject(line, path="*/kexes", match=is_ours):
            faulty.sandbox.cut_watches("*/kexes")
            await faulty.calls.until(lambda calls: "MODIFIED" in calls)
        await faulty.create({}, "last")
        held.release()
        await faulty.until_handled("last")
        await faulty.calls.until(lambda calls: "DELETED" in calls)
    assert faulty.calls.count("obj") == 1


async def test_c15_removed_finalizers_are_added_again(world):
    @on.delete(*KEX, id="fn", registry=world.registry)
    def fn(**_):
        world.calls("deleted")

    async with world.operator():
        await world.create()
        await world.until(lambda obj: get_finalizers(obj) == [FINALIZER])
        await world.patch({"metadata": {"finalizers": None}})
        await world.until(lambda obj: get_finalizers(obj) == [FINALIZER])
        await world.delete()
        await world.until_gone()
    assert world.calls == ["deleted"]


@pytest.mark.parametrize("delay", [0.01, 3600])
@pytest.mark.parametrize("is_wanted", [True, False], ids=["removed", "put-back"])
async def test_c15_c16_undone_finalizers_are_not_a_storm(
    world, logged, monkeypatch, is_wanted, delay
):
    """Another operator has its own opinion; or another tool. The changes are handled meanwhile."""
    monkeypatch.setattr("kopf_core.engines.records.holds.LOST_MARKS_DELAYS", (0.0, delay))
    ours, theirs = ([FINALIZER], []) if is_wanted else ([], [FINALIZER])

    @on.update(*KEX, id="fn", registry=world.registry)
    def fn(spec, **_):
        world.calls(spec["n"])

    if is_wanted:
        on.delete(*KEX, id="deletion", registry=world.registry)(lambda **_: None)

    async with world.operator():
        await world.create({"n": 0}, metadata={"finalizers": theirs})
        await world.until(lambda obj: get_finalizers(obj) == ours and is_done(obj))
        await world.patch({"metadata": {"finalizers": theirs}})  # once, it can be a person
        await world.until(lambda obj: get_finalizers(obj) == ours)
        assert not logged("The finalizer was", logging.WARNING)
        await world.patch({"metadata": {"finalizers": theirs}, "spec": {"n": 1}})
        obj = await world.until_handled(spec={"n": 1})
        if delay < 1:
            await world.until(lambda obj: get_finalizers(obj) == ours)
        else:
            assert get_finalizers(obj) == theirs
            await world.delete()  # it is not for deletions
            await world.until_gone()
    assert world.calls == [1]
    assert logged("The finalizer was", logging.WARNING)


async def test_c16_operators_with_different_identities_do_not_interfere(world):
    from kopf_cogs.configs.diffbase import AnnotationsDiffBaseStorage
    from kopf_cogs.configs.progress import AnnotationsProgressStorage
    from kopf_cogs.configs.settings import OperatorSettings

    def make(name):
        settings, registry = OperatorSettings(), OperatorRegistry()
        settings.posting.enabled = False
        persistence = settings.persistence
        persistence.finalizer = f"{name}.example.com/finalizer"
        persistence.progress_storage = AnnotationsProgressStorage(prefix=f"{name}.example.com")
        persistence.diffbase_storage = AnnotationsDiffBaseStorage(prefix=f"{name}.example.com")
        for decorator in (on.create, on.update, on.delete):

            @decorator(*KEX, id="fn", registry=registry)
            def fn(reason, retry, **_):
                world.calls((name, str(reason), retry))
                if not retry:
                    raise TemporaryError("x", delay=0)

        return {"registry": registry, "settings": settings}

    def is_handled_by_both(obj, n):
        found = obj["metadata"].get("annotations") or {}
        keys = [f"{name}.example.com/last-handled-configuration" for name in "ab"]
        return all(json.loads(found.get(key, "{}")).get("spec") == {"n": n} for key in keys)

    async with world.operator(**make("a")), world.operator(**make("b")):
        await world.create({"n": 1})
        await world.until(lambda obj: is_handled_by_both(obj, 1))
        await world.patch({"spec": {"n": 2}})
        await world.until(lambda obj: is_handled_by_both(obj, 2))
        await world.delete()
        await world.until_gone()
    expected = [
        (name, reason, retry)
        for name in "ab"
        for reason in ("create", "delete", "update")
        for retry in (0, 1)
    ]
    assert sorted(world.calls) == expected


# --- D: handlers ---


class Unprintable(Exception):
    def __str__(self):
        raise RuntimeError


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize(
    "exc",
    [
        asyncio.CancelledError(),
        KeyboardInterrupt(),
        GeneratorExit(),
        BaseExceptionGroup("g", [SystemExit(1)]),
        StopIteration(),
        Unprintable(),
        ValueError("x" * 1_000_000),
    ],
    ids=lambda exc: type(exc).__name__,
)
async def test_d2_d3_d4_d12_exceptions_of_all_kinds_are_retried(world, is_async, exc):
    def fn(retry, **_):
        world.calls(retry)
        if not retry:
            raise exc

    async def afn(retry, **_):
        fn(retry)

    on.create(*KEX, id="fn", backoff=0, registry=world.registry)(afn if is_async else fn)
    async with world.operator():
        await world.create()
        await world.until(is_done)
    assert world.calls == [0, 1]


async def test_d5_hanging_handlers_do_not_affect_other_objects(world):
    release = threading.Event()

    @on.create(*KEX, id="hanging", field="spec.kind", value="sync", registry=world.registry)
    def hanging(**_):
        world.calls("hanging")
        release.wait(20)

    @on.create(*KEX, id="ahanging", field="spec.kind", value="async", registry=world.registry)
    async def ahanging(**_):
        world.calls("ahanging")
        await asyncio.get_running_loop().create_future()

    @on.create(*KEX, id="fn", field="spec.kind", value="good", registry=world.registry)
    def fn(**_):
        world.calls("fn")

    world.settings.queueing.exit_timeout = 0.1
    try:
        async with world.operator():
            await world.create({"kind": "sync"}, "a")
            await world.create({"kind": "async"}, "b")
            await world.calls.until(lambda calls: len(calls) == 2)
            for n in range(10):
                await world.create({"kind": "good"}, f"good-{n}")
            for n in range(10):
                await world.until(is_done, f"good-{n}")
    finally:
        release.set()
    assert world.calls.count("fn") == 10


@pytest.mark.parametrize("delay", [None, 0, -1, float("nan")])
async def test_d12_delays_of_all_kinds(world, delay):
    @on.create(*KEX, id="fn", registry=world.registry)
    def fn(retry, **_):
        world.calls(retry)
        if retry < 2:
            raise TemporaryError("x", delay=delay)

    async with world.operator():
        await world.create()
        await world.until(is_done)
    assert world.calls == [0, 1, 2]


@pytest.mark.parametrize("delay", [1e12, float("inf")])
async def test_d12_endless_delays_are_stored_and_interrupted_by_deletion(world, delay):
    @on.create(*KEX, id="fn", registry=world.registry)
    def fn(**_):
        world.calls("fn")
        raise TemporaryError("x", delay=delay)

    @on.delete(*KEX, id="deleted", registry=world.registry)
    def deleted(**_):
        world.calls("deleted")

    async with world.operator():
        await world.create()
        await world.until(lambda obj: get_progress(obj).get("fn", {}).get("retries") == 1)
        await world.delete()
        await world.until_gone()
    assert world.calls == ["fn", "deleted"]


async def test_d13_handlers_removed_while_in_progress_do_not_block_the_cycle(world):
    def make(ids):
        registry = OperatorRegistry()
        for id in ids:

            @on.create(*KEX, id=id, registry=registry)
            def fn(id=id, **_):
                world.calls(id)
                if len(ids) > 1 and id != "a":
                    raise TemporaryError("x", delay=1000)

        return registry

    async with world.operator(make(["a", "removed"])):
        await world.create()
        await world.until(lambda obj: get_progress(obj).get("removed", {}).get("retries") == 1)
    async with world.operator(make(["a"])):
        await world.until(lambda obj: get_essence(obj) is not None)
    assert world.calls == ["a", "removed"]


async def test_d14_hot_objects_are_coalesced_to_the_newest_state(world):
    started, release = asyncio.Event(), asyncio.Event()

    @on.update(*KEX, id="fn", registry=world.registry)
    async def fn(new, **_):
        world.calls(new["spec"]["n"])
        started.set()
        await release.wait()

    async with world.operator():
        await world.create({"n": 0})
        await world.until(is_done)
        await world.patch({"spec": {"n": 1}})
        await started.wait()
        for n in range(2, 100):
            await world.patch({"spec": {"n": n}})
        release.set()
        await world.until_handled(spec={"n": 99})
    assert world.calls[0] == 1
    assert world.calls[-1] == 99
    assert len(world.calls) < 10


# --- E: posting and logging ---


@pytest.mark.docs("configuration/logging-events")
async def test_e2_disabled_posting_posts_nothing(faulty):
    from kopf_core.engines.posting import event, exception, info, warn

    @on.create(*KEX, id="fn", registry=faulty.registry)
    def fn(body, **_):
        event(body, type="T", reason="R", message="m")
        info(body, reason="R", message="m")
        warn(body, reason="R", message="m")
        exception(body, reason="R", exc=ValueError())

    async with faulty.operator():
        await faulty.create()
        await faulty.until_handled()
    assert not faulty.sandbox.journal.select("POST", "*/events")


@pytest.mark.docs("k8s-events/events-for-events")
async def test_e4_watching_events_while_posting_them_is_no_explosion(faulty, logged):
    from kopf_core.engines.posting import info

    faulty.settings.posting.enabled = True
    faulty.settings.posting.loggers = True
    faulty.settings.posting.level = logging.DEBUG

    @on.create(*KEX, id="fn", registry=faulty.registry)
    def fn(body, logger, **_):
        logger.info("a message")

    @on.event("v1", "events", id="ev", registry=faulty.registry)
    def ev(body, logger, type, **_):
        info(body, reason="Chain", message="reaction")
        logger.info("chain reaction")
        faulty.calls(body["message"])

    async with faulty.operator():
        await faulty.create()
        await faulty.until_handled()
        await faulty.calls.until(lambda calls: "a message" in calls)
    posted = faulty.sandbox.journal.select("POST", "*/events")
    assert posted
    assert not [entry for entry in posted if b"hain" in entry.body]


async def test_e5_data_of_secrets_are_not_in_logs(faulty, logged):
    faulty.settings.posting.enabled = True
    faulty.settings.posting.loggers = True
    faulty.settings.posting.level = logging.DEBUG

    @on.create("v1", "secrets", id="fn", registry=faulty.registry)
    @on.update("v1", "secrets", id="fn", registry=faulty.registry)
    def fn(patch, retry, **_):
        patch["data"] = {"patched": "cGF0Y2hlZA=="}
        faulty.calls(retry)
        if not retry:
            raise TemporaryError("x", delay=0)

    path = f"/api/v1/namespaces/{faulty.namespace}/secrets"
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "obj"},
        "data": {"password": "c2VjcmV0"},
    }
    async with faulty.operator():
        await faulty.request("POST", path, secret)
        await faulty.calls.until(lambda calls: len(calls) >= 2)
        await faulty.request(
            "PATCH",
            f"{path}/obj",
            {"data": {"password": "dXBkYXRlZA=="}},
            "application/merge-patch+json",
        )
        await faulty.calls.until(lambda calls: len(calls) >= 4)
    for value in ("c2VjcmV0", "dXBkYXRlZA==", "cGF0Y2hlZA=="):
        assert not logged(value)
        for entry in faulty.sandbox.journal.select("POST", "*/events"):
            assert value.encode() not in entry.body


async def test_e6_exposed_secrets_are_one_warning_at_start(faulty, logged):
    on.create("v1", "secrets", id="fn", registry=faulty.registry)(lambda **_: None)
    async with faulty.operator():
        await faulty.requested("GET", "*/secrets")
    assert len(logged("HashingDiffBaseStorage", logging.WARNING)) == 1


async def test_e6_hashed_secrets_are_not_exposed(faulty, logged):
    from kopf_cogs.configs.diffbase import HashingDiffBaseStorage

    faulty.settings.persistence.diffbase_storage = HashingDiffBaseStorage()

    @on.create("v1", "secrets", id="fn", registry=faulty.registry)
    @on.update("v1", "secrets", id="fn", registry=faulty.registry)
    def fn(reason, **_):
        faulty.calls(str(reason))

    path = f"/api/v1/namespaces/{faulty.namespace}/secrets"
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "obj"},
        "data": {"password": "c2VjcmV0"},
    }
    async with faulty.operator():
        await faulty.request("POST", path, secret)
        await faulty.calls.until(lambda calls: calls == ["create"])
        await faulty.requested("PATCH", "*/obj")
        await faulty.request(
            "PATCH",
            f"{path}/obj",
            {"data": {"password": "dXBkYXRlZA=="}},
            "application/merge-patch+json",
        )
        await faulty.calls.until(lambda calls: calls == ["create", "update"])
        await faulty.requested("PATCH", "*/obj", count=3)
    assert not logged("HashingDiffBaseStorage", logging.WARNING)
    for entry in faulty.sandbox.journal.select("PATCH", "*/obj"):
        if b"last-handled" in entry.body:
            assert b"c2VjcmV0" not in entry.body
            assert b"dXBkYXRlZA" not in entry.body


def test_calls_are_for_the_tests_only():
    async def check():
        calls = Calls()
        calls("x")
        await calls.until(lambda calls: calls == ["x"])

    asyncio.run(check())
