"""Running operators: from synchronous code, in an existing loop, or as a set of tasks."""

import asyncio
import contextlib
import gc
import inspect
import logging
from collections.abc import Collection
from typing import Any, Unpack

from kopf_core.actions.context import loading_var, operator_var
from kopf_core.engines.background.termination import disown
from kopf_core.reactor.life.exiting import WishedExit, process_owner, tell_of_wish
from kopf_core.reactor.life.operator import Operator, OperatorOptions
from kopf_core.reactor.process.operator_arguments import (
    OperatorArguments,
    choose_options,
    show_options,
)
from kopf_core.reactor.process.signals import install_signals
from kopf_core.reactor.process.supervising import Supervised, supervise, wait_patiently

logger = logging.getLogger("kopf._core.reactor.running")

TASKS_TIMEOUT = 2.0
"""How long (in seconds) to wait for the cancelled tasks of users."""


Tasks = Collection["asyncio.Task[None]"]


def run(
    *,
    loop: asyncio.AbstractEventLoop | None = None,
    **kwargs: Unpack[OperatorArguments],
) -> None:
    """Run an operator synchronously, until it is stopped. See :func:`operator` for the options.

    If a loop is not specified, a new one is used, and closed in the end. The tasks that are
    started by handlers in the loop are cancelled in the end.

    Raises :class:`RuntimeError` if called in a handler; or from a coroutine: there, use
    :func:`operator`.
    """
    _refuse_nesting()
    _relax_garbage_collector()
    if loop is not None:
        _run_in_loop(loop, kwargs)
        return
    loop = asyncio.new_event_loop()
    try:
        asyncio.set_event_loop(loop)
        _run_in_loop(loop, kwargs)
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        asyncio.set_event_loop(None)
        loop.close()


def _refuse_nesting() -> None:
    if operator_var.get(None) is not None:  # each operator would handle the same objects
        raise RuntimeError("kopf.run() is called in a handler: there is an operator already.")
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError("An event loop is running here already: use `await kopf.operator(...)`.")


def _run_in_loop(loop: asyncio.AbstractEventLoop, kwargs: OperatorArguments) -> None:
    foreign = asyncio.all_tasks(loop)
    try:
        _run_until_over(loop, loop.create_task(operator(**kwargs)))
    finally:
        loop.run_until_complete(_cancel_others(foreign))


def _run_until_over(loop: asyncio.AbstractEventLoop, main: "asyncio.Task[None]") -> None:
    """Run the operator to its end, even if a task of users breaks the loop by ``SystemExit``.

    This is a wish to exit, as in handlers: the operator stops gracefully.
    """
    try:
        loop.run_until_complete(main)
    except SystemExit as wish:
        if not main.done():
            tell_of_wish("A task of users", wish)
            main.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                _run_until_over(loop, main)
        raise


async def _cancel_others(foreign: Collection["asyncio.Task[Any]"]) -> None:
    """Cancel the tasks that handlers have started while the operator was running."""
    tasks = asyncio.all_tasks() - {*foreign, asyncio.current_task()}
    for task in tasks:
        task.cancel()
    if tasks:
        _, hung = await asyncio.wait(tasks, timeout=TASKS_TIMEOUT)
        for task in hung:
            logger.warning(f"The task {task.get_name()!r} ignores its cancellation; left as is.")
            disown(task)


async def operator(**kwargs: Unpack[OperatorArguments]) -> None:
    """Run an operator in the current loop, until it is stopped.

    :class:`OperatorArguments` describes the options.

    It is stopped by ``stop_flag``, by SIGINT/SIGTERM if it runs in the main thread, by cancelling,
    or by a failure that it cannot recover from; the failure is raised then.
    """
    await run_tasks(await spawn_tasks(**kwargs))


async def spawn_tasks(**kwargs: Unpack[OperatorArguments]) -> Tasks:
    """Start an operator in the current loop, and get its tasks for :func:`run_tasks`.

    :class:`OperatorArguments` describes the options.
    """
    if (on_operator := loading_var.get()) is not None:
        on_operator()
    options = choose_options(kwargs)
    return [asyncio.create_task(_supervise(_make(options)), name="kopf-operator")]


def _make(options: OperatorOptions) -> Supervised:
    if options.clusters is None:
        return Operator(options)
    # Its import takes time, and few operators need it.
    from kopf_core.reactor.process.fleet import Fleet

    return Fleet(options)


show_options(spawn_tasks)
show_options(operator)
show_options(run, inspect.signature(run).parameters["loop"])


async def run_tasks(
    root_tasks: Tasks,
    *,
    ignored: Collection["asyncio.Task[Any]"] = frozenset(),
) -> None:
    """Wait until the operator ends, and raise its error, if there is one.

    If cancelled, the operator is stopped, too. No other tasks of the loop are ever touched
    (``ignored`` is accepted for compatibility only).
    """
    is_cancelled = await wait_patiently(root_tasks, asyncio.FIRST_COMPLETED)
    for task in root_tasks:
        task.cancel()
    is_cancelled |= await wait_patiently(root_tasks, asyncio.ALL_COMPLETED)
    if is_cancelled:
        for task in root_tasks:
            task.cancelled() or task.exception()  # not raised, but not lost either
        raise asyncio.CancelledError
    for task in root_tasks:
        if not task.cancelled():
            try:
                task.result()
            except WishedExit as e:
                raise SystemExit(e.code) from e


async def _supervise(operator: Supervised) -> None:
    """Run the operator; stop it gracefully at the first signal, and forcefully at the second."""
    signals = install_signals(operator, process_owner.get())
    await supervise(operator, signals.uninstall)


def _relax_garbage_collector() -> None:
    """Collect the garbage less often, unless the application has tuned it already.

    The operator allocates much memory, and leaves few cycles. With the default thresholds, which
    suit small programs, the collector takes up to a fifth of the time when objects are many. Other
    implementations of Python, such as PyPy, have other collectors, with no thresholds.
    """
    if not hasattr(gc, "get_threshold"):
        return
    if gc.get_threshold()[0] in (700, 2000):  # the defaults of Python
        gc.set_threshold(100_000, 20, 50)
