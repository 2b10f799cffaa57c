"""Sub-handlers: handlers that other handlers declare while they run, as parts of themselves.

They are executed within an attempt of their parent, one step at a time. Their progress is stored on
the object beside that of the parent. The parent is called again until all of them finish.
"""

import asyncio
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from kopf_cogs.structs.ids import HandlerId
from kopf_core.actions.bases import BaseHandler
from kopf_core.actions.context import Invocation, current_invocation
from kopf_core.actions.effects import deliver_results
from kopf_core.actions.errors import SubhandlersPending
from kopf_core.actions.execution import collect_results
from kopf_core.actions.invocation import is_being_cancelled
from kopf_core.actions.lifecycles import Lifecycle
from kopf_core.actions.states import State
from kopf_core.intents.causes import ChangingCause, Reason
from kopf_core.intents.decorators.subhandlers import make_subhandler
from kopf_core.intents.handlers import ChangingHandler
from kopf_core.intents.matching import select
from kopf_core.intents.registries import OperatorRegistry, deduplicate
from kopf_core.intents.views import InvalidObjectError

HELD_POLLING = 60.0
"""How often (in seconds) to call the parent whose sub-handlers wait until the object is valid."""


async def run_subhandlers(
    invocation: Invocation,
    handlers: Sequence[BaseHandler],
    lifecycle: Lifecycle | None = None,
) -> None:
    """Make one step over the sub-handlers of the current attempt.

    Raises :class:`SubhandlersPending` if some of them are not finished yet.
    """
    cause, execution = invocation.cause, invocation.execution.nested()
    assert isinstance(cause, ChangingCause)
    storage = execution.settings.persistence.progress_storage
    selected = deduplicate(select([h for h in handlers if isinstance(h, ChangingHandler)], cause))
    state = State.from_storage(
        selected,
        body=cause.body,
        storage=storage,
        now=execution.clock.now(),
        jump=execution.jump,
    )
    if cause.reason is Reason.DELETE:
        state = state.without(find_superseded(state, cause.reason.value))
    state = state.with_purpose(cause.reason, selected)
    held = find_held(selected, cause)
    state = state.with_held(held)
    ready = [handler for handler in selected if handler.id not in held]
    outcomes = await execution.run(ready, cause, state, lifecycle)
    state = state.with_outcomes(outcomes, now=execution.clock.now())
    state.store(body=cause.body, patch=cause.marks, storage=storage)
    deliver_results(collect_results(outcomes), marks=cause.marks, logger=cause.logger)
    invocation.subrefs.update(state.active, state.all_subrefs)
    if not state.done and is_being_cancelled():
        raise asyncio.CancelledError
    if not state.done:
        delay = state.delay
        raise SubhandlersPending(delay=HELD_POLLING if delay == math.inf else delay)


def find_superseded(state: State, purpose: str) -> frozenset[HandlerId]:
    """Find the handlers that have finished for another purpose: e.g. an update, not a deletion."""
    return frozenset(
        id for id, known in state.items() if known.finished and known.purpose not in (None, purpose)
    )


def find_held(handlers: Iterable[ChangingHandler], cause: ChangingCause) -> frozenset[HandlerId]:
    """Find the handlers that wait until the object changes, as it is invalid for their models.

    At deletions, such handlers do not wait: they fail, so that the deletion ends.
    """
    if cause.reason is Reason.DELETE:
        return frozenset()
    return frozenset(h.id for h in handlers if isinstance(h.unmatched, InvalidObjectError))


Fns = Mapping[Any, Callable[..., Any]] | Iterable[Callable[..., Any]]


async def execute(
    *,
    fns: Fns | None = None,
    handlers: Iterable[ChangingHandler] | None = None,
    registry: OperatorRegistry | None = None,
    lifecycle: Lifecycle | None = None,
    cause: ChangingCause | None = None,
) -> None:
    """Run sub-handlers of the current handler now.

    ``fns`` are functions, or a mapping of ids to functions. Alternatively, ``handlers`` are
    handlers, or ``registry`` is a registry of handlers. Without arguments, Kopf runs
    the functions with ``@kopf.subhandler`` now, not when the current handler returns.

    Raises an error until all of them are finished: the handler must not catch it, as it is called
    again because of it.
    """
    if len([arg for arg in (fns, handlers, registry) if arg is not None]) > 1:
        raise TypeError("Only one of the fns, handlers, registry can be passed. Got more.")
    invocation = current_invocation()
    if not isinstance(invocation.cause, ChangingCause):
        raise RuntimeError("Sub-handlers are supported only in handlers of changes.")
    if fns is not None:
        subhandlers = _make_of_functions(fns, invocation.handler)
    elif handlers is not None:
        subhandlers = list(handlers)
    elif registry is not None:
        known = registry.resource_handlers
        subhandlers = [handler for handler in known if isinstance(handler, ChangingHandler)]
    else:
        subhandlers = [h for h in invocation.subhandlers if isinstance(h, ChangingHandler)]
        invocation.executed.append(True)
    await run_subhandlers(invocation, subhandlers, lifecycle)


def _make_of_functions(fns: Fns, parent: BaseHandler) -> list[ChangingHandler]:
    pairs: Iterable[tuple[Any, Callable[..., Any]]] = (
        fns.items() if isinstance(fns, Mapping) else ((None, fn) for fn in fns)
    )
    return [
        make_subhandler(fn, parent, {"id": None if id is None else str(id)}) for id, fn in pairs
    ]
