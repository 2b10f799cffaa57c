"""Other objects of the cluster, from inside of sync handlers: ``kopf.sync_api.get(...)``.

The same as :mod:`kopf.api`, with the same names, arguments, and errors. Only functions that run in
threads can use it. The requests are made in the operator's event loop; the thread waits for them.
"""

import asyncio
import builtins
import concurrent.futures
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from typing import Any, ParamSpec, TypeVar

from kopf_cogs.aiokits.surroundings import get_threads
from kopf_cogs.clients.objects import Obj
from kopf_core.actions import api as async_api
from kopf_core.actions.context import operator_var

P = ParamSpec("P")
R = TypeVar("R")

APIConflictError = async_api.APIConflictError
APIError = async_api.APIError
APIForbiddenError = async_api.APIForbiddenError
APINotFoundError = async_api.APINotFoundError
APIUnprocessableError = async_api.APIUnprocessableError
UnknownKindError = async_api.UnknownKindError
HERE = async_api.HERE

CHECK_INTERVAL = 1.0
"""How often (in seconds) to check whether the operator still runs, while it has not replied."""

STOPPED = "kopf.sync_api does not work anymore: the operator has stopped."


def _in_loop(fn: Callable[P, Coroutine[Any, Any, R]]) -> Callable[P, R]:
    """The same function, for calls from threads."""

    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        return _wait(lambda: fn(*args, **kwargs))

    call.__name__ = fn.__name__
    call.__qualname__ = fn.__name__
    call.__module__ = __name__
    call.__doc__ = fn.__doc__
    return call


get = _in_loop(async_api.get)
create = _in_loop(async_api.create)
apply = _in_loop(async_api.apply)
patch = _in_loop(async_api.patch)
delete = _in_loop(async_api.delete)


def list(*args: Any, **kwargs: Any) -> Iterator[Obj]:
    """List objects, page by page: to be iterated, or put into a list. See :func:`kopf.api.list`."""

    async def open() -> AsyncIterator[builtins.list[Obj]]:
        return async_api.list(*args, **kwargs).pages()

    pages = _wait(open)
    while page := _wait(lambda: anext(pages, None)):
        yield from page


def _wait(make: Callable[[], Awaitable[R]]) -> R:
    async_api.current_api()  # raises an error outside of operators
    loop = operator_var.get().loop
    try:
        running = asyncio.get_running_loop()
    except RuntimeError:
        running = None
    if loop is None or running is loop:
        raise RuntimeError("kopf.sync_api would block the operator here; await kopf.api instead.")
    return wait_in_thread(make, loop)


def wait_in_thread(make: Callable[[], Awaitable[R]], loop: asyncio.AbstractEventLoop) -> R:
    """Run the coroutine in the operator's loop, and wait for it in this thread."""
    if not loop.is_running():
        raise RuntimeError(STOPPED)
    coro = _await(make)
    try:
        future = asyncio.run_coroutine_threadsafe(coro, loop)
    except RuntimeError as e:  # the loop has just been closed
        coro.close()
        raise RuntimeError(STOPPED) from e
    return _get_result(future, loop)


def _get_result(future: concurrent.futures.Future[R], loop: asyncio.AbstractEventLoop) -> R:
    """Wait for the result from the loop, but not for ever, if the loop has stopped."""
    is_done, was_running = threading.Event(), loop.is_running()
    future.add_done_callback(lambda _: is_done.set())
    while not get_threads().wait(is_done, CHECK_INTERVAL):
        if not was_running:
            future.cancel()
            raise RuntimeError(STOPPED)
        was_running = loop.is_running()
    try:
        return future.result()
    except concurrent.futures.CancelledError as e:
        raise RuntimeError(STOPPED) from e


async def _await(make: Callable[[], Awaitable[R]]) -> R:
    return await make()
