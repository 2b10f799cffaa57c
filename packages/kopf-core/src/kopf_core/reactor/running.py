"""Running operators: from synchronous code, in an existing loop, or as a set of tasks."""

import asyncio
import gc
import logging
import signal
import threading
from collections.abc import Callable, Collection
from contextvars import ContextVar
from types import FrameType
from typing import Any, TypedDict, Unpack

from kopf_cogs.aiokits.flags import Flag
from kopf_cogs.clients.vault import Vault
from kopf_cogs.configs.settings import OperatorSettings
from kopf_cogs.structs.memos import AnyMemo, Memo
from kopf_cogs.structs.namespaces import NamespacePattern
from kopf_core.actions.lifecycles import Lifecycle, get_default_lifecycle
from kopf_core.intents.registries import OperatorRegistry, get_default_registry
from kopf_core.reactor.operator import Operator, OperatorOptions

logger = logging.getLogger("kopf.reactor.running")

received_signals: ContextVar[list[signal.Signals]] = ContextVar("received_signals")
"""Where to put the signals that the operator receives, for those who run it as a process."""

Tasks = Collection["asyncio.Task[None]"]


class OperatorArguments(TypedDict, total=False):
    """What :func:`operator` can be given; everything is optional."""

    lifecycle: Lifecycle | None
    """Which of the handlers go first; ``asap`` by default."""

    registry: OperatorRegistry | None
    """The handlers; by default, those of the decorators that name no other registry."""

    settings: OperatorSettings | None
    """The initial settings; startup handlers can change them."""

    memo: AnyMemo | None
    """The operator's memo, from which the memos of objects are copied."""

    vault: Vault | None
    """The credentials, if the application has them; the login handlers are called otherwise."""

    clusterwide: bool
    """Whether to serve all namespaces by one stream for a resource."""

    namespaces: Collection[NamespacePattern]
    """Names or patterns of the namespaces to serve. Not together with ``clusterwide``."""

    namespace: NamespacePattern | None
    """One more namespace: an older form of ``namespaces``."""

    standalone: bool | None
    """Whether to ignore all other operators: ``settings.peering.standalone``."""

    priority: int | None
    """The priority among other operators: ``settings.peering.priority``."""

    peering_name: str | None
    """The name of the peering object, which must exist then: ``settings.peering.name``."""

    liveness_endpoint: str | None
    """Where to serve the probes, e.g. ``http://0.0.0.0:8080/healthz``."""

    stop_flag: Flag | None
    """Stops the operator when it is set: an event or a future, of asyncio or of threads."""

    ready_flag: Flag | None
    """Is set by the operator when its startup handlers have succeeded."""

    identity: str | None
    """Accepted for compatibility, as well as all the rest below."""

    indexers: object | None
    memories: object | None
    insights: object | None
    _command: object | None


def run(
    *,
    loop: asyncio.AbstractEventLoop | None = None,
    **kwargs: Unpack[OperatorArguments],
) -> None:
    """Run an operator synchronously, until it is stopped. See :func:`operator` for the options.

    If a loop is not specified, a new one is used, and closed in the end.
    """
    _relax_garbage_collector()
    if loop is not None:
        loop.run_until_complete(operator(**kwargs))
    else:
        asyncio.run(operator(**kwargs))


async def operator(**kwargs: Unpack[OperatorArguments]) -> None:
    """Run an operator in the current loop, until it is stopped.

    The options are those of :class:`OperatorArguments`.

    It is stopped by ``stop_flag``, by SIGINT/SIGTERM if it runs in the main thread, by cancelling,
    or by a failure that it cannot recover from; the failure is raised then.
    """
    await run_tasks(await spawn_tasks(**kwargs))


async def spawn_tasks(
    *,
    lifecycle: Lifecycle | None = None,
    indexers: object | None = None,
    registry: OperatorRegistry | None = None,
    settings: OperatorSettings | None = None,
    memories: object | None = None,
    insights: object | None = None,
    identity: str | None = None,
    standalone: bool | None = None,
    priority: int | None = None,
    peering_name: str | None = None,
    liveness_endpoint: str | None = None,
    clusterwide: bool = False,
    namespaces: Collection[NamespacePattern] = (),
    namespace: NamespacePattern | None = None,
    stop_flag: Flag | None = None,
    ready_flag: Flag | None = None,
    vault: Vault | None = None,
    memo: AnyMemo | None = None,
    _command: object | None = None,
) -> Tasks:
    """Start an operator in the current loop, and get its tasks for :func:`run_tasks`."""
    settings = settings if settings is not None else OperatorSettings()
    namespaces = [*namespaces, *([namespace] if namespace else [])]
    _check_scope(clusterwide, namespaces)
    if peering_name is not None:
        settings.peering.mandatory = True
        settings.peering.name = peering_name
    if standalone is not None:
        settings.peering.standalone = standalone
    if priority is not None:
        settings.peering.priority = priority
    options = OperatorOptions(
        registry=registry if registry is not None else get_default_registry(),
        settings=settings,
        lifecycle=lifecycle if lifecycle is not None else get_default_lifecycle(),
        memo=memo if memo is not None else Memo(),
        vault=vault,
        clusterwide=clusterwide,
        namespaces=namespaces,
        stop_flag=stop_flag,
        ready_flag=ready_flag,
        liveness_endpoint=liveness_endpoint,
    )
    return [asyncio.create_task(_supervise(Operator(options), settings), name="kopf-operator")]


def _check_scope(clusterwide: bool, namespaces: Collection[NamespacePattern]) -> None:
    if clusterwide and namespaces:
        raise TypeError("The operator can be either cluster-wide or namespaced, not both.")
    if not clusterwide and not namespaces:
        logger.warning(
            "All namespaces are served, as neither the namespaces (-n) nor the "
            "cluster-wide mode (-A) are requested. Please choose one of them."
        )


async def run_tasks(
    root_tasks: Tasks,
    *,
    ignored: Collection["asyncio.Task[Any]"] = frozenset(),
) -> None:
    """Wait until the operator ends, and raise its error, if there is one.

    If cancelled, the operator is stopped, too. No other tasks of the loop are ever touched
    (``ignored`` is accepted for compatibility only).
    """
    try:
        await asyncio.wait(root_tasks, return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:
        await _stop(root_tasks)
        raise
    await _stop(root_tasks)
    for task in root_tasks:
        if not task.cancelled():
            task.result()


async def _stop(tasks: Tasks) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


async def _supervise(operator: Operator, settings: OperatorSettings) -> None:
    """Run the operator; stop it gracefully at the first signal, and forcefully at the second."""
    task = asyncio.create_task(operator.run(), name="kopf-operator-core")
    signalled = received_signals.get([])

    def stop(signum: signal.Signals) -> None:
        if not signalled:
            logger.info(f"Signal {signum.name} is received. Operator is stopping.")
            operator.stop()
        else:
            logger.warning(f"Signal {signum.name} is received again. Operator is aborted.")
            operator.abort()
        signalled.append(signum)

    replaced = _install_signals(stop)
    try:
        await asyncio.wait([task])
    except asyncio.CancelledError:
        operator.stop()
        timeout = settings.process.ultimate_exiting_timeout
        _, pending = await asyncio.wait([task], timeout=timeout)
        for hung in pending:
            hung.cancel()
        raise
    finally:
        _restore_signals(replaced)
    if not task.cancelled():
        task.result()


def _install_signals(stop: Callable[[signal.Signals], None]) -> dict[signal.Signals, Any]:
    """Handle the signals here; get what has handled them before.

    The loop's own handlers are not used: on removal, they leave a moment with the default
    handlers, when a signal would kill the process in the middle of its graceful exit.
    """
    if threading.current_thread() is not threading.main_thread():
        return {}
    loop = asyncio.get_running_loop()

    def handle(signum: int, _: FrameType | None) -> None:
        loop.call_soon_threadsafe(stop, signal.Signals(signum))

    return {signum: signal.signal(signum, handle) for signum in (signal.SIGINT, signal.SIGTERM)}


def _restore_signals(replaced: dict[signal.Signals, Any]) -> None:
    for signum, handler in replaced.items():
        if handler is not None:  # it can be installed not from Python
            signal.signal(signum, handler)


def _relax_garbage_collector() -> None:
    """Collect the garbage less often, unless the application has tuned it already.

    The operator allocates much and leaves few cycles behind; with the thresholds that suit
    small programs, the collector takes up to a fifth of all the time when objects are many.
    """
    if gc.get_threshold()[0] in (700, 2000):  # the defaults of Python
        gc.set_threshold(100_000, 20, 50)
