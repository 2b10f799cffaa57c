"""Ctrl+C and SIGTERM while there is no operator, which would handle them itself."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

from click.exceptions import Exit


@contextlib.contextmanager
def exiting_when_interrupted() -> Iterator[None]:
    """Exit quietly and successfully if a signal interrupts the block: the user ends the service.

    All context managers inside of the block exit properly.
    """
    with interruptible():
        try:
            yield
        except KeyboardInterrupt:
            raise Exit(0) from None


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Raise ``KeyboardInterrupt`` inside of the block by both signals. It fails the command.

    Only the main thread receives signals, so the block does nothing in other threads.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    # SIGINT is ignored in background jobs of shells, so the handler is not necessarily there.
    # SIGTERM does not raise by itself, as asyncio takes care of SIGINT only.
    old_sigint = signal.signal(signal.SIGINT, signal.default_int_handler)
    old_sigterm = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, old_sigterm)
        signal.signal(signal.SIGINT, old_sigint)


@contextlib.contextmanager
def blocked_interrupts() -> Iterator[None]:
    """Let processes start with Ctrl+C blocked: only the supervisor gets it, and stops them once."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _interrupt(signum: int, frame: FrameType | None) -> None:
    signal.raise_signal(signal.SIGINT)
