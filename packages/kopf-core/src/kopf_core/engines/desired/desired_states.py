"""The engine of desired state: the plans of all objects that have reconcilers."""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Any

from kopf_cogs.aiokits.clocks import Clock
from kopf_cogs.aiokits.surroundings import get_chance
from kopf_cogs.clients.objects import ObjectsAPI
from kopf_cogs.structs.bodies import RawBody
from kopf_cogs.structs.dicts import resolve
from kopf_cogs.structs.ids import HandlerId
from kopf_cogs.structs.keys import ObjectKey
from kopf_cogs.structs.patches import Patch
from kopf_cogs.structs.resources import Resource
from kopf_cogs.structs.selectors import Selector
from kopf_core.actions.effects import Applied
from kopf_core.actions.execution import Execution
from kopf_core.actions.outcomes import Outcome
from kopf_core.actions.retrying import safe_message
from kopf_core.actions.states import HandlerState
from kopf_core.engines.desired.applying import Applier
from kopf_core.engines.desired.badges import Badges
from kopf_core.engines.desired.farewells import Farewells
from kopf_core.engines.desired.fights import FIGHT_DELAY, Fights
from kopf_core.engines.desired.knowledge import Knowledge, Sources
from kopf_core.engines.desired.object_plans import ObjectPlans, Step
from kopf_core.engines.desired.ownership import get_identity, get_owners, show
from kopf_core.engines.desired.pass_places import make_places
from kopf_core.engines.desired.passes import Pass
from kopf_core.engines.desired.progress import Progress
from kopf_core.engines.desired.relations import Relation, settle
from kopf_core.engines.desired.sources import Name, ObservedChange
from kopf_core.engines.desired.status_patches import (
    FieldConflictError,
    drop_if_the_same,
    drop_unkept,
    is_dropped,
    observe,
    tell_of_conflict,
    tell_of_peace,
)
from kopf_core.engines.desired.triggers import NEVER, NOBODY, Essence, Plan, Trigger, digest
from kopf_core.engines.records.holds import NO_LOOP
from kopf_core.engines.records.rounds import describe_fields, find_fields
from kopf_core.intents.causes import ReconcilingCause
from kopf_core.intents.families import Family
from kopf_core.intents.handlers import ReconcilingHandler
from kopf_core.intents.matching import select

logger = logging.getLogger("kopf.desired")

JITTER = 0.1
"""By which share the times of periodic passes vary, so that all objects do not come at once."""

REJECTION_DELAYS = (1.0, 10.0, 60.0)
"""When to make passes anew (in seconds) if the API rejects the status that they have set."""

Enqueue = Callable[[ObjectKey, str], Any]


class DesiredStates:
    """Makes the due passes for the objects of one kind."""

    def __init__(
        self,
        *,
        handlers: tuple[ReconcilingHandler, ...],
        shared_ids: Collection[HandlerId] = (),
        execution: Execution,
        api: ObjectsAPI,
        indices: Mapping[str, Any],
        sources: Sources,
        enqueue: Enqueue,
    ) -> None:
        self._handlers = handlers
        self._execution = execution
        self._clock: Clock = execution.clock
        self._progress = Progress(execution.settings, execution.clock, shared_ids)
        self._api = api
        self._sources = sources.get_sources
        self._enqueue = enqueue
        self._badges = Badges.of(execution.settings.name, api.manager)
        self._objects: dict[ObjectKey, ObjectPlans] = {}
        self._waiting: dict[Any, set[ObjectKey]] = {}
        workers = execution.settings.execution.max_workers
        self._places = {
            h.id: make_places(h.limit, workers, lambda key: enqueue(key, "its turn has come"))
            for h in handlers
        }
        self._relations = {
            (handler.id, selector): Relation(
                settle(source, indices),
                indices=indices,
                on_names=partial(_refer, sources, selector, handler.id),
            )
            for handler in handlers
            for selector, source in handler.related.items()
        }
        self._knowledge = Knowledge(sources, handlers, self._relations)
        self._farewells = Farewells(api, self._knowledge, self._badges)

    # What happens around.

    def on_owned(self, resource: Resource, body: RawBody, change: ObservedChange) -> None:
        """An object of an owned kind has appeared, changed, or vanished: tell its owners."""
        is_ours = change is ObservedChange.OURS
        handlers = self._find_siblings(resource, body) if is_ours else self._handlers
        for uid in get_owners(body) if handlers else ():
            if uid in self._objects or uid in self._farewells.leaving:
                self._trigger(uid, Trigger("child", show(body)), handlers)
        if self._waiting and not is_ours:
            identity = get_identity(resource, body)
            for key in self._waiting.get(identity, ()):
                self._trigger(key, Trigger("unblocked", show(body)), self._handlers)

    def _find_siblings(self, resource: Resource, body: RawBody) -> list[ReconcilingHandler]:
        """Find the other reconcilers that own this kind, besides the one that has applied the
        object.
        """
        if len(self._handlers) == 1:
            return []
        id = self._badges.get_reconciler(body)
        return [h for h in self._handlers if h.id != id and any(s.check(resource) for s in h.owns)]

    def on_listed(self, resource: Resource) -> None:
        """The objects of an observed kind are known now, at least in one namespace: let the waiting
        passes go on.
        """
        for key in self._farewells.leaving:
            self._enqueue(key, f"{resource.name} are listed")
        for handler in self._handlers:
            if any(selector.check(resource) for selector in (*handler.owns, *handler.related)):
                for key, known in self._objects.items():
                    if handler.id in known.plans and known.plans[handler.id].is_hampered:
                        self._trigger(key, Trigger("unblocked", resource.name), (handler,))

    def on_indexed(self, index: str, values: Iterable[Any]) -> None:
        """The values of an index have changed: trigger the objects that are named there."""
        for (id, _), relation in self._relations.items():
            if relation.index == index:
                relation.renew()
                handlers = [handler for handler in self._handlers if handler.id == id]
                for key in relation.find_named(values):
                    self._trigger(key, Trigger("related", f"index {index}"), handlers)

    def on_related(self, resource: Resource, body: RawBody, change: ObservedChange) -> None:
        """An object of a related kind has appeared, changed, or vanished: trigger its primary
        objects.
        """
        is_ours = change is ObservedChange.OURS
        for handler in self._handlers:
            for selector in handler.related:
                if selector.check(resource):
                    relation = self._relations[handler.id, selector]
                    keys = {*self._find_primaries(handler, relation, body, change)}
                    for key in keys.difference(get_owners(body) if is_ours else ()):
                        self._trigger(key, Trigger("related", show(body)), (handler,))

    def _find_primaries(
        self, handler: ReconcilingHandler, relation: Relation, body: RawBody, change: ObservedChange
    ) -> Collection[ObjectKey]:
        """Find the primary objects of the related object, both before and after its change."""
        if change is ObservedChange.GONE:
            return relation.forget_related(body)
        former = relation.find_former(body)
        try:
            return {*former, *relation.find_primaries(body)}
        except Exception as e:
            why = f"{type(e).__name__}: {safe_message(e)}"
            logger.error(f"{handler} cannot tell whom {show(body)} is related to: {why}")
        return former

    def on_external(self, key: ObjectKey, trigger: Trigger) -> None:
        """An external source has reported a happening: the object must be checked."""
        self._trigger(key, trigger, self._handlers)

    def on_delivered(self, key: ObjectKey, applied: Applied) -> None:
        """The API has answered the patch. If it has rejected any part, make the passes anew later.

        The passes do not apply children again, as these are as wanted. They set the conditions.
        If the API has accepted and dropped the conditions, it is useless to send them again.
        """
        known, is_rejected = self._objects.get(key), bool(applied.rejections)
        if known is None:
            return
        known.notice_reply(is_rejected, is_dropped(applied.inconsistencies))
        if is_rejected:
            delay = REJECTION_DELAYS[min(known.rejections, len(REJECTION_DELAYS)) - 1]
            for plan in known.plans.values():
                plan.due["retry"] = self._clock.monotonic() + delay
            self._enqueue(key, "the patch is rejected")

    def _trigger(
        self, key: ObjectKey, trigger: Trigger, handlers: Iterable[ReconcilingHandler]
    ) -> None:
        plans = self._objects[key].plans if key in self._objects else {}
        for handler in handlers:
            if handler.id in plans:
                plans[handler.id].add(trigger)
        self._enqueue(key, str(trigger))

    # The turns of an object.

    def must_wait(self, key: ObjectKey) -> bool:
        """Whether there is no place for a pass now, so that due passes need not be looked for. A
        free place brings the object back.
        """
        if len(self._handlers) > 1:  # some of them can have a place
            return False
        return self._places[self._handlers[0].id].wait(key)

    @property
    def is_indifferent(self) -> bool:
        """Whether passes never depend on the status of an object."""
        return not self._relations and not any(handler.has_filters for handler in self._handlers)

    def get_rest(self, key: ObjectKey) -> float:
        """For how many seconds the object needs nothing, if nothing happens to it."""
        known = self._objects.get(key)
        if known is None or known.far or len(known.plans) < len(self._handlers):
            return 0.0
        return known.get_rest(self._clock.monotonic())

    def is_at_rest(self, key: ObjectKey) -> bool:
        """Whether the latest passes of the object left nothing to retry, so it has only planned
        passes.
        """
        known = self._objects.get(key)
        return known is not None and not any(
            plan.is_hampered or "retry" in plan.due or not plan.is_settled
            for plan in known.plans.values()
        )

    def is_looping(self, key: ObjectKey) -> bool:
        """Whether the latest pass has changed the object, so that it can be a loop."""
        known = self._objects.get(key)
        return known is not None and any(plan.loop is not None for plan in known.plans.values())

    def notice(self, step: Step) -> None:
        """Notice the object, but make no passes for it yet."""
        for handler in self._handlers:
            plan = self._objects[step.key].plans.get(handler.id)
            if plan is not None:
                self._notice(handler, plan, step)

    def _notice(self, handler: ReconcilingHandler, plan: Plan, step: Step) -> None:
        if plan.notice(_digest_status(handler, step, step.cause.body)):
            plan.go_round(self._clock.monotonic(), is_own=step.is_own)
            if plan.loop is not None and plan.loop.is_endless:
                self._execution.panel.count_round([handler])

    async def make_passes(self, step: Step) -> float | None:
        """Make all due passes; return in how many seconds to come back, if at all."""
        known = self._objects.setdefault(step.key, ObjectPlans())
        matching = select(self._handlers, step.cause, running=known.plans)
        for id in self._places.keys() - {handler.id for handler in matching}:
            self._places[id].leave(step.key)
            known.plans.pop(id, None)
            known.set_far(id, False)
            self._progress.drop(id, step)
        for handler in matching:
            if handler.id not in known.plans:
                known.plans[handler.id] = self._progress.make_plan(handler.id, step)
        for relation in self._relations.values():
            relation.track(step.key, step.cause.body)
        delays = [await self._make_pass(handler, known, step) for handler in matching]
        drop_if_the_same(step.cause.patch, step.cause.body)
        known.said = drop_unkept(step.cause.patch, step.cause.body, known.unkept)
        delay = min(delays, default=NEVER)
        return None if delay == NEVER else delay

    async def _make_pass(
        self, handler: ReconcilingHandler, known: ObjectPlans, step: Step
    ) -> float:
        plan, places = known.plans[handler.id], self._places[handler.id]
        now = self._clock.monotonic()
        self._notice(handler, plan, step)
        if plan.retry is not None and self._progress.is_hastened(handler.id, step.cause.body):
            plan.retry = now
        plan.ripen(now)
        at = plan.next_time(now)
        if at > now:
            places.leave(step.key)
            return at - now
        if not places.take(step.key):
            return NEVER
        try:
            state = self._progress.load(handler.id, step.cause.body, plan.since)
            await self._attempt(handler, known, plan, state, step)
        finally:
            plan.is_going = False
            places.free()
        if step.cause.patch.fns or step.cause.patch.keys() - {"status"}:
            plan.loop = plan.loop or NO_LOOP
            if plan.loop.is_endless and step.cause.record.warn_once(f"loop of {handler.id}"):
                _warn_of_loop(handler, step)
        if handler.status_field:
            after = Patch({**step.cause.patch}).transform(step.cause.body)
            plan.expected = _digest_status(handler, step, after)
        now = self._clock.monotonic()
        return max(0.0, plan.next_time(now) - now)

    def _await(self, key: ObjectKey, known: ObjectPlans, identities: frozenset[Any]) -> None:
        """Let changes of any of these objects, or the end of them, trigger the object."""
        if self._objects.get(key) is not known:  # the object was forgotten during the pass
            identities = NOBODY
        for identity in known.awaited - identities:
            keys = self._waiting.get(identity, set())
            keys.discard(key)
            if not keys:
                self._waiting.pop(identity, None)
        for identity in identities - known.awaited:
            self._waiting.setdefault(identity, set()).add(key)
        known.awaited = identities

    async def _attempt(
        self,
        handler: ReconcilingHandler,
        known: ObjectPlans,
        plan: Plan,
        state: HandlerState,
        step: Step,
    ) -> None:
        triggers = plan.take_triggers()
        cause = self._make_cause(handler, step, triggers)
        one = self._prepare(handler, known, cause, step)
        try:
            outcome = await self._execution.attempt(handler, cause, state, one.run)
        except BaseException:  # e.g. at a pause or a lost lease
            plan.triggers |= triggers
            raise
        known.keep_fights(handler.id, one.applier.fights)
        if one.applier.awaited or known.awaited:
            plan.awaited = frozenset(one.applier.awaited) or NOBODY
            awaited = frozenset().union(*(plan.awaited for plan in known.plans.values()))
            self._await(step.key, known, awaited or NOBODY)
            if one.applier.is_unblocked():  # no trigger came for that: it was not awaited yet
                plan.add(Trigger("unblocked"))
        if one.applier.warning:
            is_lasting = isinstance(outcome.exception, FieldConflictError)
            tell_of_conflict(cause, one.applier.warning, is_lasting=is_lasting)
        if one.is_interrupted:
            known.set_far(handler.id, True)
            plan.triggers |= triggers
            return
        plan.is_partial = one.is_unsure or not self._knowledge.is_complete(handler)
        plan.is_complete = one.is_complete
        if one.is_complete:
            known.set_far(handler.id, one.applier.is_far)
            tell_of_peace(cause)
            observe(cause, known)
        self._progress.keep(handler.id, state, outcome, step)
        plan.since = None if outcome.final else state.since
        if all(plan.since is None for plan in known.plans.values()):
            self._progress.sweep(step)
        self._plan_next(handler, plan, outcome, one)

    def _plan_next(
        self, handler: ReconcilingHandler, plan: Plan, outcome: Outcome, one: Pass
    ) -> None:
        now = self._clock.monotonic()
        if not outcome.final:
            plan.retry = now + (outcome.delay or 0.0)
        elif handler.every is not None:
            plan.due["every"] = now + handler.every * get_chance().uniform(1 - JITTER, 1 + JITTER)
        if outcome.final and one.again is not None:
            plan.due["again"] = now + one.again
        rest = FIGHT_DELAY if one.applier.fights.is_on else 0.0
        plan.rested = now + max(handler.cooldown or 0.0, rest)

    def _make_cause(
        self, handler: ReconcilingHandler, step: Step, triggers: frozenset[Trigger]
    ) -> ReconcilingCause:
        cause, uid = step.cause, step.cause.body.metadata.uid or ""
        home = cause.body.metadata.namespace
        owned = self._sources(handler.owns)
        return ReconcilingCause(
            resource=cause.resource,
            body=cause.body,
            patch=cause.patch,
            settings=cause.settings,
            record=cause.record,
            indices=cause.indices,
            children=Family(owned, (b for s in owned.values() for b in s.owned_by(uid)), home),
            related=self._find_related(handler, step.key, home),
            triggers=triggers,
        )

    def _find_related(
        self, handler: ReconcilingHandler, key: ObjectKey, home: str | None
    ) -> Family:
        found: list[RawBody] = []
        resources: list[Resource] = []
        for selector in handler.related:
            relation = self._relations[handler.id, selector]
            for resource, source in self._sources([selector]).items():
                resources.append(resource)
                found.extend(relation.find_in(source, key))
        return Family(resources, found, home)

    def _prepare(
        self,
        handler: ReconcilingHandler,
        known: ObjectPlans,
        cause: ReconcilingCause,
        step: Step,
    ) -> Pass:
        fights = known.fights.get(handler.id) or Fights(self._clock)
        applier = Applier(
            api=self._api,
            owns=handler.owns,
            sources=self._sources(handler.owns),
            badges=self._badges,
            owner=cause.body,
            reconciler=handler.id,
            logger=cause.logger,
            fights=fights,
            doubts=self._farewells.doubts,
            siblings=known.plans.keys() - {handler.id},
            disturbed=[one.subject for one in cause.triggers if one.kind == "child"],
            force=handler.force,
            is_held=step.is_held,
        )
        executor, door = self._execution.threads, self._execution.door
        aside = self._places[handler.id].aside
        unlisted = self._knowledge.find_unlisted(handler, step.key, cause.body.metadata.namespace)
        return Pass(handler.fn, cause, applier, executor, door, aside, handler.prune, unlisted)

    # The end of an object.

    def needs_finalizer(self, key: ObjectKey, *, is_held: bool) -> bool:
        """Whether the object has, or is going to have, children that Kubernetes does not
        garbage-collect.
        """
        known = self._objects.get(key)
        is_going_to_be = known is not None and bool(known.far)
        return is_going_to_be or self._farewells.are_needed(key, is_held=is_held)

    async def clean_up(self, step: Step) -> bool:
        """Delete the children that Kubernetes does not delete; return whether all of them are
        gone.
        """
        self.suspend(step.key)
        return await self._farewells.clean_up(step)

    def restart(self) -> None:
        """Forget all objects, as after a restart: they will be listed again."""
        for key in [*self._objects, *self._farewells.leaving]:
            self.forget(key)

    def suspend(self, key: ObjectKey) -> None:
        """The object is paused or leaves: give the place that it waits for to other objects."""
        for places in self._places.values():
            places.leave(key)

    def forget(self, key: ObjectKey) -> None:
        """The object is gone."""
        self._farewells.forget(key)
        known = self._objects.pop(key, None)
        self.suspend(key)
        if known is not None:
            self._await(key, known, NOBODY)
            for relation in self._relations.values():
                relation.forget(key)


def _refer(
    sources: Sources, selector: Selector, id: HandlerId, key: ObjectKey, names: frozenset[Name]
) -> None:
    sources.refer(selector, (id, key), names)


def _warn_of_loop(handler: ReconcilingHandler, step: Step) -> None:
    fields = describe_fields(find_fields(step.cause.patch))
    what = f"the {fields} of its own object" if fields else "its own object"
    step.cause.logger.warning(
        f"{handler} changes {what} in every pass, so the passes never end. "
        f"They will be ever more rare."
    )


def _digest_status(handler: ReconcilingHandler, step: Step, body: Mapping[str, Any]) -> Essence:
    """The essence of the object for this reconciler: with the status, if it is declared so."""
    field = handler.status_field
    return digest([step.essence.hex(), resolve(body, field, None)]) if field else step.essence
