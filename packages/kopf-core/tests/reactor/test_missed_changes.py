"""Changes in the middle of cycles: those who have seen the past are told of the present."""

import json
from typing import Any

import pytest

from kopf_core.actions.errors import TemporaryError
from kopf_core.intents import decorators as on
from kopf_core.intents.registries import OperatorRegistry
from kopf_core.reactor.work import DONE, Requeue

LAST_HANDLED = "kopf.zalando.org/last-handled-configuration"


@pytest.fixture
def calls(registry: OperatorRegistry) -> Any:
    """Of two handlers: one is done at once, the other fails for as long as it is told to."""
    calls: Any = Calls()
    for id in "ab":

        @on.update("kopfexamples", id=id, registry=registry)
        async def fn(spec: Any, id: str = id, **_: Any) -> None:
            calls.append((id, spec["n"]))
            if id == "b" and calls.is_blocked:
                raise TemporaryError("not yet", delay=10)

    return calls


class Calls(list[Any]):
    is_blocked = True


async def test_k37_those_who_have_seen_a_change_are_told_that_it_is_reverted(
    spine: Any, calls: Any
) -> None:
    """Nothing but the progress on the object tells of that when the cycle is over."""
    spine.create(n=1)
    assert await spine.settle() is DONE
    spine.change({"spec": {"n": 2}})
    assert isinstance(await spine.settle(), Requeue)
    spine.change({"spec": {"n": 3}})
    calls.is_blocked = False
    spine.clock.advance(10)
    await spine.turn()  # the cycle is over; B has seen more than A, and its progress is kept
    assert calls == [("a", 2), ("b", 2), ("b", 3)]
    calls.clear()
    spine.see("MODIFIED")
    spine.change({"spec": {"n": 2}})
    assert await spine.settle() is DONE
    assert calls == [("b", 2)]
    assert [*spine.annotations] == [LAST_HANDLED]
    assert json.loads(spine.annotations[LAST_HANDLED])["spec"] == {"n": 2}
