"""Event loops for the command line: a faster one if it is installed.

Only the command line chooses a loop by itself. Applications with embedded operators bring their own
one.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Iterator


def make_loop() -> asyncio.AbstractEventLoop:
    """Make a loop of uvloop if it is installed (``pip install kopf[uvloop]``), or a usual one."""
    if sys.platform != "win32":
        try:
            import uvloop
        except ImportError:
            pass
        else:
            return uvloop.new_event_loop()
    return asyncio.new_event_loop()


@contextlib.contextmanager
def proper_loop(
    suggested: asyncio.AbstractEventLoop | None = None,
) -> Iterator[asyncio.AbstractEventLoop]:
    """Give the suggested loop, which stays open; or a new one, which is closed at exit."""
    if suggested is not None:
        yield suggested
        return
    loop = make_loop()
    try:
        yield loop
    finally:
        with contextlib.suppress(OSError):  # of uvloop, while TLS connections are being closed
            loop.close()
