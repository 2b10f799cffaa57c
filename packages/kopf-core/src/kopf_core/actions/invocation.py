"""Invocation: calls users' functions: coroutines in the loop, regular functions in threads."""

import asyncio
import concurrent.futures
import contextvars
import inspect
import os
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NoReturn

from kopf_cogs.aiokits.endurance import endure
from kopf_cogs.aiokits.pools import group_var
from kopf_cogs.helpers.callbacks import Interrupted, interrupted
from kopf_core.actions.bases import Fn
from kopf_core.actions.context import invocation_var
from kopf_core.actions.threads import Door, TakenBack, follow

_Captured = tuple[BaseException | None, Any]


async def invoke(
    fn: Fn,
    *args: Any,
    kwargs: Mapping[str, Any],
    is_async: bool,
    executor: concurrent.futures.Executor | None,
    is_endured: bool = False,
    on_ended: Callable[[], None] | None = None,
    door: Door | None = None,
) -> Any:
    """Call the function, wait for its result, and raise its exception if it fails.

    A cancellation of the current task is raised as it is. Everything else is raised as an
    :class:`Exception`, so that no function can tear down the loop or the worker.
    :class:`TakenBack` is raised if the ``door`` is not open when the function must begin.
    """
    task = asyncio.current_task()
    try:
        if not is_async:
            capture = partial(_capture, fn, args, kwargs, door)
            captured = await _call_in_thread(capture, executor, on_ended, is_endured)
            return await _release(*captured)
        pid = os.getpid()
        if door is not None:
            door.check()
        try:
            return await fn(*args, **kwargs)
        finally:
            if os.getpid() != pid:
                leave_fork(sys.exception())
    except asyncio.CancelledError as e:
        if is_being_cancelled() or isinstance(e, TakenBack):
            raise
        raise Interrupted() from e
    except Exception:
        raise
    except BaseException as e:
        if isinstance(e, GeneratorExit) and get_current_task() is not task:
            raise  # the coroutine is being destroyed: no task waits for it
        raise interrupted(e) from e


async def _release(error: BaseException | None, result: Any) -> Any:
    if inspect.iscoroutine(result):  # e.g. from a lambda that calls an async function
        result = await result
    if isinstance(error, StopIteration | StopAsyncIteration):
        raise Interrupted() from error
    if error is not None:
        raise error
    return result


def get_current_task() -> "asyncio.Task[Any] | None":
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None  # there is no loop anymore


def is_being_cancelled() -> bool:
    """Whether the current task is requested to cancel."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def _call_in_thread(
    capture: Callable[[], _Captured],
    executor: concurrent.futures.Executor | None,
    on_ended: Callable[[], None] | None,
    is_endured: bool,
) -> _Captured:
    """Call the function in a thread and wait for it, though threads cannot be interrupted.

    If the call ``is_endured``, the first cancellation does not interrupt the waiting either: Kopf
    must remember the outcome. But a function that has not begun never begins. If the executor has
    cancelled the call, :class:`TakenBack` is raised. ``on_ended`` is called in the thread when
    the function has really ended, even if no task waits for it.
    """
    context = contextvars.copy_context()
    if executor is None:
        loop = asyncio.get_running_loop()
        future = loop.run_in_executor(None, context.run, capture)
        return await (endure(future) if is_endured else future)
    token = group_var.set(_find_namespace())
    try:
        call = executor.submit(context.run, capture)
    except BaseException:
        if on_ended is not None:
            on_ended()
        raise
    finally:
        group_var.reset(token)
    try:
        await follow(call, on_ended)
    except asyncio.CancelledError:
        if call.cancel() or not is_endured:
            raise
        await follow(call)
    try:
        return call.result()
    except concurrent.futures.CancelledError:
        if is_being_cancelled():
            raise asyncio.CancelledError from None
        raise TakenBack("there was no free thread for it") from None


def _find_namespace() -> str | None:
    """The namespace of the object that is handled, if there is any."""
    invocation = invocation_var.get(None)
    namespace = None if invocation is None else invocation.cause.kwargs.get("namespace")
    return namespace if isinstance(namespace, str) else None  # indices win over other names


def _capture(
    fn: Fn,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    door: Door | None,
) -> _Captured:
    # The outcome is returned as a value: futures do not accept exceptions such as StopIteration,
    # and the waiting task would hang for ever.
    pid = os.getpid()
    error, result = None, None
    try:
        if door is not None:
            door.check()
        result = fn(*args, **kwargs)
    except BaseException as e:
        error = e
    if os.getpid() != pid:
        leave_fork(error)
    return error, result


def leave_fork(exc: BaseException | None = None) -> NoReturn:
    """End this process, a child of a fork, with the exit code that it has asked for."""
    code = 0
    if isinstance(exc, SystemExit):
        code = exc.code if isinstance(exc.code, int) else int(exc.code is not None)
    elif exc is not None:
        code = 1
    if exc is not None and not isinstance(exc, SystemExit):
        sys.excepthook(type(exc), exc, exc.__traceback__)
    elif isinstance(exc, SystemExit) and isinstance(exc.code, str):
        print(exc.code, file=sys.stderr)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)  # anything else would run the copy of the loop, or wait for absent threads
