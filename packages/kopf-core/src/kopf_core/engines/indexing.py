"""Indices: in-memory overviews of objects, computed by the functions of users.

Only this module writes to indices, in the event loop. Any code reads them, also in threads:
handlers get read-only views, and an iteration over a view goes over a snapshot.
"""

import asyncio
from collections.abc import Collection, Mapping

from kopf_cogs.configs.settings import OperatorSettings
from kopf_cogs.helpers.callbacks import call
from kopf_cogs.structs.bodies import Body, RawEvent
from kopf_cogs.structs.ids import HandlerId
from kopf_cogs.structs.keys import ObjectKey
from kopf_cogs.structs.patches import Patch
from kopf_cogs.structs.resources import Resource
from kopf_core.actions.execution import Execution
from kopf_core.actions.limits import name_if_ignores
from kopf_core.actions.loggers import AnyLogger
from kopf_core.actions.outcomes import Outcome
from kopf_core.actions.retrying import safe_message
from kopf_core.actions.states import HandlerState
from kopf_core.engines.complaints import complain
from kopf_core.engines.memories import ObjectMemories
from kopf_core.intents.causes import IndexingCause
from kopf_core.intents.handlers import IndexingHandler
from kopf_core.intents.indices import Indices
from kopf_core.intents.matching import matches, may_match
from kopf_core.intents.registries import deduplicate
from kopf_core.intents.views import InvalidObjectError

PATIENCE = 10.0
"""How long (in seconds) one call of an index function can take, until the function hangs."""

IMPATIENCE = 0.1
"""The least time for a function that hangs again and again: each hang halves the time."""


class ResourceIndexer:
    """Keeps the indices right for the objects of one resource."""

    def __init__(
        self,
        *,
        resource: Resource,
        handlers: tuple[IndexingHandler, ...],
        indices: Indices,
        memories: ObjectMemories,
        execution: Execution,
    ) -> None:
        self._resource = resource
        self._handlers = deduplicate(handlers)
        self._indices = indices
        self._arguments = indices.as_arguments(execution.settings.cluster)
        self._memories = memories
        self._execution = execution
        self._settings: OperatorSettings = execution.settings
        self._keys: set[ObjectKey] = set()
        self._failures: dict[ObjectKey, Mapping[HandlerId, HandlerState]] = {}
        self._patience = _Patience()
        self._interrupted: dict[ObjectKey, dict[HandlerId, asyncio.Task[Outcome]]] = {}
        self._waiting: dict[ObjectKey, asyncio.Task[None]] = {}

    async def index(self, key: ObjectKey, event: RawEvent) -> None:
        """Bring the indices in line with the state of the object. Raises only cancellations."""
        if (waiting := self._waiting.pop(key, None)) is not None:
            waiting.cancel()  # it is for an older state
        await self._index(key, event)

    async def _index(self, key: ObjectKey, event: RawEvent) -> None:
        body = Body(event["object"])
        is_deleted = event["type"] == "DELETED"
        if is_deleted:
            self._memories.forget_unseen(key)
        handlers = [] if is_deleted else [h for h in self._handlers if may_match(h, body)]
        for handler in self._handlers:
            if handler not in handlers:
                self._indices.discard(handler.id, key)
        if not handlers:  # objects that match no handlers leave no trace in the memory
            self._keys.discard(key)
            self._failures.pop(key, None)
            self._patience.forget(key)
            return
        self._keys.add(key)
        memory = self._memories.recall(key, is_listed=event["type"] is None)
        cause = IndexingCause(
            resource=self._resource,
            body=body,
            patch=Patch(),
            settings=self._settings,
            record=memory,
            indices=self._arguments,
        )
        running = self._interrupted.get(key, {})
        if any(handler.id in running for handler in handlers):
            self._wait_to_index(key, event, [*running.values()])
            handlers = [handler for handler in handlers if handler.id not in running]
        for handler in handlers:
            try:
                await self._index_one(key, handler, cause)
            except InvalidObjectError as e:
                self._indices.discard(handler.id, key)
                complain(cause, memory, str(e))
            except Exception as e:
                self._indices.discard(handler.id, key)
                cause.logger.error(
                    f"{handler} has failed on this object: {type(e).__name__}: {safe_message(e)}"
                )

    def _wait_to_index(
        self, key: ObjectKey, event: RawEvent, running: Collection[asyncio.Task[Outcome]]
    ) -> None:
        """Index this state when these calls end: only one of a function runs for an object."""

        async def index_later() -> None:
            await asyncio.wait(running)
            await self._index(key, event)

        def forget(task: asyncio.Task[None]) -> None:
            if self._waiting.get(key) is task:
                del self._waiting[key]

        self._waiting[key] = task = asyncio.create_task(index_later())
        task.add_done_callback(forget)

    def clear(self) -> None:
        """Forget all objects: the resource is not served anymore."""
        for waiting in self._waiting.values():
            waiting.cancel()
        self._waiting.clear()
        for key in self._keys:
            for handler in self._handlers:
                self._indices.discard(handler.id, key)
        self._keys.clear()
        self._failures.clear()
        self._patience = _Patience()

    async def _index_one(
        self, key: ObjectKey, handler: IndexingHandler, cause: IndexingCause
    ) -> None:
        if not matches(handler, cause):
            self._indices.discard(handler.id, key)
            return
        clock = self._execution.clock
        now = clock.now()
        state = self._failures.get(key, {}).get(handler.id)
        state = state or HandlerState(started=now, since=clock.monotonic())
        if not state.is_awake(now):
            return
        outcome = await self._attempt(key, handler, cause, state)
        if outcome is None:
            self._indices.discard(handler.id, key)
            return
        self._remember(key, handler, state, outcome)
        if outcome.exception is not None:
            self._indices.discard(handler.id, key)
        elif type(outcome.result) is dict:  # the code of users compares the keys
            call(self._indices.replace, handler.id, key, outcome.result)
        elif outcome.result is not None:
            self._indices.replace(handler.id, key, {None: outcome.result})

    async def _attempt(
        self, key: ObjectKey, handler: IndexingHandler, cause: IndexingCause, state: HandlerState
    ) -> Outcome | None:
        """Call the function, but not for ever: the stream of its kind waits for it."""
        patience = self._patience.get(handler.id, key)
        attempt = asyncio.create_task(self._execution.attempt(handler, cause, state))
        try:
            if await _ends_within(attempt, patience):
                self._patience.restore(handler.id, key)
                return attempt.result()
        finally:
            if not attempt.done():
                self._interrupt(key, attempt, handler, cause.logger)
        await _ends_within(attempt, IMPATIENCE)  # most calls end in time
        cause.logger.warning(
            f"{handler} takes more than {patience:g} seconds on this object: it is interrupted, "
            f"and the object is not indexed. All other objects of the kind wait for it."
        )
        self._patience.lose(handler.id, key)
        return None

    def _interrupt(
        self,
        key: ObjectKey,
        attempt: "asyncio.Task[Outcome]",
        handler: IndexingHandler,
        logger: AnyLogger,
    ) -> None:
        """Cancel the call. It can swallow that, or go on in its thread: remember that it runs."""
        attempt.set_name(f"{handler}")
        calls = self._interrupted.setdefault(key, {})
        calls[handler.id] = attempt
        attempt.cancel()
        naming = name_if_ignores(0, handler, logger) if handler.is_async else None

        def on_ended(_: object) -> None:
            if naming is not None:
                naming.cancel()
            del calls[handler.id]
            if not calls:
                del self._interrupted[key]

        attempt.add_done_callback(on_ended)

    def _remember(
        self, key: ObjectKey, handler: IndexingHandler, state: HandlerState, outcome: Outcome
    ) -> None:
        """Keep only the failures: a success starts everything anew."""
        failures = {**self._failures.pop(key, {})}
        if outcome.exception is None:
            failures.pop(handler.id, None)
        else:
            failures[handler.id] = state.with_outcome(outcome, self._execution.clock.now())
        if failures:
            self._failures[key] = failures


class _Patience:
    """How long (in seconds) a call can take: the less, the more recent calls were interrupted.

    The time is known for each function, and for each object of it. Otherwise, one object that
    changes often would hold up its kind, as calls for other objects succeed in between.
    """

    def __init__(self) -> None:
        self._of_functions: dict[HandlerId, float] = {}
        self._of_objects: dict[ObjectKey, dict[HandlerId, float]] = {}

    def get(self, id: HandlerId, key: ObjectKey) -> float:
        of_object = self._of_objects.get(key, {})
        return min(self._of_functions.get(id, PATIENCE), of_object.get(id, PATIENCE))

    def lose(self, id: HandlerId, key: ObjectKey) -> None:
        """The call was interrupted."""
        for known in (self._of_functions, self._of_objects.setdefault(key, {})):
            known[id] = max(known.get(id, PATIENCE) / 2, IMPATIENCE)

    def restore(self, id: HandlerId, key: ObjectKey) -> None:
        """The call has ended in time."""
        self._of_functions.pop(id, None)
        if key in self._of_objects:
            self._of_objects[key].pop(id, None)

    def forget(self, key: ObjectKey) -> None:
        self._of_objects.pop(key, None)


async def _ends_within(task: "asyncio.Task[Outcome]", seconds: float) -> bool:
    """Wait for the task; return whether it has ended. Its waiter can be cancelled without it.

    This is called for every call of a function, so it does less than :func:`asyncio.wait`.
    """
    loop = asyncio.get_running_loop()
    woken: asyncio.Future[None] = loop.create_future()

    def wake(_: object = None) -> None:
        if not woken.done():
            woken.set_result(None)

    task.add_done_callback(wake)
    timer = loop.call_later(seconds, wake)
    try:
        await woken
    finally:
        timer.cancel()
    return task.done()
