"""Handlers of a tenant with many objects, and of another one: how old its changes are for them."""

import asyncio
import os
import time
from typing import Any

import kopf
from bench.handlers import probe

WAIT = float(os.environ["BENCH_WAIT"])
BY_CPU = os.environ["BENCH_BY_CPU"] == "1"


def count(namespace: str, spec: kopf.Spec) -> None:
    if namespace == "other" and "sent" in spec:
        ahead = time.monotonic_ns() - time.process_time_ns() if BY_CPU else 0
        with probe._lock:
            probe.count_latency(spec["sent"] + ahead)


async def async_fn(namespace: str, spec: kopf.Spec, **_: Any) -> None:
    count(namespace, spec)
    await asyncio.sleep(WAIT)


def sync_fn(namespace: str, spec: kopf.Spec, **_: Any) -> None:
    count(namespace, spec)
    time.sleep(WAIT)


for decorator in (kopf.on.create, kopf.on.update):
    decorator("kopfexamples", id="fn")(sync_fn if probe.SYNC else async_fn)
