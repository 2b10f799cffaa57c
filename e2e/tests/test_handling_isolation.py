"""One bad object, resource, or selector does not affect the others."""

from __future__ import annotations

import asyncio
import logging

import pytest

from e2e.tests.harness import GROUP, get_essence, is_ours
from kopf_core.intents import decorators as on

KEX = (GROUP, "kexes")


@pytest.mark.docs("configuration/throttling")
async def test_o5_o6_throttled_objects_do_not_hold_the_others(faulty, logged):
    faulty.settings.queueing.worker_limit = 1
    faulty.settings.queueing.error_delays = [1000]

    @on.create(*KEX, id="fn", registry=faulty.registry)
    def fn(name, **_):
        faulty.calls(name)

    async with faulty.operator():
        with faulty.sandbox.faults.fail(403, method="PATCH", path="*/bad") as fault:
            await faulty.create({}, "bad")
            await faulty.requested("PATCH", "*/bad")
            for n in range(5):
                await faulty.create({}, f"good-{n}")
                await faulty.until_handled(f"good-{n}")
    assert fault.hits == 1
    assert faulty.calls == ["bad", *(f"good-{n}" for n in range(5))]
    (error,) = logged("", logging.ERROR)
    assert "Throttling for 1000 seconds" in error


@pytest.mark.docs("configuration/throttling")
async def test_throttling_is_over_when_the_cause_is(faulty, logged):
    faulty.settings.queueing.error_delays = [0.01, 1000]
    on.create(*KEX, id="fn", registry=faulty.registry)(lambda **_: None)
    async with faulty.operator():
        with faulty.sandbox.faults.fail(403, method="PATCH", times=1):
            await faulty.create()
            await faulty.until_handled()
        # Again: from the first delay, not from the second one.
        with faulty.sandbox.faults.fail(403, method="PATCH", times=1, match=is_ours):
            await faulty.patch({"spec": {"x": 1}})
            await faulty.until_handled(spec={"x": 1})
    assert len(logged("Throttling is over. Switching back to normal operations.")) == 2


async def test_e1_hanging_events_api_does_not_hold_handlers(faulty):
    from kopf_core.engines.posting import info

    faulty.settings.posting.enabled = True

    @on.create(*KEX, id="fn", registry=faulty.registry)
    def fn(body, name, **_):
        for n in range(10):
            info(body, reason=f"R{n}", message="m")
        faulty.calls(name)

    with faulty.sandbox.faults.hang(method="POST", path="*/events"):
        async with faulty.operator():
            for n in range(20):
                await faulty.create({}, f"obj-{n}")
            for n in range(20):
                await faulty.until_handled(f"obj-{n}")
    assert len(faulty.calls) == 20


async def test_b9_a_vanished_resource_stops_only_its_own_watch(faulty, logged):
    for plural in ("kexes", "subs"):
        on.create(GROUP, plural, id="fn", registry=faulty.registry)(
            lambda name, **_: faulty.calls(name)
        )
    async with faulty.operator():
        await faulty.create({}, "one")
        await faulty.until_handled("one")
        await faulty.sandbox.delete("customresourcedefinitions", f"subs.{GROUP}")
        await faulty.create({}, "two")
        await faulty.until_handled("two")
    assert faulty.calls == ["one", "two"]
    assert not logged("", logging.ERROR)


@pytest.mark.docs("selectors/ambiguous")
async def test_ambiguous_resources_are_not_served_with_a_warning(faulty, logged):
    from e2e.tests.harness import make_crd

    rival = make_crd("kexes", "Kex")
    rival["metadata"]["name"] = "kexes.rival.example.com"
    rival["spec"]["group"] = "rival.example.com"
    await faulty.sandbox.apply(rival)
    on.create("kexes", id="ambiguous", registry=faulty.registry)(
        lambda **_: faulty.calls("ambiguous")
    )
    on.create(GROUP, "kexes", id="specific", registry=faulty.registry)(
        lambda **_: faulty.calls("specific")
    )
    async with faulty.operator():
        await faulty.create()
        await faulty.until_handled()
    assert faulty.calls == ["specific"]
    (warning,) = logged("Ambiguous", logging.WARNING)
    assert GROUP in warning
    assert "rival.example.com" in warning


@pytest.mark.docs("selectors")
async def test_unknown_resources_are_a_warning_and_are_served_once_they_appear(faulty, logged):
    from e2e.tests.harness import make_crd

    on.create(GROUP, "lates", id="fn", registry=faulty.registry)(lambda **_: faulty.calls("late"))
    on.create(*KEX, id="fn", registry=faulty.registry)(lambda **_: faulty.calls("kex"))
    async with faulty.operator():
        await faulty.create()
        await faulty.until_handled()
        assert len(logged("Unresolved resources cannot be served", logging.WARNING)) == 1
        await faulty.sandbox.apply(make_crd("lates", "Late"))
        await faulty.sandbox.create(
            {"apiVersion": f"{GROUP}/v1", "kind": "Late", "metadata": {"name": "x"}},
            namespace=faulty.namespace,
        )
        await faulty.calls.until(lambda calls: "late" in calls)


@pytest.mark.docs("configuration/consistency")
async def test_c2_foreign_changes_are_handled_after_the_consistency_timeout(faulty):
    """Our own patch never comes back, but others' changes must not wait for it for ever."""
    faulty.settings.persistence.consistency_timeout = 0.1
    on.create(*KEX, id="fn", registry=faulty.registry)(lambda **_: faulty.calls("create"))
    on.update(*KEX, id="fn", registry=faulty.registry)(lambda **_: faulty.calls("update"))
    async with faulty.operator():
        await faulty.create({"n": 1})
        await faulty.until_handled(spec={"n": 1})
        with faulty.sandbox.faults.hold(watch=True, path="*/kexes", match=is_ours):
            await faulty.patch({"spec": {"n": 2}})
        await faulty.until_handled(spec={"n": 2})
    assert faulty.calls == ["create", "update"]


@pytest.mark.docs("async")
async def test_sync_handlers_of_many_objects_run_in_parallel(world):
    import threading

    barrier = threading.Barrier(3, timeout=20)

    @on.create(*KEX, id="fn", registry=world.registry)
    def fn(name, **_):
        barrier.wait()
        world.calls(name)

    async with world.operator():
        await asyncio.gather(*(world.create({}, f"obj-{n}") for n in range(3)))
        await world.calls.until(lambda calls: len(calls) == 3)
        await world.until(lambda obj: get_essence(obj) is not None, "obj-0")
