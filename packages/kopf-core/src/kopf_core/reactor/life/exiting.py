"""The exit of an operator: one time bound for all stages, and the names of the unfinished work.

The bound begins with the request of the exit: by a signal, a flag, a cancellation, or a failure of
a part. The stages of the exit do not add up: each has the time that the earlier stages have left,
except for a reserve for the cleanup handlers.
"""

import asyncio
import contextlib
import logging
import math
import traceback
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from contextvars import ContextVar
from typing import Protocol

from kopf_cogs.configs.settings import OperatorSettings
from kopf_core.actions.bases import BaseHandler
from kopf_core.actions.context import invocation_var
from kopf_core.actions.ongoing import Ongoing, describe_call
from kopf_core.actions.retrying import describe, safe_repr
from kopf_core.intents.causes import Activity
from kopf_core.intents.handlers import ActivityHandler, DaemonHandler
from kopf_core.reactor.streams.work import LAST_MOMENT

logger = logging.getLogger("kopf._core.reactor.running")

GRACE = 25.0
"""In seconds: the default bound. It is less than the time that Kubernetes grants to pods (30)."""

RESERVE = 5.0
"""In seconds: the part of the bound that is kept for the cleanup handlers."""

HASTE = 2.0
"""In seconds: the bound after the exit is requested for the second time."""

MARGIN = 2.5
"""In seconds: how long after the bound the operator is abandoned, with all stages of its exit."""

YEAR = 366 * 24 * 60 * 60.0

POLLING = 0.05
"""In seconds: how often to check whether the threads have ended."""


class ProcessOwner(Protocol):
    """The part that runs the operator as a process of its own, and so can end the process."""

    @property
    def is_asked(self) -> bool:
        """Whether a signal has come before the operator was there."""

    def on_signal(self, timeout: float, describe: Callable[[], str]) -> None:
        """End the process after that many seconds, if the exit after a signal takes longer.

        It is called in the handler of the signal. ``describe`` names the unfinished work.
        """

    def on_wish(self, timeout: float, describe: Callable[[], str], code: object) -> None:
        """End the process with that code, as users' code asks for it; after that many seconds at
        most.
        """


process_owner: ContextVar[ProcessOwner | None] = ContextVar("process_owner", default=None)
"""The owner of the process, set by the command line. Embedded operators have none."""


class AbandonedError(Exception):
    """The operator has exited, but some users' code still runs, and is left as it is."""

    expected = True

    leaves_work = True
    """The process must not wait for threads: it has used up its time."""

    def __init__(self, names: Collection[str], bound: float) -> None:
        super().__init__(
            f"The operator has exited, but this has not ended in {round(bound, 1):g} seconds, "
            f"and is left as is: {', '.join(names)}."
        )


class WishedExit(Exception):
    """The operator has exited because users' code asked for that by ``SystemExit``.

    ``SystemExit`` itself would break the event loop, if it were raised in a task.
    """

    expected = True

    def __init__(self, wish: SystemExit, *, leaves_work: bool = False) -> None:
        super().__init__(describe(wish))
        self.code = wish.code
        self.leaves_work = leaves_work


def get_bound(settings: OperatorSettings, handlers: Iterable[BaseHandler]) -> float:
    """How long the whole exit can take, in seconds.

    It is :data:`GRACE`, or more if settings and handlers declare longer times for themselves. If
    users set ``settings.process.ultimate_exiting_timeout``, it is that.
    """
    if settings.process.is_customized:
        ultimate = settings.process.ultimate_exiting_timeout
        return math.inf if ultimate is None else max(0.0, ultimate)
    declared = [settings.queueing.exit_timeout]
    for handler in handlers:
        if isinstance(handler, DaemonHandler) and handler.cancellation_timeout is not None:
            declared.append((handler.cancellation_backoff or 0.0) + handler.cancellation_timeout)
        if isinstance(handler, ActivityHandler) and handler.activity is Activity.CLEANUP:
            declared.append(handler.timeout or 0.0)
    return max(GRACE, max(declared) + 2 * RESERVE)


def tell_of_wish(who: str, wish: SystemExit) -> None:
    """Log which code asks to exit, and its place."""
    place = "".join(
        f" ({frame.f_code.co_filename}:{line})"
        for frame, line in [*traceback.walk_tb(wish.__traceback__)][-1:]
    )
    logger.warning(f"{who} asks to exit by {safe_repr(wish)}{place}. Operator is stopping.")


class Exit:
    """The exit of one operator: whether it is requested, and how much time is left for it."""

    def __init__(
        self,
        settings: OperatorSettings,
        handlers: Callable[[], Iterable[BaseHandler]],
        ongoing: Ongoing,
    ) -> None:
        self._settings = settings
        self._handlers = handlers
        self._ongoing = ongoing
        self._loop = asyncio.get_running_loop()
        self._since = 0.0
        self._deadline = math.inf
        self._timer: asyncio.TimerHandle | None = None
        self._limits: set[asyncio.Timeout] = set()
        self._unfinished: list[str] = []
        self.requested = asyncio.Event()
        self.hastened = asyncio.Event()
        """The exit was requested again: running work is interrupted."""

        self.wish: SystemExit | None = None
        """The latest ``SystemExit`` of users' code, with the exit code for the process."""

        self.over = asyncio.Event()
        """The time of the exit is over, even if the exit has not ended."""

    @property
    def bound(self) -> float:
        """In seconds since the request; infinite if there is no limit."""
        return get_bound(self._settings, self._handlers())

    def request(self) -> None:
        """Begin the exit, unless it has begun already."""
        if not self.requested.is_set():
            self.requested.set()
            self._since = self._loop.time()
            self._shorten(self.bound)

    def grant(self, wish: SystemExit) -> None:
        """Begin the exit, as users' code asks for it. Can be called in threads, too."""
        self.wish = wish
        invocation = invocation_var.get(None)
        who = describe_call(invocation.handler, invocation.cause) if invocation else "A function"
        tell_of_wish(who, wish)
        owner = process_owner.get()
        if owner is not None:
            owner.on_wish(self.bound + MARGIN, self.describe, wish.code)
        self._loop.call_soon_threadsafe(self.request)

    def hasten(self) -> None:
        """Shorten the exit: there is only time to interrupt the running work."""
        self.request()
        self.hastened.set()
        self._shorten(HASTE)
        soon = self._loop.time() + LAST_MOMENT
        for timeout in self._limits:
            if not timeout.expired() and (timeout.when() or soon) > soon:
                timeout.reschedule(soon)

    def get_left(self) -> float:
        """How many seconds are left; a year if there is no limit, as loops need a finite number."""
        return min(max(0.0, self._deadline - self._loop.time()), YEAR)

    def get_left_for_work(self) -> float:
        """How many seconds are left for everything but the cleanup handlers."""
        reserve = min(RESERVE, (self._deadline - self._since) / 3)
        return max(0.0, self.get_left() - reserve)

    @contextlib.asynccontextmanager
    async def limit(self, seconds: float) -> AsyncIterator[None]:
        """Let the last requests take so many seconds, or less if there is less time.

        They have at least a moment; and only a moment since the exit is hastened.
        Raises :class:`TimeoutError` if they take longer.
        """
        async with asyncio.timeout(min(seconds, max(LAST_MOMENT, self.get_left() / 2))) as timeout:
            self._limits.add(timeout)
            try:
                yield
            finally:
                self._limits.discard(timeout)

    async def wait_for(self, is_ended: Callable[[], bool], get_left: Callable[[], float]) -> bool:
        """Wait while there is time; return whether the work has ended."""
        while not is_ended() and get_left() > 0:  # noqa: ASYNC110  # threads set no events
            await asyncio.sleep(POLLING)
        return is_ended()

    def note_unfinished(self, name: str) -> None:
        """Remember the name of a part that has not ended."""
        self._unfinished.append(name)

    def check(self) -> None:
        """Raise :class:`AbandonedError` if any work has not ended."""
        names = [*self._ongoing.describe(), *self._unfinished]
        if names:
            raise AbandonedError(names, self._loop.time() - self._since)

    def describe(self) -> str:
        """Name the calls of users' code that run right now."""
        return ", ".join(self._ongoing.describe())

    def end(self) -> None:
        """Stop the timer, as the exit is over in time."""
        if self._timer is not None:
            self._timer.cancel()

    def _shorten(self, seconds: float) -> None:
        now = self._loop.time()
        if now + seconds < self._deadline:
            self._deadline = now + seconds
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_later(seconds + MARGIN, self.over.set)
