"""Operators of our own, written the way the field writes them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from e2e.clusters import Cluster

from .environments import make_environment
from .running import CRDS, Obj, Objects, running

pytestmark = pytest.mark.timeout(600)  # several waits in a row

OPERATORS = Path(__file__).parent / "operators"
BACKUPS = "example.com/v1/backups"
CLIENTS = ["pykube-ng==23.6.0", "kubernetes==35.0.0", "requests", "pytest>=8.2"]
DEFINITION: Obj = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "backups.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "backups", "singular": "backup", "kind": "Backup"},
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


@pytest.fixture(scope="session")
def bin(wheels: Path) -> Path:
    return make_environment("own", wheels, *CLIENTS)


@pytest.fixture(autouse=True)
async def definition(objects: Objects) -> None:
    await objects.api.ensure(CRDS, DEFINITION)


async def test_three_clients_and_private_imports(
    cluster: Cluster, bin: Path, objects: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIELD_API", cluster.url)
    command = [bin / "kopf", "run", "--verbose", "-n", objects.namespace, OPERATORS / "backups.py"]
    async with running(cluster, *command) as operator:
        body = {"metadata": {"name": "db"}, "spec": {"size": "1G", "schedule": "daily"}}
        await objects.create(BACKUPS, {"apiVersion": "example.com/v1", "kind": "Backup", **body})
        seen = await objects.until(BACKUPS, lambda seen: is_handled(seen["db"]))

        status = seen["db"]["status"]
        assert status["create_claim"] == {"claim": "db-claim"}
        assert status["write_schedule/spec.schedule"] == {"schedule": "daily", "reason": "create"}
        assert status["attempts"] == 2
        for plural, name in {
            "persistentvolumeclaims": "db-claim",
            "batch/v1/jobs": "db-job",
        }.items():
            child = await objects.get(plural, name)
            assert child["metadata"]["ownerReferences"][0]["name"] == "db"
            assert child["metadata"]["labels"]["app"] == "backups"

        pod = {"metadata": {"name": "pod", "labels": {"app": "backups"}}, "spec": POD}
        await objects.create("pods", pod)
        await objects.until(BACKUPS, lambda seen: seen["db"]["status"].get("pods") == 1)

        await objects.patch(BACKUPS, "db", {"spec": {"schedule": "weekly"}})
        await objects.until("configmaps", lambda seen: get_schedule(seen["db"]) == "weekly/update")
        await operator.until_logged("change spec.schedule: 'daily' -> 'weekly'")

        await objects.delete(BACKUPS, "db")
        await objects.until(BACKUPS, lambda seen: not seen)
        assert await operator.stop() == 0
    assert "The daemon of db is stopped for" in operator.log
    assert "Config maps on deletion: ['db']" in operator.log
    assert "The backup operator says goodbye." in operator.log
    assert "Traceback" not in operator.log


async def test_operator_in_a_thread_of_a_service(
    cluster: Cluster, bin: Path, objects: Objects
) -> None:
    command = [bin / "python", OPERATORS / "service.py", objects.namespace]
    async with running(cluster, *command) as service:
        assert await service.wait() == 0, service.log
    assert "SERVED: {'cm': 1}" in service.log
    assert "THREADS: 1" in service.log
    assert "Traceback" not in service.log


def test_tests_of_operators(cluster: Cluster, bin: Path, objects: Objects) -> None:
    env = {
        **os.environ,
        "PATH": f"{bin}{os.pathsep}{os.environ['PATH']}",
        "KUBECONFIG": str(cluster.kubeconfig_path),
        "FIELD_API": cluster.url,
        "FIELD_NAMESPACE": objects.namespace,
    }
    options = ["-q", "-p", "no:cacheprovider", "--import-mode=importlib", "-c", os.devnull]
    done = subprocess.run(
        [bin / "python", "-m", "pytest", *options, OPERATORS / "tests_of_backups.py"],
        check=False,
        env=env,
        cwd=OPERATORS,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    assert "4 passed" in done.stdout


POD = {"containers": [{"name": "main", "image": "busybox"}]}


def is_handled(body: Obj) -> bool:
    """All handlers of the creation are over, and that is recorded."""
    return (
        "example.com/last-handled" in body["metadata"].get("annotations", {})
        and "backed-up" in body["metadata"].get("labels", {})
        and "write_schedule/spec.schedule" in body.get("status", {})
    )


def get_schedule(body: Obj) -> str:
    return f"{body['data']['schedule']}/{body['data']['reason']}"
