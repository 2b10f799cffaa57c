"""Owners with children on a real API server: an operator of ours, and one with controller-runtime.

Usage: ``python -m bench.owners [--owners N] [--engines ours,go]``. It needs the control plane
(``make e2e-assets``), and for ``go`` also the toolchain of Go: it builds ``bench/go`` first.
With ``--instructions``, only those of ours are counted, under valgrind: they do not depend on how
busy the machine is. The first owners are not counted: connections are opened for them, and whatever
is made once is made. Connections that are opened later are counted; but usually, there are few.

Three phases: all owners are created; a quiet time; the operator is restarted with all of them.
A restarted operator can have nothing to do, and an operator that has not begun looks the same.
So one more owner is created then, and the measurement ends when that one is ready, and the
operator is quiet.
Requests are counted by the API server itself, CPU and memory are those of the operator's process:
the growth since it was started with no owners at all, after a restart too.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import pathlib
import re
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp
from e2e.clusters import Cluster, open_cluster

from bench.instructions import read_total

HERE = pathlib.Path(__file__).parent
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
OWNERS = "/apis/kopf.dev/v1/namespaces/default/kopfexamples"
METRIC = re.compile(r"apiserver_request_total\{(.*?)\} ([0-9.e+]+)")
LABEL = re.compile(r'(\w+)="([^"]*)"')
OURS = frozenset({"configmaps", "secrets", "kopfexamples"})
COMPILED = pathlib.Path(tempfile.gettempdir()) / "kopf-bench-owners-pycache"
MERGING = {"Content-Type": "application/merge-patch+json"}
FIRST = 60
"""How many owners are created before the instructions are counted."""

QUIET = 3.0
"""In seconds: if no CPU is used for so long, everything is done."""

CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "kopfexamples.kopf.dev"},
    "spec": {
        "group": "kopf.dev",
        "scope": "Namespaced",
        "names": {"plural": "kopfexamples", "singular": "kopfexample", "kind": "KopfExample"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                    }
                },
            }
        ],
    },
}


@dataclass(frozen=True)
class Usage:
    """What a process has used since its start: seconds of CPU, and megabytes now."""

    cpu: float
    memory: float

    @classmethod
    def of(cls, pid: int) -> Usage:
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
        resident = re.search(r"VmRSS:\s+(\d+) kB", status)
        memory = int(resident[1]) / 1024 if resident else 0.0
        return cls(time.clock_gettime((~pid << 3) | 2), memory)  # its clock in the kernel


class Api:
    """The driver's own connection to the API server."""

    def __init__(self, cluster: Cluster, context: ssl.SSLContext | None) -> None:
        self._url = cluster.url
        connector = aiohttp.TCPConnector(ssl=context or True, limit=20)
        self._session = aiohttp.ClientSession(headers=cluster.make_headers(), connector=connector)

    async def request(self, method: str, path: str, body: Any = None) -> Any:
        url, headers = self._url + path, MERGING if method == "PATCH" else {}
        async with self._session.request(method, url, json=body, headers=headers) as response:
            text = await response.text()
            if response.status >= 400 and response.status not in (404, 409):
                raise RuntimeError(f"{method} {path}: {response.status} {text}")
            return json.loads(text) if text.startswith("{") else text

    def stream(self, path: str) -> Any:
        return self._session.get(self._url + path, timeout=aiohttp.ClientTimeout(total=None))

    async def close(self) -> None:
        await self._session.close()

    async def count_requests(self) -> dict[str, int]:
        """The requests of operators so far: those of the driver are told by their kinds."""
        counts: dict[str, int] = {}
        for labels, value in METRIC.findall(await self.request("GET", "/metrics")):
            found = dict(LABEL.findall(labels))
            if found.get("resource") not in OURS or found["verb"] in ("LIST", "WATCH"):
                continue
            if found["resource"] == "kopfexamples" and found["verb"] in ("POST", "DELETE"):
                continue
            key = "/".join(filter(None, (found["resource"], found.get("subresource"))))
            code = found.get("code", "")
            key = f"{found['verb']} {key}" + ("" if code.startswith("2") else f" ({code})")
            counts[key] = counts.get(key, 0) + int(float(value))
        return counts

    async def count_ready(self) -> int:
        items = (await self.request("GET", OWNERS))["items"]
        return sum(bool((item.get("status") or {}).get("conditions")) for item in items)


async def settle(process: asyncio.subprocess.Process) -> Usage:
    """Wait until the process does nothing anymore."""
    latest, since = Usage.of(process.pid), time.monotonic()
    while time.monotonic() - since < QUIET:
        await asyncio.sleep(0.2)
        usage = Usage.of(process.pid)
        if usage.cpu - latest.cpu > 0.05:
            latest, since = usage, time.monotonic()
    return Usage.of(process.pid)


async def start(
    engine: str, kubeconfig: pathlib.Path, binary: str, counter: Sequence[str] = ()
) -> asyncio.subprocess.Process:
    """Start the operator. Its modules are compiled in advance, as they are where it is deployed."""
    args = [sys.executable, "-m", "kopf", "run", "-A", "--quiet", str(HERE / "handlers/owners.py")]
    if engine == "go":
        args = [binary, "-config", str(kubeconfig)]
    env = {**os.environ, "KUBECONFIG": str(kubeconfig), "PYTHONPYCACHEPREFIX": str(COMPILED)}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    return await asyncio.create_subprocess_exec(
        *counter, *args, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


async def stop(process: asyncio.subprocess.Process) -> None:
    process.terminate()
    await process.wait()


def difference(new: dict[str, int], old: dict[str, int]) -> dict[str, int]:
    return {key: new[key] - old.get(key, 0) for key in sorted(new) if new[key] != old.get(key, 0)}


async def measure(engine: str, count: int, binary: str) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        open_cluster("envtest", pathlib.Path(folder)) as cluster,
    ):
        api = Api(cluster, cluster.make_ssl_context())
        try:
            await api.request("POST", CRDS, CRD)
            await asyncio.sleep(3)  # real servers need a while to serve it
            await run_phases(engine, count, binary, cluster, api)
        finally:
            await api.close()


async def count_instructions(count: int) -> None:
    """Create the owners with our operator under valgrind: dozens of times slower than usual."""
    with (
        tempfile.TemporaryDirectory() as folder,
        open_cluster("envtest", pathlib.Path(folder)) as cluster,
    ):
        out = pathlib.Path(folder) / "callgrind.out"
        options = ["--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={out}"]
        api = Api(cluster, cluster.make_ssl_context())
        process: asyncio.subprocess.Process | None = None
        try:
            await api.request("POST", CRDS, CRD)
            process = await start("ours", cluster.kubeconfig_path, "", ["valgrind", *options])
            await settle(process)
            await create_all(api, FIRST)
            await until_ready(api, FIRST)
            await settle(process)
            switch = ["callgrind_control", "-i", "on", str(process.pid)]
            await asyncio.to_thread(subprocess.run, switch, check=True, capture_output=True)
            await create_all(api, count, since=FIRST)
            await until_ready(api, FIRST + count)
            await settle(process)
        finally:
            await api.close()
            if process is not None:
                await stop(process)
        print(f"ours  created {read_total(out) / count / 1e6:.3f} M instructions per owner")


async def run_phases(engine: str, count: int, binary: str, cluster: Cluster, api: Api) -> None:
    process = await start(engine, cluster.kubeconfig_path, binary)  # only to compile the modules
    await asyncio.sleep(3)
    await settle(process)
    await stop(process)
    process = await start(engine, cluster.kubeconfig_path, binary)
    try:
        await asyncio.sleep(3)
        idle, before = await settle(process), await api.count_requests()
        await create_all(api, count)
        await until_ready(api, count)
        done, after = await settle(process), await api.count_requests()
        report(engine, "created", count, idle, done, difference(after, before))
    finally:
        await stop(process)
    before = await api.count_requests()
    process = await start(engine, cluster.kubeconfig_path, binary)
    try:
        await create(api, count, asyncio.Semaphore())
        await until_ready(api, count + 1)
        again, after = await settle(process), await api.count_requests()
        report(engine, "restarted", count, idle, again, difference(after, before))
    finally:
        await stop(process)


async def until_ready(api: Api, count: int) -> None:
    while True:
        if await api.count_ready() >= count:
            return
        await asyncio.sleep(0.5)


async def create_all(api: Api, count: int, since: int = 0) -> None:
    limit = asyncio.Semaphore(10)
    await asyncio.gather(*(create(api, n, limit) for n in range(since, since + count)))


async def create(api: Api, n: int, limit: asyncio.Semaphore) -> None:
    body = {
        "apiVersion": "kopf.dev/v1",
        "kind": "KopfExample",
        "metadata": {"name": f"owner-{n}"},
        "spec": {"value": f"value-{n}"},
    }
    async with limit:
        await api.request("POST", OWNERS, body)


def report(
    engine: str, phase: str, count: int, old: Usage, new: Usage, requests: dict[str, int]
) -> None:
    total = sum(requests.values())
    cpu, memory = (new.cpu - old.cpu) / count * 1000, (new.memory - old.memory) / count * 1024
    print(
        f"{engine:5} {phase:10} {total / count:6.2f} requests, {cpu:7.3f} ms of CPU, "
        f"{memory:7.1f} KB per owner; {new.memory:.0f} MB in all; {requests}",
        flush=True,
    )


def build() -> str:
    binary = str(pathlib.Path(tempfile.gettempdir()) / "kopf-bench-owners")
    env = {**os.environ, "PATH": f"{os.environ['PATH']}:/usr/local/go/bin"}
    subprocess.run(["go", "build", "-o", binary, "."], cwd=HERE / "go", env=env, check=True)
    return binary


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.owners")
    parser.add_argument("--owners", type=int, default=1000)
    parser.add_argument("--engines", default="ours,go")
    parser.add_argument("--binary", default="", help="of the Go operator, if it is built already")
    parser.add_argument("--instructions", action="store_true", help="count them under valgrind")
    options = parser.parse_args()
    if options.instructions:
        return asyncio.run(count_instructions(options.owners))
    for engine in options.engines.split(","):
        binary = options.binary or (build() if engine == "go" else "")
        asyncio.run(measure(engine, options.owners, binary))


if __name__ == "__main__":
    main()
