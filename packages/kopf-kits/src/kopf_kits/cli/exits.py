"""Exits of the process of ``kopf run``: on signals at any moment, and within a limited time.

The operator handles the signals while it runs, and exits within its own time. This module handles
the signals before and after that. It also ends the process if the process does not end by itself:
because of a blocked event loop, or because of threads that the interpreter waits for.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import queue
import signal
import threading
import time
from collections.abc import Callable, Collection, Iterator
from types import FrameType
from typing import NoReturn

from kopf_core.reactor.life.exiting import GRACE, process_owner

logger = logging.getLogger("kopf.cli")

SIGNALS = (signal.SIGINT, signal.SIGTERM)

MARGIN = 1.0
"""In seconds: how much longer the process may take than the operator."""


class Process:
    """The process of one operator; a thread ends the process when its time is over."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._count = 0
        self._patience = 2
        self._deadline = math.inf
        self._describe: Callable[[], str] = str
        self._code = 1
        # Unlike with events, signal handlers can put into such queues with no deadlocks.
        self._wakeups: queue.SimpleQueue[None] = queue.SimpleQueue()
        threading.Thread(target=self._watch, name="kopf-exit", daemon=True).start()

    def on_signal(self, timeout: float, describe: Callable[[], str]) -> None:
        """The operator is going to exit; the third signal in a row ends the process at once."""
        self._count += 1
        self._describe = describe
        self.expect_end(timeout if self._count <= 2 else -MARGIN)

    def on_wish(self, timeout: float, describe: Callable[[], str], code: object) -> None:
        """The operator is going to exit with that code."""
        self._code = code if isinstance(code, int) else int(code is not None)
        self._describe = describe
        self.expect_end(timeout)

    @property
    def is_asked(self) -> bool:
        """Whether there was a signal."""
        return self._count > 0

    def on_other_signal(self, signum: int, _frame: FrameType | None) -> None:
        """There is no operator yet, or it has ended: the second signal ends the process at once.

        If the first signal was for the operator, the third signal does so.
        """
        if os.getpid() != self._pid:
            signal.signal(signum, signal.SIG_DFL)
            signal.raise_signal(signum)
        self._count += 1
        if self._count > self._patience:
            self.expect_end(-MARGIN)
        if self._count == 1:
            self._patience = 1
            raise SystemExit(0)

    def expect_end(self, timeout: float) -> None:
        """The process must end in so many seconds, or sooner if an earlier call has said so."""
        self._deadline = min(self._deadline, time.monotonic() + timeout + MARGIN)
        self._wakeups.put(None)

    def _watch(self) -> None:
        while (left := self._deadline - time.monotonic()) > 0:
            with contextlib.suppress(queue.Empty):
                self._wakeups.get(timeout=None if left == math.inf else left)
        self._exit_now()

    def _exit_now(self) -> NoReturn:
        # Writing can block for ever if no process reads stderr; the exit must not block.
        threading.Thread(target=self._end_soon, name="kopf-end", daemon=True).start()
        names = [self._describe(), *_name_threads()]
        left = ", ".join(name for name in names if name) or "nothing in particular"
        line = f"Error: The process is ended by force; still working: {left}.\n"
        with contextlib.suppress(OSError):
            os.write(2, line.encode())  # the threads that hang can have locked the streams
        os._exit(self._code)

    def _end_soon(self) -> NoReturn:
        time.sleep(MARGIN)
        os._exit(self._code)


@contextlib.contextmanager
def clean_exit(others: Collection[threading.Thread] = ()) -> Iterator[None]:
    """Run an operator inside, as the owner of the process, which ends soon after the operator.

    The other threads belong to a caller that runs the command line in its process, e.g. to tests.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    process = Process()
    token = process_owner.set(process)
    previous = {signum: signal.signal(signum, process.on_other_signal) for signum in SIGNALS}
    try:
        if any(getattr(handler, "is_asked", False) for handler in previous.values()):
            raise SystemExit(0)  # the interpreter has lost the exception of the signal
        yield
    finally:
        for signum, handler in previous.items():
            signal.signal(signum, handler)
        process_owner.reset(token)
        if _name_threads(others):
            process.expect_end(GRACE)  # the interpreter waits for these threads


def _name_threads(others: Collection[threading.Thread] = ()) -> list[str]:
    """The threads that do not let the interpreter exit."""
    return [
        f"thread {thread.name!r}"
        for thread in {*threading.enumerate()}.difference(others)
        if thread.is_alive() and not thread.daemon and thread is not threading.main_thread()
    ]
