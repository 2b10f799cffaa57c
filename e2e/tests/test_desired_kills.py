"""Reconcilers killed at every request: the end is as if nothing has happened."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys

import pytest

from e2e.clusters import Cluster
from e2e.tests.gateways import Gateway, Stop
from e2e.tests.harness import World, make_namespace

MAX_POINTS = 20
PATIENCE = 120.0  # seconds; processes take long to start on busy machines

# Two children are in the namespace of the owner, one is out of reach of garbage collection.
OPERATOR = """
import os
import kopf

@kopf.on.startup()
def configure(settings, **_):
    settings.name = "kills.kopf.dev"
    settings.posting.enabled = False
    settings.queueing.error_delays = settings.networking.error_backoffs = [0.01]

@kopf.reconcile("e2e.kopf.dev", "subs", owns=["configmaps"], backoff=0.01)
def fn(spec, name, conditions, **_):
    for child in spec["names"]:
        metadata = {"name": f"{name}-{child}"}
        if child == "far":
            metadata["namespace"] = os.environ["FAR"]
        yield {
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"x": spec["x"]},
        }
    conditions.set("Ready", True, message=spec["x"])
"""


class Stage:
    """A namespace where operators are killed, another one far away, and the gateway between."""

    def __init__(self, world: World, gateway: Gateway, far: str, folder) -> None:
        self.world = world
        self.gateway = gateway
        self.far = far
        self._folder = folder

    @contextlib.asynccontextmanager
    async def operator(self):
        (self._folder / "operator.py").write_text(OPERATOR)
        config = self.gateway.write_kubeconfig(self._folder / "config")
        log = (self._folder / "log").open("ab")
        args = ["run", "--standalone", "-n", self.world.namespace, "-n", self.far]
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "kopf", *args, str(self._folder / "operator.py"),
            env={**os.environ, "KUBECONFIG": str(config), "FAR": self.far},
            stdout=log, stderr=log,
        )  # fmt: skip
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()
            log.close()

    async def children(self, name: str):
        """The children as they are in both namespaces, except for what is always different."""
        found = {}
        for namespace in (self.world.namespace, self.far):
            path = f"/api/v1/namespaces/{namespace}/configmaps"
            for item in (await self.world.request("GET", path))["items"]:
                meta = item["metadata"]
                if meta["name"].startswith(f"{name}-"):
                    refs = [ref["name"] for ref in meta.get("ownerReferences") or ()]
                    found[meta["name"].removeprefix(name)] = (
                        item["data"], namespace == self.far, [ref == name for ref in refs],
                        meta["labels"], sorted(meta["annotations"]),
                    )  # fmt: skip
        return found

    def creations(self, name: str) -> list[str]:
        """Which children of the owner the API server has really made for operators."""
        return sorted(
            r.name.removeprefix(name)
            for r in self.gateway.requests
            if r.status == 201 and r.name.startswith(f"{name}-")
        )

    def deletions(self) -> list[str]:
        return [r.name for r in self.gateway.requests if r.method == "DELETE" and r.status == 200]


@pytest.fixture
async def stage(world: World, cluster: Cluster, tmp_path):
    world.plural = "subs"
    far = make_namespace()
    path = "/api/v1/namespaces"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": far}}
    await world.request("POST", path, body)
    alien = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "alien"}, "data": {}}
    alien["metadata"]["labels"] = {"app.kubernetes.io/managed-by": "kopf"}
    await world.request("POST", f"{path}/{world.namespace}/configmaps", alien)
    async with Gateway(cluster).running() as gateway:
        yield Stage(world, gateway, far, tmp_path)
        assert await world.request("GET", f"{path}/{world.namespace}/configmaps/alien")
    await world.request("DELETE", f"{path}/{far}")


FIRST = {"names": ["a", "b", "far"], "x": "1"}
SECOND = {"names": ["b", "c", "far"], "x": "2"}


class Phase:
    """What is done to an owner, and when it is over."""

    def __init__(self, stage: Stage, phase: str) -> None:
        self.stage = stage
        self.phase = phase
        self.world = stage.world

    async def prepare(self, name: str) -> None:
        if self.phase != "create":
            await self.world.create(FIRST, name)
            await self.world.until(is_ready("1"), name)

    async def begin(self, name: str) -> None:
        match self.phase:
            case "create":
                await self.world.create(FIRST, name)
            case "update":
                await self.world.patch({"spec": SECOND}, name)
            case "delete":
                await self.world.delete(name)

    async def end(self, name: str) -> None:
        if self.phase == "delete":
            await self.world.until_gone(name)
        else:
            await self.world.until(is_ready("1" if self.phase == "create" else "2"), name)

    async def judge(self, name: str):
        """What is there; nothing was made twice, and nothing of others was deleted."""
        made = {
            "create": FIRST["names"],
            "delete": FIRST["names"],
            "update": ["a", "b", "c", "far"],
        }
        assert self.stage.creations(name) == [f"-{child}" for child in made[self.phase]]
        assert "alien" not in self.stage.deletions()
        children = await self.stage.children(name)
        gone = {"create": set(), "update": {"-a"}, "delete": {"-far"}}[self.phase]
        # Those in reach are deleted by the garbage collection, which is not in all clusters.
        assert not gone & children.keys()
        return children if self.phase != "delete" else None


def is_ready(message: str):
    def check(obj):
        conditions = ((obj or {}).get("status") or {}).get("conditions") or []
        is_clean = obj is not None and not obj["metadata"].get("annotations")
        return is_clean and any(c["message"] == message for c in conditions)

    return check


LONG = pytest.mark.long


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("name", "is_committed"),
    [
        pytest.param("create", False, id="create-before", marks=LONG),
        pytest.param("create", True, id="create-after"),
        pytest.param("update", False, id="update-before"),
        pytest.param("update", True, id="update-after", marks=LONG),
        pytest.param("delete", False, id="delete-before", marks=LONG),
        pytest.param("delete", True, id="delete-after"),
    ],
)
async def test_h2_reconcilers_killed_at_every_request(stage, name, is_committed):
    """Each operator finishes what was interrupted, and is killed one request later."""
    phase, ends = Phase(stage, name), []
    for number in range(MAX_POINTS):
        is_over = await _run_to(phase, number, is_committed=is_committed)
        if number:
            ends.append(await phase.judge(f"n{number - 1}"))
        if is_over:
            break
    else:
        raise AssertionError("too many requests")
    undisturbed = await phase.judge(f"n{number}")
    assert number  # it has been killed for sure
    assert ends == [undisturbed] * number
    await _check_rest(stage)


async def _run_to(phase: Phase, number: int, *, is_committed: bool) -> bool:
    """Run until the request with the number; get whether the phase was over without it."""
    name, gateway = f"n{number}", phase.stage.gateway
    async with phase.stage.operator() as process:
        if number:
            await phase.end(f"n{number - 1}")
        await phase.prepare(name)
        stop = gateway.stop = Stop(
            lambda r: r.is_write and (f"/{name}-" in r.path or f"/subs/{name}" in r.path),
            number,
            is_committed,
        )
        await phase.begin(name)
        tasks = [asyncio.create_task(coro) for coro in (stop.reached.wait(), phase.end(name))]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        gateway.stop = None
        if stop.reached.is_set():
            process.kill()
            await process.wait()
    return not stop.reached.is_set()


async def _check_rest(stage: Stage) -> None:
    """A restarted operator has nothing to do for all that is there, and does nothing."""
    async with stage.operator():
        since = len(stage.gateway.requests)
        await stage.world.create({"names": [], "x": "last"}, "last")
        await stage.world.until(is_ready("last"), "last")
    assert stage.gateway.find_writes(since) == ["PATCH status"]
