"""Sweeps: one life again and again, crashed at every step of its operator, one by one."""

from __future__ import annotations

import argparse
import dataclasses
import multiprocessing
import random
import sys

from e2e.simulation.explore import prepare, show
from e2e.simulation.lives import Life, Result
from e2e.simulation.plans import Event, Plan

CALM = {"latency": 0.002, "thinking": 0.001}
ONE = (Event(0.0, "create", "obj0"),)
LATER = (Event(0.5, "create", "obj0"),)


def _plan(name: str, *features: str, actions: tuple[Event, ...] = (), **more: object) -> Plan:
    fields = {"objects": LATER, "faults": (), "weather": CALM, "settings": {}, **more}
    return Plan(seed=name, features=("first", *features), actions=actions, **fields)  # type: ignore[arg-type]


EDIT, DELETE = Event(3.0, "edit", "obj0", 3), Event(6.0, "delete", "obj0")
GROW = Event(3.0, "edit", "obj0", 5)

PAUSED = Event(0.6, "pause", "0", 1, 10.0)
LEFT_IN_A_PAUSE = Event(1.0, "pause-exit", "0", 1, 1.0)
LEFT_AMID_A_PATCH = Event(0.68, "restart", "0")
FAR = {"latency": 0.1, "thinking": 0.001}
HASTY, ABRUPT = {"queueing.exit_timeout": 0.5}, {"queueing.exit_timeout": 0.0}

SCENARIOS = {
    plan.seed: plan
    for plan in (
        _plan("create", "retried", "parent", "patching"),
        _plan("existing", "retried", "parent", "resumed", objects=ONE),
        _plan("update", "retried", "parent", "field", actions=(EDIT,)),
        _plan("delete", "deleted", actions=(EDIT, DELETE)),
        _plan("daemon", "daemon", actions=(EDIT, DELETE)),
        _plan("timer", "timer", actions=(EDIT, DELETE)),
        _plan("reconcile", "reconciler", actions=(GROW, Event(5.0, "edit", "obj0", 3))),
        _plan("reconcile-delete", "reconciler", actions=(GROW, DELETE)),
        _plan("exit", "retried", "parent", faults=(Event(0.52, "restart", "0"),)),
        _plan("abort", "retried", "parent", faults=(Event(0.52, "abort", "0", 1, 0.05),)),
        _plan("pause", "retried", "daemon", faults=(Event(0.52, "pause", "0", 1, 2.0),)),
        _plan("pause-thread", "plodder", faults=(PAUSED,), settings=HASTY, inline=False),
        _plan("pause-exit", "plodder", faults=(LEFT_IN_A_PAUSE,), inline=False),
        _plan("exit-patch", "retried", faults=(LEFT_AMID_A_PATCH,), settings=ABRUPT, weather=FAR),
        _plan("threads", "sync", "sleeper", actions=(EDIT, DELETE), inline=False),
        _plan("fake", "retried", "parent", "deleted", actions=(EDIT, DELETE), cluster="fake"),
        _plan("takeover", "retried", "parent", actions=(EDIT,), replicas=2),
    )
}  # fmt: skip


def sweep(plan: Plan, processes: int, share: float) -> list[Result]:
    """Crash the operator at every step that it makes until all is settled; get the failed lives.

    Or at a random share of the steps, other ones each time.
    """
    prepare()
    undisturbed = Life(plan).run()
    steps = [
        step + 1 for step in range(undisturbed.sweep) if random.SystemRandom().random() < share
    ]
    plans = [dataclasses.replace(plan, crash_at=step) for step in steps]
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        results = [undisturbed, *pool.imap(run, plans, chunksize=4)]
    print(f"{plan.seed}: {len(plans)} crashes in {undisturbed.sweep} steps", flush=True)
    return [result for result in results if result.problems]


def run(plan: Plan) -> Result:
    return Life(plan).run()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenarios", nargs="*", default=[*SCENARIOS])
    parser.add_argument("--processes", type=int, default=multiprocessing.cpu_count())
    parser.add_argument("--share", type=float, default=1.0, help="of the steps to crash at")
    parser.add_argument("--at", type=int, help="crash at this step only, and show the life")
    args = parser.parse_args()
    failures = 0
    for name in args.scenarios:
        if args.at is not None:
            print(show(run(dataclasses.replace(SCENARIOS[name], crash_at=args.at))))
            continue
        failed = sweep(SCENARIOS[name], args.processes, args.share)
        for result in failed[:3]:
            print(f"crash_at={result.plan.crash_at}", show(result), flush=True)
        failures += len(failed)
    print(f"{failures} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
