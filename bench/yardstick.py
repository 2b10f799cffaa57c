"""How fast the core is right now: neighbours on the same hardware slow down even the CPU time."""

from __future__ import annotations

import json
import time

from bench.loadserver.objects import make_object
from bench.processes import pin, unpin

ROUNDS = 1000


def measure_yardstick(core: int | None) -> float:
    """The CPU time of a fixed piece of work: some JSON and some dicts, like in operators."""
    raw = json.dumps(make_object(0))
    own = pin(core)
    try:
        started = time.thread_time()
        for _ in range(ROUNDS):
            body = json.loads(raw)
            {**body["metadata"], **body["spec"]}
        return time.thread_time() - started
    finally:
        unpin(own)
