"""Ctrl+C and SIGTERM while there is no operator, which would care by itself."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

from click.exceptions import Exit


@contextlib.contextmanager
def exiting_when_interrupted() -> Iterator[None]:
    """Exit quietly and successfully if interrupted inside of the block: to serve no more.

    Everything that is entered inside of the block is properly left.
    """
    with interruptible():
        try:
            yield
        except KeyboardInterrupt:
            raise Exit(0) from None


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Raise ``KeyboardInterrupt`` inside of the block by both signals. It fails the command.

    In threads other than the main one, signals are not seen, so there is nothing to do.
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
    """Ctrl+C comes to all processes of a terminal: let it be passed on by us, and once."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _interrupt(signum: int, frame: FrameType | None) -> None:
    signal.raise_signal(signal.SIGINT)
