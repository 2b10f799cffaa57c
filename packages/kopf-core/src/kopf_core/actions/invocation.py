"""Calling users' functions: coroutines in the loop, regular functions in threads."""

import asyncio
import contextvars
import inspect
from collections.abc import Mapping
from concurrent.futures import Executor
from typing import Any

from kopf_cogs.aiokits.endurance import endure
from kopf_cogs.helpers.callbacks import Interrupted
from kopf_core.actions.bases import Fn


async def invoke(
    fn: Fn,
    *args: Any,
    kwargs: Mapping[str, Any],
    is_async: bool,
    executor: Executor | None,
    is_endured: bool = False,
) -> Any:
    """Call the function, wait for its result, pass on its exception if it fails.

    A cancellation of the current task goes through as is; everything else comes as
    an :class:`Exception`, so that no function can tear down the loop or the worker.

    Threads cannot be interrupted. If it ``is_endured``, the first cancellation does not interrupt
    the waiting for a thread either: what the function has done is to be remembered.
    """
    task = asyncio.current_task()
    try:
        if is_async:
            return await fn(*args, **kwargs)
        return await _invoke_in_thread(fn, args, kwargs, executor, is_endured)
    except (Exception, asyncio.CancelledError) as e:
        if isinstance(e, asyncio.CancelledError):
            if is_being_cancelled():
                raise
            raise Interrupted() from e
        raise
    except BaseException as e:
        if isinstance(e, GeneratorExit) and get_current_task() is not task:
            raise  # the whole coroutine is being destroyed from the outside, nobody waits for it
        raise Interrupted() from e


def get_current_task() -> "asyncio.Task[Any] | None":
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None  # there is no loop anymore


def is_being_cancelled() -> bool:
    """Whether somebody has requested the cancellation of the current task."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def _invoke_in_thread(
    fn: Fn,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    executor: Executor | None,
    is_endured: bool,
) -> Any:
    # The outcome is carried as a value: exceptions such as StopIteration cannot be set to futures
    # and would hang the waiting side for ever.
    context = contextvars.copy_context()
    loop = asyncio.get_running_loop()
    future = loop.run_in_executor(executor, context.run, _capture, fn, args, kwargs)
    error, result = await (endure(future) if is_endured else future)
    if inspect.iscoroutine(result):  # e.g. from a lambda that calls an async function
        result = await result
    if isinstance(error, StopIteration | StopAsyncIteration):
        raise Interrupted() from error
    if error is not None:
        raise error
    return result


def _capture(
    fn: Fn,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> tuple[BaseException | None, Any]:
    try:
        return None, fn(*args, **kwargs)
    except BaseException as e:
        return e, None
