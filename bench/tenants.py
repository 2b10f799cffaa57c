"""Two tenants of one operator: one has many objects and a storm of changes, the other has a few.

``python -m bench.tenants`` prints how long the changes of the other one wait for their handlers:
while all objects are listed and handled for the first time, and in the storm alone. The changes
of the other tenant come ten times a second. With ``--sync``, handlers are functions in threads.
With ``--cpu``, it is told in seconds of the CPU time of the operator, as if it had a core for
itself: this does not depend on how busy the machine is. ``--folder`` is where another ``kopf``
is installed, to be compared with.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path

from bench.config import Config
from bench.driver import Run
from bench.engines import Engine
from bench.scenarios import Scenario

PACE = 10
"""How many changes of the other tenant there are in a second."""


def describe(latencies: list[float]) -> str:
    if len(latencies) < 2:
        return f"{len(latencies)} changes were handled"
    percents = statistics.quantiles(latencies, n=100)
    figures = f"p50 {percents[49]:.3f} s, p99 {percents[98]:.3f} s, max {max(latencies):.3f} s"
    return f"{len(latencies)} changes were handled: {figures}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.tenants", description=__doc__)
    parser.add_argument("--objects", type=int, default=50_000, help="of the tenant with many")
    parser.add_argument("--rate", type=int, default=500, help="changes of its objects in a second")
    parser.add_argument("--seconds", type=int, default=30, help="how long the storm lasts alone")
    parser.add_argument("--wait", type=float, default=0.0, help="seconds that a handler takes")
    parser.add_argument("--limit", type=float, default=600, help="seconds for the first handling")
    parser.add_argument("--sync", action="store_true")
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--folder", type=Path, default=Path(sys.executable).parent)
    args = parser.parse_args()
    flags = {"BENCH_SYNC": args.sync, "BENCH_BY_CPU": args.cpu}
    env = {name: str(int(value)) for name, value in flags.items()}
    env |= {"BENCH_WAIT": str(args.wait), "BENCH_POSTING": "off"}
    scenario = Scenario("tenants", "", "tenants.py", (), (), objects=args.objects, env=env)
    engine = Engine("ours", args.folder)
    with Run(Config(), scenario, engine, args.objects) as run:
        run.control("storm", args.rate)
        run.control("neighbour", PACE, run.operator.pid if args.cpu else 0)
        began = time.monotonic()
        run.control("open")
        while run.control("stats").get("PATCH", 0) < args.objects:
            if time.monotonic() - began > args.limit:
                break
            time.sleep(0.5)
        count = len(run.cells.latencies())
        print(f"{time.monotonic() - began:.0f} s of the first handling:", end=" ")
        print(describe(run.cells.latencies()), flush=True)
        time.sleep(args.seconds)
        print(f"{args.seconds} s of the storm alone:", describe(run.cells.latencies()[count:]))
        print(f"{run.control('stats')['PATCH']} patches; {run.operator.usage()}")


if __name__ == "__main__":
    main()
