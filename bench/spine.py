"""The operator alone, in one process and with no network: its work can be counted exactly.

``python -m bench.spine`` prints for each scenario what is done for one object or event: requests,
tasks, records in the log, parsed and copied documents; and steps of Python: executed instructions
of its virtual machine. None of that depends on how busy the machine is. The steps depend on
the version of Python; so compare them within one version, e.g. of two checkouts.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import logging
import os
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import FrameType
from typing import Any, NamedTuple
from unittest.mock import patch

import kopf
from bench.loadserver import objects
from bench.loadserver.api import CLUSTER_URL, NAMESPACED_URL
from bench.loadserver.control import burst, create, delete, update
from bench.loadserver.discovery import DOCUMENTS, STILL_LISTS
from bench.loadserver.objects import dumps, loads
from bench.loadserver.patches import apply_json_patch, merge
from bench.loadserver.store import Store
from kopf_cogs.clients import stream_state
from kopf_cogs.clients.errors import APINotFoundError
from kopf_cogs.clients.session import Client
from kopf_cogs.clients.vault import Vault
from kopf_cogs.configs import diffbase, healing
from kopf_cogs.helpers import jsons
from kopf_cogs.structs import patches
from kopf_core.engines import memories

BATCH = 16
"""How many events come at once."""

KEEPERS = (memories.__file__, stream_state.__file__, objects.__file__)
"""What makes that which is kept of objects; the last one is the parser of this bench."""

KEPT = 2000
"""The number of objects in the measurement of memory: many, so that single values add little."""

STILL = 60
"""For how many rounds of the loop nothing must happen, so that all is done."""


def report(store: Store, count: int) -> Iterator[None]:
    """Other controllers report in the status of objects."""
    for name in list(store.objects)[:count]:
        body = loads(store.objects[name])
        body["status"]["seen"] = body["status"].get("seen", 0) + 1
        store.replace(body)
        yield


def listing(store: Store, count: int) -> Iterator[None]:
    """Nothing changes: the operator gets the list of what was there before."""
    yield from ()


@dataclass(frozen=True, slots=True)
class Story:
    """What happens, and who handles it."""

    name: str
    declare: Callable[..., Any]
    happen: Callable[[Store, int], Iterable[None]]
    handlers: int = 1
    is_new: bool = False
    """Whether the objects are created by that, and not there before."""

    is_handled: bool = False
    """Whether another operator with the same handlers has handled the objects before."""

    crowd: int = 1
    """How many times more objects there are: a crowd is handled otherwise than a few objects."""


STORIES = (
    Story("start", kopf.on.event, listing, crowd=20),
    Story("restart", kopf.on.create, listing, is_handled=True, crowd=20),
    Story("event", kopf.on.event, update),
    Story("hot", kopf.on.event, burst),
    Story("create", kopf.on.create, create, is_new=True),
    Story("create-5", kopf.on.create, create, handlers=5, is_new=True),
    Story("update", kopf.on.update, update),
    Story("update-5", kopf.on.update, update, handlers=5),
    Story("delete", kopf.on.delete, delete),
    Story("status", kopf.on.update, report),
)


class Cost(NamedTuple):
    """What is done for one object or event."""

    calls: float
    requests: float
    tasks: float
    records: float
    parsed: float
    copied: float
    steps: float


class Wire:
    """The stream of events, as if it were read from a socket; and the replies to requests."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.lines: list[bytes] = []
        self.opened = asyncio.Event()
        self.asked = asyncio.Event()
        self.listed = asyncio.Event()
        self._come = asyncio.Event()
        store.watchers.append(self)  # type: ignore[arg-type]

    def send(self, line: bytes) -> None:
        self.lines.append(line + b"\n")
        self._come.set()

    async def readany(self) -> bytes:
        self.opened.set()
        while not self.lines:
            self._come.clear()
            await self._come.wait()
        batch, self.lines = self.lines[:BATCH], self.lines[BATCH:]
        return b"".join(batch)

    async def reply(self, method: str, url: str, payload: Any) -> Any:
        await asyncio.sleep(0)
        if method == "PATCH":
            return loads(self._patch(url.removeprefix(f"{NAMESPACED_URL}/"), payload))
        if url == CLUSTER_URL:
            items = [loads(raw) for raw in self.store.objects.values()]
            self.asked.set()
            await self.listed.wait()
            return {"metadata": {"resourceVersion": str(self.store.version)}, "items": items}
        raw = DOCUMENTS.get(url) or STILL_LISTS.get(url)
        if raw is None:
            raise APINotFoundError({}, status=404)
        return loads(raw)

    def _patch(self, name: str, payload: Any) -> bytes:
        raw = self.store.objects[name]
        body, change = loads(raw), loads(dumps(payload))
        apply = apply_json_patch if isinstance(change, list) else merge
        return self.store.replace(body) if apply(body, change) else raw


class Meter(logging.Handler):
    """Counts what is done."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()

    def emit(self, record: logging.LogRecord) -> None:
        self.counts["records"] += record.name == "kopf.objects"

    def counted(self, name: str, fn: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            self.counts[name] += 1
            return fn(*args, **kwargs)

        return wrapper

    def trace(self, frame: FrameType, event: str, _: object) -> Any:
        """Count the steps; but not those of this module."""
        if frame.f_code.co_filename == __file__:
            return None
        if event == "opcode":
            self.counts["steps"] += 1
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self.trace


Gauge = Callable[[Meter], AbstractContextManager[None]]
"""What else is counted while the operator works."""


def no_gauge(_: Meter) -> AbstractContextManager[None]:
    return contextlib.nullcontext()


@contextlib.contextmanager
def steps(meter: Meter) -> Iterator[None]:
    """Count the steps of Python."""
    sys._getframe().f_trace_opcodes = True  # or Python 3.12 notices that too late
    sys.settrace(meter.trace)
    try:
        yield
    finally:
        sys.settrace(None)


@contextlib.contextmanager
def connected(meter: Meter, wire: Wire) -> Iterator[None]:
    """Replace the network, and count what is done."""

    async def request(_: Client, method: str, url: str, payload: Any = None, **__: Any) -> Any:
        meter.counts["requests"] += 1
        return await wire.reply(method, url, payload)

    @contextlib.asynccontextmanager
    async def stream(_: Client, url: str, **__: Any) -> AsyncIterator[Any]:
        class Response:
            content = wire if url == CLUSTER_URL else Wire(Store())

        yield Response

    logger = logging.getLogger("kopf.objects")
    level = logger.level
    with contextlib.ExitStack() as stack:
        stack.callback(logger.setLevel, level)
        stack.callback(logger.removeHandler, meter)
        logger.setLevel(logging.INFO)
        logger.addHandler(meter)
        fakes = {"request": request, "stream": stream}
        for name, fake in fakes.items():
            stack.enter_context(patch.object(Client, name, fake))
        for kind, owner, name in (
            ("parsed", jsons, "loads"),
            ("parsed", healing, "_loads"),
            ("copied", diffbase, "json_copy"),
            ("copied", patches, "json_copy"),
            ("tasks", asyncio, "create_task"),
        ):
            fn = meter.counted(kind, getattr(owner, name))
            stack.enter_context(patch.object(owner, name, fn))
        yield


@contextlib.asynccontextmanager
async def operating(story: Story, store: Store, meter: Meter) -> AsyncIterator[Wire]:
    """The operator of the story; it has handled all objects that were there, or waits for them."""
    registry = kopf.OperatorRegistry()

    async def fn(**_: Any) -> None:
        meter.counts["calls"] += 1

    for number in range(story.handlers):
        story.declare("kopfexamples", id=f"fn{number}", registry=registry)(fn)
    settings, stop = kopf.OperatorSettings(), asyncio.Event()
    settings.scanning.disabled = True
    wire = Wire(store)
    with connected(meter, wire):
        vault = Vault({"spine": kopf.ConnectionInfo(server="http://127.0.0.1")})
        operator = asyncio.create_task(
            kopf.operator(
                clusterwide=True,
                standalone=True,
                registry=registry,
                settings=settings,
                vault=vault,
                stop_flag=stop,
            )
        )
        await wire.asked.wait()
        if story.happen is not listing:
            wire.listed.set()
            await wire.opened.wait()
        await settle(meter, wire)
        yield wire
        stop.set()
        await operator


async def measure(story: Story, count: int, gauge: Gauge = no_gauge) -> Cost:
    """Let the story happen to ``count`` objects; get the cost of one of them."""
    count *= story.crowd
    meter, store = Meter(), Store()
    store.reset(0 if story.is_new else count)
    if story.is_handled:
        await handle(store)
    async with operating(story, store, meter) as wire:
        if story.happen is report:  # the first one is known to be different
            await happen(story, wire, count, meter)
        meter.counts.clear()
        await happen(story, wire, count, meter, gauge)
        counts = dict(meter.counts)
    return Cost(*(round(counts.get(name, 0) / count, 2) for name in Cost._fields))


async def handle(store: Store) -> None:
    """Let an operator handle all objects, and stop it."""
    async with operating(Story("handled", kopf.on.create, create), store, Meter()):
        store.watchers.clear()


async def weigh(count: int) -> float:
    """How many bytes an operator keeps for each of the objects handled by another one before.

    Only records and texts are counted. The tables of the queue and of asyncio remember how many
    objects were there at once, and this is a chance.
    """
    import tracemalloc  # PyPy has none

    story, store = Story("kept", kopf.on.create, create), Store()
    store.reset(count)
    await handle(store)
    gc.collect()
    tracemalloc.start()
    try:
        async with operating(story, store, Meter()):
            gc.collect()
            kept = tracemalloc.take_snapshot().filter_traces(
                [tracemalloc.Filter(True, file) for file in KEEPERS]
            )
            return sum(stat.size for stat in kept.statistics("filename")) / count
    finally:
        tracemalloc.stop()


async def happen(
    story: Story, wire: Wire, count: int, meter: Meter, gauge: Gauge = no_gauge
) -> None:
    """Make the events first, and let the operator see them then: only that is counted."""
    for _ in story.happen(wire.store, count):
        pass
    wire.listed.set()
    gc.collect()
    gc.disable()  # the finalizers of garbage that others have left would be counted, too
    try:
        with gauge(meter):
            await settle(meter, wire)
    finally:
        gc.enable()


async def settle(meter: Meter, wire: Wire) -> None:
    """Wait until nothing happens: no time is measured here, so no time is waited for."""
    rounds, before = 0, None
    while rounds < STILL:
        await asyncio.sleep(0)
        now = (len(wire.lines), wire.store.version, meter.counts["calls"], count_tasks())
        rounds, before = (rounds + 1 if now == before else 0), now


def count_tasks() -> int:
    """Count the tasks in the loop. This takes steps, too: they are not those of the operator."""
    trace = sys.gettrace()
    sys.settrace(None)
    try:
        return len(asyncio.all_tasks())
    finally:
        sys.settrace(trace)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.spine", description=__doc__)
    parser.add_argument("--only", default="", metavar="NAME[,NAME]")
    parser.add_argument("--n", type=int, default=50, help="objects or events")
    args = parser.parse_args()
    logging.basicConfig(stream=open(os.devnull, "w"), level=logging.INFO)  # noqa: SIM115
    names = set(filter(None, args.only.split(",")))
    print(f"{'':10}" + "".join(f"{name:>10}" for name in Cost._fields))
    for story in STORIES:
        if not names or story.name in names:
            cost = asyncio.run(measure(story, args.n, steps))
            print(f"{story.name:10}" + "".join(f"{value:10,.2f}" for value in cost), flush=True)
    kept = asyncio.run(weigh(KEPT))
    print(f"{kept:,.0f} bytes are kept for an object that was handled before.")


if __name__ == "__main__":
    main()
