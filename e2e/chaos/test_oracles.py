"""The oracles themselves: each must see what it is for, and nothing in a good run."""

from __future__ import annotations

import json
import signal
from types import SimpleNamespace

import pytest

from e2e.chaos.driver.marks import LAST_HANDLED
from e2e.chaos.driver.notes import Note
from e2e.chaos.driver.oracles import MAX_RATE, TOKEN, TOLERANCES, Evidence, judge

END = {"point": "end", "pid": 1, "at": 0.0, "uid": "u", "name": "one", "outcome": "success"}
CREATED = Note(**END, handler="a", reason="create")


def make_object(spec, *, handled=None, **metadata):
    annotations = {} if handled is None else {LAST_HANDLED: json.dumps({"spec": handled})}
    return {"metadata": {"name": "one", "annotations": annotations, **metadata}, "spec": spec}


def make_process(*signals, code=0, log=()):
    return SimpleNamespace(signals=signals, code=code, log=log, tail="")


def make_requests(count, interval):
    target = SimpleNamespace(plural="kexes", name="one")
    return [SimpleNamespace(verb="patch", target=target, time=n * interval) for n in range(count)]


GOOD = {
    "notes": [CREATED],
    "processes": [make_process(signal.SIGTERM)],
    "requests": make_requests(10, 0.01),
    "objects": [make_object({"x": 1}, handled={"x": 1})],
}


def find(**evidence):
    return [problem.partition(":")[0] for problem in judge(Evidence(**(GOOD | evidence)))]


def test_good_runs_have_no_problems():
    assert find() == []


@pytest.mark.parametrize(
    "obj",
    [
        make_object({"x": 1}),
        make_object({"x": 2}, handled={"x": 1}),
        make_object({"x": 1}, handled={"x": 1}, deletionTimestamp="now"),
    ],
)
def test_o1_what_is_not_handled_is_lost(obj):
    assert find(objects=[obj]) == ["O1"]


def test_o2_each_kill_excuses_one_repetition():
    killed = make_process(signal.SIGKILL, code=-9)
    assert find(notes=[CREATED] * 2) == ["O2"]
    assert find(notes=[CREATED] * 2, processes=[killed]) == []
    assert find(notes=[CREATED] * 3, processes=[killed]) == ["O2"]


def test_o3_bursts_of_requests():
    assert find(requests=make_requests(MAX_RATE + 1, 0.001)) == ["O3"]
    assert find(requests=make_requests(MAX_RATE + 1, 0.011)) == []


def test_o4_zombies_and_silent_exits():
    assert find(blind=["kexes"]) == ["O4"]
    assert find(processes=[make_process(code=0)]) == ["O4"]
    assert find(processes=[make_process(code=1)]) == []


def test_o5_poison_that_delays_the_healthy():
    peaceful = [0.1, 0.2, 30.0]  # it is a slow machine
    assert find(delays=[0.1, 1.1, 40.0], peaceful_delays=peaceful) == []
    assert find(delays=[0.1, 1.3, 40.0], peaceful_delays=peaceful) == ["O5"]
    assert find(delays=[0.1, float("inf"), float("inf")], peaceful_delays=peaceful) == ["O5"]


def test_o6_tracebacks_and_secrets():
    assert find(processes=[make_process(signal.SIGTERM, log=[f"a {TOKEN}"])]) == ["O6"]
    traceback = "Traceback (most recent call last):"
    assert find(processes=[make_process(signal.SIGTERM, log=[traceback])]) == ["O6"]
    told = make_object({"x": TOKEN}, handled={"x": TOKEN})
    assert find(objects=[told]) == ["O6"]


def test_o7_other_ends_than_undisturbed():
    assert find(undisturbed=GOOD["objects"]) == []
    assert find(undisturbed=[make_object({"x": 2}, handled={"x": 2})]) == ["O7"]


@pytest.mark.parametrize("what", TOLERANCES)
def test_o8_what_has_leaked(what):
    first = dict.fromkeys(TOLERANCES, 1000)
    assert find(censuses=[first, first]) == []
    assert find(censuses=[first, {**first, what: 1000 + TOLERANCES[what]}]) == []
    assert find(censuses=[first, {**first, what: 1001 + TOLERANCES[what]}]) == ["O8"]


def test_tolerated_oracles_are_silent():
    assert judge(Evidence(**(GOOD | {"blind": ["kexes"]})), tolerated={"O4": "why"}) == []
