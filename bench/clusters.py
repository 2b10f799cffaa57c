"""What more clusters cost in one process: the memory and the CPU time of an operator.

Usage::

    python -m bench.clusters
    python -m bench.clusters --sizes 2,50 --objects 100

Each cluster is a sandbox. All of them are in the process of the benchmark, so they do not count.
The memory is RSS when all objects in all clusters were handled for the first time.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.config import Config
from bench.processes import Child, Usage
from bench.setup_envs import ensure_ours
from kopf_kits.sandbox import Sandbox

ROOT = Path(__file__).resolve().parents[1]
KIND = {"apiVersion": "kopf.dev/v1", "kind": "KopfExample"}
OPERATOR = """
import kopf

@kopf.on.create("kopfexamples")
def create(**_):
    return "done"
"""


def join(kubeconfigs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """One kubeconfig with a context for each cluster: its number."""
    parts = {"clusters": "cluster", "users": "user"}
    joined: dict[str, Any] = {"apiVersion": "v1", "kind": "Config", "contexts": []}
    for section, key in parts.items():
        joined[section] = [
            {"name": str(number), key: config[section][0][key]}
            for number, config in enumerate(kubeconfigs)
        ]
    for number, config in enumerate(kubeconfigs):
        context = {**config["contexts"][0]["context"], "cluster": str(number), "user": str(number)}
        joined["contexts"].append({"name": str(number), "context": context})
    return joined


async def wait_until_handled(sandbox: Sandbox, names: Sequence[str], operator: Child) -> None:
    for name in names:
        while "status" not in await sandbox.get("kopfexamples", name, namespace="default"):
            if not operator.is_alive:
                raise SystemExit("The operator has ended. Its log is above.")
            await asyncio.sleep(0.1)


async def measure(python: Path, count: int, objects: int) -> Usage:
    """Run the operator of so many clusters until it has handled all objects."""
    names = [f"obj{number}" for number in range(objects)]
    async with contextlib.AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        sandboxes = [await stack.enter_async_context(Sandbox()) for _ in range(count)]
        for sandbox in sandboxes:
            await sandbox.apply(ROOT / "examples" / "crd.yaml")
            for name in names:
                await sandbox.apply({**KIND, "metadata": {"name": name}})
        kubeconfig, handlers = folder / "kubeconfig", folder / "handlers.py"
        kubeconfig.write_text(json.dumps(join([sandbox.kubeconfig() for sandbox in sandboxes])))
        handlers.write_text(OPERATOR)
        contexts = [arg for number in range(count) for arg in ("--context", str(number))]
        command = [str(python), "-m", "kopf", "run", "--all-namespaces", "--quiet", *contexts]
        operator = Child(
            [*command, str(handlers)],
            env={"KUBECONFIG": str(kubeconfig), "PATH": "", "HOME": str(folder)},
            core=None,
            log=sys.stderr.buffer,
        )
        stack.callback(operator.stop)
        for sandbox in sandboxes:
            await wait_until_handled(sandbox, names, operator)
        return operator.usage()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.clusters", description=__doc__)
    parser.add_argument("--sizes", default="1,2,10,50", help="how many clusters")
    parser.add_argument("--objects", type=int, default=1, help="in each cluster")
    args = parser.parse_args()
    python = ensure_ours(Config()) / "python"
    print("clusters | RSS, MB | its peak, MB | CPU, s")
    for size in map(int, args.sizes.split(",")):
        used = asyncio.run(measure(python, size, args.objects))
        memory = f"{used.rss / 2**20:7.1f} | {used.peak / 2**20:12.1f}"
        print(f"{size:8} | {memory} | {used.cpu:6.2f}", flush=True)


if __name__ == "__main__":
    main()
