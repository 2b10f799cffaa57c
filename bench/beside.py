"""Our operator beside those with controller-runtime, on a real API server over TLS.

Usage: ``python -m bench.beside [--scale 0.1] [--engines bare,ours,go,go-typed]``. It needs the
control plane (``make e2e-assets``), and the toolchain of Go: it builds ``bench/go`` first.

All do the same: they note each state of an object on the object, by one merge patch; ten at once.
``bare`` is a client in Python with no framework around it, which remembers nothing.
CPU is the kernel's, of the whole process: with no start in it, unless said so. RSS is of the whole
process in the end. Each engine has a new cluster. The driver and the cluster share the machine
with the operators, so the times are comparable only within one run.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from e2e.clusters import Cluster, open_cluster

from bench.config import HERE, Config
from bench.owners import CRD, CRDS, OWNERS, Api, Usage, settle, stop
from bench.setup_envs import ensure_ours

ENGINES = ("bare", "ours", "go", "go-typed")
NOTES = ("kopf.zalando.org/last-handled-configuration", "bench.kopf.dev/handled")
SPEC = {f"field{n}": "v" * 60 for n in range(12)}
RATE = 30
"""How many objects are created in a second, when the latency is measured."""

TARGETS = {
    "start to the first handled object": "0.2 s; 0.15 s of CPU",
    "with no objects": "36 MB",
    "existing objects handled": "0.55 ms; 65 MB",
    "created while running": "0.95 ms; 50 MB",
    "a second": "2.2 ms with the start",
    "a second: p50; p95": "the latencies of Go",
    "updates of one object": "2.2 s of CPU",
    "handled objects": "0.10 ms; 60 MB",
    "handled objects, with an index of bodies": "260 MB",
}
"""What ours is to reach at most on a quiet machine with all objects, by the ends of the titles."""


@dataclass(frozen=True)
class Sizes:
    """How many objects or changes there are in each phase."""

    existing: int = 3_000
    created: int = 2_000
    updates: int = 2_000
    paced: int = 600
    kept: int = 20_000

    def scaled(self, scale: float) -> Sizes:
        return Sizes(*(max(10, int(size * scale)) for size in vars(self).values()))


@dataclass
class Table:
    """The figures of all engines: a row for each kind of work, with a cell for each engine."""

    rows: dict[str, dict[str, str]] = field(default_factory=dict)

    def add(self, engine: str, title: str, value: str) -> None:
        self.rows.setdefault(title, {})[engine] = value
        print(f"{engine:9} {title}: {value}", file=sys.stderr, flush=True)

    def render(self) -> str:
        names = [name for name in ENGINES if any(name in cells for cells in self.rows.values())]
        lines = [["", *names, "to reach"], ["---"] * (len(names) + 2)]
        for title, cells in self.rows.items():
            target = next((text for end, text in TARGETS.items() if title.endswith(end)), "")
            lines.append([title, *(cells.get(name, "-") for name in names), target])
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)


class Watcher:
    """When each object was seen as handled, by its name."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._changed = asyncio.Event()
        self.seen: dict[str, float] = {}

    async def run(self) -> None:
        params = "watch=true&timeoutSeconds=7200"
        async with self._api.stream(f"{OWNERS}?{params}") as response:
            async for line in response.content:
                event = json.loads(line)
                meta = event["object"]["metadata"]
                notes = meta.get("annotations") or {}
                if event["type"] != "DELETED" and any(name in notes for name in NOTES):
                    self.seen.setdefault(meta["name"], time.monotonic())
                    self._changed.set()

    async def until(self, count: int) -> None:
        while len(self.seen) < count:
            self._changed.clear()
            await self._changed.wait()


@dataclass
class Bench:
    """One engine on its own cluster; each phase begins with no objects and no operator."""

    engine: str
    command: list[str]
    cluster: Cluster
    api: Api
    sizes: Sizes
    table: Table
    watcher: Watcher
    idle: Usage = field(default_factory=lambda: Usage(0, 0))
    serial: int = 0

    async def start(self, **env: str) -> asyncio.subprocess.Process:
        env |= {"KUBECONFIG": str(self.cluster.kubeconfig_path), "PYTHONPATH": str(HERE.parent)}
        return await asyncio.create_subprocess_exec(
            *self.command,
            env={**os.environ, **env},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    async def create(self, count: int) -> dict[str, float]:
        """Create so many objects, ten at once; get when each of them was sent."""
        limit, sent = asyncio.Semaphore(10), dict[str, float]()
        await asyncio.gather(*(self.create_one(limit, sent) for _ in range(count)))
        return sent

    async def create_one(self, limit: asyncio.Semaphore, sent: dict[str, float]) -> None:
        self.serial += 1
        name = f"object-{self.serial}"
        meta = {"name": name, "labels": {"app": "bench", "number": str(self.serial)}}
        body = {"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": meta, "spec": SPEC}
        async with limit:
            sent[name] = time.monotonic()
            await self.api.request("POST", OWNERS, body)

    async def handle(self, count: int) -> None:
        await self.watcher.until(count)

    async def clear(self) -> None:
        await self.api.request("DELETE", OWNERS)
        self.watcher.seen.clear()

    def add(self, title: str, value: str) -> None:
        self.table.add(self.engine, title, value)

    def add_cost(self, title: str, count: int, usage: Usage, since: Usage | None = None) -> None:
        cpu = (usage.cpu - (since or self.idle).cpu) / count * 1000
        self.add(title, f"{cpu:.3f} ms; {usage.memory:.0f} MB")


async def start_up(bench: Bench) -> None:
    """The first one is not counted: modules are compiled and read from the disk."""
    for is_counted in (False, True):
        await bench.create(1)
        began = time.monotonic()
        process = await bench.start()
        await bench.handle(1)
        wall, cpu = time.monotonic() - began, Usage.of(process.pid).cpu
        await settle(process)
        await stop(process)
        await bench.clear()
        if is_counted:
            bench.add("start to the first handled object", f"{wall:.2f} s; {cpu:.2f} s of CPU")
    process = await bench.start()
    await asyncio.sleep(3)
    bench.idle = await settle(process)
    await stop(process)
    bench.add("with no objects", f"{bench.idle.cpu:.2f} s of CPU; {bench.idle.memory:.0f} MB")


async def handle_existing(bench: Bench) -> None:
    count = bench.sizes.existing
    await bench.create(count)
    process = await bench.start()
    await bench.handle(count)
    bench.add_cost(f"{count:,} existing objects handled", count, await settle(process))
    await stop(process)


async def handle_created(bench: Bench) -> None:
    count = bench.sizes.created
    process = await bench.start()
    since = await settle(process)
    await bench.create(count)
    await bench.handle(count)
    bench.add_cost(f"{count:,} created while running", count, await settle(process), since)
    await stop(process)


async def handle_paced(bench: Bench) -> None:
    count, sent, limit = bench.sizes.paced, dict[str, float](), asyncio.Semaphore(RATE)
    process = await bench.start()
    since = await settle(process)
    began = time.monotonic()
    async with asyncio.TaskGroup() as group:
        for number in range(count):
            await asyncio.sleep(began + number / RATE - time.monotonic())
            group.create_task(bench.create_one(limit, sent))
    await bench.handle(count)
    usage = await settle(process)
    delays = [bench.watcher.seen[name] - moment for name, moment in sent.items()]
    p50, p95 = (statistics.quantiles(delays, n=100)[n - 1] * 1000 for n in (50, 95))
    title = f"{count:,} objects, {RATE} a second"
    bench.add_cost(title, count, usage, since)
    bench.add(f"{title}: p50; p95", f"{p50:.1f}; {p95:.1f} ms")
    await stop(process)


async def handle_hot(bench: Bench) -> None:
    process = await bench.start()
    sent = await bench.create(1)
    await bench.handle(1)
    before, url = await settle(process), f"{OWNERS}/{next(iter(sent))}"
    for number in range(bench.sizes.updates):
        await bench.api.request("PATCH", url, {"spec": {"number": str(number)}})
    cpu = (await settle(process)).cpu - before.cpu
    bench.add(f"{bench.sizes.updates:,} updates of one object", f"{cpu:.2f} s of CPU")
    await stop(process)


async def restart_with_many(bench: Bench) -> None:
    count = bench.sizes.kept
    process = await bench.start()
    await bench.create(count)
    await bench.handle(count)
    await settle(process)
    await stop(process)
    indices = {"": "0", ", with an index of bodies": "1"} if bench.engine == "ours" else {"": "0"}
    for suffix, index in indices.items():
        process = await bench.start(BENCH_INDEX=index)
        await asyncio.sleep(3)
        usage = await settle(process)
        bench.add_cost(f"start on {count:,} handled objects{suffix}", count, usage)
        await stop(process)


PHASES: tuple[Callable[[Bench], Any], ...] = (
    start_up,
    handle_existing,
    handle_created,
    handle_paced,
    handle_hot,
    restart_with_many,
)


async def measure(engine: str, command: list[str], sizes: Sizes, table: Table) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        open_cluster("envtest", pathlib.Path(folder)) as cluster,
    ):
        api = Api(cluster, cluster.make_ssl_context())
        try:
            await api.request("POST", CRDS, CRD)
            await asyncio.sleep(3)  # real servers need a while to serve it
            watcher = Watcher(api)
            watching = asyncio.create_task(watcher.run())
            bench = Bench(engine, command, cluster, api, sizes, table, watcher)
            for phase in PHASES:
                await phase(bench)
                await bench.clear()
            watching.cancel()
        finally:
            await api.close()


def build() -> pathlib.Path:
    """Build all the operators of ``bench/go``; it takes minutes for the first time."""
    folder = pathlib.Path(tempfile.gettempdir()) / "kopf-bench-go"
    folder.mkdir(exist_ok=True)
    env = {**os.environ, "PATH": f"{os.environ['PATH']}:/usr/local/go/bin", "CGO_ENABLED": "0"}
    command = ["go", "build", "-o", f"{folder}{os.sep}", "./..."]
    subprocess.run(command, cwd=HERE / "go", env=env, check=True)
    return folder


def make_command(engine: str) -> list[str]:
    if engine in ("bare", "ours"):
        folder = ensure_ours(Config())
        if engine == "bare":
            return [str(folder / "python"), "-m", "bench.bare"]
        return [str(folder / "kopf"), "run", "-A", "--quiet", str(HERE / "handlers/handled.py")]
    return [str(build() / "handled"), *(["-typed"] if engine == "go-typed" else [])]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.beside")
    parser.add_argument("--scale", type=float, default=1.0, help="of all numbers of objects")
    parser.add_argument("--engines", default=",".join(ENGINES))
    options = parser.parse_args()
    sizes, table = Sizes().scaled(options.scale), Table()
    for engine in options.engines.split(","):
        asyncio.run(measure(engine, make_command(engine), sizes, table))
    print(table.render())


if __name__ == "__main__":
    main()
