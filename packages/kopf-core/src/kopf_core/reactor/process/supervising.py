"""Supervising: runs an operator to its end, which neither our code nor users' code can prevent."""

import asyncio
import logging
from collections.abc import Callable, Collection
from typing import Any, Protocol

from kopf_core.engines.activities import ActivityError
from kopf_core.engines.background.termination import disown
from kopf_core.reactor.life.exiting import AbandonedError, Exit, WishedExit

logger = logging.getLogger("kopf._core.reactor.running")


class Supervised(Protocol):
    """An operator, or several operators as one."""

    @property
    def exit(self) -> Exit: ...

    async def run(self) -> None: ...

    def stop(self) -> None: ...

    def abort(self) -> None: ...


async def wait_patiently(
    tasks: Collection["asyncio.Task[Any]"],
    until: str,
    on_cancelled: Callable[[], None] | None = None,
) -> bool:
    """Wait for the tasks, even if cancelled meanwhile; return whether it was cancelled.

    Callers can repeat cancellations (AnyIO does so): all are delayed, and none is lost.
    Without ``on_cancelled``, the first of them cancels the tasks.
    """
    is_cancelled = False
    pending = set(tasks)
    while pending and (until == asyncio.ALL_COMPLETED or len(pending) == len(tasks)):
        try:
            _, pending = await asyncio.wait(pending, return_when=until)
        except asyncio.CancelledError:
            if on_cancelled is not None:
                on_cancelled()
            elif not is_cancelled:
                for task in tasks:
                    task.cancel()
            is_cancelled = True
            pending = {task for task in pending if not task.done()}
    return is_cancelled


async def supervise(operator: Supervised, on_over: Callable[[], None] = lambda: None) -> None:
    """Run the operator to its end, or to the end of the time for its exit. Raise its error.

    If cancelled, the operator is stopped gracefully. ``on_over`` is called at the end of its time.
    """
    task = asyncio.create_task(operator.run(), name="kopf-operator-core")
    over = asyncio.create_task(operator.exit.over.wait(), name="kopf-exit")
    try:
        first = asyncio.FIRST_COMPLETED
        is_cancelled = await wait_patiently([task, over], first, operator.stop)
    finally:
        on_over()
        over.cancel()
    if not task.done():
        task.cancel()
        is_cancelled |= await wait_patiently([asyncio.create_task(_settle(task))], first)
    if is_cancelled:
        _log_failure(task)
        raise asyncio.CancelledError
    if operator.exit.wish is not None:
        _log_failure(task)
        raise WishedExit(operator.exit.wish, leaves_work=_is_left(task))
    if not task.done() or task.cancelled():
        operator.exit.note_unfinished("the operator itself")
        operator.exit.check()
    task.result()


def _is_left(task: "asyncio.Task[None]") -> bool:
    """Whether some work still runs, so that the process must not wait for it."""
    return not task.done() or task.cancelled() or isinstance(task.exception(), AbandonedError)


async def _settle(task: "asyncio.Task[None]") -> None:
    """Let the task end. If it does not end, hide it from the loop, which would wait for it."""
    _, hung = await asyncio.wait([task], timeout=1.0)
    if hung:
        disown(task)


def _log_failure(task: "asyncio.Task[None]") -> None:
    """Log the error of the task, as another error is raised instead."""
    exc = task.exception() if task.done() and not task.cancelled() else None
    if exc is not None and not isinstance(exc, ActivityError):  # its errors are logged already
        logger.error(f"{exc}" if isinstance(exc, AbandonedError) else f"The operator failed: {exc}")
