"""Creation handlers that compute for some time of CPU; in any number of processes."""

import os
import time
from typing import Any

import kopf

WORK = float(os.environ["BENCH_WORK"])


@kopf.on.startup()
async def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
    settings.posting.enabled = False


@kopf.on.create("kopfexamples")
async def compute(**_: Any) -> None:
    deadline = time.thread_time() + WORK
    while time.thread_time() < deadline:
        pass
