"""The bench's side of the server: scripts of load, gates, and counters. All by GET requests."""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from collections.abc import Coroutine, Iterator
from typing import TYPE_CHECKING, Any

from bench.cells import Cells
from bench.config import WEBHOOK_PORT
from bench.loadserver.http import Connection, Request
from bench.loadserver.objects import dumps, loads, make_object
from bench.loadserver.reviews import post_conversions, post_reviews
from bench.loadserver.store import Store, pump

if TYPE_CHECKING:
    from bench.loadserver.api import Api

NEIGHBOURS = 20
"""How many objects there are in another namespace."""


class Control:
    """``/_bench/{command}?n={number}``, where the commands are:

    * ``reset``: forget everything, have N objects; ``gate``/``open``: hold and release the lists.
    * ``burst``: N updates of the first object; ``paced``: the same, one in 20 ms.
    * ``create``, ``update``, ``delete``: N (more) objects.
    * ``storm``: N updates a second of the objects, one after another; ``neighbour``: the same of
      a few objects in another namespace, with the time of sending put into them, by the
      CPU clock of the process with that ``pid``, if there is any; both for ever.
    * ``spread``: N labelled namespaces with one object in each; ``join``: N more of them;
      ``empty``: the objects of N of the namespaces vanish; ``erase``: these namespaces do.
    * ``review``: N reviews for the webhook of the operator; ``paced-review``: one in 20 ms.
    * ``paced-convert``: N objects to be converted by the webhook, ten at once in 20 ms.
    * ``stats``: counters of the requests, the number of objects, watches, and held lists.
    """

    def __init__(self, api: Api) -> None:
        self.api = api
        self.tasks: set[asyncio.Task[None]] = set()

    def handle(self, connection: Connection, request: Request) -> None:
        store, count = self.api.store, int(request.param("n") or 0)
        match request.path.removeprefix("/_bench/"):
            case "reset":
                store.reset(count)
                self.api.counters.clear()
            case "gate":
                self.api.gated = []
            case "open":
                self.api.open_gate()
            case "burst":
                self.start(burst(store, count))
            case "paced":
                self.start(burst(store, count), delay=0.02)
            case "create":
                self.start(create(store, count))
            case "update":
                self.start(update(store, count))
            case "delete":
                self.start(delete(store, count))
            case "storm":
                self.spawn(keep_rate(storm(store, list(store.objects)), count))
            case "neighbour":
                clock = get_clock(int(request.param("pid") or 0))
                steps = storm(store, list(make_neighbours(store)), clock)
                self.spawn(keep_rate(steps, count))
            case "spread":
                store.reset(0)
                for _ in spread(store, self.api.namespaces, count):
                    pass
            case "join":
                self.start(spread(store, self.api.namespaces, count))
            case "erase":
                self.start(erase(self.api.namespaces, count))
            case "empty":
                self.start(empty(store, self.api.namespaces, count))
            case "review":
                self.spawn(post_reviews(WEBHOOK_PORT, count))
            case "paced-review":
                self.spawn(post_reviews(WEBHOOK_PORT, count, delay=0.02))
            case "paced-convert":
                cells = Cells(os.environ["BENCH_CELLS"])
                self.spawn(post_conversions(WEBHOOK_PORT, count, cells))
        connection.respond(dumps(self.stats()))

    def stats(self) -> dict[str, int]:
        return {
            **self.api.counters,
            "objects": len(self.api.store.objects),
            "watchers": len(self.api.store.watchers),
            "gated": len(self.api.gated or []),
            "running": len(self.tasks),
        }

    def start(self, steps: Iterator[None], delay: float | None = None) -> None:
        self.spawn(pump(self.api.store, steps) if delay is None else pace(steps, delay))

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)


def spread(store: Store, namespaces: Store, count: int) -> Iterator[None]:
    start = len(namespaces.objects)
    for index in range(start, start + count):
        name = f"ns-{index:06d}"
        meta = {"name": name, "uid": name, "labels": {"tenant": "a"}}
        namespaces.create({"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
        body = make_object(index)
        body["metadata"]["namespace"] = name
        store.create(body)
        yield


def empty(store: Store, namespaces: Store, count: int) -> Iterator[None]:
    """Mark the namespaces as deleted, and delete their objects, as real clusters do it."""
    for name in list(namespaces.objects)[:count]:
        body = loads(namespaces.objects[name])
        body["metadata"] |= {"deletionTimestamp": "2026-01-01T01:00:00Z", "finalizers": ["x"]}
        namespaces.replace(body)
        store.delete(name.replace("ns-", "obj-"))
        yield


def erase(namespaces: Store, count: int) -> Iterator[None]:
    for name in list(namespaces.objects)[:count]:
        body = loads(namespaces.objects[name])
        del body["metadata"]["finalizers"]
        namespaces.replace(body)
        yield


async def pace(steps: Iterator[None], delay: float) -> None:
    for _ in steps:
        await asyncio.sleep(delay)


async def keep_rate(steps: Iterator[None], rate: int) -> None:
    """Perform so many changes a second, even if sleeps are longer than they should be."""
    loop = asyncio.get_running_loop()
    at = loop.time()
    for _ in steps:
        at += 1 / rate
        await asyncio.sleep(max(0.0, at - loop.time()))


def burst(store: Store, count: int) -> Iterator[None]:
    """Update the same object again and again, with the time of sending put into it."""
    name, raw = next(iter(store.objects.items()))
    body = loads(raw)
    body["metadata"]["resourceVersion"] = "@version@"
    body["spec"]["sent"] = "@sent@"
    template = dumps(body).replace(b'"@version@"', b'"%d"').replace(b'"@sent@"', b"%d")
    for _ in range(count):
        store.bump()
        raw = store.objects[name] = template % (store.version, time.monotonic_ns())
        store.emit(b"MODIFIED", raw)
        yield


def make_neighbours(store: Store) -> Iterator[str]:
    for index in range(NEIGHBOURS):
        body = make_object(index)
        name = f"neighbour-{index}"
        body["metadata"] |= {"name": name, "namespace": "other", "uid": name}
        store.create(body)
        yield name


def get_clock(pid: int) -> int:
    """The clock of the CPU time of that process; or the monotonic clock, if there is no process."""
    return (~pid << 3) | 2 if pid else time.CLOCK_MONOTONIC


def storm(store: Store, names: list[str], clock: int | None = None) -> Iterator[None]:
    for name in itertools.cycle(names):
        body = loads(store.objects[name])
        body["spec"]["counter"] += 1
        if clock is not None:
            body["spec"]["sent"] = time.clock_gettime_ns(clock)
        store.replace(body)
        yield


def create(store: Store, count: int) -> Iterator[None]:
    for index in range(count):
        store.create(make_object(index))
        yield


def update(store: Store, count: int) -> Iterator[None]:
    for name in list(store.objects)[:count]:
        body = loads(store.objects[name])
        body["spec"]["counter"] += 1
        store.replace(body)
        yield


def delete(store: Store, count: int) -> Iterator[None]:
    for name in list(store.objects)[:count]:
        store.delete(name)
        yield
