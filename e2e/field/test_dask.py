"""The operator of Dask, as released: asynchronous, a thousand lines, with a client of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from e2e.clusters import Cluster
from e2e.compat.clients import Api

from .environments import make_environment, run
from .running import CRDS, Obj, Objects, Process, running

pytestmark = pytest.mark.timeout(600)  # several waits in a row

REQUIREMENT = "dask-kubernetes==2026.3.0"
CONTROLLER = "dask_kubernetes.operator.controller"
OPERATORS = Path(__file__).parent / "operators"
GROUP = "kubernetes.dask.org/v1"
CLUSTERS, WORKERS = f"{GROUP}/daskclusters", f"{GROUP}/daskworkergroups"
DEPLOYMENTS = "apps/v1/deployments"
FIND_DEFINITIONS = (
    "import importlib.util as u;"
    "print(u.find_spec('dask_kubernetes').submodule_search_locations[0], end='')"
)


@pytest.fixture(scope="session")
def bin(wheels: Path) -> Path:
    return make_environment("dask", wheels, REQUIREMENT)


class Scheduler:
    """The HTTP side of a scheduler of Dask: it chooses the workers to be retired."""

    def __init__(self) -> None:
        self.port = 0
        self.asked: list[Any] = []
        self.workers: list[str] = []

    async def retire(self, request: web.Request) -> web.Response:
        params = await request.json()
        self.asked.append(params)
        names, self.workers = self.workers[: params["n"]], self.workers[params["n"] :]
        return web.json_response({f"tcp://{name}": {"name": name} for name in names})


@pytest.fixture
async def scheduler() -> AsyncIterator[Scheduler]:
    scheduler = Scheduler()
    app = web.Application()
    app.router.add_post("/api/v1/retire_workers", scheduler.retire)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        scheduler.port = runner.addresses[0][1]
        yield scheduler
    finally:
        await runner.cleanup()


@pytest.fixture
async def operator(cluster: Cluster, bin: Path, objects: Objects) -> AsyncIterator[Process]:
    await define(objects.api, bin)
    options = ["--verbose", "-n", objects.namespace]
    command = [bin / "kopf", "run", *options, "-m", CONTROLLER, OPERATORS / "cluster_dns.py"]
    async with running(cluster, *command) as process:
        await process.until_logged("Initial authentication has finished")
        yield process


async def define(api: Api, bin: Path) -> None:
    """Apply the definitions that the operator is released with."""
    folder = Path(run(bin / "python", "-c", FIND_DEFINITIONS)) / "operator/deployment/helm"
    paths = sorted(folder.glob("*/crds/*.yaml"))
    assert len(paths) == 4
    for path in paths:
        await api.ensure(CRDS, yaml.safe_load(path.read_text("utf-8")))


def make_cluster(scheduler: Scheduler, replicas: int) -> Obj:
    text = files(__package__).joinpath("daskcluster.yaml").read_text("utf-8")
    body: Obj = yaml.safe_load(text)
    body["spec"]["worker"]["replicas"] = replicas
    body["spec"]["scheduler"]["service"]["ports"][1]["port"] = scheduler.port
    return body


def get_workers(deployments: dict[str, Obj]) -> list[str]:
    return [
        name
        for name, body in deployments.items()
        if body["metadata"]["labels"].get("dask.org/component") == "worker"
    ]


async def test_cluster_is_created_scaled_and_deleted(
    objects: Objects, operator: Process, scheduler: Scheduler
) -> None:
    # Creation goes through three handlers, each is triggered by the status from the previous one.
    await objects.create(CLUSTERS, make_cluster(scheduler, replicas=2))
    deployments = await objects.until(DEPLOYMENTS, lambda seen: len(get_workers(seen)) == 2)
    assert "simple-scheduler" in deployments
    await objects.until("services", lambda seen: "simple-scheduler" in seen)
    await operator.until_logged("'daskcluster_create_components/status.phase' succeeded")

    # Somebody else's kinds are handled, too: a service gets its address.
    address = {"status": {"loadBalancer": {"ingress": [{"ip": "127.0.0.1"}]}}}
    path = objects.path("services", "simple-scheduler") + "/status"
    await objects.api.request("PATCH", path, address)
    await objects.until(CLUSTERS, lambda seen: get_phase(seen["simple"]) == "Running")

    # What is propagated to children: everything, but the marks of the framework.
    worker = deployments[get_workers(deployments)[0]]
    assert worker["metadata"]["annotations"] == {
        "test-annotation": "annotation-value",
        "worker-subannotation": "annotation-value",
    }
    assert worker["metadata"]["ownerReferences"][0]["name"] == "simple-default"
    assert deployments["simple-scheduler"]["metadata"]["ownerReferences"][0]["name"] == "simple"

    # Up and down: via two handlers of fields, and via the HTTP API of the scheduler.
    await objects.patch(CLUSTERS, "simple", {"spec": {"worker": {"replicas": 4}}})
    deployments = await objects.until(DEPLOYMENTS, lambda seen: len(get_workers(seen)) == 4)
    scheduler.workers = get_workers(deployments)
    await objects.patch(CLUSTERS, "simple", {"spec": {"worker": {"replicas": 1}}})
    deployments = await objects.until(DEPLOYMENTS, lambda seen: len(get_workers(seen)) == 1)
    assert scheduler.asked == [{"n": 3}]
    assert get_workers(deployments) == scheduler.workers

    # The deletion is of the cluster only; the rest is collected.
    await objects.delete(CLUSTERS, "simple")
    await objects.until(CLUSTERS, lambda seen: not seen)
    await objects.until(WORKERS, lambda seen: not seen)
    await objects.until(DEPLOYMENTS, lambda seen: not seen)

    assert await operator.stop() == 0
    assert "Traceback" not in operator.log
    assert "[ERROR" not in operator.log


async def test_refusals_of_the_operator_are_final(
    objects: Objects, operator: Process, scheduler: Scheduler
) -> None:
    body = make_cluster(scheduler, replicas=1)
    body["metadata"]["name"] = "a" * 60  # too long for the names of its children
    await objects.create(CLUSTERS, body)
    await objects.until(CLUSTERS, lambda seen: any(map(get_phase, seen.values())))
    await operator.until_logged("failed permanently")
    seen = await objects.until(CLUSTERS, lambda seen: True)
    assert [get_phase(obj) for obj in seen.values()] == ["Error"]
    assert not await objects.until(DEPLOYMENTS, lambda seen: True)


def get_phase(body: Obj) -> str | None:
    phase: str | None = (body.get("status") or {}).get("phase")
    return phase
