"""Changes in the middle of cycles: those who have seen the past are told of the present."""

import datetime
import json
from typing import Any

import pytest

from kopf_core.actions.errors import TemporaryError
from kopf_core.actions.states import HandlerState, State
from kopf_core.intents import decorators as on
from kopf_core.intents.causes import Reason
from kopf_core.intents.registries import OperatorRegistry
from kopf_core.reactor.object.missed_changes import Missed, find_missed
from kopf_core.reactor.object.seen_states import SeenStates
from kopf_core.reactor.streams.work import DONE, Requeue

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


async def test_r14_changes_amid_a_cycle_are_not_missed_after_a_crash(
    spine: Any, calls: Any
) -> None:
    spine.create(n=1)
    await spine.settle()
    for n in (2, 3):
        spine.change({"spec": {"n": n}})
        await spine.settle()
    calls.is_blocked = False
    spine.restart()
    spine.clock.advance(10)
    await spine.settle()
    assert calls[-2:] == [("b", 3), ("a", 3)]
    assert [*spine.annotations] == [LAST_HANDLED]


async def test_l_changes_that_finished_handlers_do_not_care_about_are_handled_with_the_rest(
    spine: Any, registry: OperatorRegistry
) -> None:
    """The last handled state must have them, or they would begin one more cycle."""
    failures = [TemporaryError("not yet", delay=10) for _ in range(2)]

    @on.update("kopfexamples", id="a", field="spec.a", registry=registry)
    async def a(**_: Any) -> None:
        pass

    @on.update("kopfexamples", id="b", field="spec.b", registry=registry)
    async def b(**_: Any) -> None:
        if failures:
            raise failures.pop()

    spine.create(a=1, b=1)
    await spine.settle()
    spine.change({"spec": {"a": 2, "b": 2}})
    await spine.settle()
    spine.change({"spec": {"other": 3}})
    spine.clock.advance(10)
    spine.item.rest = DONE
    assert isinstance(await spine.settle(), Requeue)  # by now, both states are on the object
    spine.clock.advance(10)
    await spine.turn()
    assert [*spine.annotations] == [LAST_HANDLED]
    assert json.loads(spine.annotations[LAST_HANDLED])["spec"] == {"a": 2, "b": 2, "other": 3}


# --- Who has missed what ---

V1: Any = {"spec": {"n": 1}}
V2: Any = {"spec": {"n": 2}}
V3: Any = {"spec": {"n": 3}}
NOW = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
DONE_STATE = HandlerState(started=NOW, stopped=NOW, success=True, purpose="create")


@pytest.fixture
def find(registry: OperatorRegistry, resource: Any, make_cause: Any) -> Any:
    """Find who has missed what, of those who are over; with the progress of sub-handlers."""

    def find(reason: Reason, seen: SeenStates, *ids: Any, **subhandlers: Any) -> Missed | None:
        states = {
            id: DONE_STATE._replace(
                subrefs=frozenset(sub for sub in subhandlers if sub.startswith(f"{id}_"))
            )
            for id in ids
        }
        handlers = registry.get_resource_handlers(resource).changing
        return find_missed(
            State(states, now=NOW),
            seen,
            make_cause(reason),
            handlers,
            lambda ids: {id: subhandlers[id] for id in ids if subhandlers[id]},
        )

    return find


@pytest.fixture
def declare(registry: OperatorRegistry) -> Any:
    def declare(decorator: Any, *ids: str, **options: Any) -> None:
        for id in ids:
            decorator("kopfexamples", id=id, registry=registry, **options)(lambda **_: None)

    return declare


def test_k37_the_earliest_state_is_handled_anew_and_those_ahead_are_kept(
    find: Any, declare: Any
) -> None:
    declare(on.update, "a", "b", "c")
    seen = SeenStates().add(V1, []).add(V2, ["a"]).add(V3, ["a", "b"])
    missed = find(Reason.UPDATE, seen, "a", "b", "c")
    assert missed.essence == V1
    assert {*missed.kept} == {"b", "c"}
    assert {known.purpose for known in missed.kept.values()} == {"update"}
    assert missed.seen == SeenStates().add(V2, []).add(V3, ["b"])


@pytest.mark.parametrize("reason", [Reason.CREATE, Reason.UPDATE, Reason.RESUME])
def test_k37_nothing_is_missed_if_all_have_seen_the_same(
    find: Any, declare: Any, reason: Reason
) -> None:
    declare(on.update, "a", "b")
    assert find(reason, SeenStates().add(V1, []), "a", "b") is None


def test_k37_nothing_is_missed_by_deletions(find: Any, declare: Any) -> None:
    declare(on.update, "a")
    assert find(Reason.DELETE, SeenStates().add(V1, []).add(V2, ["a"]), "a") is None


def test_k37_changes_of_other_fields_are_not_missed(find: Any, declare: Any) -> None:
    declare(on.update, "a", field="spec.m")
    assert find(Reason.UPDATE, SeenStates().add(V1, []).add(V2, ["a"]), "a") is None


def test_k37_changes_amid_creations_are_updates_for_those_who_handle_only_these(
    find: Any, declare: Any
) -> None:
    declare(on.create, "a")
    declare(on.update, "u")
    missed = find(Reason.CREATE, SeenStates().add(V1, []).add(V2, ["a"]), "a")
    assert missed.essence == V1
    assert not missed.kept


def test_k37_those_with_no_part_in_the_cycle_are_not_called_for_others(
    find: Any, declare: Any
) -> None:
    declare(on.update, "a", "u")
    missed = find(Reason.UPDATE, SeenStates().add(V1, []).add(V2, ["a"]), "a")
    assert missed.essence == V1
    assert missed.kept["u"].success


def test_k37_parents_have_missed_what_their_subhandlers_have(find: Any, declare: Any) -> None:
    """Those of the sub-handlers that have seen more are not repeated with them."""
    declare(on.update, "p")
    seen = SeenStates().add(V1, []).add(V2, ["p_x"]).add(V3, ["p_x", "p_y"])
    missed = find(Reason.UPDATE, seen, "p", p_x=DONE_STATE, p_y=DONE_STATE)
    assert missed.essence == V1
    assert {*missed.kept} == {"p", "p_y"}
    assert not missed.kept["p"].finished
    assert missed.kept["p"].subrefs == {"p_x", "p_y"}


def test_k37_subhandlers_that_are_not_over_are_not_kept(find: Any, declare: Any) -> None:
    declare(on.update, "a", "p")
    seen = SeenStates().add(V1, []).add(V2, ["a"]).add(V3, ["a", "p"])
    going = HandlerState(started=NOW)
    missed = find(Reason.UPDATE, seen, "a", "p", p_x=DONE_STATE, p_y=going, p_z=None)
    assert {*missed.kept} == {"p", "p_x"}
