# pyright: strict
"""Annotated handlers with all that is special: nothing is ignored, in the strict modes of both."""

from typing import Any

import kopf
import kopf.testing


@kopf.index("pods")
def pods_by_node(spec: kopf.Spec, name: str, **_: Any) -> dict[str, str]:
    return {str(spec.get("nodeName")): name}


@kopf.reconcile("kopfexamples", owns=["configmaps", "services"], related={"secrets": "spec.secret"})
def wanted(
    spec: kopf.Spec,
    conditions: kopf.Conditions,
    children: kopf.Children,
    related: kopf.Related,
    triggers: frozenset[kopf.Trigger],
    pods_by_node: kopf.Index[str, str] = kopf.Index(),
    **_: Any,
) -> kopf.Wishes:
    pages = yield {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}}
    data: dict[str, str] = pages["data"]
    yield {"apiVersion": "v1", "kind": "Service", "spec": {"selector": data}}
    for name, secret in related["Secret"].items():
        print(name, secret["data"], [trigger.kind for trigger in triggers])
    for child in children.all():
        print(child["metadata"]["name"])
    for node, pods in pods_by_node.items():
        print(node.upper(), [pod.upper() for pod in pods])
    ready: bool = conditions.is_true("Ready")
    conditions.set("Ready", not ready, reason="Done", message=f"as {conditions['Ready']['status']}")
    yield kopf.Again(after=30)


@kopf.reconcile("kopfexamples")
async def wanted_asynchronously(spec: kopf.Spec, **_: Any) -> kopf.AsyncWishes:
    live = yield {"apiVersion": "v1", "kind": "ConfigMap"}
    print(live["metadata"]["name"])


@kopf.daemon("kopfexamples")
async def waiting_asynchronously(stopped: kopf.DaemonStopped, **_: Any) -> None:
    while not await stopped.wait(10):
        pass


@kopf.daemon("kopfexamples")
def waiting(stopped: kopf.DaemonStopped, **_: Any) -> None:
    while not stopped.wait(10):
        print(stopped.reason)


@kopf.on.create("kopfexamples")
def with_conditions(conditions: kopf.Conditions, **_: Any) -> None:
    conditions.set("Ready", True)


def in_tests(sandbox: kopf.testing.SandboxThread) -> None:
    obj = sandbox.wait("kopfexamples", "x", condition="Ready")
    print(obj["status"], sandbox.wait("pods", "x", lambda pod: pod["spec"])["metadata"])
    sandbox.wait("kopfexamples", "x", gone=True)


async def in_async_tests(sandbox: kopf.testing.Sandbox) -> None:
    obj = await sandbox.wait("kopfexamples", "x", jsonpath=".status.phase", value="Done")
    print(obj["status"])
    await sandbox.wait("kopfexamples", "x", gone=True, timeout=5)
