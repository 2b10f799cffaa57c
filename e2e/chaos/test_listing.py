"""Lists that are too long for the memory: not more of them is read than there is to work on."""

from __future__ import annotations

import asyncio
import gc
import json

import kopf
from e2e.chaos.fake.faults import Exchange
from e2e.chaos.fake.http import Reply
from e2e.chaos.fake.server import FakeAPI
from e2e.chaos.test_matrix import serve
from kopf_core.reactor.streams.places import HEADROOM

TOTAL = 50_000
PAGE = 500
BOUND = 2 * PAGE
"""How many objects can be in memory at once."""


class LongList:
    """The pages are made when requested; there are no objects behind them."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.served = 0
        self.kept: list[int] = []
        """How many objects were in memory when a page was requested."""

    async def act(self, exchange: Exchange) -> None:
        start = int(exchange.entry.request.query.get("continue") or 0)
        if start % (TOTAL // 10) == 0:
            self.kept.append(count_in_memory())
        stop = min(TOTAL, start + int(exchange.entry.request.query["limit"]))
        items = ", ".join(self.make(number) for number in range(start, stop))
        metadata = {"resourceVersion": str(self.version)}
        if stop < TOTAL:
            metadata["continue"] = str(stop)
        head = json.dumps({"kind": "KexList", "apiVersion": "v1", "metadata": metadata})
        body = f'{head[:-1]}, "items": [{items}]}}'.encode()
        self.served = stop
        await exchange.send(Reply(200, body, {"Content-Type": "application/json"}))

    def make(self, number: int) -> str:
        return (
            f'{{"metadata": {{"name": "kex{number}", "namespace": "default", "uid": "u{number}", '
            f'"resourceVersion": "{self.version}"}}, "spec": {{"x": {number}}}}}'
        )


def count_in_memory() -> int:
    """How many objects of the list are there, whoever holds them."""
    found = (obj.get("metadata") for obj in gc.get_objects() if type(obj) is dict)
    return sum(type(meta) is dict and "kex" in str(meta.get("name")) for meta in found)


async def test_d15_a_page_or_two_of_a_long_list_are_in_memory():
    waiting, kept, names, done = [], [], set(), asyncio.Event()
    registry, settings = kopf.OperatorRegistry(), kopf.OperatorSettings()
    settings.queueing.worker_limit = 3
    settings.watching.chunk_size = PAGE
    async with FakeAPI() as api:
        long = LongList(api.store.version)
        api.on(lambda e: e.verb in ("list", "next") and e.target.plural == "kexes", long.act)

        @kopf.on.login(registry=registry)
        def login(**_):
            return kopf.ConnectionInfo(server=api.url)

        @kopf.on.event("kexes", registry=registry)
        async def handle(name, **_):
            names.add(name)
            waiting.append(long.served - len(names))
            if len(names) % (TOTAL // 10) == 1:
                kept.append(count_in_memory())
            if len(names) == TOTAL:
                done.set()

        async with serve(registry, settings) as operator:
            finish = asyncio.create_task(done.wait())
            await asyncio.wait([operator, finish], return_when=asyncio.FIRST_COMPLETED)
            finish.cancel()
    assert len(names) == TOTAL
    assert max(waiting) <= BOUND
    assert len(kept) == 10
    assert max(kept) <= BOUND
    assert len(long.kept) == 10
    assert max(long.kept) <= HEADROOM + 1
