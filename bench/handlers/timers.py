"""One timer an object, every second; some calls tell how late they are."""

import itertools
import time
from typing import Any

import kopf
from bench.handlers import probe

INTERVAL = 1.0
SAMPLED = 20
"""One of so many objects tells how late its timer is."""

_last: dict[str, int] = {}
_samples = itertools.count()


@kopf.timer("kopfexamples", interval=INTERVAL)
async def tick(name: str, **_: Any) -> None:
    probe.count()
    if int(name.rpartition("-")[2]) % SAMPLED == 0:
        now = time.monotonic_ns()
        before, _last[name] = _last.get(name), now
        if before is not None:
            lag = now - before - int(INTERVAL * 1e9)
            probe.write(next(_samples), max(1, lag))
