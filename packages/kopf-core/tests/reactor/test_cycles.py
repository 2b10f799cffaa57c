"""Cycles of one object: own changes, lost marks, the finalizer that is undone by others."""

import json
import logging
from typing import Any

from kopf_core.actions.errors import TemporaryError
from kopf_core.intents import decorators as on
from kopf_core.reactor.streams.work import DONE, Requeue

FINALIZER = "kopf.zalando.org/KopfFinalizerMarker"
LAST_HANDLED = "kopf.zalando.org/last-handled-configuration"


async def test_k37_own_changes_amid_a_cycle_are_not_updates(spine: Any, registry: Any) -> None:
    calls = []

    @on.create("kopfexamples", id="a", registry=registry)
    @on.update("kopfexamples", id="a", registry=registry)
    async def a(patch: Any, reason: Any, **_: Any) -> None:
        calls.append(("a", str(reason)))
        patch.spec["own"] = 1

    @on.create("kopfexamples", id="b", registry=registry)
    async def b(retry: int, **_: Any) -> None:
        calls.append(("b", retry))
        if not retry:
            raise TemporaryError("not yet", delay=10)

    spine.create(n=1)
    assert isinstance(await spine.settle(), Requeue)
    assert await spine.wait() is DONE
    assert calls == [("a", "create"), ("b", 0), ("b", 1)]
    assert spine.body["spec"] == {"n": 1, "own": 1}


async def test_sim16_progress_of_subhandlers_that_a_backup_brings_back_is_not_for_later_changes(
    spine: Any, registry: Any
) -> None:
    """A patch of the operator can come right after the restoration: it removes a part of this."""
    calls = []

    @on.update("kopfexamples", id="first", registry=registry)
    async def first(**_: Any) -> None:
        calls.append("first")

    @on.update("kopfexamples", id="parent", registry=registry)
    async def parent(**_: Any) -> None:
        @on.subhandler(id="x")
        async def x(**_: Any) -> None:
            calls.append("parent/x")

    spine.create(n=1)
    await spine.settle()
    restored = {"started": "2020-01-01T00:00:00Z", "purpose": "update", "success": True}
    names = ("kopf.zalando.org/first", "kopf.zalando.org/parent.x")
    marks = dict.fromkeys(names, json.dumps(restored, separators=(",", ":")))
    spine.change({"metadata": {"annotations": marks}})
    await spine.settle()
    assert not {*names} & {*spine.annotations}
    spine.change({"spec": {"n": 2}})
    await spine.settle()
    assert calls == ["first", "parent/x"]


async def test_k37_objects_whose_marks_are_removed_are_handled_ever_later(
    spine: Any, registry: Any
) -> None:
    calls = []

    @on.create("kopfexamples", registry=registry)
    async def fn(**_: Any) -> None:
        calls.append(spine.clock.monotonic())

    spine.create(n=1)
    assert await spine.settle() is DONE
    for delay in (0, 1, 3):
        spine.change({"metadata": {"annotations": {LAST_HANDLED: None}}})
        await spine.settle() if not delay else (await spine.settle(), await spine.wait())
        assert LAST_HANDLED in spine.annotations
    assert calls == [0, 0, 1, 4]


async def test_k37_progress_that_is_removed_is_made_anew_ever_later(
    spine: Any, registry: Any, logged: Any
) -> None:
    calls = []

    @on.create("kopfexamples", id="fn", registry=registry)
    async def fn(**_: Any) -> None:
        calls.append(spine.clock.monotonic())
        raise TemporaryError("not yet", delay=100)

    spine.create(n=1)
    await spine.settle()
    for delay in (0, 1, 3):
        spine.change({"metadata": {"annotations": dict.fromkeys(spine.annotations)}})
        await spine.settle() if not delay else (await spine.settle(), await spine.wait())
    assert calls == [0, 0, 1, 4]
    assert any("The progress of the handlers is not" in text for text in logged(logging.WARNING))


async def test_k37_the_finalizer_is_there_for_those_who_need_it_and_no_longer(
    spine: Any, registry: Any
) -> None:
    calls = []

    @on.delete("kopfexamples", registry=registry, labels={"needed": "yes"})
    async def fn(**_: Any) -> None:
        calls.append("deleted")

    def get_finalizers() -> Any:
        return spine.body["metadata"].get("finalizers", [])

    spine.create(n=1)
    assert await spine.settle() is DONE
    assert get_finalizers() == []
    for value, expected in [("yes", [FINALIZER]), ("no", []), ("yes", [FINALIZER])]:
        spine.change({"metadata": {"labels": {"needed": value}}})
        assert await spine.settle() is DONE
        assert get_finalizers() == expected
    spine.change({"metadata": {"deletionTimestamp": "2020-01-01T00:00:00Z"}})
    await spine.settle()
    assert calls == ["deleted"]
    assert get_finalizers() == []


async def test_k37_the_finalizer_is_left_for_a_while_if_others_undo_it(
    spine: Any, registry: Any
) -> None:
    on.delete("kopfexamples", registry=registry)(lambda **_: None)
    spine.create(n=1)
    assert await spine.settle() is DONE
    results = []
    for _ in range(3):
        spine.change({"metadata": {"finalizers": None}})
        results.append(await spine.settle())
    assert isinstance(results[-1], Requeue)
    assert not spine.body["metadata"].get("finalizers")
    assert await spine.wait() is DONE
    assert spine.body["metadata"]["finalizers"] == [FINALIZER]
