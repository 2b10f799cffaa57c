"""Handlers that wait, and tell when they begin and end: replicas write to one journal."""

import asyncio
import contextlib
import os
import random
import time
from collections.abc import Iterator
from typing import Any

import kopf

JOURNAL = os.open(os.environ["BENCH_JOURNAL"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
WAITING = [float(text) for text in os.environ["BENCH_WAITING"].split("-")]
"""The least and the most seconds."""


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
    settings.posting.enabled = False
    settings.queueing.worker_limit = int(os.environ["BENCH_WORKERS"])


def tell(*words: object) -> None:
    os.write(JOURNAL, " ".join(map(str, (os.getpid(), *words, "\n"))).encode())


@contextlib.contextmanager
def told(*words: object) -> Iterator[None]:
    tell("begins", *words)
    try:
        yield
    finally:
        tell("ends", *words)


@kopf.on.create("kopf.dev", "v1", "kopfexamples")
@kopf.on.update("kopf.dev", "v1", "kopfexamples")
async def fn(name: str, spec: kopf.Spec, **_: Any) -> None:
    with told(name, spec["n"]):
        await asyncio.sleep(random.uniform(*WAITING))
        tell("done", name, spec["n"], time.monotonic())
