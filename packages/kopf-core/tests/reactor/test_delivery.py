"""Whether the object is as we have left it: only then its echo from the API is of no interest."""

import asyncio
import copy
from typing import Any
from unittest.mock import Mock

import pytest

from kopf_cogs.aiokits.clocks import FakeClock
from kopf_cogs.clients.errors import APIForbiddenError
from kopf_cogs.configs.settings import OperatorSettings
from kopf_cogs.structs.keys import ObjectKey
from kopf_cogs.structs.patches import Patch
from kopf_core.actions.effects import Applied
from kopf_core.actions.execution import Execution
from kopf_core.actions.lifecycles import asap
from kopf_core.actions.marks import Marks
from kopf_core.engines.leasing.fences import FencedError
from kopf_core.engines.memories import ObjectMemories, ObjectMemory
from kopf_core.engines.records.owed import Owed
from kopf_core.engines.records.stages import Cycle, Stage
from kopf_core.engines.records.writes import DOUBTED, AwaitChange, LastWrite
from kopf_core.reactor.object.deciding import ROWS
from kopf_core.reactor.object.delivery import Delivery, is_only_marked
from kopf_core.reactor.object.turns import Turn
from kopf_core.reactor.streams.work import WorkItem

BEFORE: Any = {
    "kind": "KopfExample",
    "metadata": {
        "name": "name1",
        "resourceVersion": "1",
        "labels": {"label": "value"},
        "annotations": {"theirs": "value", "ours/progress": "{}"},
        "managedFields": [{"manager": "kubectl"}],
    },
    "spec": {"field": [1, 2, 3]},
}
MARKS: Any = {"metadata": {"annotations": {"ours/progress": None, "ours/handled": '{"spec":{}}'}}}


def make_after() -> Any:
    after = copy.deepcopy(BEFORE)
    after["metadata"]["resourceVersion"] = "2"
    after["metadata"]["managedFields"] = [{"manager": "kopf"}]
    after["metadata"]["annotations"] = {"theirs": "value", "ours/handled": '{"spec":{}}'}
    return after


def make_turn(marks: Any = MARKS, patch: Any = ()) -> Turn:
    key: Any = ObjectKey
    memory = ObjectMemory(None, is_listed=False)
    memory.owed = Owed(Marks(copy.deepcopy(marks)), Patch(patch))
    return Turn(WorkItem(key), memory, OperatorSettings())


def test_only_our_annotations_are_changed() -> None:
    assert is_only_marked(BEFORE, make_after(), make_turn())


def test_the_first_annotations_are_ours() -> None:
    before, after = copy.deepcopy(BEFORE), make_after()
    del before["metadata"]["annotations"]
    del after["metadata"]["annotations"]["theirs"]
    assert is_only_marked(before, after, make_turn())


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("spec",), {"field": [1, 2]}),
        (("spec", "field"), [1, 2]),
        (("status",), {"phase": "changed"}),
        (("metadata", "labels"), {"label": "changed"}),
        (("metadata", "generation"), 2),
        (("metadata", "finalizers"), ["finalizer"]),
        (("metadata", "deletionTimestamp"), "2020-01-01T00:00:00Z"),
        (("metadata", "annotations"), {"ours/handled": '{"spec":{}}'}),
        (("metadata", "annotations", "theirs"), "changed"),
        (("metadata", "annotations", "added"), "value"),
        (("metadata", "annotations", "ours/handled"), '{"spec":{"mutated":true}}'),
        (("metadata", "annotations", "ours/progress"), "{}"),
    ],
)
def test_changes_made_meanwhile_by_others_or_by_webhooks(path: Any, value: Any) -> None:
    after = branch = make_after()
    for key in path[:-1]:
        branch = branch[key]
    branch[path[-1]] = value
    assert not is_only_marked(BEFORE, after, make_turn())


@pytest.mark.parametrize(
    "marks",
    [
        {},
        {"status": {"handler": "result"}},
        {**MARKS, "status": {"handler": "result"}},
        {"metadata": {**MARKS["metadata"], "labels": {"label": "value"}}},
    ],
)
def test_other_changes_of_ours(marks: Any) -> None:
    assert not is_only_marked(BEFORE, make_after(), make_turn(marks))


def test_changes_of_finalizers() -> None:
    turn = make_turn()
    turn.marks.fns.append(lambda body: None)
    assert not is_only_marked(BEFORE, make_after(), turn)


def test_changes_of_handlers() -> None:
    assert not is_only_marked(BEFORE, make_after(), make_turn(patch={"spec": {}}))


def make_delivery() -> Delivery:
    client: Any = Mock()
    client.get.side_effect = APIForbiddenError(None, status=403)
    resource: Any = Mock()
    return Delivery(
        client=client,
        resource=resource,
        execution=Execution(OperatorSettings(), asap, clock=FakeClock()),
    )


def make_event(version: str, type: Any = None) -> Any:
    return {"type": type, "object": {"metadata": {"name": "x", "resourceVersion": version}}}


def test_r2_a14_lists_from_the_past_do_not_make_us_forget_our_own_patches() -> None:
    """The pages of a list are as old as the first one, and we patch the objects meanwhile."""
    delivery, turn = make_delivery(), make_turn()
    turn.item.latest = make_event("10")["object"]
    turn.memory.write = LastWrite(floor=10, awaited=AwaitChange("10", 5))
    delivery.notice(turn, make_event("9"))
    assert turn.item.latest == make_event("10")["object"]
    assert turn.memory.write.awaited is not None
    assert turn.memory.write.floor == 10


def is_doubtful(turn: Turn) -> bool:
    (row,) = [row for row in ROWS if row.name == "the state is doubtful"]
    rules: Any = None
    return bool(row.when(turn, rules))


def test_k19_what_the_stream_contradicts_is_doubted_until_it_brings_something_newer() -> None:
    """While the stream is late, it is so after every patch: it is looked at only if it remains."""
    delivery, turn = make_delivery(), make_turn()
    turn.item.latest, turn.item.type = make_event("10", "MODIFIED")["object"], "MODIFIED"
    delivery.notice(turn, make_event("9", "MODIFIED"))
    assert is_doubtful(turn)
    delivery.notice(turn, make_event("10", "MODIFIED"))
    assert not is_doubtful(turn)
    delivery.notice(turn, make_event("9", "MODIFIED"))
    delivery.notice(turn, make_event("11", "MODIFIED"))
    assert not is_doubtful(turn)
    turn.memory.write = LastWrite(floor=12)
    assert is_doubtful(turn)


def test_r2_lists_from_the_past_are_outdated_when_the_object_is_not_in_the_queue() -> None:
    delivery, turn = make_delivery(), make_turn()
    turn.memory.write = LastWrite(floor=10)
    delivery.notice(turn, make_event("9"))
    assert turn.memory.write.outdates(make_event("9")["object"])
    delivery.notice(turn, make_event("10"))
    assert not turn.memory.write.outdates(make_event("10")["object"])


def test_r2_a14_lists_of_restored_clusters_are_the_newest_states() -> None:
    memories = ObjectMemories(None)
    delivery, turn = make_delivery(), make_turn()
    turn.memory = memories.recall("uid")
    turn.item.latest = make_event("10")["object"]
    turn.memory.write = LastWrite(floor=10, awaited=AwaitChange("10", 5))
    memories.doubt_versions()
    delivery.notice(turn, make_event("9"))
    assert turn.item.latest == make_event("9")["object"]
    assert turn.memory.write == DOUBTED
    turn.memory.write = LastWrite(floor=11)
    delivery.notice(turn, make_event("9"))
    assert turn.memory.write.floor == 11


@pytest.mark.parametrize("stage", [Stage.RELEASED, Stage.FREED])
@pytest.mark.parametrize(
    ("is_ongoing", "expected"), [(True, Stage.RELEASED), (False, Stage.HANDLED)]
)
async def test_c4_what_was_released_is_released_again_in_restored_clusters(
    stage: Stage, is_ongoing: bool, expected: Stage
) -> None:
    """Without the permission to request objects, the list is trusted."""
    delivery, turn = make_delivery(), make_turn()
    event = make_event("9")
    if is_ongoing:
        event["object"]["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z"
        event["object"]["metadata"]["finalizers"] = [turn.settings.persistence.finalizer]
    turn.memory.cycle = Cycle(stage)
    delivery.notice(turn, event)
    assert turn.memory.cycle.stage is stage  # it can be a list from the past
    turn.memory.write = DOUBTED
    delivery.notice(turn, event)
    assert turn.memory.cycle.stage is stage
    assert is_doubtful(turn)
    await delivery.look(turn)
    assert turn.memory.cycle.stage is expected
    assert not is_doubtful(turn)


@pytest.mark.parametrize(
    ("marks", "awaited"), [(MARKS, AwaitChange("20", 5)), ({}, AwaitChange("10", 3))]
)
async def test_o1_only_our_marks_prolong_the_wait(
    marks: Any, awaited: AwaitChange, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def accept(**_: Any) -> Applied:
        return Applied(make_event("20")["object"])

    monkeypatch.setattr("kopf_core.reactor.object.delivery.apply_patches", accept)
    delivery, turn = make_delivery(), make_turn(marks, {"status": {"seen": 1}})
    turn.item.latest = make_event("9")["object"]
    turn.memory.write = LastWrite(awaited=AwaitChange("10", 3))
    turn.marks.results["status"] = {"handler": 1}
    assert await delivery.apply_early(turn) == turn.memory.write.awaited == awaited
    assert turn.item.latest == make_event("20")["object"]
    assert turn.memory.write.floor == 20
    delivery.notice(turn, make_event("10", "MODIFIED"))
    assert (turn.memory.write.awaited is None) == (awaited.version == "10")
    assert turn.item.latest == make_event("20")["object"]


@pytest.mark.parametrize(
    ("types", "is_there"),
    [(["ADDED", "MODIFIED"], True), (["DELETED", "ADDED"], True), (["MODIFIED", "DELETED"], False)],
)
def test_o1_the_newest_states_are_known_before_they_are_handled(
    types: list[str], is_there: bool
) -> None:
    delivery, turn = make_delivery(), make_turn()
    turn.item.latest = make_event("9")["object"]
    turn.memory.write = LastWrite(awaited=AwaitChange("10", 3))
    turn.item.events.extend(make_event(f"{n}", type) for n, type in enumerate(types, start=10))
    assert delivery.look_ahead(turn) == is_there
    assert turn.item.latest == make_event("11" if is_there else "9")["object"]
    assert (turn.memory.write.awaited is None) == is_there
    assert len(turn.item.events) == 2


@pytest.mark.parametrize("newest", [make_event("8", "MODIFIED"), make_event("10")], ids=str)
def test_o1_states_from_the_past_are_not_looked_ahead_for(newest: Any) -> None:
    delivery, turn = make_delivery(), make_turn()
    turn.item.latest = make_event("9")["object"]
    turn.item.events.append(newest)
    assert delivery.look_ahead(turn)
    assert turn.item.latest == make_event("9")["object"]


@pytest.mark.parametrize("failure", [ConnectionError("x"), FencedError("x")], ids=repr)
async def test_o2_k8_what_cannot_be_sent_in_the_last_moment_is_kept(
    failure: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(**_: Any) -> Any:
        raise failure

    monkeypatch.setattr("kopf_core.reactor.object.delivery.apply_patches", refuse)
    turn = make_turn()
    turn.item.latest = BEFORE
    await make_delivery().save(turn)
    assert turn.marks == MARKS  # to be sent by the next turn


async def test_k15_repeated_cancellations_do_not_interrupt_the_last_patch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent, answered = asyncio.Event(), asyncio.Event()

    async def send(**_: Any) -> Any:
        sent.set()
        await answered.wait()
        return Applied(make_after())

    monkeypatch.setattr("kopf_core.reactor.object.delivery.apply_patches", send)
    turn = make_turn()
    turn.item.latest = BEFORE
    task = asyncio.create_task(make_delivery().save(turn))
    await sent.wait()
    for _ in range(3):
        task.cancel()
        await asyncio.sleep(0)
    answered.set()
    await task
    assert not turn.is_changing
    assert turn.item.latest == make_after()


async def test_k15_the_last_patch_has_only_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = asyncio.Event()

    async def hang(**_: Any) -> Any:
        sent.set()
        await asyncio.Event().wait()

    monkeypatch.setattr("kopf_core.reactor.object.delivery.LAST_MOMENT", 0.001)
    monkeypatch.setattr("kopf_core.reactor.object.delivery.apply_patches", hang)
    turn = make_turn()
    turn.item.latest = BEFORE
    await make_delivery().save(turn)
    assert sent.is_set()
    assert turn.marks == MARKS
