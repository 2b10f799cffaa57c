"""Handling cycles: from a change of an object until all its handlers have finished.

A cycle takes one or more steps. A step is one attempt of some handlers, and then a patch with their
progress. The last step replaces the progress with the last handled state.
"""

import datetime
import logging
from collections.abc import Collection, Mapping
from functools import partial

from kopf_cogs.aiokits.clocks import SteadyClock
from kopf_cogs.configs.diffbase import keeps_essence_as_is, with_system_fields
from kopf_cogs.configs.healing import decode_json
from kopf_cogs.configs.packing import Digests
from kopf_cogs.configs.progress import is_unused, keeps_progress_as_is
from kopf_cogs.structs.bodies import Body, BodyEssence, get_annotations
from kopf_cogs.structs.ids import HandlerId
from kopf_cogs.structs.patches import Patch
from kopf_cogs.structs.resources import Resource
from kopf_cogs.structs.secrecy import show
from kopf_core.actions.effects import deliver_results, merge_into, merge_patches
from kopf_core.actions.execution import Execution, collect_results
from kopf_core.actions.states import LEAST_JUMP, NO_JUMP, HandlerState, State
from kopf_core.engines.memories import ObjectMemory
from kopf_core.engines.records.stages import Stage
from kopf_core.intents.causes import TITLES, ChangingCause, Reason
from kopf_core.intents.handlers import ChangingHandler
from kopf_core.intents.registries import ResourceHandlers
from kopf_core.reactor.object.conflicts import tell_of_lost_marks, tell_of_lost_progress
from kopf_core.reactor.object.loops import is_own_change, warn_of_loop
from kopf_core.reactor.object.missed_changes import Missed, find_missed
from kopf_core.reactor.object.seen_states import NOTHING_SEEN, SeenStates
from kopf_core.reactor.object.sizes import (
    SUGGESTED,
    fits,
    has_room,
    is_too_large,
    measure,
    suggest_digests,
    surely_has_room,
)
from kopf_core.reactor.object.subhandling import find_held, find_superseded
from kopf_core.reactor.object.turns import Turn
from kopf_core.reactor.object.warnings import warn_of_clashes

NOT_INTERESTED = "Something has changed, but we are not interested (the essence is the same)."

FOREVER = float("inf")
"""The delay that means: do nothing until the object changes."""


class Cycles:
    """Makes the steps of handling cycles for the objects of one resource."""

    def __init__(
        self,
        *,
        resource: Resource,
        handlers: ResourceHandlers,
        execution: Execution,
    ) -> None:
        self._resource = resource
        self._handlers = handlers
        self._execution = execution
        self._persistence = execution.settings.persistence
        self._clock = execution.clock
        self._extra_fields = handlers.extra_fields
        self._has_suggested = False

    def build_essence(self, body: Body) -> BodyEssence:
        """Extract the essence: the part of the object whose changes matter for its handlers."""
        storage = self._persistence.diffbase_storage
        essence = storage.build(body=body, extra_fields=self._extra_fields)
        return self._persistence.progress_storage.clear(essence=essence)

    def get_essence(self, turn: Turn) -> BodyEssence:
        """The essence of the object as it is now: a copy, not shared with other callers."""
        packed = turn.memory.cycle.seen
        if packed is None or _find_step(turn) is None:
            return self.build_essence(turn.body)
        return SeenStates(packed=packed).items[-1].essence  # unpacking is the quickest copy

    async def step(
        self, turn: Turn, cause: ChangingCause, *, is_kept: bool = False
    ) -> float | None:
        """Make one step of the handling cycle; return the delay to the next one, if there is one.

        An object ``is_kept`` if it must stay after the cycle of its deletion, as its daemons still
        run. Then the progress stays on the object, so that a restart repeats no handlers. It is
        purged later.
        """
        if cause.reason is Reason.NOOP:
            cause.logger.debug(NOT_INTERESTED)
            turn.is_finished = True
            if self._is_untouched(turn, cause):
                turn.memory.cycle = turn.memory.cycle.ended(has_progress=False)
            # An unfinished cycle ends here if another client has reverted the change.
            elif turn.memory.cycle.has_progress or self._is_progress_back(cause):
                known = self._load(turn, cause)
                self._finish(turn, cause, known, self._load_seen(turn, cause, known))
            self._conclude(turn, cause)
            return None
        known = self._load(turn, cause)
        delay = self._get_hold(turn.memory, cause, known)
        is_round = not delay and cause.reason is Reason.UPDATE and not known
        if is_round and (is_round := is_own_change(turn, cause)):
            delay = self._get_loop_hold(turn, cause)
        if delay:
            return delay
        seen = self._load_seen(turn, cause, known)
        if not self._has_room(turn, cause, seen):
            return FOREVER
        handlers = self._handlers.select_changing(cause)
        if is_round and handlers:
            self._go_round(turn, handlers)
        state = await self._attempt(turn, cause, handlers, known)
        if state.done and handlers:
            _tell_of_end(cause, state)
        if is_kept or not state.done:
            self._store(turn, cause, state, seen)
            return state.delay
        self._finish(turn, cause, state, seen)
        self._conclude(turn, cause)
        return None

    def _is_untouched(self, turn: Turn, cause: ChangingCause) -> bool:
        """Whether there is no progress on the object, and none will be put there by this turn."""
        storage = self._persistence.progress_storage
        return is_unused(storage, cause.body) and not get_annotations(turn.marks)

    def _is_progress_back(self, cause: ChangingCause) -> bool:
        """Whether the object has progress though its cycle is over.

        A restored backup can bring it back, and so can a late patch of a crashed operator.
        """
        storage = self._persistence.progress_storage
        return any(
            storage.fetch(key=handler.id, body=cause.body) is not None
            for handler in self._handlers.changing
        )

    async def _attempt(
        self, turn: Turn, cause: ChangingCause, handlers: list[ChangingHandler], state: State
    ) -> State:
        """Call the handlers that are due; return the new state of all handlers."""
        state = state.without(find_renewed(state, cause, handlers))
        state = state.with_purpose(cause.reason, handlers)
        self._announce(cause, state)
        if not handlers:
            return state
        if not self._handlers.is_unambiguous:
            warn_of_clashes(turn.memory, handlers, cause.logger)
        execution = self._prepare(turn)
        if self._handlers.viewing:
            held = find_held(handlers, cause)
            state = state.with_held(held)
            handlers = [handler for handler in handlers if handler.id not in held]
        outcomes = await execution.run(handlers, cause, state)
        state = state.with_outcomes(outcomes, now=execution.clock.now())
        deliver_results(collect_results(outcomes), marks=turn.marks, logger=cause.logger)
        return state

    def _prepare(self, turn: Turn) -> Execution:
        """The execution of this turn: with a clock that never jumps in the middle of the turn."""
        if turn.execution is None:
            clock = SteadyClock(self._clock)
            turn.clock_offset = clock.offset
            jump = _measure_jump(turn.memory.cycle.clock_offset, turn.clock_offset)
            turn.execution = self._execution.timed(clock, jump)
        return turn.execution

    def _load(self, turn: Turn, cause: ChangingCause) -> State:
        execution, storage = self._prepare(turn), self._persistence.progress_storage
        now, jump = execution.clock.now(), execution.jump
        known = _find_step(turn)
        if known is not None and not jump and known.now <= now:
            return known.renew(now)
        if is_unused(storage, cause.body):
            return State.from_scratch(now=now)
        state = State.from_storage(
            self._handlers.changing, body=cause.body, storage=storage, now=now, jump=jump
        )
        if jump:  # the times of sub-handlers move with the times of their parents
            for id in state.all_subrefs:
                record = storage.fetch(key=id, body=cause.body)
                if record:
                    moved = HandlerState.from_record(record, now, jump).as_record()
                    storage.store(key=id, record=moved, body=cause.body, patch=turn.marks)
        return state

    def _load_seen(self, turn: Turn, cause: ChangingCause, state: State) -> SeenStates:
        """Load the states of the object that the finished handlers have seen, and add the current
        one.
        """
        if cause.reason is Reason.DELETE or not state:
            return NOTHING_SEEN
        packed = turn.memory.cycle.seen
        if packed is not None and _find_step(turn) is not None:
            return SeenStates(packed=packed)  # the current state is in it, as the last one
        finished = state.finished | self._find_finished(state.all_subrefs, cause)
        if not finished:
            return NOTHING_SEEN
        encoded = self._persistence.diffbase_storage.fetch_seen(body=cause.body)
        if packed is not None and encoded in (None, packed.text):  # none: there was no room for it
            seen = SeenStates(packed=packed)
        else:  # the operator has restarted, or a backup is restored: only the object has them
            where = ("seen states",)
            stored = None if encoded is None else decode_json(encoded, where, cause.body)
            seen = SeenStates.from_json(stored, state.since.isoformat())
        return seen.add(cause.new, finished) if seen else seen

    def _find_finished(
        self, ids: Collection[HandlerId], cause: ChangingCause
    ) -> frozenset[HandlerId]:
        """Find the finished sub-handlers of unfinished handlers."""
        storage = self._persistence.progress_storage
        records = {id: storage.fetch(key=id, body=cause.body) or {} for id in ids}
        return frozenset(
            id for id, record in records.items() if record.get("success") or record.get("failure")
        )

    def _store(self, turn: Turn, cause: ChangingCause, state: State, seen: SeenStates) -> None:
        """The cycle goes on: store the progress of the handlers, and the states that they have
        seen.
        """
        if cause.reason is not Reason.DELETE and (state.finished or state.all_subrefs):
            seen = self._foresee(turn, cause, seen or seen.change(self._recall(turn, cause)))
            self._store_seen(turn, cause, state, seen)
        storage = self._persistence.progress_storage
        state.store(body=cause.body, patch=turn.marks, storage=storage)
        turn.memory.cycle = turn.memory.cycle.stored(turn.clock_offset)
        if keeps_progress_as_is(storage) and keeps_essence_as_is(
            self._persistence.diffbase_storage
        ):
            turn.state = state

    def _store_seen(
        self,
        turn: Turn,
        cause: ChangingCause,
        state: State,
        seen: SeenStates,
        essence: Patch | None = None,
    ) -> None:
        """Store the seen states if the object has room for them; for the essence, too, if it is
        given.

        If there is no room, the seen states that are stored already stay there: they are better
        than nothing. They are removed only if the essence needs their room.
        """
        packed = seen.pack(state.started.isoformat()) if seen else None
        if packed is turn.memory.cycle.seen and essence is None and _find_step(turn) is not None:
            return  # it is stored already, or there was no room for it
        if packed is not turn.memory.cycle.seen:
            turn.memory.cycle = turn.memory.cycle._replace(seen=packed)
        planned = self._plan_seen(cause, None if packed is None else packed.text)
        marks = planned if essence is None else merge_patches(planned, essence)
        if seen and not has_room(cause.body, marks):
            planned = Patch() if essence is None else self._plan_seen(cause, None)
        merge_into(turn.marks, planned)

    def _plan_seen(self, cause: ChangingCause, encoded: str | None) -> Patch:
        planned = Patch()
        storage = self._persistence.diffbase_storage
        storage.store_seen(body=cause.body, patch=planned, seen=encoded)
        return planned

    def _recall(self, turn: Turn, cause: ChangingCause) -> BodyEssence:
        """The essence before the handlers of this turn: they can have modified their arguments.

        It is read from the annotations that are planned or stored already.
        """
        body = cause.body
        if turn.essence is not None:
            body = Body(with_system_fields(turn.essence, body))
        essence = self._persistence.diffbase_storage.fetch(body=body)
        if isinstance(essence, Digests):
            return self.build_essence(cause.body)
        return cause.new if essence is None else essence

    def _foresee(self, turn: Turn, cause: ChangingCause, seen: SeenStates) -> SeenStates:
        """Apply the patch of the handlers to the newest seen state: it is not a change they have
        missed.

        If others change the object at the same moment, the real state differs from this one, and
        their change is noticed.
        """
        if not turn.patch.fns and not turn.patch.keys() - {"status"}:
            return seen
        try:
            return seen.change(self.build_essence(Body(turn.patch.transform(cause.body))))
        except Exception:
            return seen  # functions of users can fail: this is reported when they are sent

    def _finish(self, turn: Turn, cause: ChangingCause, state: State, seen: SeenStates) -> None:
        """The cycle is over: replace the progress with the last handled state.

        If the object has changed after some of the handlers had finished, the state that they have
        seen is stored instead. So Kopf calls them for the change as for the next update.
        """
        load = partial(self._load_subhandlers, turn, cause)
        missed = find_missed(state, seen, cause, self._handlers.changing, load)
        self.purge(turn, cause, state)
        if missed is None:
            self._store_seen(turn, cause, state, NOTHING_SEEN)
            if turn.essence is None and seen:
                turn.essence = self._plan_essence(cause, seen.items[-1].essence)
        else:
            turn.essence = self._plan_missed(turn, cause, missed)
        is_kept = missed is not None and bool(missed.kept)
        turn.memory.cycle = turn.memory.cycle.ended(has_progress=is_kept)
        turn.is_finished = missed is None

    def _load_subhandlers(
        self, turn: Turn, cause: ChangingCause, ids: Collection[HandlerId]
    ) -> Mapping[HandlerId, HandlerState]:
        """Load the progress of the sub-handlers, including this very step."""
        storage, now = self._persistence.progress_storage, self._prepare(turn).clock.now()
        body = Body(Patch({**turn.marks}).transform(cause.body)) if ids else cause.body
        records = {id: storage.fetch(key=id, body=body) for id in ids}
        return {
            id: HandlerState.from_record(record, now) for id, record in records.items() if record
        }

    def _plan_missed(self, turn: Turn, cause: ChangingCause, missed: Missed) -> Patch:
        """Keep the progress of handlers that need no repetition; return the state that all have
        seen.
        """
        storage = self._persistence.progress_storage
        for id, known in missed.kept.items():
            storage.store(key=id, record=known.as_record(), body=cause.body, patch=turn.marks)
        known_ids = {handler.id for handler in self._handlers.changing}
        tops = {id: known for id, known in missed.kept.items() if id in known_ids}
        kept = State(tops, now=self._prepare(turn).clock.now())
        planned = Patch()
        self._persistence.diffbase_storage.store(
            body=cause.body, patch=planned, essence=missed.essence
        )
        self._store_seen(turn, cause, kept, missed.seen if missed.kept else NOTHING_SEEN, planned)
        return planned

    def purge(self, turn: Turn, cause: ChangingCause, state: State | None = None) -> None:
        """Remove the progress of all handlers from the object."""
        if self._is_untouched(turn, cause):
            return
        state = self._load(turn, cause) if state is None else state
        marks, storage = turn.marks, self._persistence.progress_storage
        state.purge(self._handlers.changing, body=cause.body, patch=marks, storage=storage)
        storage.sweep(body=cause.body, patch=marks, purpose=cause.reason.value)
        for purpose in state.superseded:
            storage.sweep(body=cause.body, patch=marks, purpose=purpose)
        storage.touch(body=cause.body, patch=marks, value=None)

    def _conclude(self, turn: Turn, cause: ChangingCause) -> None:
        if turn.essence is not None:
            merge_into(turn.marks, turn.essence)
        turn.memory.cycle = turn.memory.cycle.at(Stage.HANDLED)
        turn.memory.holds = turn.memory.holds.handled()
        if not turn.is_changing and cause.reason is not Reason.DELETE:
            turn.logger.debug("Handling cycle is finished, waiting for new changes.")

    def _has_room(self, turn: Turn, cause: ChangingCause, seen: SeenStates) -> bool:
        """Whether the last handled state fits on the object. If that is in doubt, prepare and
        measure it.
        """
        if seen.size is not None and surely_has_room(cause.body, seen.size):
            return True  # the seen states have the current one inside, so it is shorter
        turn.essence = self._plan_essence(cause, cause.new)
        if turn.essence is None or cause.reason is Reason.DELETE:
            return True
        size = measure(cause.body, turn.essence)
        if size > SUGGESTED and not self._has_suggested:
            self._has_suggested = True
            suggest_digests(size, turn.logger)
        if fits(size):
            return True
        marks = merge_patches(turn.essence, self._plan_seen(cause, None))  # without the seen states
        return not is_too_large(cause.body, marks, cause.logger)

    def _plan_essence(self, cause: ChangingCause, essence: BodyEssence) -> Patch | None:
        """Prepare the last handled state; it is stored only when all handlers have finished.

        It is taken before the handlers are called, as they can modify their arguments.
        """
        if cause.old is not None and not cause.diff:
            return None
        planned = Patch()
        self._persistence.diffbase_storage.store(body=cause.body, patch=planned, essence=essence)
        return planned

    def _get_hold(self, memory: ObjectMemory, cause: ChangingCause, known: State) -> float:
        """For how many seconds to leave the object alone, because others have removed our marks."""
        now, cycle = self._clock.monotonic(), memory.cycle
        if cause.reason is Reason.CREATE and cycle.stage is Stage.HANDLED:
            memory.cycle, memory.holds = cycle.at(Stage.LOST), memory.holds.lost(now)
            tell_of_lost_marks(memory.holds, cause.logger)
        elif cycle.was_stored and cycle.has_progress and not known:
            memory.cycle = cycle._replace(has_progress=False)
            memory.holds = memory.holds.lost(now)
            tell_of_lost_progress(memory.holds, cause.logger)
        elif cycle.stage is Stage.LOST and cause.reason is not Reason.CREATE:
            return 0.0
        return max(0.0, memory.holds.until - now)

    def _get_loop_hold(self, turn: Turn, cause: ChangingCause) -> float:
        """For how many seconds to wait before the handlers are called for our own write again."""
        delay = max(0.0, turn.memory.holds.changes.until - self._clock.monotonic())
        if delay:
            ids = [handler.id for handler in self._handlers.select_changing(cause)]
            warn_of_loop(turn, ids, [item.field for item in cause.diff], cause.logger)
        return delay

    def _go_round(self, turn: Turn, handlers: Collection[ChangingHandler]) -> None:
        """Our own write calls the handlers once more: count it if there is no end to it."""
        turn.memory.holds = turn.memory.holds.went_round(self._clock.monotonic())
        if turn.memory.holds.changes.is_endless:
            self._execution.panel.count_round(handlers)

    def _announce(self, cause: ChangingCause, state: State) -> None:
        title = TITLES[cause.reason].capitalize()
        for purpose, states in state.superseded.items():
            successes = sum(old.success for old in states)
            failures = sum(old.failure for old in states)
            cause.logger.info(
                f"{TITLES.get(purpose, purpose).capitalize()} is superseded by {title.lower()}: "
                f"{successes} succeeded; {failures} failed; "
                f"{len(states) - successes - failures} left to the moment."
            )
        if cause.logger.isEnabledFor(logging.DEBUG):
            cause.logger.debug(f"{title} is in progress: {show(self._resource, cause.body)}")
            if cause.diff and cause.old is not None:
                cause.logger.debug(f"{title} diff: {show(self._resource, cause.diff)}")


def _find_step(turn: Turn) -> State | None:
    """The state of the cycle, if the object is exactly as its latest step has left it."""
    return turn.memory.write.get_state(turn.item.latest)


def _tell_of_end(cause: ChangingCause, state: State) -> None:
    # Log records look up their line: that is quicker in short functions.
    title = TITLES[cause.reason].capitalize()
    cause.logger.log(logging.INFO, f"{title} is processed: {state.summary}.")


def find_renewed(
    state: State, cause: ChangingCause, handlers: list[ChangingHandler]
) -> frozenset[HandlerId]:
    """Find the handlers that have finished for another reason under the same id: they start anew.

    A success of an update is not a success of a deletion.
    """
    if cause.reason is not Reason.DELETE:
        return frozenset()
    deleting = {handler.id for handler in handlers if handler.reason is Reason.DELETE}
    return find_superseded(state, cause.reason.value) & deleting


def _measure_jump(stored_offset: float | None, offset: float) -> datetime.timedelta:
    """By how much the wall clock was set forward or back after the progress was stored."""
    if stored_offset is None:
        return NO_JUMP
    seconds = offset - stored_offset
    return NO_JUMP if abs(seconds) < LEAST_JUMP else datetime.timedelta(seconds=seconds)


def sooner(one: float | None, other: float | None) -> float | None:
    """The shorter of the delays; ``None`` stands for never."""
    delays = [delay for delay in (one, other) if delay is not None]
    return min(delays) if delays else None
