"""The spine: what happens to an object, from an event to the requests to the API.

Two functions to be read from top to bottom:

* :meth:`Reconciler.on_event` is called once for each event, in order.
* :meth:`Reconciler.reconcile` is called when the state of the object is settled:
  there are no newer events, and our own last patch has come back (or its deadline has passed).
"""

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from kopf_cogs.clients.errors import APIError
from kopf_cogs.clients.session import Client
from kopf_cogs.configs.settings import OperatorSettings
from kopf_cogs.structs.bodies import Body, RawBody, RawEvent
from kopf_cogs.structs.diffs import EMPTY, diff
from kopf_cogs.structs.finalizers import (
    allow_deletion,
    block_deletion,
    is_deletion_blocked,
    is_deletion_ongoing,
)
from kopf_cogs.structs.resources import Resource
from kopf_core.actions.effects import deliver_results
from kopf_core.actions.execution import Execution
from kopf_core.actions.invocation import is_being_cancelled
from kopf_core.actions.retrying import safe_repr
from kopf_core.engines.leasing.fences import FencedError
from kopf_core.engines.memories import ObjectMemories
from kopf_core.engines.records.owed import NOTHING
from kopf_core.engines.records.stages import Stage
from kopf_core.intents.causes import (
    ChangingCause,
    Reason,
    ResourceCause,
    SpawningCause,
    WatchingCause,
)
from kopf_core.intents.detection import detect_reason
from kopf_core.intents.indices import Indices
from kopf_core.intents.matching import may_match
from kopf_core.intents.registries import ResourceHandlers
from kopf_core.reactor.conflicts import get_finalizer_hold, judge_owed, must_leave_finalizer
from kopf_core.reactor.cycles import Cycles, sooner
from kopf_core.reactor.delivery import Delivery
from kopf_core.reactor.echoes import Echoes
from kopf_core.reactor.object_pauses import ObjectPauses, find_pause
from kopf_core.reactor.problems import tell_of_problems
from kopf_core.reactor.refusals import list_rights
from kopf_core.reactor.releases import plan_release
from kopf_core.reactor.throttling import Denials, Failure, throttle, unthrottle
from kopf_core.reactor.turns import Background, Turn
from kopf_core.reactor.work import DONE, Done, TurnResult, WorkItem

if TYPE_CHECKING:  # they take time to be imported, and most of the operators do without them
    from kopf_core.engines.desired.engine import DesiredStates
    from kopf_core.engines.desired.objects import Step
    from kopf_core.reactor.takeovers import Takeovers

C = TypeVar("C", bound=ResourceCause)

EVENTS_TIME = 0.1
"""For how long (in seconds) to handle the events of one object while others wait for the place."""

CLEANING_POLLING = 10.0
"""How often (in seconds) to look for what is deleted but not gone: usually, it is told of."""


class Reconciler:
    """Processes the objects of one resource."""

    def __init__(
        self,
        *,
        client: Client,
        resource: Resource,
        handlers: ResourceHandlers,
        execution: Execution,
        memories: ObjectMemories,
        indices: Indices,
        background: Background,
        desired: "DesiredStates | None" = None,
        takeovers: "Takeovers | None" = None,
    ) -> None:
        self.resource = resource
        self.settings: OperatorSettings = execution.settings
        self._handlers = handlers
        self._leaves_marks = handlers.requires_patching
        self.needs_events = bool(handlers.watching)
        """Whether there is anybody who is promised every event, not only the newest state."""

        self._execution = execution
        self._memories = memories
        self._indices: Mapping[str, Any] = indices if indices else {}
        self._background = background
        self.desired = desired
        self._takeovers = takeovers
        self._clock = execution.clock
        self._denials = Denials(client, lambda: list_rights(self.resource, handlers))
        self._cycles = Cycles(resource=resource, handlers=handlers, execution=execution)
        self._delivery = Delivery(client=client, resource=resource, execution=execution)
        self.echoes = Echoes(self.settings, handlers, memories, desired)
        self._pauses = ObjectPauses(memories, self._delivery, background, desired)

    def redefine(self, resource: Resource) -> None:
        """The definition of the same resource has changed, e.g. its subresources."""
        self.resource = resource
        self._delivery.redefine(resource)

    def is_handled(self, event: RawEvent) -> bool:
        """Whether there can be anything to be done for the event, but indexing."""
        is_gone = event["type"] == "DELETED"
        return self.needs_events or is_gone or self._can_be_marked(event["object"])

    async def process(self, item: WorkItem) -> TurnResult:
        """Process all that is there for the object, and say when to do it again."""
        if not self._execution.door.is_open:  # it is noticed soon, and all is listed anew then
            item.events.clear()
            return DONE
        memory = self._memories.recall(item.key, is_listed=item.is_listed)
        if memory.owed.base is not None:
            memory.owed = judge_owed(
                memory.owed, item.newest, self._handlers, self.settings.persistence
            )
        turn = Turn(item, memory, self.settings)
        pause = find_pause(turn)
        if pause is not None:
            return self._pauses.leave_alone(turn, self.resource, pause)
        if memory.holds.is_paused:
            self._pauses.go_on(turn)
        try:
            if item.events:
                await self.on_event(turn, item.events.popleft())
            if item.events:
                await self._handle_more(turn)
                pause = find_pause(turn)  # it could come after the turn has begun
                if pause is not None:
                    return self._pauses.leave_alone(turn, self.resource, pause)
            if item.rest is not DONE and item.held is not None:
                return item.held
            is_behind = bool(item.events)
            if is_behind and not self._delivery.look_ahead(turn):
                return DONE
            has_reasons = bool(item.reasons and item.take_reasons())
            if (is_behind or has_reasons) and item.latest is not None:
                turn.renew()
                if self._handlers.spawning:
                    await self._adjust_background(turn)
            if not self._leaves_marks and self._is_left_as_is(turn):
                result: TurnResult = DONE
            else:
                result = await self._reconcile_if_settled(turn)
        except asyncio.CancelledError:  # what was done until now must not be repeated
            await self._delivery.save(turn)
            raise
        except FencedError as e:  # it is going to be paused; then, it starts anew
            turn.logger.debug(f"The processing is interrupted: {e}")
            return DONE
        except APIError as e:
            return throttle(turn, await self._denials.explain(e, turn), self._clock.monotonic())
        except Exception as e:
            return throttle(turn, Failure(safe_repr(e), exc=e), self._clock.monotonic())
        finally:  # what is not sent now is sent by the next turn: nothing is called again for it
            if turn.is_changing or memory.owed is not NOTHING:
                memory.owed = memory.owed.unsent(turn.marks, turn.patch)
        if memory.holds.throttling is not None:
            unthrottle(turn, self._denials)
        return result

    async def on_event(self, turn: Turn, event: RawEvent) -> None:
        """Process one event: see what it is, call the handlers of events, adjust the daemons."""
        self._delivery.notice(turn, event)
        turn.body = body = Body(event["object"])
        if self.needs_events:
            watching = self._make_cause(WatchingCause, turn, body, event=event)
            if self._handlers.viewing and not self._leaves_marks:
                tell_of_problems(turn, self._handlers, watching)
            for handler in self._handlers.select_watching(watching):
                result = await self._execution.observe(handler, watching)
                if result is not None:
                    deliver_results({handler.id: result}, marks=turn.marks, logger=watching.logger)
        is_deleted = event["type"] == "DELETED"  # in all versions of its kind at once
        if self._handlers.spawning or is_deleted:
            await self._adjust_background(turn)

    async def _handle_more(self, turn: Turn) -> None:
        """Handle the events that have come after the first one.

        If they come faster than they are handled, some are left for the next turn: the changes
        are to be handled too, and the place to be given back from time to time.
        """
        item, until = turn.item, self._clock.monotonic() + EVENTS_TIME
        while item.events and find_pause(turn) is None:
            if turn.is_changing and not item.held:
                await self._delivery.apply_early(turn)
            if self._clock.monotonic() >= until:
                item.generation += 1  # the rest is for the next turn
                return
            await self.on_event(turn, item.events.popleft())

    async def _adjust_background(self, turn: Turn) -> None:
        """Start and stop daemons and timers in accordance with the newest state of the object."""
        turn.renew()
        key, body = turn.item.key, turn.body
        if turn.item.type == "DELETED" or is_deletion_ongoing(body):
            self._background.stop_deleted(key, body)
        else:
            spawning = self._make_cause(SpawningCause, turn, body)
            self._background.adjust(key, spawning, self._handlers)
        if self._background.is_stopping(key):
            await self._background.settle(key)

    async def reconcile(self, turn: Turn) -> TurnResult:
        """Bring the object to the state where all its changes are handled. One step of that."""
        cause = self._detect(turn)
        is_ours = self._handlers.is_interested(cause)
        match cause.reason:
            case Reason.GONE:
                if is_ours:
                    cause.logger.debug("Deleted, really deleted, and we are notified.")
                self._memories.forget(turn.item.key)
                self._background.forget(turn.item.key)
                if self.desired is not None:
                    self.desired.forget(turn.item.key)
                return DONE
            case Reason.FREE:
                if is_ours:
                    cause.logger.debug("Deletion, but we are done with it, and we do not care.")
                    turn.logger.debug("Handling cycle is finished, waiting for new changes.")
                return await self._delivery.apply(turn)
            case Reason.DELETE if turn.memory.cycle.stage is Stage.FREED:
                return await self._delivery.apply(turn)  # an echo of what was before the release
            case Reason.DELETE if not await self._clean_up(turn, cause):
                return await self._delivery.apply(turn, delay=CLEANING_POLLING)
        if cause.reason is not Reason.DELETE and self._fix_finalizer(turn, cause):
            return await self._delivery.apply(turn)
        is_kept = cause.reason is Reason.DELETE and self._background.is_running(turn.item.key)
        delay = hold = get_finalizer_hold(turn, cause.reason, self._clock.monotonic())
        is_released = turn.memory.cycle.stage is Stage.RELEASED
        if is_ours and not is_released:  # others are left without our marks
            delay = sooner(hold, await self._cycles.step(turn, cause, is_kept=is_kept))
            turn.is_finished &= hold is None
        if self.desired is not None and not (cause.reason is Reason.DELETE or is_being_cancelled()):
            delay = sooner(delay, await self.desired.make_passes(self._make_step(turn, cause)))
        if cause.reason is Reason.DELETE and delay is None:
            self._release(turn, cause, is_kept=is_kept)
        if self._background.is_stopping(turn.item.key):
            delay = sooner(delay, self._background_polling)
        if self._handlers.viewing and cause.reason is not Reason.DELETE:
            tell_of_problems(turn, self._handlers, cause, is_patched=True)
        before = turn.item.latest
        result = await self._delivery.apply(turn, delay)
        if self.desired is not None and turn.applied is not None:
            self.desired.on_delivered(turn.item.key, turn.applied)
            self.echoes.remember(turn, before)
        return result

    async def _clean_up(self, turn: Turn, cause: ChangingCause) -> bool:
        """Delete what is owned out of reach of garbage collection; get whether it is all gone."""
        if self.desired is None or turn.memory.cycle.stage is Stage.RELEASED:
            return True
        return await self.desired.clean_up(self._make_step(turn, cause))

    def _make_step(self, turn: Turn, cause: ChangingCause) -> "Step":
        from kopf_core.engines.desired.objects import Step
        from kopf_core.engines.desired.triggers import digest

        return Step(
            key=turn.item.key,
            cause=cause,
            essence=digest(self._cycles.build_essence(cause.body)),
            marks=turn.marks,
            is_held=is_deletion_blocked(cause.body, self.settings.persistence.finalizer),
        )

    def _release(self, turn: Turn, cause: ChangingCause, *, is_kept: bool) -> None:
        """Everything is done about the deletion: let the object go, unless it is kept for now."""
        cycle = turn.memory.cycle
        turn.memory.cycle = cycle.at(Stage.RELEASED)
        if is_kept:
            return
        turn.logger.debug("Removing the finalizer, thus allowing the actual deletion.")
        if cycle.stage is Stage.RELEASED:  # but the finalizer could not be removed until now
            self._cycles.purge(turn, cause)
        plan_release(turn.marks, self.settings.persistence.finalizer)

    def _fix_finalizer(self, turn: Turn, cause: ChangingCause) -> bool:
        """Add or remove the finalizer; get whether there is anything to be done about it."""
        finalizer = self.settings.persistence.finalizer
        is_blocked = is_deletion_blocked(cause.body, finalizer)
        finished = self._background.get_finished(turn.item.key)
        is_required = self._handlers.requires_finalizer(cause, finished) or (
            self.desired is not None
            and self.desired.needs_finalizer(turn.item.key, is_held=is_blocked)
        )
        if is_required is is_blocked:
            return False
        if is_blocked and self._background.is_running(turn.item.key):
            return False  # not before they end; everything else does not wait for them
        if must_leave_finalizer(turn, self._clock.monotonic(), wanted=is_required):
            return False
        if is_required:
            turn.logger.debug("Adding the finalizer, thus preventing the actual deletion.")
            turn.marks.fns.append(partial(block_deletion, finalizer=finalizer))
        else:
            turn.logger.debug("Removing the finalizer, as there are no handlers requiring it.")
            turn.marks.fns.append(partial(allow_deletion, finalizer=finalizer))
        return True

    def _is_left_as_is(self, turn: Turn) -> bool:
        """Whether only its events are handled, and there is nothing to be sent."""
        item = turn.item
        return not (
            item.latest is None
            or item.type == "DELETED"
            or (turn.is_changing or turn.memory.owed.carried)
            or self._can_be_marked(item.latest)
        )

    def _can_be_marked(self, body: RawBody) -> bool:
        """Whether we can have left something on the object, now or in the past."""
        return self._leaves_marks or is_deletion_blocked(body, self.settings.persistence.finalizer)

    async def _reconcile_if_settled(self, turn: Turn) -> TurnResult:
        item = turn.item
        if item.latest is None:
            return DONE
        turn.type = item.type
        turn.renew()
        if turn.type == "DELETED":
            return await self.reconcile(turn)
        if turn.memory.cycle.stage is Stage.ABSENT:
            if item.is_contradicted:
                await self._delivery.look(turn)
            if turn.memory.cycle.stage is Stage.ABSENT:
                return DONE  # its deletion is on its way
        if turn.memory.owed.marks is not None:  # its handlers must not be called again for that
            result = await self._delivery.apply(turn)
            if not isinstance(result, Done):
                return result
        if not self._can_be_marked(item.latest):
            return await self._delivery.apply(turn)
        awaited = self._delivery.get_awaited(turn)
        if awaited is not None:
            return await self._delivery.apply_early(turn) if turn.is_changing else awaited
        if self._delivery.is_doubtful(turn):
            await self._delivery.look(turn)
        if turn.memory.write.outdates(item.latest) or self.echoes.is_own(turn):
            return await self._delivery.apply(turn)
        rest = self.echoes.get_rest(turn)
        if rest:
            return await self._delivery.apply(turn, rest)
        if self._must_wait(turn):
            return DONE
        if self._takeovers is not None:
            return await self._takeovers.act(turn, self._detect, self.reconcile)
        return await self.reconcile(turn)

    def _must_wait(self, turn: Turn) -> bool:
        """Whether only passes can be made for the object, and there is no place for one now."""
        has_others = self._handlers.changing or self._handlers.spawning or turn.is_changing
        if self.desired is None or has_others or is_deletion_ongoing(turn.body):
            return False
        return self.desired.must_wait(turn.item.key)

    @property
    def _background_polling(self) -> float:
        """How long to wait for daemons to end: the last resort, as they tell when they end."""
        return self.settings.background.cancellation_polling

    def _detect(self, turn: Turn) -> ChangingCause:
        """Find out what has happened to the object since it was handled for the last time."""
        storage = self.settings.persistence.diffbase_storage
        is_promising = self._handlers.is_unfiltered or any(
            may_match(handler, turn.body) for handler in self._handlers.changing
        )
        old = storage.fetch(body=turn.body) if is_promising else None
        new = self._cycles.get_essence(turn) if is_promising else None
        changes = diff(old, new) if old != new else EMPTY
        initial = turn.memory.initial
        reason = detect_reason(
            event_type=turn.type,
            body=turn.body,
            old=old,
            diff=changes,
            initial=initial,
            finalizer=self.settings.persistence.finalizer,
        )
        return self._make_cause(
            ChangingCause,
            turn,
            turn.body,
            initial=initial,
            reason=reason,
            diff=changes,
            old=old,
            new=new,
            marks=turn.marks,
        )

    def _make_cause(self, cls: type[C], turn: Turn, body: Body, **specifics: Any) -> C:
        return cls(
            resource=self.resource,
            body=body,
            patch=turn.patch,
            settings=self.settings,
            memo=turn.memory.memo,
            indices=self._indices,
            **specifics,
        )
