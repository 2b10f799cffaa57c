"""Resources with strict schemas: what is not declared there is silently dropped by the server."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from e2e.tests.harness import GROUP, PREFIX, get_essence, get_progress
from kopf_cogs.configs.progress import StatusProgressStorage
from kopf_core.actions.errors import TemporaryError
from kopf_core.intents import decorators as on

STRICT = ["stricts", "strictsubs"]
RESOURCES = ["kexes", "subs", *STRICT]


def is_done(obj: Any) -> bool:
    return obj is not None and get_essence(obj) is not None and not get_progress(obj)


@pytest.mark.parametrize("plural", RESOURCES)
async def test_c12_progress_survives_in_annotations(world, plural):
    """Over all attempts, in all kinds of resources; each attempt is remembered."""
    world.plural = plural
    seen = []

    @on.create(GROUP, plural, id="fn", registry=world.registry, backoff=0.01)
    def fn(retry, annotations, **_):
        seen.append((retry, f"{PREFIX}fn" in annotations))
        if retry < 3:
            raise TemporaryError("not yet", delay=0.01)

    async with world.operator():
        await world.create({"n": 1})
        await world.until(is_done)
        await world.patch({"spec": {"n": 2}})  # no handlers of updates: only remembered
        obj = await world.until_handled(spec={"n": 2})
    assert seen == [(0, False), (1, True), (2, True), (3, True)]
    assert get_progress(obj) == {}


@pytest.mark.parametrize("plural", STRICT)
async def test_c12_pruned_results_are_one_warning_and_no_loop(world, plural, logged):
    world.plural = plural

    @on.create(GROUP, plural, id="fn", registry=world.registry)
    @on.update(GROUP, plural, id="fn", registry=world.registry)
    def fn(reason, spec, **_):
        world.calls((reason, spec["n"]))
        return {"pruned": spec["n"]}

    async with world.operator():
        await world.create({"n": 1})
        first = await world.until_handled(spec={"n": 1})
        await world.patch({"spec": {"n": 2}})
        obj = await world.until_handled(spec={"n": 2})
    assert world.calls == [("create", 1), ("update", 2)]
    assert "fn" not in (obj.get("status") or {})
    assert "fn" not in (first.get("status") or {})
    assert len(logged("Merge-patching finished with inconsistencies", logging.WARNING)) == 1
    assert len(logged("", logging.WARNING)) == 1


@pytest.mark.parametrize("plural", STRICT)
async def test_c12_pruned_patches_are_one_warning_for_all_attempts(world, plural, logged):
    """What is declared is set nevertheless."""
    world.plural = plural

    @on.create(GROUP, plural, id="fn", registry=world.registry)
    def fn(patch, retry, **_):
        world.calls(retry)
        patch.status["unknown"] = f"attempt {retry}"
        patch.status["phase"] = f"attempt {retry}"
        if retry < 3:
            raise TemporaryError("not yet", delay=0.01)

    async with world.operator():
        await world.create({"n": 1})
        await world.until(is_done)
        obj = await world.until(lambda obj: obj["status"].get("phase") == "attempt 3")
    assert world.calls == [0, 1, 2, 3]
    assert obj["status"] == {"phase": "attempt 3"}
    assert len(logged("Merge-patching finished with inconsistencies", logging.WARNING)) == 1


@pytest.mark.parametrize("plural", STRICT)
async def test_c12_timers_with_pruned_results_are_one_warning(world, plural, logged):
    world.plural = plural

    @on.timer(GROUP, plural, id="fn", interval=0.01, registry=world.registry)
    async def fn(**_):
        world.calls("fn")
        return {"tick": len(world.calls)}

    async with world.operator():
        await world.create({"n": 1})
        await world.calls.until(lambda calls: len(calls) >= 5)
    assert len(logged("Merge-patching finished with inconsistencies", logging.WARNING)) == 1


@pytest.mark.parametrize("plural", STRICT)
async def test_c12_daemons_with_pruned_patches_are_one_warning(world, plural, logged):
    world.plural = plural

    @on.daemon(GROUP, plural, id="fn", registry=world.registry)
    async def fn(patch, retry, **_):
        world.calls(retry)
        patch.status["unknown"] = f"attempt {retry}"
        raise TemporaryError("once more", delay=0.01)

    async with world.operator():
        await world.create({"n": 1})
        await world.calls.until(lambda calls: len(calls) >= 5)
    assert len(logged("Merge-patching finished with inconsistencies", logging.WARNING)) == 1


@pytest.mark.parametrize("plural", RESOURCES)
async def test_c12_finalizers_work_with_any_schema(world, plural):
    world.plural = plural

    @on.delete(GROUP, plural, id="fn", registry=world.registry)
    def fn(patch, retry, **_):
        world.calls(retry)
        patch.status["unknown"] = "pruned"
        if not retry:
            raise TemporaryError("not yet", delay=0.01)

    async with world.operator():
        await world.create({"n": 1})
        await world.until(is_done)
        await world.delete()
        await world.until_gone()
    assert world.calls == [0, 1]


@pytest.mark.parametrize("plural", STRICT)
@pytest.mark.parametrize("error", [None, TemporaryError("not yet", delay=60)])
async def test_c12_pruned_progress_is_no_storm_of_calls(world, plural, error, logged):
    """Neither while the object is changed by that, nor if somebody else changes it."""
    world.plural = plural
    world.settings.persistence.progress_storage = StatusProgressStorage()

    @on.create(GROUP, plural, id="a", registry=world.registry)
    def fn(patch, **_):
        world.calls("a")
        patch.status["phase"] = f"attempt {len(world.calls)}"
        if error is not None:
            raise error

    on.create(GROUP, plural, id="b", registry=world.registry)(lambda **_: world.calls("b"))
    async with world.operator():
        await world.create({"n": 1})
        await world.calls.until(lambda calls: len(calls) >= 3)
    [warning] = logged("The progress of the handlers is not on the object", logging.WARNING)
    assert warning.endswith("The handlers will be called anew in 1.0 seconds.")
    assert world.calls == ["a"] * 3
