"""The spine: what happens to an object, from an event to the requests to the API.

Two functions to be read from top to bottom:

* :meth:`Reconciler.on_event` is called once for each event, in order.
* :meth:`Reconciler.reconcile` is called when the state of the object is settled:
  there are no newer events, and our own last patch has come back (or its deadline has passed).
"""

import logging
from functools import partial
from typing import Any, TypeVar

from kopf_cogs.clients.errors import APIError
from kopf_cogs.clients.session import Client
from kopf_cogs.configs.settings import OperatorSettings
from kopf_cogs.structs.bodies import Body, BodyEssence, RawEvent
from kopf_cogs.structs.diffs import EMPTY, diff
from kopf_cogs.structs.finalizers import (
    allow_deletion,
    block_deletion,
    is_deletion_blocked,
    is_deletion_ongoing,
)
from kopf_cogs.structs.patches import Patch
from kopf_cogs.structs.resources import Resource
from kopf_cogs.structs.secrecy import show
from kopf_core.actions.effects import deliver_results, merge_into
from kopf_core.actions.execution import Execution, collect_results
from kopf_core.actions.loggers import ObjectLogger
from kopf_core.actions.retrying import safe_repr
from kopf_core.actions.states import State
from kopf_core.engines.indexing import Indices
from kopf_core.engines.memories import NOTHING_SEEN, ObjectMemories
from kopf_core.intents.causes import (
    TITLES,
    ChangingCause,
    Reason,
    ResourceCause,
    SpawningCause,
    WatchingCause,
)
from kopf_core.intents.detection import detect_reason
from kopf_core.intents.matching import may_match
from kopf_core.intents.registries import ResourceHandlers
from kopf_core.reactor.catching import find_outdated, select_catching_up
from kopf_core.reactor.delivery import FOREVER, Delivery
from kopf_core.reactor.safeguards import (
    get_lost_marks_delay,
    is_too_large,
    throttle,
    unthrottle,
    warn_of_clashes,
)
from kopf_core.reactor.subjects import Background, Subject
from kopf_core.reactor.work import DONE, Done, TurnResult, WorkItem

NOT_INTERESTED = "Something has changed, but we are not interested (the essence is the same)."

C = TypeVar("C", bound=ResourceCause)


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
    ) -> None:
        self.resource = resource
        self.settings: OperatorSettings = execution.settings
        self._handlers = handlers
        self._execution = execution
        self._memories = memories
        self._indices = indices
        self._background = background
        self._clock = execution.clock
        self._extra_fields = handlers.extra_fields
        self._delivery = Delivery(
            client=client,
            resource=resource,
            settings=execution.settings,
            clock=execution.clock,
            build_essence=self._build_essence,
        )

    async def process(self, item: WorkItem) -> TurnResult:
        """Process all that is there for the object, and say when to do it again."""
        is_listed = bool(item.events) and item.events[0]["type"] is None
        memory = self._memories.recall(item.key, is_listed=is_listed)
        subject = Subject(item, memory, settings=self.settings)
        if memory.pending is not None:
            subject.marks, subject.patch = memory.pending
        try:
            while item.events:
                await self.on_event(subject, item.events.popleft())
                if item.events and (subject.patch or subject.marks):
                    await self._delivery.apply(subject)
            result = await self._reconcile_if_settled(subject)
        except APIError as e:
            return throttle(subject, f"{e}", None, self._clock.monotonic())
        except Exception as e:
            return throttle(subject, safe_repr(e), e, self._clock.monotonic())
        unthrottle(subject)
        return result

    async def on_event(self, subject: Subject, event: RawEvent) -> None:
        """Process one event: see what it is, call the handlers of events, adjust the daemons."""
        self._delivery.notice(subject, event)
        subject.body = body = Body(event["object"])
        if self._handlers.watching:
            watching = self._make_cause(WatchingCause, subject, body, event=event)
            for handler in self._handlers.select_watching(watching):
                result = await self._execution.observe(handler, watching)
                if result is not None:
                    deliver_results(
                        {handler.id: result}, marks=subject.marks, logger=watching.logger
                    )
        if self._handlers.spawning:
            if event["type"] == "DELETED" or is_deletion_ongoing(body):
                self._background.stop_deleted(subject.memory, body)
            else:
                spawning = self._make_cause(SpawningCause, subject, body)
                self._background.adjust(subject.item.key, subject.memory, spawning, self._handlers)
            if self._background.is_stopping(subject.memory):
                await self._background.settle(subject.memory)

    async def reconcile(self, subject: Subject) -> TurnResult:
        """Bring the object to the state where all its changes are handled. One step of that."""
        cause = self._detect(subject)
        is_ours = self._handlers.is_interested(cause)
        match cause.reason:
            case Reason.GONE:
                if is_ours:
                    cause.logger.debug("Deleted, really deleted, and we are notified.")
                self._memories.forget(subject.item.key)
                return DONE
            case Reason.FREE:
                if is_ours:
                    cause.logger.debug("Deletion, but we are done with it, and we do not care.")
                    subject.logger.debug("Handling cycle is finished, waiting for new changes.")
                return await self._delivery.apply(subject)
            case Reason.DELETE if subject.memory.is_freed:
                return await self._delivery.apply(subject)  # an echo of what was before the release
            case Reason.DELETE if self._background.is_running(subject.memory):
                return await self._delivery.apply(subject, delay=self._background_polling)
        if cause.reason is not Reason.DELETE and self._fix_finalizer(subject, cause):
            return await self._delivery.apply(
                subject, delay=None if subject.marks else self._background_polling
            )
        if is_ours and not subject.memory.is_released:  # others are left without our marks
            delay = await self._handle(subject, cause)
            if delay is not None:
                return await self._delivery.apply(subject, delay)
            self._finish(subject, cause)
        if cause.reason is Reason.DELETE:
            self._release(subject, cause)
        return await self._delivery.apply(subject)

    async def _handle(self, subject: Subject, cause: ChangingCause) -> float | None:
        """Make one step of the handling cycle; get the delay to the next one, if there is one."""
        if cause.reason is Reason.NOOP:
            cause.logger.debug(NOT_INTERESTED)
            return None
        if cause.reason is Reason.CREATE and subject.memory.is_handled:
            subject.memory.is_handled = False
            delay = get_lost_marks_delay(subject.memory, cause.logger)
            if delay:
                return delay
        self._remember_essence(subject, cause)
        if (
            subject.essence is not None
            and cause.reason is not Reason.DELETE
            and is_too_large(cause.body, subject.essence, cause.logger)
        ):
            return FOREVER
        storage = self.settings.persistence.progress_storage
        handlers = select_catching_up(subject.memory, cause, self._handlers.select_changing(cause))
        state = State.from_storage(
            self._handlers.changing,
            body=cause.body,
            storage=storage,
            now=self._clock.now(),
        ).with_purpose(cause.reason, handlers)
        self._announce(cause, state)
        if handlers:
            if not self._handlers.is_unambiguous:
                warn_of_clashes(subject.memory, handlers, cause.logger)
            outcomes = await self._execution.run(handlers, cause, state)
            state = state.with_outcomes(outcomes, now=self._clock.now())
            deliver_results(collect_results(outcomes), marks=subject.marks, logger=cause.logger)
            if not state.done:
                finals = {id: cause.new for id, outcome in outcomes.items() if outcome.final}
                subject.memory.seen = subject.memory.seen | finals
                state.store(body=cause.body, patch=subject.marks, storage=storage)
                return state.delay
            title = TITLES[cause.reason].capitalize()
            cause.logger.info(f"{title} is processed: {state.summary}.")
        self._purge(subject, cause, state)
        storage.sweep(body=cause.body, patch=subject.marks, purpose=cause.reason.value)
        storage.touch(body=cause.body, patch=subject.marks, value=None)
        return None

    def _purge(
        self,
        subject: Subject,
        cause: ChangingCause,
        state: State | None = None,
    ) -> None:
        """Remove the progress of handlers from the object."""
        storage, handlers = self.settings.persistence.progress_storage, self._handlers.changing
        if state is None:
            state = State.from_storage(
                handlers, body=cause.body, storage=storage, now=self._clock.now()
            )
        state.purge(handlers, body=cause.body, patch=subject.marks, storage=storage)

    def _finish(self, subject: Subject, cause: ChangingCause) -> None:
        """The cycle is over: remember the handled state.

        If the object was changed when some of the handlers had already finished, the state
        that they have seen is remembered, so that they get the change as the next update.
        """
        outdated = find_outdated(subject.memory, cause, self._handlers.changing)
        subject.memory.catching_up = (cause.new, subject.memory.seen) if outdated else None
        subject.memory.seen = NOTHING_SEEN
        for essence in outdated.values():
            subject.essence = Patch()
            self.settings.persistence.diffbase_storage.store(
                body=cause.body, patch=subject.essence, essence=essence
            )
            self._purge(subject, cause)  # also if the change was reverted, and the cycle dropped
            break
        if subject.essence is not None:
            merge_into(subject.marks, subject.essence)
        subject.memory.is_handled = True
        subject.is_finished = not outdated
        if not subject.marks and not subject.patch and cause.reason is not Reason.DELETE:
            subject.logger.debug("Handling cycle is finished, waiting for new changes.")

    def _remember_essence(self, subject: Subject, cause: ChangingCause) -> None:
        """Prepare the last handled state; it will be stored only when everything is handled."""
        if cause.old is None or cause.diff:
            subject.essence = Patch()
            self.settings.persistence.diffbase_storage.store(
                body=cause.body, patch=subject.essence, essence=cause.new
            )

    def _release(self, subject: Subject, cause: ChangingCause) -> None:
        """Everything is done about the deletion: let the object go."""
        subject.logger.debug("Removing the finalizer, thus allowing the actual deletion.")
        subject.memory.is_released = True
        subject.marks.fns.append(
            partial(allow_deletion, finalizer=self.settings.persistence.finalizer)
        )

    def _fix_finalizer(self, subject: Subject, cause: ChangingCause) -> bool:
        """Add or remove the finalizer; get whether there is anything to be done about it."""
        finalizer = self.settings.persistence.finalizer
        is_blocked = is_deletion_blocked(cause.body, finalizer)
        finished = self._background.get_finished(subject.memory)
        is_required = self._handlers.requires_finalizer(cause, finished)
        if is_required and not is_blocked:
            subject.logger.debug("Adding the finalizer, thus preventing the actual deletion.")
            subject.marks.fns.append(partial(block_deletion, finalizer=finalizer))
            return True
        if is_blocked and not is_required:
            if self._background.is_running(subject.memory):
                return True
            subject.logger.debug("Removing the finalizer, as there are no handlers requiring it.")
            subject.marks.fns.append(partial(allow_deletion, finalizer=finalizer))
            return True
        return False

    async def _reconcile_if_settled(self, subject: Subject) -> TurnResult:
        item = subject.item
        if item.latest is None:
            return DONE
        subject.type = item.type
        if subject.body._cell[0] is not item.latest:
            subject.body = Body(item.latest)
        if subject.type == "DELETED":
            return await self.reconcile(subject)
        if subject.memory.pending is not None:  # its handlers must not be called again for that
            result = await self._delivery.apply(subject)
            if not isinstance(result, Done):
                return result
        if not self._handlers.requires_patching and not is_deletion_blocked(
            subject.body, self.settings.persistence.finalizer
        ):
            return await self._delivery.apply(subject)
        awaited = self._delivery.get_awaited(subject)
        if awaited is not None:
            if subject.patch or subject.marks:
                return await self._delivery.apply(subject)
            return awaited
        if subject.memory.is_outdated(item.latest) or self._is_echo(subject):
            return await self._delivery.apply(subject)
        return await self.reconcile(subject)

    def _is_echo(self, subject: Subject) -> bool:
        """Whether this is how we have left the object ourselves, with nothing to be done.

        Daemons and timers can end without any change of the object, so they are always checked.
        """
        if self._handlers.spawning or not subject.memory.is_settled(subject.item.latest):
            return False
        if subject.logger.isEnabledFor(logging.DEBUG):
            ObjectLogger(body=subject.body, settings=self.settings).debug(NOT_INTERESTED)
        subject.logger.debug("Handling cycle is finished, waiting for new changes.")
        return True

    @property
    def _background_polling(self) -> float:
        """How long to wait for daemons to end: they tell when they do, so this is a last resort."""
        return self.settings.background.cancellation_polling

    def _detect(self, subject: Subject) -> ChangingCause:
        """Find out what has happened to the object since it was handled for the last time."""
        storage = self.settings.persistence.diffbase_storage
        is_promising = any(may_match(handler, subject.body) for handler in self._handlers.changing)
        old = storage.fetch(body=subject.body) if is_promising else None
        new = self._build_essence(subject.body) if is_promising else None
        changes = diff(old, new) if old != new else EMPTY
        initial = subject.memory.initial
        reason = detect_reason(
            event_type=subject.type,
            body=subject.body,
            old=old,
            diff=changes,
            initial=initial,
            finalizer=self.settings.persistence.finalizer,
        )
        return self._make_cause(
            ChangingCause,
            subject,
            subject.body,
            initial=initial,
            reason=reason,
            diff=changes,
            old=old,
            new=new,
            marks=subject.marks,
        )

    def _build_essence(self, body: Body) -> BodyEssence:
        persistence = self.settings.persistence
        essence = persistence.diffbase_storage.build(body=body, extra_fields=self._extra_fields)
        return persistence.progress_storage.clear(essence=essence)

    def _make_cause(
        self,
        cls: type[C],
        subject: Subject,
        body: Body,
        **specifics: Any,
    ) -> C:
        return cls(
            resource=self.resource,
            body=body,
            patch=subject.patch,
            settings=self.settings,
            memo=subject.memory.memo,
            indices=self._indices,
            **specifics,
        )

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
            cause.logger.debug(f"{title} is in progress: {show(self.resource, cause.body)}")
            if cause.diff and cause.old is not None:
                cause.logger.debug(f"{title} diff: {show(self.resource, cause.diff)}")
