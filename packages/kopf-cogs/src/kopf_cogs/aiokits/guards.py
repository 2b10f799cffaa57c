"""
Supervised tasks: whatever ends is noticed, logged, and stopped together with the others.
"""

import asyncio
import logging
from collections.abc import Collection, Coroutine, Iterable
from typing import Any, TypeAlias

from kopf_cogs.aiokits import flags

Task: TypeAlias = "asyncio.Task[Any]"
Logger: TypeAlias = "logging.Logger | logging.LoggerAdapter[Any]"

_logger = logging.getLogger(__name__)


async def guard(
    coro: Coroutine[Any, Any, Any],
    name: str,
    *,
    flag: flags.Flag | None = None,
    finishable: bool = False,
    cancellable: bool = False,
    logger: Logger = _logger,
) -> None:
    """
    Run the coroutine, and never let it end unnoticed.

    A failure is logged and raised further. An exit is logged as unexpected, unless the coroutine
    is ``finishable``. A cancellation is logged and raised further; a ``cancellable`` coroutine is
    cancelled normally, so it is not worth a log line. The coroutine starts when the ``flag``
    is raised (if there is one). ``name`` is for the logs, as in "NAME is cancelled".
    """
    title = name[:1].upper() + name[1:]
    try:
        if flag is not None:
            await flags.wait_flag(flag)
        await coro
    except asyncio.CancelledError:
        if not cancellable:
            logger.debug(f"{title} is cancelled.")
        raise
    except Exception as e:
        logger.error(f"{title} has failed: {describe(e)}", exc_info=_traceback_of(e))
        raise
    else:
        if not finishable:
            logger.warning(f"{title} has finished unexpectedly.")
    finally:
        coro.close()  # if it has not started (i.e. when cancelled before the flag is raised)


def create_guarded_task(
    coro: Coroutine[Any, Any, Any],
    name: str,
    *,
    flag: flags.Flag | None = None,
    finishable: bool = False,
    cancellable: bool = False,
    logger: Logger = _logger,
) -> Task:
    """The same as :func:`guard`, but in a task of its own."""
    guarded = guard(
        coro, name, flag=flag, finishable=finishable, cancellable=cancellable, logger=logger
    )
    task = asyncio.create_task(guarded, name=name)
    task.add_done_callback(lambda _: coro.close())  # a task cancelled before its start runs nothing
    return task


def describe(exc: BaseException) -> str:
    """The error in one line, never empty."""
    try:
        text = str(exc)
    except Exception:
        text = ""
    return text or repr(exc)


def _traceback_of(exc: Exception) -> Exception | None:
    # Expected errors mark themselves as such: their texts say it all, tracebacks are noise.
    return None if getattr(exc, "expected", False) else exc


async def wait(
    tasks: Iterable[Task],
    *,
    timeout: float | None = None,
    return_when: str = asyncio.ALL_COMPLETED,
) -> tuple[set[Task], set[Task]]:
    """The same as :func:`asyncio.wait`, but nothing to wait for is not an error."""
    pool = set(tasks)
    if not pool:
        return set(), set()
    return await asyncio.wait(pool, timeout=timeout, return_when=return_when)


async def stop(
    tasks: Iterable[Task],
    *,
    title: str,
    logger: Logger = _logger,
    cancelled: bool = False,
    quiet: bool = False,
    interval: float | None = None,
) -> tuple[set[Task], set[Task]]:
    """
    Cancel the tasks, and wait until they end. Return two sets: those ended, and those running.

    If the stopping is cancelled itself, it waits for the tasks nevertheless, unless it was
    ``cancelled`` already before it: then it leaves at once. With an ``interval`` (in seconds),
    the tasks that do not end are named in the logs periodically.
    """
    pool = set(tasks)
    for task in pool:
        task.cancel()
    done: set[Task] = set()
    pending = {task for task in pool if not task.done()}
    while pending:
        try:
            done_now, pending = await wait(pending, timeout=interval)
            done |= done_now
        except asyncio.CancelledError:
            if cancelled:
                logger.warning(f"{title} are left running: {_names(pending)}.")
                raise
            cancelled = True
            continue
        if pending:
            logger.warning(f"{title} are still running: {_names(pending)}.")
    if not quiet:
        logger.debug(f"{title} are stopped.")
    return pool - pending, pending


def _names(tasks: Collection[Task]) -> str:
    return ", ".join(sorted(task.get_name() for task in tasks))


async def reraise(tasks: Iterable[Task]) -> None:
    """Raise the first of the errors of the ended tasks, if any. Cancellations are not errors."""
    for task in tasks:
        if task.done() and not task.cancelled():
            exc = task.exception()
            if exc is not None:
                raise exc
