"""Change handlers that succeed at the first attempt: of the asked causes, number, and kind."""

import os
from typing import Any

import kopf
from bench.handlers import probe


async def async_fn(**_: Any) -> None:
    probe.count()


def sync_fn(**_: Any) -> None:
    probe.count_in_thread()


if os.environ.get("BENCH_AT_ONCE"):
    kopf.set_default_lifecycle(kopf.lifecycles.all_at_once)

for cause in os.environ["BENCH_CAUSES"].split(","):
    for n in range(probe.HANDLERS):
        decorator = getattr(kopf.on, cause)("kopfexamples", id=f"{cause}{n}")
        decorator(sync_fn if probe.SYNC else async_fn)
