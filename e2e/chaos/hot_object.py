"""A hot object among others, for real: how long the others wait, and whether memory is flat.

Usage: ``python -m e2e.chaos.hot_object [--seconds 30] [--rate 500] [--others 200] [--limit 1]``.

The hot object is changed all the time, and its handler takes 100 ms. The others are changed once
a second each. With one worker, the others wait for the hot one and for each other; so, the longest
wait depends on the speed of the machine: on how long one turn with its patch takes.
The rules without the machine are in the tests of the work queue, in virtual time.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import pathlib
import statistics
import tempfile
import time

from e2e.chaos.driver.world import World, open_world
from e2e.chaos.fake.kinds import KEX

HANDLERS = """
journal = open(os.environ["HOT_JOURNAL"], "a", buffering=1)

@kopf.on.startup()
def limit(settings, **_):
    settings.queueing.worker_limit = int(os.environ["HOT_LIMIT"])

@kopf.on.create(*KEXES)
@kopf.on.update(*KEXES)
async def fn(name, spec, **_):
    if name == "hot":
        await asyncio.sleep(0.1)
    journal.write(f"{name} {spec['n']} {time.monotonic()}\\n")
"""


async def produce(world: World, name: str, rate: float, until: float, changed: dict) -> None:
    began, number = time.monotonic(), 0
    while time.monotonic() < until:
        number += 1
        changed[name, number] = time.monotonic()
        world.api.patch({"spec": {"n": number}}, name)
        await asyncio.sleep(max(0.0, began + number / rate - time.monotonic()))


def get_memory(pid: int) -> float:
    """In MB."""
    pages = int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def measure_waits(journal: pathlib.Path, changed: dict[tuple[str, int], float]) -> list[float]:
    """How long each change of the others has waited until it was handled, or a later one was."""
    handled: dict[str, list[tuple[int, float]]] = {}
    for line in journal.read_text().splitlines():
        name, number, moment = line.split()
        handled.setdefault(name, []).append((int(number), float(moment)))
    waits = []
    for (name, number), moment in changed.items():
        if name != "hot":
            seen = [at for known, at in handled.get(name, ()) if known >= number]
            waits.append(min(seen) - moment if seen else float("inf"))
    return sorted(waits)


async def main(args: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as folder:
        journal = pathlib.Path(folder, "journal")
        env = {"HOT_JOURNAL": str(journal), "HOT_LIMIT": str(args.limit)}
        names = ["hot", *(f"other{n}" for n in range(args.others))]
        async with (
            open_world(pathlib.Path(folder), KEX) as world,
            world.operator(HANDLERS, env=env, args=("--standalone", "-A", "--quiet")) as process,
        ):
            for name in names:
                world.api.create(name, spec={"n": 0})
            await world.settle(*names)
            changed: dict[tuple[str, int], float] = {}
            until = time.monotonic() + args.seconds
            memory = [get_memory(process.pid)]
            producers = [
                asyncio.create_task(
                    produce(world, name, args.rate if name == "hot" else 1.0, until, changed)
                )
                for name in names
            ]
            while time.monotonic() < until:
                await asyncio.sleep(args.seconds / 10)
                memory.append(get_memory(process.pid))
            await asyncio.gather(*producers)
            stopped = time.monotonic()
            await world.settle(*names)
            settled = time.monotonic() - stopped
            waits = measure_waits(journal, changed)
            report = {
                "load": os.getloadavg(),
                "hot changes": sum(name == "hot" for name, _ in changed),
                "changes of others": len(waits),
                "waits, median": round(statistics.median(waits), 3),
                "waits, p99": round(waits[len(waits) * 99 // 100], 3),
                "waits, longest": round(waits[-1], 3),
                "all settled after": round(settled, 3),
                "memory, MB": [round(value, 1) for value in memory],
            }
            print(json.dumps(report, indent=2))
            await process.stop()


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--rate", type=float, default=500.0)
    parser.add_argument("--others", type=int, default=200)
    parser.add_argument("--limit", type=int, default=1)
    return parser.parse_args()


if __name__ == "__main__":
    asyncio.run(main(parse_args()))
