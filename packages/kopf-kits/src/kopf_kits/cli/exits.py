"""
How the process of ``kopf run`` exits: on signals at any moment, and with threads still running.

The operator handles the signals while it runs. Here is what happens right before and after that.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType
from typing import NoReturn

from kopf_cogs.configs.settings import HANDLER_THREADS
from kopf_core.reactor import running

logger = logging.getLogger("kopf.cli")

SIGNALS = (signal.SIGINT, signal.SIGTERM)

# How long (in seconds) it can take the idle threads to end when they are told to.
_IDLE_TIMEOUT = 0.1


@contextlib.contextmanager
def clean_exit() -> Iterator[None]:
    """
    Run an operator inside; then wait for the sync handlers that still run, as threads cannot be
    cancelled. Nothing is waited for after the second signal: the process exits on the spot.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[signal.Signals] = []

    def leave(_signum: int, _frame: FrameType | None) -> NoReturn:
        if received:  # the operator is over, or nearly so
            _exit_now()
        raise SystemExit(0)

    token = running.received_signals.set(received)
    previous = {signum: signal.signal(signum, leave) for signum in SIGNALS}
    try:
        yield
        _wait_for_threads(is_urgent=len(received) > 1)
    finally:
        for signum, handler in previous.items():
            signal.signal(signum, handler)
        running.received_signals.reset(token)


def _wait_for_threads(*, is_urgent: bool) -> None:
    deadline = time.monotonic() + _IDLE_TIMEOUT
    for thread in _get_threads():
        thread.join(max(0.0, deadline - time.monotonic()))
    busy = _get_threads()
    if not busy:
        return
    if is_urgent:
        logger.warning(f"Exiting, though sync handlers still run: {len(busy)}.")
        _exit_now()
    logger.warning(
        f"Waiting for sync handlers to end, as threads cannot be cancelled: {len(busy)}. "
        f"To exit at once, send the signal again."
    )
    for thread in busy:
        thread.join()


def _get_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith(HANDLER_THREADS)]


def _exit_now() -> NoReturn:
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(0)
