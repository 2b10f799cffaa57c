"""The spine: the way of an object from an event to the requests to the API.

A turn walks down :data:`~kopf_core.reactor.object.deciding.ROWS`. The act of a row is the method
with the same name here. Read the class from top to bottom:

* :meth:`Reconciler.process` makes a turn: it decides and acts until an act ends the turn.
* The acts before the cause is known: pauses, events, holds, our own patches on their way.
* The acts by the cause: deletions, finalizers, handlers, passes.
"""

import asyncio
import inspect
import logging
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from kopf_cogs.clients.errors import APIError
from kopf_cogs.clients.session import Client
from kopf_cogs.configs.packing import Digests
from kopf_cogs.configs.settings import OperatorSettings
from kopf_cogs.structs.bodies import Body, RawEvent
from kopf_cogs.structs.diffs import EMPTY, diff
from kopf_cogs.structs.finalizers import (
    allow_deletion,
    block_deletion,
    is_deletion_blocked,
    is_deletion_ongoing,
)
from kopf_cogs.structs.keys import ObjectKey
from kopf_cogs.structs.resources import Resource
from kopf_core.actions.effects import deliver_results
from kopf_core.actions.execution import Execution
from kopf_core.actions.invocation import is_being_cancelled
from kopf_core.actions.loggers import ObjectLogger, objects_logger
from kopf_core.actions.retrying import safe_repr
from kopf_core.engines.background import BackgroundEngine
from kopf_core.engines.leasing.fences import FencedError
from kopf_core.engines.memories import ObjectMemories
from kopf_core.engines.records.holds import FREE
from kopf_core.engines.records.owed import NOTHING_OWED
from kopf_core.engines.records.stages import Stage
from kopf_core.engines.records.writes import AwaitChange
from kopf_core.intents.causes import (
    ChangingCause,
    Reason,
    ResourceCause,
    SpawningCause,
    WatchingCause,
)
from kopf_core.intents.detection import detect_reason
from kopf_core.intents.matching import may_match
from kopf_core.intents.registries import ResourceHandlers
from kopf_core.reactor.object.conflicts import get_finalizer_hold, judge_owed, must_leave_finalizer
from kopf_core.reactor.object.cycles import NOT_INTERESTED, Cycles, sooner
from kopf_core.reactor.object.deciding import Act, Rules, decide
from kopf_core.reactor.object.delivery import Delivery
from kopf_core.reactor.object.echoes import Echoes
from kopf_core.reactor.object.loops import sees_own_changes, warn_of_loop
from kopf_core.reactor.object.object_pauses import ObjectPauses, find_pause
from kopf_core.reactor.object.problems import tell_of_problems
from kopf_core.reactor.object.releases import plan_release
from kopf_core.reactor.object.throttling import Denials, Failure, throttle, unthrottle
from kopf_core.reactor.object.turns import Turn
from kopf_core.reactor.streams.refusals import list_rights
from kopf_core.reactor.streams.work import DONE, Done, Requeue, TurnResult, WorkItem

if TYPE_CHECKING:  # their import takes time, and few operators need them
    from kopf_core.engines.desired.desired_states import DesiredStates
    from kopf_core.engines.desired.object_plans import Step
    from kopf_core.engines.sharding.shares import Share
    from kopf_core.reactor.object.takeovers import Takeovers

C = TypeVar("C", bound=ResourceCause)

EVENTS_TIME = 0.1
"""How many seconds to handle the events of one object while other objects wait for the place."""

CLEANING_POLLING = 10.0
"""How often (in seconds) to look for deleted children; usually, the stream tells earlier."""


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
        indices: Mapping[str, Any],
        background: BackgroundEngine,
        desired: "DesiredStates | None" = None,
        takeovers: "Takeovers | None" = None,
        share: "Share | None" = None,
    ) -> None:
        self.resource = resource
        self.settings: OperatorSettings = execution.settings
        self._handlers = handlers
        self.needs_events = bool(handlers.watching)
        """Whether there are handlers of events: they get every event, not only the newest state."""

        self._memories = memories
        self._execution = execution
        self._indices: Mapping[str, Any] = indices if indices else {}
        self._background = background
        self.desired = desired
        self._takeovers = takeovers
        self._clock = execution.clock
        self._denials = Denials(client, lambda: list_rights(self.resource, handlers))
        self._cycles = Cycles(resource=resource, handlers=handlers, execution=execution)
        self._delivery = Delivery(
            client=client, resource=resource, execution=execution, form=handlers.form
        )
        self.echoes = Echoes(self.settings, handlers, memories, desired)
        self._pauses = ObjectPauses(memories, self._delivery, background, desired)
        self._rules = Rules(
            execution=execution,
            handlers=handlers,
            background=background,
            echoes=self.echoes,
            desired=desired,
            takeovers=takeovers,
            share=share,
        )
        self._bind([row.act for row in self._rules.rows])

    def _bind(self, acts: list[Act]) -> None:
        fns = [getattr(self, f"_{act.name.lower()}") for act in acts]
        self._acts = [(fn, inspect.iscoroutinefunction(fn)) for fn in fns]
        self._last_hold = acts.index(Act.WAIT)

    def redefine(self, resource: Resource) -> None:
        """Take the new definition of the same resource, e.g. with other subresources."""
        self.resource = resource
        self._delivery.redefine(resource)

    def is_handled(self, event: RawEvent) -> bool:
        """Whether the event can need a turn. If not, it is only indexed."""
        is_gone = event["type"] == "DELETED"
        return self.needs_events or is_gone or self._rules.can_be_marked(event["object"])

    async def process(self, item: WorkItem) -> TurnResult:
        """Make a turn: process all that has come for the object, and return what it waits for."""
        memory = self._memories.recall(item.key, is_listed=item.is_listed)
        turn = Turn(item, memory, self.settings)
        number = -1
        result: TurnResult | None = None
        try:
            while result is None:
                number = decide(turn, self._rules, number + 1)
                act, is_async = self._acts[number]
                result = await act(turn) if is_async else act(turn)
        except asyncio.CancelledError:  # save the outcomes, so that no handler is repeated
            await self._delivery.save(turn)
            raise
        except FencedError as e:  # the lease is lost: a pause is coming
            turn.logger.debug(f"The processing is interrupted: {e}")
            return DONE
        except APIError as e:
            return throttle(turn, await self._denials.explain(e, turn), self._clock.monotonic())
        except Exception as e:
            return throttle(turn, Failure(safe_repr(e), exc=e), self._clock.monotonic())
        finally:  # the next turn sends the rest; no handler is called again
            if turn.echoes:
                item.events.extendleft(reversed(turn.echoes))
            if turn.is_changing or memory.owed is not NOTHING_OWED:
                memory.owed = memory.owed.unsent(turn.marks, turn.patch)
        if self._takeovers is not None and turn.term is not None:
            self._takeovers.notice(turn, result)
        return result if memory.holds is FREE else self._mind_holds(turn, number, result)

    def _mind_holds(self, turn: Turn, number: int, result: TurnResult) -> TurnResult:
        """End the throttling if the turn went well, or wait no longer than the echoes are held."""
        if turn.memory.holds.throttling is not None and number > self._last_hold:
            unthrottle(turn, self._denials)
        return self._bound(turn, result) if turn.echoes else result

    def _bound(self, turn: Turn, result: TurnResult) -> TurnResult:
        """Make the next turn not later than the time until which the echoes are held."""
        until = turn.memory.holds.events.until
        if isinstance(result, AwaitChange) or turn.item.held is not None:  # it comes back anyway
            return result
        return Requeue(at=min(until, result.at) if isinstance(result, Requeue) else until)

    # The acts before the cause is known.

    def _drop(self, turn: Turn) -> Done:
        turn.item.events.clear()
        return DONE

    def _leave(self, turn: Turn) -> Done:
        self._memories.forget(turn.item.key)
        return self._drop(turn)

    def _judge(self, turn: Turn) -> None:
        memory, newest = turn.memory, turn.item.newest
        memory.owed = judge_owed(memory.owed, newest, self._handlers, self.settings.persistence)
        turn.take_owed()

    def _leave_alone(self, turn: Turn) -> Done:
        return self._pauses.leave_alone(turn, self.resource, find_pause(turn) or "")

    def _go_on(self, turn: Turn) -> None:
        self._pauses.go_on(turn)

    async def _hold_back(self, turn: Turn) -> None:
        """Leave the echoes to a later turn, but take their state."""
        events, turn.echoes = turn.item.events, tuple(turn.item.events)
        events.clear()
        for event in turn.echoes:
            self._delivery.notice(turn, event)
        if self._handlers.spawning:
            await self._adjust_background(turn)
        cause = self._make_cause(WatchingCause, turn, turn.body, event=turn.echoes[-1])
        ids = [handler.id for handler in self._handlers.select_watching(cause)]
        warn_of_loop(turn, ids, turn.memory.holds.events.fields, cause.logger)

    async def _observe(self, turn: Turn) -> None:
        """Handle the events in order, but not beyond an event that pauses the object.

        If events come faster than they are handled, the rest is left to the next turn. The changes
        must be handled, too, and the place must be given back from time to time.
        """
        item, until = turn.item, 0.0
        is_own: bool | None = None  # if handlers have changed the object: only for our own changes
        while item.events:
            if until:
                if find_pause(turn) is not None:
                    break
                if turn.is_changing and not item.held:
                    is_own = is_own is not False and sees_own_changes(turn)
                    await self._delivery.apply_early(turn)
                if self._clock.monotonic() >= until:
                    break
            event = item.events.popleft()
            self._delivery.notice(turn, event)
            if self.needs_events:
                await self._call_watching(turn, event)
            # The daemons of a deleted object can be of another version of its kind.
            if self._handlers.spawning or event["type"] == "DELETED":
                await self._adjust_background(turn)
            if item.events and not until:
                until = self._clock.monotonic() + EVENTS_TIME
        has_changes = self.needs_events and (is_own is not None or turn.is_changing)
        holds = turn.memory.holds
        if has_changes or (holds is not FREE and holds.has_loops):
            is_own, now = is_own is not False and sees_own_changes(turn), self._clock.monotonic()
            turn.memory.holds = holds.observed(now, is_own=is_own, has_changes=has_changes)
            if has_changes and turn.memory.holds.events.is_endless:
                cause = self._make_cause(WatchingCause, turn, turn.body, event=event)
                self._execution.panel.count_round(self._handlers.select_watching(cause))

    async def _call_watching(self, turn: Turn, event: RawEvent) -> None:
        """Call the handlers of events, once for each event."""
        watching = self._make_cause(WatchingCause, turn, Body(event["object"]), event=event)
        if self._handlers.viewing and not self._rules.leaves_marks:
            tell_of_problems(turn, self._handlers, watching)
        for handler in self._handlers.select_watching(watching):
            result = await self._execution.observe(handler, watching)
            if result is not None:
                deliver_results({handler.id: result}, marks=turn.marks, logger=watching.logger)

    def _wait(self, turn: Turn) -> TurnResult | None:
        return turn.item.held

    def _catch_up(self, turn: Turn) -> Done | None:
        turn.item.generation += 1  # the rest is for the next turn
        return None if self._delivery.look_ahead(turn) else DONE

    async def _adjust(self, turn: Turn) -> None:
        turn.item.take_reasons()
        if self._handlers.spawning and turn.item.latest is not None:
            await self._adjust_background(turn)

    async def _adjust_background(self, turn: Turn) -> None:
        """Start and stop daemons and timers by the newest state of the object.

        If the state is outdated, or can be, this adjusts nothing: Kopf requests the object first.
        The deletion is final: an object that has been deleted has no newer state.
        """
        key, body = turn.item.key, turn.body
        is_deleted = turn.item.type == "DELETED"
        is_doubted = turn.memory.write.is_doubted
        if not is_deleted and (turn.is_outdated or is_doubted or self._is_late(turn)):
            return
        if is_deleted or is_deletion_ongoing(body):
            self._background.stop_deleted(key, body)
        else:
            spawning = self._make_cause(SpawningCause, turn, body)
            self._background.adjust(key, spawning, self._handlers)
        if self._background.is_stopping(key):
            await self._background.settle(key)

    def _rest(self, _: Turn) -> Done:
        return DONE

    def _forget(self, turn: Turn) -> Done:
        cause = self._find_cause(turn)
        if self._handlers.is_interested(cause):
            cause.logger.debug("Deleted, really deleted, and we are notified.")
        self._memories.forget(turn.item.key)
        self._forget_work(turn.item.key)
        return DONE

    def forget_unseen(self, key: ObjectKey) -> bool:
        """Forget a deleted object, unless its last turn must do that; return whether it is gone."""
        is_forgotten = self._memories.forget_unseen(key)
        if is_forgotten:
            self._forget_work(key)
        return is_forgotten

    def _forget_work(self, key: ObjectKey) -> None:
        self._background.forget(key)
        if self.desired is not None:
            self.desired.forget(key)

    async def _look(self, turn: Turn) -> Done | None:
        await self._delivery.look(turn)
        if turn.memory.cycle.stage is Stage.ABSENT:
            return DONE
        if self._handlers.spawning:
            await self._adjust_background(turn)
        return None

    async def _send_owed(self, turn: Turn) -> TurnResult | None:
        result = await self._delivery.apply(turn)
        return None if isinstance(result, Done) else result

    async def _send_early(self, turn: Turn) -> TurnResult:
        return await self._delivery.apply_early(turn)

    async def _send(self, turn: Turn) -> TurnResult:
        return await self._delivery.apply(turn)

    def _await(self, turn: Turn) -> TurnResult:
        return turn.memory.write.awaited or DONE

    async def _ignore(self, turn: Turn) -> TurnResult:
        if objects_logger.isEnabledFor(logging.DEBUG):
            ObjectLogger(body=turn.body, settings=self.settings).debug(NOT_INTERESTED)
            turn.logger.debug("Handling cycle is finished, waiting for new changes.")
        return await self._delivery.apply(turn)

    async def _rest_of_passes(self, turn: Turn) -> TurnResult:
        return await self._delivery.apply(turn, self.echoes.get_rest(turn))

    def _take_place(self, turn: Turn) -> Done | None:
        is_waiting = self.desired is not None and self.desired.must_wait(turn.item.key)
        return DONE if is_waiting else None

    async def _verify(self, turn: Turn) -> TurnResult | None:
        if self._takeovers is None:
            return None
        is_late = self._is_late(turn)
        result = await self._takeovers.verify(turn, self._find_cause)
        if is_late and result is None and self._handlers.spawning:
            await self._adjust_background(turn)
        return result

    def _is_late(self, turn: Turn) -> bool:
        return self._takeovers is not None and self._takeovers.is_late(turn)

    # The acts by the cause.

    def _detect(self, turn: Turn) -> None:
        turn.cause = self._find_cause(turn)

    async def _let_go(self, turn: Turn) -> TurnResult:
        if self._handlers.is_interested(turn.cause):
            turn.cause.logger.debug("Deletion, but we are done with it, and we do not care.")
            turn.logger.debug("Handling cycle is finished, waiting for new changes.")
        return await self._delivery.apply(turn)

    async def _clean_up(self, turn: Turn) -> TurnResult | None:
        if self.desired is None or await self.desired.clean_up(self._make_step(turn)):
            return None
        return await self._delivery.apply(turn, delay=CLEANING_POLLING)

    async def _fix_finalizer(self, turn: Turn) -> TurnResult | None:
        finalizer = self._rules.finalizer
        is_wanted = not is_deletion_blocked(turn.cause.body, finalizer)
        if must_leave_finalizer(turn, self._clock.monotonic(), wanted=is_wanted):
            return None
        if is_wanted:
            turn.logger.debug("Adding the finalizer, thus preventing the actual deletion.")
            turn.marks.fns.append(partial(block_deletion, finalizer=finalizer))
        else:
            turn.logger.debug("Removing the finalizer, as there are no handlers requiring it.")
            turn.marks.fns.append(partial(allow_deletion, finalizer=finalizer))
        return await self._delivery.apply(turn)

    async def _handle(self, turn: Turn) -> TurnResult:
        """Make one step towards the state in which all changes of the object are handled."""
        cause, key = turn.cause, turn.item.key
        is_deleting = cause.reason is Reason.DELETE
        is_kept = is_deleting and self._background.is_running(key)
        delay = hold = get_finalizer_hold(turn, cause.reason, self._clock.monotonic())
        is_ours = self._handlers.is_interested(cause)  # objects of no interest get no marks
        if is_ours and turn.memory.cycle.stage is not Stage.RELEASED:
            delay = sooner(hold, await self._cycles.step(turn, cause, is_kept=is_kept))
            turn.is_finished &= hold is None
        if self.desired is not None and not (is_deleting or is_being_cancelled()):
            delay = sooner(delay, await self._make_passes(turn, self.desired))
        if is_deleting and delay is None:
            self._release(turn, is_kept=is_kept)
        if self._background.is_stopping(key):  # usually, they wake the object when they end
            delay = sooner(delay, self.settings.background.cancellation_polling)
        if self._handlers.viewing and not is_deleting:
            tell_of_problems(turn, self._handlers, cause, is_patched=True)
        before = turn.item.latest
        result = await self._delivery.apply(turn, delay)
        if self.desired is not None and turn.applied is not None:
            self.desired.on_delivered(turn.item.key, turn.applied)
            self.echoes.remember(turn, before)
        if cause.reason is Reason.NOOP and turn.is_finished and turn.applied is None:
            self._rules.idleness.remember(turn)
        return result

    async def _make_passes(self, turn: Turn, desired: "DesiredStates") -> float | None:
        """Make the passes; but send the changes of handlers first, as passes can take long."""
        if turn.is_changing:
            if desired.is_looping(turn.item.key):  # our changes will hide changes by others
                desired.notice(self._make_step(turn))
            return 0.0
        return await desired.make_passes(self._make_step(turn))

    def _make_step(self, turn: Turn) -> "Step":
        from kopf_core.engines.desired.object_plans import Step
        from kopf_core.engines.desired.triggers import digest

        cause = turn.cause
        return Step(
            key=turn.item.key,
            cause=cause,
            essence=digest(self._cycles.build_essence(cause.body)),
            marks=turn.marks,
            is_held=is_deletion_blocked(cause.body, self._rules.finalizer),
            is_own=turn.is_own,
        )

    def _release(self, turn: Turn, *, is_kept: bool) -> None:
        """The deletion is handled: plan to remove the finalizer, unless daemons still run."""
        cycle = turn.memory.cycle
        turn.memory.cycle = cycle.at(Stage.RELEASED)
        if is_kept:
            return
        turn.logger.debug("Removing the finalizer, thus allowing the actual deletion.")
        if cycle.stage is Stage.RELEASED:  # the finalizer could not be removed earlier
            self._cycles.purge(turn, turn.cause)
        plan_release(turn.marks, self._rules.finalizer)

    # What has happened.

    def _find_cause(self, turn: Turn) -> ChangingCause:
        """Find out what has happened to the object since it was handled for the last time."""
        body, storage = turn.body, self.settings.persistence.diffbase_storage
        is_promising = self._handlers.is_unfiltered or any(
            may_match(handler, body) for handler in self._handlers.changing
        )
        old = storage.fetch(body=body) if is_promising else None
        new = self._cycles.get_essence(turn) if is_promising else None
        if isinstance(old, Digests):
            old = old.reveal(new or {})
        changes = EMPTY
        if old != new:
            if old is not None and new is not None:
                old = self._handlers.form.reduce(old, new, body)
            changes = diff(old, new)
        initial = turn.memory.initial
        reason = detect_reason(
            event_type=turn.item.type,
            body=body,
            old=old,
            diff=changes,
            initial=initial,
            finalizer=self._rules.finalizer,
        )
        return self._make_cause(
            ChangingCause,
            turn,
            body,
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
            record=turn.memory,
            indices=self._indices,
            **specifics,
        )
