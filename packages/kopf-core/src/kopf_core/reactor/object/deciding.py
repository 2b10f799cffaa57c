"""The decisions about an object in a turn, as one table.

A turn is one walk down the table. The first row that applies names an act. Most acts end the turn:
they say what the object waits for. After the other acts, the walk goes on with the rows below. The
last row always applies, so every turn ends.

The conditions are pure. They look at the turn (the item of the queue, and the record of the object)
and at the rules, which do not change while the operator runs. Only the acts change anything: they
are the methods of :class:`~kopf_core.reactor.object.reconciliation.Reconciler`.
"""

import enum
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from kopf_cogs.structs.bodies import RawBody
from kopf_cogs.structs.finalizers import is_deletion_blocked, is_deletion_ongoing
from kopf_core.actions.execution import Execution
from kopf_core.engines.background import BackgroundEngine
from kopf_core.engines.records.stages import Stage
from kopf_core.intents.causes import Reason
from kopf_core.intents.registries import ResourceHandlers
from kopf_core.reactor.object.echoes import Echoes
from kopf_core.reactor.object.idleness import Idleness
from kopf_core.reactor.object.loops import has_echoes_only
from kopf_core.reactor.object.object_pauses import find_pause
from kopf_core.reactor.object.turns import Turn

if TYPE_CHECKING:  # their import takes time, and few operators need them
    from kopf_core.engines.desired.desired_states import DesiredStates
    from kopf_core.engines.sharding.shares import Share
    from kopf_core.reactor.object.takeovers import Takeovers


@enum.unique
class Act(enum.Enum):
    """The steps that a turn can take. The texts are for the table in the documentation."""

    DROP = "drop the events; end"
    LEAVE = "drop the events, and leave the object to its owner; end"
    JUDGE = "drop the owed changes if others have handled the object meanwhile"
    LEAVE_ALONE = "keep the newest state only, stop daemons and timers; end"
    GO_ON = "tell that the pause is over"
    HOLD_BACK = "take the state, but leave the events to a later turn"
    OBSERVE = "call the handlers of events, adjust daemons and timers; for each event in order"
    WAIT = "wait until the hold ends; end"
    CATCH_UP = "take the newest state, and leave the other events to the next turn"
    ADJUST = "adjust daemons and timers"
    REST = "wait until something happens to the object; end"
    FORGET = "forget the object; end"
    LOOK = "request the object, and take the reply as its newest state"
    SEND_OWED = "send the owed changes; end if they change the object"
    SEND_EARLY = "send the changes by the handlers of events; end"
    SEND = "send the changes by the handlers of events, if there are any; end"
    AWAIT = "wait for the awaited version, or until its deadline; end"
    IGNORE = "log that no change is left, and send the changes by the handlers of events; end"
    REST_OF_PASSES = "wait until the next pass is due; end"
    TAKE_PLACE = "end if there is no place for a pass; a free place brings the next turn"
    VERIFY = "request the object, unless its state is surely newer than the takeover"
    DETECT = "compare the state with the last handled one"
    LET_GO = "log that the deletion needs nothing, and send the changes by handlers of events; end"
    CLEAN_UP = "delete the children that Kubernetes does not delete; end until they are gone"
    FIX_FINALIZER = "add or remove the finalizer; end, unless others undo that"
    HANDLE = (
        "call the due handlers or make the due passes, "
        "remove the finalizer of a handled deletion, and send all changes; end"
    )


class Rules:
    """The inputs of the decisions that stay the same while the objects of one kind are served."""

    def __init__(
        self,
        *,
        execution: Execution,
        handlers: ResourceHandlers,
        background: BackgroundEngine,
        echoes: Echoes,
        desired: "DesiredStates | None" = None,
        takeovers: "Takeovers | None" = None,
        share: "Share | None" = None,
    ) -> None:
        self.settings = settings = execution.settings
        self.handlers = handlers
        self.clock = execution.clock
        self.door = execution.door
        self.background = background
        self.echoes = echoes
        self.desired = desired
        self.takeovers = takeovers
        self.share = share
        """The objects that this process handles, if other processes handle the rest."""

        self.finalizer = settings.persistence.finalizer
        """The name of our finalizer."""

        self.leaves_marks = handlers.requires_patching
        """Whether there are handlers that leave marks on objects."""

        self.idleness = Idleness(settings, handlers)
        """Recognises the objects of which only the status has changed."""

        self.rows = tuple(row for row in ROWS if row.given(self))
        """The rows of the table that are possible under these rules."""

        steps = tuple((number, row.when) for number, row in enumerate(self.rows))
        self.walks: tuple[Walk, ...] = tuple(steps[number:] for number, _ in steps)
        """For each possible row: the walk that begins with it."""

    def can_be_marked(self, body: RawBody) -> bool:
        """Whether the object can have marks of ours, by our handlers or by its finalizers."""
        return self.leaves_marks or is_deletion_blocked(body, self.finalizer)

    def requires_finalizer(self, turn: Turn) -> bool:
        """Whether a handler, a daemon, or a reconciler must see the deletion of the object."""
        cause, key = turn.cause, turn.item.key
        if self.handlers.requires_finalizer(cause, self.background.get_finished(key)):
            return True
        return self.desired is not None and self.desired.needs_finalizer(
            key, is_held=is_deletion_blocked(cause.body, self.finalizer)
        )


Condition = Callable[[Turn, Rules], object]
Walk = tuple[tuple[int, Condition], ...]
"""The numbers and conditions of rows, from some row down to the last one."""


class Row(NamedTuple):
    """One decision."""

    name: str
    when: Condition
    act: Act
    why: str
    given: Callable[[Rules], object] = lambda _: True
    """Under which rules the row is possible; impossible rows are left out, and cost nothing."""


def _is_untouched(turn: Turn, rules: Rules) -> bool:
    latest = turn.item.latest
    return not (
        latest is None
        or turn.item.type == "DELETED"
        or turn.is_changing
        or turn.memory.owed.carried
        or rules.can_be_marked(latest)
    )


def _is_unmarked(turn: Turn, rules: Rules) -> bool:
    return turn.item.latest is not None and not rules.can_be_marked(turn.item.latest)


def _is_awaited(turn: Turn, rules: Rules) -> bool:
    write = turn.memory.write
    return write.awaited is not None and write.is_awaited(rules.clock.monotonic())


def _is_doubtful(turn: Turn, _: Rules) -> bool:
    return (
        turn.item.is_contradicted
        or turn.memory.write.is_doubted
        or turn.is_outdated
        or _is_undeleted(turn)
    )


def _is_back(turn: Turn, _: Rules) -> bool:
    is_absent = turn.item.type == "DELETED" or turn.memory.cycle.stage is Stage.ABSENT
    return is_absent and turn.item.is_contradicted


def _is_undeleted(turn: Turn) -> bool:
    is_left = turn.memory.cycle.stage in (Stage.RELEASED, Stage.FREED)
    return is_left and not is_deletion_ongoing(turn.body)


def _needs_only_passes(turn: Turn, _: Rules) -> bool:
    return not (turn.is_changing or is_deletion_ongoing(turn.body))


def _is_deleting(turn: Turn, stage: Stage) -> bool:
    return turn.cause.reason is Reason.DELETE and turn.memory.cycle.stage is stage


def _can_have_children(turn: Turn, _: Rules) -> bool:
    is_deleting = turn.cause.reason is Reason.DELETE
    return is_deleting and turn.memory.cycle.stage is not Stage.RELEASED


def _has_wrong_finalizer(turn: Turn, rules: Rules) -> bool:
    if turn.cause.reason is Reason.DELETE:
        return False
    is_blocked = is_deletion_blocked(turn.cause.body, rules.finalizer)
    if rules.requires_finalizer(turn) is is_blocked:
        return False
    return not (is_blocked and rules.background.is_running(turn.item.key))


ROWS = (
    Row(
        "the door is shut",
        lambda turn, rules: not rules.door.is_open,
        Act.DROP,
        "the operator is paused or does not lead; it lists everything anew afterwards",
    ),
    Row(
        "another process has the shard of the object",
        lambda turn, rules: rules.share is not None and not rules.share.has(turn.item.key),
        Act.LEAVE,
        "each object is handled by one of the processes; that one has its events, too",
        given=lambda rules: rules.share is not None,
    ),
    Row(
        "a pause has held changes",
        lambda turn, _: turn.memory.owed.base is not None,
        Act.JUDGE,
        "another operator can have handled the object during the pause",
    ),
    Row(
        "people pause the object",
        lambda turn, _: find_pause(turn) is not None,
        Act.LEAVE_ALONE,
        "the annotation asks for it; a deletion is never held",
        given=lambda rules: rules.settings.execution.honor_pauses,
    ),
    Row(
        "people have unpaused the object",
        lambda turn, _: turn.memory.holds.is_paused,
        Act.GO_ON,
        "the annotation is gone",
        given=lambda rules: rules.settings.execution.honor_pauses,
    ),
    Row(
        "handlers of events change the object for its own echoes",
        lambda turn, rules: turn.memory.holds.events.until and has_echoes_only(turn, rules.clock),
        Act.HOLD_BACK,
        "each such change brings the next echo: they would call each other for ever",
        given=lambda rules: bool(rules.handlers.watching),
    ),
    Row(
        "there are events",
        lambda turn, _: turn.item.events,
        Act.OBSERVE,
        "the handlers of events are promised every event",
    ),
    Row(
        "people pause the object meanwhile",
        lambda turn, _: turn.item.events and find_pause(turn) is not None,
        Act.LEAVE_ALONE,
        "one of the events was the pause",
        given=lambda rules: rules.settings.execution.honor_pauses,
    ),
    Row(
        "the object is held",
        lambda turn, _: turn.item.held is not None,
        Act.WAIT,
        "the previous turns have failed: only events are handled until the delay is over",
    ),
    Row(
        "more events are left",
        lambda turn, _: turn.item.events,
        Act.CATCH_UP,
        "events come faster than they are handled; the changes must be handled, too",
    ),
    Row(
        "another part has asked for the turn",
        lambda turn, _: turn.item.reasons or turn.item.events,
        Act.ADJUST,
        "e.g. a daemon has ended, or the newest state was taken without its event",
    ),
    Row(
        "the operator only looks at the object",
        _is_untouched,
        Act.REST,
        "no handler leaves marks, there is no finalizer of ours, and nothing to send",
        given=lambda rules: not rules.leaves_marks,
    ),
    Row(
        "the state is unknown",
        lambda turn, _: turn.item.latest is None,
        Act.REST,
        "the object comes with its next event",
    ),
    Row(
        "the absence is contradicted",
        _is_back,
        Act.LOOK,
        "the object was deleted, or the API did not know it; but the stream goes on with it",
    ),
    Row(
        "the object is deleted",
        lambda turn, _: turn.item.type == "DELETED",
        Act.FORGET,
        "the stream has said so",
    ),
    Row(
        "changes are owed",
        lambda turn, _: turn.memory.owed.marks is not None,
        Act.SEND_OWED,
        "the results of handlers go first, so that no handler runs again for them",
    ),
    Row(
        "the object is absent",
        lambda turn, _: turn.memory.cycle.stage is Stage.ABSENT,
        Act.REST,
        "the API does not know the object: its deletion is on its way",
    ),
    Row(
        "nothing of ours is on the object",
        _is_unmarked,
        Act.SEND,
        "only handlers of events have changed it",
        given=lambda rules: not rules.leaves_marks,
    ),
    Row(
        "our patch has not come back, and there are changes",
        lambda turn, rules: _is_awaited(turn, rules) and turn.is_changing,
        Act.SEND_EARLY,
        "changes by the handlers of events do not wait",
    ),
    Row(
        "our patch has not come back",
        _is_awaited,
        Act.AWAIT,
        "changes by others from before our patch can still be on their way",
    ),
    Row(
        "the state is doubtful",
        _is_doubtful,
        Act.LOOK,
        "an older state or list comes as if it were new; or a deletion seems undone",
    ),
    Row(
        "the state is outdated",
        lambda turn, _: turn.is_outdated,
        Act.SEND,
        "it is older than our own patch: the newer state is on its way",
    ),
    Row(
        "it is our own echo",
        lambda turn, rules: rules.echoes.is_own(turn),
        Act.IGNORE,
        "the object is exactly as we have left it when everything was handled",
        given=lambda rules: rules.echoes.rests_when_handled,
    ),
    Row(
        "it is the echo of a pass",
        lambda turn, rules: rules.echoes.get_rest(turn),
        Act.REST_OF_PASSES,
        "only the status was changed, by ourselves; the next pass has its time",
        given=lambda rules: rules.desired is not None,
    ),
    Row(
        "only passes can be made",
        _needs_only_passes,
        Act.TAKE_PLACE,
        "the reconciler has a limit of objects at once",
        given=lambda rules: (
            rules.desired and not (rules.handlers.changing or rules.handlers.spawning)
        ),
    ),
    Row(
        "the lease was taken over",
        lambda turn, rules: True,
        Act.VERIFY,
        "the stream may not have brought what the previous leader has done",
        given=lambda rules: rules.takeovers is not None,
    ),
    Row(
        "only the status has changed",
        lambda turn, rules: rules.idleness.has(turn),
        Act.IGNORE,
        "an earlier turn has found nothing to do, and no handler depends on the status",
        given=lambda rules: rules.idleness.is_possible,
    ),
    Row(
        "something can have changed",
        lambda turn, rules: True,
        Act.DETECT,
        "the cause decides on the rest",
    ),
    Row(
        "it is being deleted without our finalizer",
        lambda turn, _: turn.cause.reason is Reason.FREE,
        Act.LET_GO,
        "the deletion does not wait for us",
    ),
    Row(
        "the finalizer was removed already",
        lambda turn, _: _is_deleting(turn, Stage.FREED),
        Act.SEND,
        "the stream is late: this state is from before the removal",
    ),
    Row(
        "it is being deleted, and can have children",
        _can_have_children,
        Act.CLEAN_UP,
        "Kubernetes deletes only the children in its reach",
        given=lambda rules: rules.desired is not None,
    ),
    Row(
        "the finalizer is missing or not needed",
        _has_wrong_finalizer,
        Act.FIX_FINALIZER,
        "handlers are called only for objects that cannot vanish meanwhile",
    ),
    Row(
        "otherwise",
        lambda turn, rules: True,
        Act.HANDLE,
        "there can be a change, a retry, a pass, or a deletion to handle",
    ),
)
"""The table, from the top to the bottom. The order is the specification."""


def decide(turn: Turn, rules: Rules, start: int = 0) -> int:
    """The number of the first row that applies, among the possible rows from ``start`` on."""
    for number, applies in rules.walks[start]:  # it runs several times for each object
        if applies(turn, rules):
            return number
    raise AssertionError("unreachable: the last row applies always")  # pragma: no cover
