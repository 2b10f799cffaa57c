"""The stages of stopping a working function: it is asked, cancelled, and abandoned.

::

    signalled --cancellation_backoff--> cancelled --cancellation_timeout--> abandoned
              --(no timeout)--> waited for, with a reminder every cancellation_polling seconds
"""

import asyncio
import logging
import warnings
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from kopf_core.intents.handlers import DaemonHandler
from kopf_core.intents.stoppers import DaemonStoppingReason

if TYPE_CHECKING:
    from kopf_core.engines.background.spawned import SpawnedHandler

LEAST_CYCLES = 10
"""How many cycles of the loop a cancelled task has to end, even without a timeout."""


class Termination:
    """The stopping of one function, from the request to stop until the task ends, or even longer.

    It only keeps the time and says which stage is next. A function that stops by itself ends it by
    :meth:`end`.
    """

    __slots__ = ("_backoff", "_handle", "_polling", "_spawned", "_timeout")

    def __init__(self, spawned: "SpawnedHandler") -> None:
        settings = spawned.settings.background
        handler = spawned.handler
        self._spawned = spawned
        self._backoff: float | None = None
        self._timeout: float | None = None
        self._polling = settings.cancellation_polling
        if isinstance(handler, DaemonHandler):
            self._backoff = handler.cancellation_backoff
            self._timeout = handler.cancellation_timeout
            if handler.cancellation_polling is not None:
                self._polling = handler.cancellation_polling
        self._handle: asyncio.Handle | None = None
        if settings.instant_exit_timeout is not None:
            self._after(settings.instant_exit_timeout, self._ask)
        else:
            self._after_cycles(settings.instant_exit_zero_time_cycles or 0, self._ask)

    @property
    def duration(self) -> float:
        """How long (in seconds) the stages can last; zero if there is no limit."""
        return 0.0 if self._timeout is None else (self._backoff or 0.0) + self._timeout

    def end(self) -> None:
        """End the stopping: the function has exited, or it is too late for all stages."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _ask(self) -> None:
        if self._backoff:
            self._spawned.stopper.set(DaemonStoppingReason.DAEMON_SIGNALLED)
            self._spawned.log("is signalled to exit gracefully.")
            self._after(self._backoff, self._force)
        else:
            self._force()

    def _force(self) -> None:
        if self._timeout is None:
            self._wait()
            return
        self._spawned.stopper.set(DaemonStoppingReason.DAEMON_CANCELLED)
        self._spawned.log("is signalled to exit by force.")
        self._spawned.cancel()
        if self._timeout > 0:
            self._after(self._timeout, self._spawned.abandon)
        else:
            self._after_cycles(LEAST_CYCLES, self._spawned.abandon)

    def _wait(self, level: int = logging.DEBUG) -> None:
        """Log that the function is still exiting: first for debugging, then as a warning."""
        text = f"is still exiting. The next check is in {self._polling} seconds."
        self._spawned.log(text, level)
        self._after(self._polling, partial(self._wait, logging.WARNING))

    def _after(self, delay: float, fn: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        self._handle = loop.call_later(max(0.0, delay), fn)

    def _after_cycles(self, count: int, fn: Callable[[], None]) -> None:
        if count <= 0:
            fn()
        else:
            loop = asyncio.get_running_loop()
            self._handle = loop.call_soon(self._after_cycles, count - 1, fn)


def disown(task: "asyncio.Task[Any]") -> None:
    """Hide the task from the loop: it ignores cancellation, and the loop would wait for ever."""
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    try:
        asyncio.tasks._unregister_task(task)  # documented for custom tasks, and works for all
    except Exception as e:
        warnings.warn(f"A task cannot be left behind: {e!r}", ResourceWarning, stacklevel=1)
