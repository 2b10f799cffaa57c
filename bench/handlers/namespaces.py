"""An operator for many namespaces: it sees all events, and keeps nothing."""

import os
from typing import Any

import kopf
from bench.handlers import probe
from kopf_core.reactor.streams import feeds

feeds.MANY_NAMESPACES = int(os.environ["BENCH_MANY"])


@kopf.on.event("kopfexamples")
async def seen(**_: Any) -> None:
    probe.count()
