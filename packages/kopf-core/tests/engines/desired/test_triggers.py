"""When a pass is due, and what it is made for."""

from typing import Any

import pytest

from kopf_core.engines.desired.triggers import NEVER, Again, Plan, Trigger, digest
from kopf_core.engines.records.holds import FREE_ROUNDS, NO_LOOP, Loop

FIRST: Any = {"spec": {"a": 1}}
ESSENCE = digest(FIRST)
OTHER = digest({"spec": {"a": 2}})


def test_digests_differ_as_essences_do() -> None:
    assert digest({**FIRST}) == ESSENCE != OTHER


def test_new_objects_are_due_at_once() -> None:
    plan = Plan()
    plan.notice(ESSENCE)
    assert plan.next_time(100) == 100
    assert plan.take_triggers() == {Trigger("appeared")}
    assert plan.next_time(100) == NEVER


def test_s5_sets_of_triggers_are_readable() -> None:
    assert repr(frozenset({Trigger("appeared")})) == "frozenset({<appeared>})"
    assert repr(Trigger("child", "ConfigMap ns1/a")) == "<child: ConfigMap ns1/a>"
    assert str(Trigger("child", "ConfigMap ns1/a")) == "child: ConfigMap ns1/a"


def test_the_same_state_is_no_trigger_and_a_changed_one_is() -> None:
    plan = Plan(essence=ESSENCE)
    plan.notice(ESSENCE)
    assert plan.next_time(100) == NEVER
    plan.notice(OTHER)
    assert plan.take_triggers() == {Trigger("changed")}


def test_any_number_of_triggers_is_one_pass() -> None:
    plan = Plan(essence=ESSENCE)
    plan.triggers |= {Trigger("child", "Pod a"), Trigger("child", "Pod b")}
    plan.add(Trigger("child", "Pod a"))
    assert len(plan.take_triggers()) == 2
    assert not plan.triggers


def test_periods_ripen() -> None:
    plan = Plan(essence=ESSENCE, due={"every": 110.0, "again": 105.0})
    plan.ripen(100)
    assert plan.next_time(100) == 105
    plan.ripen(105)
    assert plan.take_triggers() == {Trigger("again")}


def test_retries_wait_whatever_happens_to_others() -> None:
    plan = Plan(essence=ESSENCE, retry=160.0)
    plan.add(Trigger("child", "Pod a"))
    assert plan.next_time(100) == 160


def test_retries_do_not_wait_when_the_object_itself_has_changed() -> None:
    plan = Plan(essence=ESSENCE, retry=160.0)
    plan.notice(OTHER)
    assert plan.next_time(100) == 100


def test_rate_limits_hold_everything() -> None:
    plan = Plan(essence=ESSENCE, rested=130.0)
    plan.notice(OTHER)
    assert plan.next_time(100) == 130


@pytest.mark.parametrize("after", [-1, float("inf"), float("nan"), "5", None])
def test_senseless_delays_are_refused(after: Any) -> None:
    with pytest.raises(ValueError, match="The delay must be a number"):
        Again(after)


def test_triggers_are_readable() -> None:
    assert str(Trigger("child", "Pod ns/a")) == "child: Pod ns/a"
    assert str(Trigger("every")) == "every"


def test_l1_rounds_of_own_changes_wait_but_other_triggers_do_not() -> None:
    plan = Plan(essence=ESSENCE, loop=Loop(rounds=FREE_ROUNDS, until=100.0))
    assert plan.notice(OTHER)
    plan.go_round(100, is_own=True)
    assert plan.next_time(100) == pytest.approx(100.2)
    plan.due["every"] = 100.1
    assert plan.next_time(100) == 100.1
    plan.add(Trigger("child", "Pod a"))
    assert plan.next_time(100) == 100


def test_l1_changes_by_others_end_the_loop_of_passes() -> None:
    plan = Plan(essence=ESSENCE, loop=Loop(rounds=FREE_ROUNDS, until=700.0))
    plan.notice(OTHER)
    plan.go_round(100, is_own=False)
    assert plan.loop is None
    assert plan.next_time(100) == 100


def test_l1_a_loop_is_endless_when_its_rounds_wait() -> None:
    plan, endless = Plan(essence=ESSENCE, loop=NO_LOOP), []
    for _ in range(FREE_ROUNDS + 1):
        plan.go_round(100, is_own=True)
        assert plan.loop is not None
        assert (plan.loop.until > 100) is plan.loop.is_endless
        endless.append(plan.loop.is_endless)
    assert endless == [*[False] * (FREE_ROUNDS - 1), True, True]
