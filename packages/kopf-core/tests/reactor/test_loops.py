"""Handlers of status fields: called for changes of others, and not endlessly for their own."""

import logging
from typing import Any

import pytest

from kopf_core.intents import decorators as on
from kopf_core.reactor.streams.work import DONE, Requeue

WARNING = (
    "Handler 'fn/status.count' is called for changes of the field 'status.count', and changes it "
    "every time, so it is called again and again. The calls will be ever more rare."
)


async def end(spine: Any) -> Any:
    """Make turns until there is nothing to do at once."""
    for _ in range(100):
        result = await spine.settle()
        if isinstance(result, Requeue):
            return result
        if not spine.item.events and not await moved(spine):
            return result
    raise AssertionError("It never ends.")


async def moved(spine: Any) -> bool:
    """Our latest patch comes back once more: whether it is a reason to do something."""
    before = len(spine.patches)
    spine.see("MODIFIED")
    spine.item.rest = await spine.settle()
    return len(spine.patches) > before


@pytest.fixture
def counting(spine: Any, registry: Any) -> list[Any]:
    calls: list[Any] = []

    @on.field("kopfexamples", field="status.count", id="fn", registry=registry)
    async def fn(new: Any, patch: Any, **_: Any) -> None:
        calls.append((spine.clock.monotonic(), new))
        patch.status["count"] = new + 1

    return calls


async def test_own_writes_are_handled_ever_later(spine: Any, counting: Any, logged: Any) -> None:
    spine.create(n=1)
    spine.change({"status": {"count": 0}})
    await end(spine)
    for _ in range(4):
        assert isinstance(spine.item.rest, Requeue)
        await spine.wait()
        await end(spine)
    times = [at for at, _ in counting]
    assert [n for _, n in counting] == [*range(len(counting))]
    assert times == [0, 0, 0, 0, 2, 6, 14, 30]
    assert [text for text in logged(logging.WARNING) if "again and again" in text] == [WARNING]


async def test_changes_of_others_are_not_delayed(spine: Any, counting: Any) -> None:
    spine.create(n=1)
    spine.change({"status": {"count": 0}})
    assert isinstance(await end(spine), Requeue)
    counting.clear()
    for change in ({"spec": {"n": 2}}, {"status": {"count": 100}}):
        spine.item.rest = DONE  # the queue does not wait if the object changes
        spine.change(change)
        await spine.settle()
    assert (0, 100) in counting


async def test_values_that_settle_are_not_loops(spine: Any, registry: Any, logged: Any) -> None:
    calls = []

    @on.field("kopfexamples", field="status.phase", id="fn", registry=registry)
    async def fn(new: Any, patch: Any, **_: Any) -> None:
        calls.append(new)
        patch.status["phase"] = "done"

    spine.create(n=1)
    spine.change({"status": {"phase": "new"}})
    assert await end(spine) is DONE
    assert calls == ["new", "done"]
    for number in range(5):
        spine.change({"status": {"phase": f"new{number}"}})
        assert await end(spine) is DONE
    assert len(calls) == 12
    assert not logged(logging.WARNING)
