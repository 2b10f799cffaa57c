"""The table of decisions: it is total, and every row of it can be reached."""

import pytest

from kopf_cogs.structs.bodies import Body
from kopf_core.actions.execution import Execution
from kopf_core.actions.lifecycles import asap
from kopf_core.actions.marks import Marks
from kopf_core.engines.memories import ObjectMemories
from kopf_core.engines.records.holds import Loop
from kopf_core.engines.records.owed import Owed
from kopf_core.engines.records.stages import HANDLED, Cycle, Stage
from kopf_core.engines.records.writes import AwaitChange, LastWrite
from kopf_core.intents import decorators as on
from kopf_core.intents.causes import Reason
from kopf_core.reactor.object.deciding import ROWS, Act, Rules, decide
from kopf_core.reactor.object.echoes import Echoes
from kopf_core.reactor.object.idleness import digest
from kopf_core.reactor.object.reconciliation import Reconciler
from kopf_core.reactor.object.turns import Turn
from kopf_core.reactor.streams.work import Requeue, WorkItem

FINALIZER = "kopf.zalando.org/KopfFinalizerMarker"
PAUSED = {"annotations": {"kopf.zalando.org/paused": "please"}}


class Background:
    """Stands for the engine of daemons and timers."""

    running = False

    def is_running(self, key):
        return self.running

    def get_finished(self, key):
        return ()


class Desired:
    """Stands for the engine of desired states."""

    is_indifferent = True
    rest = 0.0
    is_needed = False

    def get_rest(self, key):
        return self.rest

    def needs_finalizer(self, key, *, is_held):
        return self.is_needed


class Cause:
    """Stands for the detected cause."""

    def __init__(self, reason, body):
        self.reason, self.body = reason, body


@pytest.fixture
def case(settings, resource, registry):
    return Case(settings, resource, registry)


class Case:
    """One object, and the rules for it: as a test describes them."""

    def __init__(self, settings, resource, registry):
        settings.execution.honor_pauses = True
        self.settings, self.resource, self.registry = settings, resource, registry
        self.background, self.desired, self.takeovers = Background(), None, None
        self.memories = ObjectMemories(None)
        self.item = WorkItem("u")
        self.memory = self.memories.recall("u")
        self.reason = Reason.UPDATE
        self.cause_body = {"metadata": {}}

    def know(self, version="5", type="MODIFIED", **meta):
        self.item.latest = {"metadata": {"name": "x", "resourceVersion": version, **meta}}
        self.item.type = type

    def see(self, **meta):
        body = {"metadata": {"name": "x", "resourceVersion": "6", **meta}}
        self.item.take({"type": "MODIFIED", "object": body}, keep=True)

    def find(self, after=None):
        """The name of the row that applies; the first one after the given one."""
        handlers = self.registry.get_resource_handlers(self.resource)
        execution = Execution(settings=self.settings, lifecycle=asap)
        rules = Rules(
            execution=execution,
            handlers=handlers,
            background=self.background,
            echoes=Echoes(self.settings, handlers, self.memories, self.desired),
            desired=self.desired,
            takeovers=self.takeovers,
        )
        names = [row.name for row in rules.rows]
        turn = Turn(self.item, self.memory, self.settings)
        turn.cause = Cause(self.reason, Body(self.cause_body))
        execution.door.is_shut = getattr(self, "is_shut", False)
        return names[decide(turn, rules, 0 if after is None else names.index(after) + 1)]

    def change(self):
        self.memory.owed = Owed(Marks({"status": {}}), None)


def declare(registry, kind="update"):
    getattr(on, kind)("kopfexamples", registry=registry, **_OPTIONS.get(kind, {}))(_nothing)


_OPTIONS = {"reconcile": {"owns": ["configmaps"]}}


async def _nothing(**_): ...


def test_l_rows_have_different_names():
    assert len({row.name for row in ROWS}) == len(ROWS)


def test_l_the_table_is_total():
    last = ROWS[-1]
    assert last.act is Act.HANDLE
    assert last.when(None, None)
    assert last.given(None)


def test_l_every_act_is_used_and_has_a_method():
    assert {row.act for row in ROWS} == {*Act}
    assert all(hasattr(Reconciler, f"_{act.name.lower()}") for act in Act)


def test_l_shut_doors_win_over_everything(case):
    case.is_shut = True
    case.see(**PAUSED)
    assert case.find() == "the door is shut"


def test_l_held_changes_are_judged_before_anything_is_sent(case):
    case.memory.owed = Owed(Marks({"status": {}}), None, base={"metadata": {}})
    case.see(**PAUSED)
    assert case.find() == "a pause has held changes"


def test_l_paused_objects_are_left_alone(case):
    case.see(**PAUSED)
    assert case.find() == "people pause the object"
    case.item.events.appendleft(case.item.events[0])
    assert case.find(after="there are events") == "people pause the object meanwhile"
    case.settings.execution.honor_pauses = False
    assert case.find() == "there are events"


def test_l_paused_objects_go_on(case):
    case.memory.holds = case.memory.holds._replace(is_paused=True)
    case.see()
    assert case.find() == "people have unpaused the object"


def test_l_events_are_handled_even_if_the_object_is_held(case):
    case.item.rest = Requeue(at=999, is_held=True)
    case.see()
    assert case.find() == "there are events"
    case.item.events.clear()
    assert case.find() == "the object is held"


def test_l_echoes_wait_if_handlers_of_events_change_the_object_for_them(case, registry):
    row = "handlers of events change the object for its own echoes"
    case.memory.write = LastWrite(floor=6)
    case.memory.holds = case.memory.holds._replace(events=Loop(rounds=99, until=float("inf")))
    case.see()
    assert case.find() == "there are events"
    declare(registry, "event")
    assert case.find() == row
    case.see(resourceVersion="7")
    assert case.find() == "there are events"


def test_l_what_is_left_of_events_is_caught_up(case):
    case.see()
    assert case.find(after="the object is held") == "more events are left"
    assert case.find(after="more events are left") == "another part has asked for the turn"


def test_l_wishes_adjust_the_background(case):
    case.know()
    case.item.reasons = frozenset({"background"})
    assert case.find() == "another part has asked for the turn"


def test_l_objects_only_looked_at_are_left_as_they_are(case, registry):
    declare(registry, "event")
    case.know()
    assert case.find() == "the operator only looks at the object"
    case.change()
    assert case.find() == "changes are owed"
    assert case.find(after="changes are owed") == "nothing of ours is on the object"
    case.know(finalizers=[FINALIZER])
    assert case.find() == "changes are owed"
    assert case.find(after="changes are owed") == "something can have changed"


@pytest.mark.parametrize(
    ("type", "stage", "is_contradicted", "expected"),
    [
        ("DELETED", Stage.NEW, False, "the object is deleted"),
        ("DELETED", Stage.ABSENT, False, "the object is deleted"),
        ("DELETED", Stage.NEW, True, "the absence is contradicted"),
        ("MODIFIED", Stage.ABSENT, True, "the absence is contradicted"),
        ("MODIFIED", Stage.ABSENT, False, "the object is absent"),
    ],
)
def test_l_absent_objects(case, registry, type, stage, is_contradicted, expected):
    declare(registry)
    case.know(type=type)
    case.memory.cycle = Cycle(stage)
    case.item.is_contradicted = is_contradicted
    assert case.find() == expected


def test_l_unknown_objects_rest(case, registry):
    declare(registry)
    assert case.find() == "the state is unknown"


def test_l_own_patches_are_awaited(case, registry):
    declare(registry)
    case.know()
    case.memory.write = LastWrite(floor=5, awaited=AwaitChange("5", until=float("inf")))
    assert case.find() == "our patch has not come back"
    case.change()
    row = "our patch has not come back, and there are changes"
    assert case.find(after="changes are owed") == row


def test_l_doubtful_and_outdated_states(case, registry):
    declare(registry)
    case.know(version="4")
    case.memory.write = LastWrite(floor=5)
    assert case.find() == "the state is doubtful"
    assert case.find(after="the state is doubtful") == "the state is outdated"


def test_l_own_echoes_are_recognised(case, registry):
    declare(registry)
    case.know()
    case.memory.write = LastWrite(floor=5, version="5", is_final=True)
    assert case.find() == "it is our own echo"


def test_m_changes_of_the_status_alone_are_not_compared_with_the_last_handled_state(case, registry):
    declare(registry)
    case.know(version="5")
    case.memory.cycle, case.memory.idle = HANDLED, digest(case.item.latest)
    case.know(version="6", managedFields=[{"manager": "other"}])
    case.item.latest["status"] = {"phase": "Ready"}
    assert case.find() == "only the status has changed"
    case.item.latest["metadata"]["labels"] = {"a": "b"}
    assert case.find() == "something can have changed"


def test_l_echoes_of_passes_rest_and_others_take_places(case, registry):
    declare(registry, "reconcile")
    case.desired = Desired()
    case.know()
    case.memory.write = LastWrite(floor=5, version="5", is_final=True)
    case.desired.rest = 10.0
    assert case.find() == "it is the echo of a pass"
    case.desired.rest = 0.0
    assert case.find() == "only passes can be made"
    declare(registry)
    assert case.find() == "something can have changed"


def test_l_new_leaders_verify(case, registry):
    declare(registry)
    case.know()
    case.takeovers = object()
    assert case.find() == "the lease was taken over"
    assert case.find(after="the lease was taken over") == "something can have changed"


@pytest.mark.parametrize(
    ("reason", "stage", "expected"),
    [
        (Reason.FREE, Stage.HANDLED, "it is being deleted without our finalizer"),
        (Reason.DELETE, Stage.FREED, "the finalizer was removed already"),
        (Reason.DELETE, Stage.HANDLED, "otherwise"),
        (Reason.DELETE, Stage.RELEASED, "otherwise"),
        (Reason.UPDATE, Stage.HANDLED, "otherwise"),
        (Reason.NOOP, Stage.HANDLED, "otherwise"),
    ],
)
def test_l_causes_decide(case, registry, reason, stage, expected):
    declare(registry)
    case.know()
    case.reason, case.memory.cycle = reason, Cycle(stage)
    assert case.find(after="something can have changed") == expected


def test_l_children_are_cleaned_up_once(case, registry):
    declare(registry, "reconcile")
    case.desired = Desired()
    case.know()
    case.reason = Reason.DELETE
    row = "it is being deleted, and can have children"
    assert case.find(after="something can have changed") == row
    case.memory.cycle = Cycle(Stage.RELEASED)
    assert case.find(after="something can have changed") == "otherwise"


def test_l_finalizers_are_fixed_but_not_under_running_daemons(case, registry):
    declare(registry, "delete")
    row = "the finalizer is missing or not needed"
    assert case.find(after="something can have changed") == row
    case.cause_body = {"metadata": {"finalizers": [FINALIZER]}}
    assert case.find(after="something can have changed") == "otherwise"
    case.registry = type(registry)()
    assert case.find(after="something can have changed") == row
    case.background.running = True
    assert case.find(after="something can have changed") == "otherwise"
