"""Echoes: which events of our own patches need no turns."""

import logging

import pytest

from kopf_core.actions.effects import Applied
from kopf_core.engines.memories import ObjectMemories
from kopf_core.engines.records.writes import AwaitChange, LastWrite
from kopf_core.intents.registries import ResourceHandlers
from kopf_core.reactor.object.echoes import Echoes
from kopf_core.reactor.object.turns import Turn
from kopf_core.reactor.streams.work import DONE, Requeue, WorkItem

FINALIZER = "kopf.zalando.org/KopfFinalizerMarker"


def event(version="5", type="MODIFIED"):
    return {"type": type, "object": {"metadata": {"resourceVersion": version}}}


@pytest.fixture(autouse=True)
def usual_logs(caplog):
    caplog.set_level(logging.INFO, logger="kopf.objects")


@pytest.fixture
def memories():
    memories = ObjectMemories(None)
    memories.recall("a").write = LastWrite(version="5", is_final=True)
    return memories


@pytest.fixture
def item():
    item = WorkItem("a")
    item.rest = AwaitChange("5", until=999)
    return item


@pytest.fixture
def echoes(settings, memories):
    return Echoes(settings, ResourceHandlers(), memories)


def test_the_state_that_we_have_left_is_the_last_one(echoes, item):
    assert echoes.absorb(item, event())


def test_what_has_come_so_is_awaited_no_more(echoes, item, memories):
    memory = memories["a"]
    memory.write = memory.write._replace(awaited=item.rest)
    assert echoes.absorb(item, event())
    assert not memory.write.is_awaited(now=0)


@pytest.mark.parametrize(
    "other",
    [event("6"), event("4"), event(type="DELETED"), event(type=None)],
    ids=["changed", "older", "deleted", "listed"],
)
def test_all_other_events_need_turns(echoes, item, other):
    assert not echoes.absorb(item, other)


@pytest.mark.parametrize("rest", [DONE, Requeue(at=999), AwaitChange("4", until=999)])
def test_those_who_wait_for_something_else_need_turns(echoes, item, rest):
    item.rest = rest
    assert not echoes.absorb(item, event())


def test_h3_the_same_object_in_another_version_of_its_kind_needs_turns(echoes, item, memories):
    memories["a"].write = LastWrite(version="5", kind="x/v1", is_final=True)
    v1, v2 = event(), event()
    v1["object"]["apiVersion"], v2["object"]["apiVersion"] = "x/v1", "x/v2"
    assert echoes.absorb(item, v1)
    assert not echoes.absorb(item, v2)


def test_cycles_that_go_on_need_turns(echoes, item, memories):
    memories["a"].write = LastWrite(version="5")
    assert not echoes.absorb(item, event())


def test_unknown_objects_need_turns(echoes, item, memories):
    memories.forget("a")
    assert not echoes.absorb(item, event())


def test_objects_that_are_to_be_processed_anyway_need_turns(echoes, item):
    item.reasons = frozenset({"background"})
    assert not echoes.absorb(item, event())
    item.reasons, item.wanted_at = frozenset(), 123.0
    assert not echoes.absorb(item, event())


@pytest.mark.parametrize("kind", ["watching", "spawning", "reconciling"])
def test_those_who_need_more_than_changes_need_turns(settings, item, memories, kind):
    class Handlers:
        changing = watching = spawning = reconciling = ()

    setattr(Handlers, kind, ("handler",))
    assert not Echoes(settings, Handlers(), memories).absorb(item, event())


def test_turns_are_made_if_people_look_at_all_details(echoes, item, caplog):
    caplog.set_level(logging.DEBUG, logger="kopf.objects")
    assert not echoes.absorb(item, event())


class Plans:
    """Stands for the engine of desired states, as far as it tells when to make passes."""

    def __init__(self, *, is_indifferent=True, rest=float("inf")):
        self.is_indifferent, self.rest = is_indifferent, rest

    def get_rest(self, key):
        return self.rest


@pytest.mark.parametrize(
    ("plans", "others", "is_last"),
    [
        (Plans(), (), True),
        (Plans(rest=10.0), (), False),
        (Plans(rest=0.0), (), False),
        (Plans(is_indifferent=False), (), False),
        (Plans(), ("handler",), False),
    ],
    ids=["nothing is due", "later", "now", "depends on the status", "with other handlers"],
)
def test_own_status_is_the_last_one_if_no_pass_is_to_be_made(
    item, settings, memories, plans, others, is_last
):
    class Handlers:
        watching = spawning = ()
        changing = others
        reconciling = ("handler",)

    assert Echoes(settings, Handlers(), memories, plans).absorb(item, event()) is is_last


@pytest.mark.parametrize(
    ("change", "is_settled"),
    [
        pytest.param({"status": {"x": 1}}, True, id="status"),
        pytest.param({"spec": {"x": 1}}, False, id="spec"),
        pytest.param({"metadata": {"labels": {"x": "1"}}}, False, id="labels"),
        pytest.param({"metadata": {"finalizers": [FINALIZER]}}, False, id="finalizer"),
    ],
)
@pytest.mark.parametrize("was_blocked", [False, True], ids=["free", "blocked"])
def test_k37_only_own_statuses_are_recognised(settings, item, change, is_settled, was_blocked):
    """With the finalizer on the object, it can be its turn to be removed."""

    class Handlers:
        watching = spawning = changing = ()
        reconciling = ("handler",)

    memories = ObjectMemories(None)
    metadata = {"name": "x", **({"finalizers": [FINALIZER]} if was_blocked else {})}
    before = {"metadata": {**metadata, "resourceVersion": "4"}, "status": {}, "spec": {}}
    metadata = {**metadata, **change.get("metadata", {}), "resourceVersion": "5"}
    after = {**before, **change, "metadata": metadata}
    turn = Turn(item, memories.recall("a"), settings)
    turn.applied = Applied(body=after)
    Echoes(settings, Handlers(), memories, Plans()).remember(turn, before)
    assert memories["a"].write.has_left(after) is (is_settled and not was_blocked)
