"""Handlers of a tenant with many objects, and of another one: how old its changes are for them."""

import asyncio
import os
import time
from typing import Any

import kopf
from bench.handlers import probe

WAIT = float(os.environ["BENCH_WAIT"])


def count(namespace: str, spec: kopf.Spec) -> None:
    if namespace == "other" and "sent" in spec:
        with probe._lock:
            probe.count_latency(spec["sent"])


async def async_fn(namespace: str, spec: kopf.Spec, **_: Any) -> None:
    count(namespace, spec)
    await asyncio.sleep(WAIT)


def sync_fn(namespace: str, spec: kopf.Spec, **_: Any) -> None:
    count(namespace, spec)
    time.sleep(WAIT)


for decorator in (kopf.on.create, kopf.on.update):
    decorator("kopfexamples", id="fn")(sync_fn if probe.SYNC else async_fn)
