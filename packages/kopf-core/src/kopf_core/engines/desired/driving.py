"""The calls of reconcilers: generators, coroutines, functions, each step in its own place.

The acceptor gets the yielded and returned objects, one after another. Generators get the outcome
back: the object as it is in the cluster, or the error of applying it.
"""

import asyncio
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable, Mapping
from concurrent.futures import Executor
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from kopf_cogs.structs.models import is_model
from kopf_core.actions.bases import Fn, is_async_fn
from kopf_core.actions.invocation import invoke, is_being_cancelled
from kopf_core.actions.threads import Door

Accept = Callable[[Any], Awaitable[Any]]

_OVER = object()

_NOTHING = nullcontext()


class PassInterrupted(Exception):
    """The pass cannot go on now. The function is closed, and does not learn why."""


async def drive(
    fn: Fn,
    kwargs: Mapping[str, Any],
    *,
    accept: Accept,
    executor: Executor | None,
    door: Door | None = None,
    aside: AbstractContextManager[Any] = _NOTHING,
) -> None:
    """Call the function, and pass all objects that it wants to the acceptor.

    No step of the function begins while the ``door`` is not open, except for its closing. Async
    functions can wait for anything; ``aside`` is held while they wait.

    Raises the errors of the function in the same ways as all other handlers do.
    """
    if inspect.isasyncgenfunction(fn) or inspect.isgeneratorfunction(fn):
        result = fn(**kwargs)  # its code does not run yet, so it needs no thread
    else:
        is_async = is_async_fn(fn)
        with aside if is_async else _NOTHING:
            result = await invoke(
                fn,
                kwargs=kwargs,
                is_async=is_async,
                executor=executor,
                is_endured=not is_async,
                door=door,
            )
        _heed_cancellation()
    if inspect.isasyncgen(result):
        await _drive_async(result, accept, door, aside)
    elif inspect.isgenerator(result):
        await _drive_sync(result, accept, door, executor)
    else:
        await _accept_all(result, accept)


async def _drive_async(
    generator: AsyncGenerator[Any, Any],
    accept: Accept,
    door: Door | None,
    aside: AbstractContextManager[Any],
) -> None:
    async def step(value: Any, error: Exception | None) -> Any:
        try:
            if error is not None:
                return await generator.athrow(error)
            return await generator.asend(value)
        except StopAsyncIteration:
            return _OVER

    async def advance(value: Any, error: Exception | None) -> Any:
        with aside:
            return await invoke(
                step, value, error, kwargs={}, is_async=True, executor=None, door=door
            )

    try:
        await _alternate(advance, accept)
    finally:
        await generator.aclose()


async def _drive_sync(
    generator: Generator[Any, Any, Any],
    accept: Accept,
    door: Door | None,
    executor: Executor | None,
) -> None:
    def step(value: Any, error: Exception | None) -> Any:
        try:
            return generator.throw(error) if error is not None else generator.send(value)
        except StopIteration as e:
            # It is as if the returned objects were the last yield. The next step ends the pass.
            return _OVER if e.value is None else e.value

    async def advance(value: Any, error: Exception | None) -> Any:
        return await invoke(
            step,
            value,
            error,
            kwargs={},
            is_async=False,
            executor=executor,
            is_endured=True,
            door=door,
        )

    try:
        await _alternate(advance, accept)
    finally:
        # If the generator still runs, no task waits for its thread anymore.
        if inspect.getgeneratorstate(generator) not in (inspect.GEN_RUNNING, inspect.GEN_CLOSED):
            await invoke(generator.close, kwargs={}, is_async=False, executor=executor)


async def _alternate(
    advance: Callable[[Any, Exception | None], Awaitable[Any]], accept: Accept
) -> None:
    """Make a step of the function, a step of Kopf, a step of the function, and so on.

    The event loop runs in between: there can be thousands of steps that wait for nothing.
    """
    value: Any = None
    error: Exception | None = None
    while (item := await advance(value, error)) is not _OVER:
        _heed_cancellation()
        await asyncio.sleep(0)
        value = error = None
        try:
            value = await _accept_all(item, accept)
        except PassInterrupted:
            raise
        except Exception as e:
            error = e


async def _accept_all(item: Any, accept: Accept) -> Any:
    """Accept one object, or several objects; return the same number of outcomes."""
    if item is None:
        return None
    is_one = isinstance(item, dict | Mapping | str | bytes) or is_model(type(item))
    if is_one or not isinstance(item, Iterable):
        return await accept(item)
    outcomes = []
    for one in item:
        if one is not None:
            outcomes.append(await accept(one))
            await asyncio.sleep(0)
    return outcomes


def _heed_cancellation() -> None:
    """Go no further if the pass was cancelled during the wait for a thread."""
    if is_being_cancelled():
        raise asyncio.CancelledError()
