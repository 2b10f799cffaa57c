"""Replicas by shards on a real API server: while they fail, and against one replica.

Usage: ``python -m bench.shards [--objects 5000] [--rate 40] [--speed 5000] [--selecting]``. It
needs the control plane (``make e2e-assets``).

* **Faults.** Five replicas handle objects that change all the time. Replicas come; one exits, one
  is killed, one is suspended for 30 seconds, and one is cut off from the API server for as long.
  The journal of all handlers tells whether every change was handled, and none by two at once.
* **Load.** All objects change once. The journal tells how many of them each replica has handled.
* **Speed.** The handlers wait, and each replica has few workers. So the cores do not limit it.
  There are two figures. The whole run begins with the first creation, and ends with the last
  handled object: by then, most replicas have nothing to do anymore. The sustained speed is that
  between 10 % and 90 % of the handled objects.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import os
import pathlib
import signal
import sys
import tempfile
import time
import urllib.parse
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from typing import NamedTuple

import yaml
from e2e.clusters import Cluster, open_cluster

from bench.config import HERE
from bench.owners import CRD, CRDS, OWNERS, Api

REPLICAS = 5
PAUSE = 30.0
"""For how long (in seconds) a replica is suspended or cut off."""

SETTLING = 30.0
"""How long (in seconds) it takes until the shards of a failed replica are handled by others."""

STARTING = 10.0
"""How long (in seconds) it takes until the shards have moved to a new replica."""


class Waiting(NamedTuple):
    """How long (in seconds) the handlers wait: each of them for a random time."""

    least: float
    most: float

    def __str__(self) -> str:
        return f"{self.least:g}-{self.most:g}"


class Speeds(NamedTuple):
    """Objects a second: in the whole run, and in the middle of it."""

    whole: float
    sustained: float

    @classmethod
    def of(cls, started: float, ended: Iterable[float]) -> Speeds:
        """By the moments when the handlers of all objects have ended."""
        moments = sorted(ended)
        first, last = (round((len(moments) - 1) * share) for share in (0.1, 0.9))
        whole = len(moments) / (moments[-1] - started)
        return cls(whole, (last - first) / (moments[last] - moments[first]))


class Door:
    """The way of one replica to the API server, which can be shut: then, it is cut off."""

    def __init__(self, url: str) -> None:
        self._target = urllib.parse.urlsplit(url)
        self._writers: set[asyncio.StreamWriter] = set()
        self.is_shut = False

    @contextlib.asynccontextmanager
    async def serve(self) -> AsyncIterator[str]:
        server = await asyncio.start_server(self._connect, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        try:
            yield f"{self._target.scheme}://127.0.0.1:{port}"
        finally:
            server.close()
            self.shut()

    def shut(self) -> None:
        self.is_shut = True
        for writer in self._writers:
            writer.transport.abort()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.is_shut:
            writer.transport.abort()
            return
        far = await asyncio.open_connection(self._target.hostname, self._target.port)
        self._writers |= {writer, far[1]}
        await asyncio.gather(_copy(reader, far[1]), _copy(far[0], writer))
        self._writers -= {writer, far[1]}


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.transport.abort()


class Journal:
    """What all replicas have told."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path
        path.touch()

    @property
    def lines(self) -> list[list[str]]:
        return [line.split() for line in self.path.read_text().splitlines()]

    def excuse(self, pid: int) -> None:
        """It cannot tell that its work has ended: it is killed or suspended."""
        with self.path.open("a") as file:
            file.write(f"{pid} is-excused\n")

    def find_overlaps(self) -> list[list[str]]:
        """When a replica begins with an object while another one still works on it."""
        working: dict[str, str] = {}
        found = []
        for pid, verb, *rest in self.lines:
            if verb == "is-excused":
                working = {name: owner for name, owner in working.items() if owner != pid}
            elif verb == "begins":
                found += [[pid, *rest]] if working.get(rest[0], pid) != pid else []
                working[rest[0]] = pid
            elif verb == "ends" and working.get(rest[0]) == pid:
                del working[rest[0]]
        return found

    @property
    def moments(self) -> list[float]:
        """When the handlers have ended, by the monotonic clock of the machine."""
        return [float(line[4]) for line in self.lines if line[1] == "done"]

    @property
    def handled(self) -> dict[tuple[str, int], str]:
        """Who has handled which states of objects to the end."""
        return {(line[2], int(line[3])): line[0] for line in self.lines if line[1] == "done"}


class Stage:
    """A cluster with objects, and the replicas."""

    def __init__(
        self, cluster: Cluster, api: Api, folder: pathlib.Path, waiting: Waiting, workers: int
    ) -> None:
        self.api = api
        self.url = cluster.url
        self.journal = Journal(folder / f"journal-{time.monotonic_ns()}")
        self.wanted: dict[str, int] = {}
        self.changes = 0
        self._cluster = cluster
        self._folder = folder
        self._env = {
            **os.environ,
            "BENCH_JOURNAL": str(self.journal.path),
            "BENCH_WAITING": str(waiting),
            "BENCH_WORKERS": f"{workers}",
        }

    @contextlib.asynccontextmanager
    async def replica(self, url: str = "") -> AsyncIterator[asyncio.subprocess.Process]:
        """Run a replica; kill it if it is still there in the end."""
        config = yaml.safe_load(self._cluster.kubeconfig_path.read_text())
        if url:
            config["clusters"][0]["cluster"]["server"] = url
        path = self._folder / f"kubeconfig-{time.monotonic_ns()}"
        path.write_text(yaml.safe_dump(config))
        code = str(HERE / "handlers/sharded.py")
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "kopf", "run", "-A", "--quiet", "--shards=bench@default", code),
            env={**self._env, "KUBECONFIG": str(path)},
        )
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def create(self, count: int) -> None:
        names = [f"obj-{number}" for number in range(count)]
        for start in range(0, count, 20):
            await asyncio.gather(*map(self._create, names[start : start + 20]))

    async def _create(self, name: str) -> None:
        self.wanted[name] = 0
        head = {"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": {"name": name}}
        await self.api.request("POST", OWNERS, {**head, "spec": {"n": 0}})

    async def change(self, name: str) -> None:
        self.wanted[name] += 1
        self.changes += 1
        await self.api.request("PATCH", f"{OWNERS}/{name}", {"spec": {"n": self.wanted[name]}})

    async def keep_changing(self, rate: float) -> None:
        """Change the objects in turns, so many a second."""
        for name in itertools.cycle([*self.wanted]):
            await asyncio.gather(self.change(name), asyncio.sleep(1 / rate))

    async def until_handled(self, timeout: float = 600) -> None:
        async with asyncio.timeout(timeout):
            # Other processes write to the journal.
            while not self.journal.handled.keys() >= {*self.wanted.items()}:  # noqa: ASYNC110
                await asyncio.sleep(0.5)


@contextlib.asynccontextmanager
async def staged(selecting: bool, *, waiting: Waiting, workers: int) -> AsyncIterator[Stage]:
    with (
        tempfile.TemporaryDirectory() as name,
        open_cluster("envtest", pathlib.Path(name), sharded=selecting) as cluster,
    ):
        api = Api(cluster, cluster.make_ssl_context())
        try:
            await api.request("POST", CRDS, CRD)
            await asyncio.sleep(3)  # until it is served
            yield Stage(cluster, api, pathlib.Path(name), waiting, workers)
        finally:
            await api.close()


async def fail_and_judge(args: argparse.Namespace) -> None:
    """The faults, and the load after them."""
    async with (
        staged(args.selecting, waiting=Waiting(0.02, 0.02), workers=20) as stage,
        contextlib.AsyncExitStack() as stack,
    ):
        await stage.create(args.objects)
        replicas = [await stack.enter_async_context(stage.replica()) for _ in range(3)]
        await stage.until_handled()
        changing = asyncio.create_task(stage.keep_changing(args.rate))
        door = Door(stage.url)
        url = await stack.enter_async_context(door.serve())
        replicas += [await stack.enter_async_context(stage.replica(one)) for one in ("", url)]
        await asyncio.sleep(STARTING)
        await fail(stage, door, stack, replicas)
        await asyncio.sleep(SETTLING)
        changing.cancel()
        await asyncio.wait([changing])
        await stage.until_handled()
        await tell_verdict(stage)
        await tell_load(stage)


async def fail(
    stage: Stage,
    door: Door,
    stack: contextlib.AsyncExitStack,
    replicas: list[asyncio.subprocess.Process],
) -> None:
    one, two, three, _, _ = replicas
    one.terminate()
    print(f"A replica has exited: {await one.wait()}.", flush=True)
    await stack.enter_async_context(stage.replica())
    await asyncio.sleep(STARTING)
    two.kill()
    await two.wait()
    stage.journal.excuse(two.pid)
    await asyncio.sleep(SETTLING)
    await stack.enter_async_context(stage.replica())
    await asyncio.sleep(STARTING)
    three.send_signal(signal.SIGSTOP)
    await asyncio.sleep(0.1)  # until the kernel has stopped all of its threads
    stage.journal.excuse(three.pid)
    await asyncio.sleep(PAUSE)
    three.send_signal(signal.SIGCONT)
    await asyncio.sleep(STARTING)
    door.shut()
    await asyncio.sleep(PAUSE)
    door.is_shut = False


async def tell_verdict(stage: Stage) -> None:
    handled = stage.journal.handled
    missed = sum(one not in handled for one in stage.wanted.items())
    merged = stage.changes + len(stage.wanted) - len(handled)
    print(
        f"{len(stage.wanted)} objects, {stage.changes} changes: {missed} last states not handled, "
        f"{merged} changes handled with the next change of the object, "
        f"{len(stage.journal.find_overlaps())} handled by two replicas at once.",
        flush=True,
    )


async def tell_load(stage: Stage) -> None:
    """Change all objects once, and see who handles them."""
    for name in stage.wanted:
        await stage.change(name)
    await stage.until_handled()
    handled = stage.journal.handled
    loads = sorted(Counter(handled[one] for one in stage.wanted.items()).values())
    mean = len(stage.wanted) / len(loads)
    deviation = max(abs(load - mean) for load in loads) / mean
    print(f"{len(loads)} replicas have {loads} objects: {deviation:.1%} from the mean at most.")


async def measure_speeds(args: argparse.Namespace, count: int) -> Speeds:
    """How many creations a second are handled by so many replicas, when all of them are ready."""
    waiting = Waiting(*args.waiting)
    async with (
        staged(args.selecting, waiting=waiting, workers=args.workers) as stage,
        contextlib.AsyncExitStack() as stack,
    ):
        for _ in range(count):
            await stack.enter_async_context(stage.replica())
        await asyncio.sleep(SETTLING)
        started = time.monotonic()
        await stage.create(args.speed)
        await stage.until_handled(600 + args.speed * waiting.most / args.workers)
        return Speeds.of(started, stage.journal.moments)


async def compare(args: argparse.Namespace) -> None:
    one, many = [await measure_speeds(args, count) for count in (1, REPLICAS)]
    print(
        f"{args.speed} objects, handlers that wait for {Waiting(*args.waiting)} s, "
        f"{args.workers} at once in a replica:"
    )
    for title, alone, together in zip(Speeds._fields, one, many, strict=True):
        print(
            f"- {title}: {alone:.2f} objects/s with one replica, {together:.2f} with {REPLICAS}: "
            f"{together / alone:.2f}x",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.shards", description=__doc__)
    parser.add_argument("--objects", type=int, default=5000, help="in the run of faults; 0: none")
    parser.add_argument("--rate", type=float, default=40, help="changes a second")
    parser.add_argument(
        "--speed", type=int, default=5000, help="objects in the run of speed; 0: none"
    )
    parser.add_argument(
        "--waiting",
        type=float,
        nargs=2,
        default=(2, 5),
        metavar=("LEAST", "MOST"),
        help="how long (in seconds) the handlers wait there",
    )
    parser.add_argument("--workers", type=int, default=20, help="how many at once there")
    parser.add_argument("--selecting", action="store_true", help="the server selects by shards")
    args = parser.parse_args()
    if args.objects:
        asyncio.run(fail_and_judge(args))
    if args.speed:
        asyncio.run(compare(args))


if __name__ == "__main__":
    main()
