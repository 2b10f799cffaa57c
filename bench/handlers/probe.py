"""How the handlers tell the bench what they have done: a few numbers in shared memory.

Costs well under a microsecond a call, the same for every framework, and asks nothing of the loop.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import json
import mmap
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

import kopf

HANDLERS = int(os.environ.get("BENCH_HANDLERS", "1"))
SYNC = os.environ.get("BENCH_SYNC") == "1"

with open(os.environ["BENCH_CELLS"], "r+b") as _file:
    _cells = memoryview(mmap.mmap(_file.fileno(), 0)).cast("Q")

_lock = threading.Lock()


def count() -> None:
    """One more call of a handler. For the loop's thread only."""
    _cells[0] += 1


def count_in_thread() -> None:
    """One more call of a handler, in any thread."""
    with _lock:
        _cells[0] += 1


def count_latency(sent: int) -> None:
    """One more call of a handler, for what was sent at that time of the monotonic clock."""
    _cells[1 + _cells[0]] = time.monotonic_ns() - sent
    _cells[0] += 1


def write(number: int, nanoseconds: int) -> None:
    """A latency; when there is no place for more, the first ones are overwritten."""
    _cells[1 + number % (len(_cells) - 1)] = nanoseconds


@kopf.on.startup()
async def describe(settings: kopf.OperatorSettings, **_: Any) -> None:
    settings.posting.enabled = os.environ.get("BENCH_POSTING") != "off"
    settings.posting.loggers = os.environ.get("BENCH_POSTING") == "loggers"
    facts = {
        "kopf": importlib.metadata.version("kopf"),
        "python": sys.version.split()[0],
        "loop": type(asyncio.get_running_loop()).__module__,
        "orjson": "orjson" in sys.modules,
    }
    Path(os.environ["BENCH_FACTS"]).write_text(json.dumps(facts))  # noqa: ASYNC240
