"""A watchdog of the event loop: names the handler that blocks the loop.

It checks from a thread whether the loop turns, as a blocked loop cannot tell that itself.
"""

import asyncio
import logging
import sys
import threading
from collections.abc import Callable
from types import FrameType

from kopf_cogs.aiokits.surroundings import get_threads
from kopf_core.actions.bases import BaseHandler
from kopf_core.actions.ongoing import describe_call

logger = logging.getLogger("kopf.reactor.watchdog")

PERIOD = 1.0
"""In seconds: how often the loop gives its pulse, and how often the thread checks it."""

PATIENCE = 5
"""The number of failed checks in a row before a warning. A suspended process fails one."""

OWN_PACKAGES = frozenset({"kopf", "kopf_kits", "kopf_core", "kopf_cogs"})
"""Our own packages: users cannot repair their code."""


class Watchdog:
    """Watches the loop in which it is started, until it is stopped."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread_id = threading.get_ident()
        self._beats = 0
        self._seen = 0
        self._failures = 0
        self._stop: Callable[[], None] | None = None
        self._handle: asyncio.TimerHandle | None = None

    def __enter__(self) -> "Watchdog":
        self._beat()
        self._stop = get_threads().repeat(self.check, period=PERIOD, name="kopf-watchdog")
        return self

    def __exit__(self, *_: object) -> None:
        if self._stop is not None:
            self._stop()
        if self._handle is not None:
            self._handle.cancel()

    def check(self) -> None:
        """Compare the pulse of the loop with the previous one; warn if there is none for long."""
        if self._beats != self._seen:
            if self._failures >= PATIENCE:
                logger.warning(f"The event loop was blocked for {self._failures} seconds.")
            self._seen, self._failures = self._beats, 0
            return
        self._failures += 1
        if self._failures == PATIENCE:
            blocker = describe_blocker(sys._current_frames().get(self._thread_id))
            logger.warning(
                f"The event loop is blocked for {PATIENCE} seconds already, and nothing else works "
                f"meanwhile: {blocker}. Asynchronous handlers must not call blocking functions."
            )

    def _beat(self) -> None:
        self._beats += 1
        self._handle = self._loop.call_later(PERIOD, self._beat)


def describe_blocker(frame: FrameType | None) -> str:
    """Name the handler with its object, and the place in the code, by the executed frame."""
    innermost, theirs = frame, None
    while frame is not None:
        # Users can misuse our functions, e.g. forget to await a flag: name their place then.
        theirs = frame if theirs is None and not _is_ours(frame) else theirs
        handler, cause = frame.f_locals.get("handler"), frame.f_locals.get("cause")
        if isinstance(handler, BaseHandler) and cause is not None:
            return f"{describe_call(handler, cause)} ({_locate(theirs or innermost)})"
        frame = frame.f_back
    return f"not in a handler ({_locate(innermost)})"


def _locate(frame: FrameType | None) -> str:
    return "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _is_ours(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__")).partition(".")[0] in OWN_PACKAGES
