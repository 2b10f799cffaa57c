# pyright: strict
"""Annotated handlers with all that is special: nothing is ignored, in the strict modes of both."""

import dataclasses
from typing import Any, TypedDict

import pydantic

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


class WebsiteSpec(pydantic.BaseModel, frozen=True):
    replicas: int = 1


@dataclasses.dataclass(frozen=True)
class WebsiteStatus:
    phase: str | None = None


@kopf.resource("websites.example.com/v1", kind="Website")
class Website(pydantic.BaseModel, frozen=True):
    spec: WebsiteSpec
    status: WebsiteStatus | None = None


class PageSpec(TypedDict):
    text: str


@kopf.resource("pages.example.com/v1")
class Page(TypedDict):
    spec: PageSpec


def is_big(spec: WebsiteSpec, **_: Any) -> bool:
    return spec.replicas > 1


@kopf.on.create(Website, when=is_big)
@kopf.on.update(Website)
def with_models(spec: WebsiteSpec, status: WebsiteStatus, body: Website, **_: Any) -> None:
    print(spec.replicas + 1, body.spec.replicas + 1)
    kopf.update_status(dataclasses.replace(status, phase="Done"))


@kopf.on.field(Website, field="spec")
async def with_old_and_new(old: WebsiteSpec | None, new: WebsiteSpec, **_: Any) -> None:
    print(new.replicas - (old.replicas if old else 0))


@kopf.on.create(Page)
@kopf.on.event(Page)
def with_typed_dictionaries(spec: PageSpec, body: Page, **_: Any) -> None:
    print(spec["text"].upper(), body["spec"]["text"].lower())


@kopf.timer(Website, interval=1)
@kopf.daemon(Website)
@kopf.index(Website)
@kopf.on.validate(Website)
@kopf.on.mutate(Website)
def with_models_everywhere(spec: WebsiteSpec, **_: Any) -> int:
    return spec.replicas


@kopf.reconcile(Website, owns=[Website, "configmaps"], related={Website: "spec.other"})
def wanted_models(spec: WebsiteSpec, **_: Any) -> kopf.Wishes:
    yield Website(spec=WebsiteSpec(replicas=spec.replicas))


@kopf.resource("websites.example.com/v2", kind="Website")
class NewWebsite(pydantic.BaseModel):
    spec: WebsiteSpec


@kopf.on.convert(Website, NewWebsite)
def converted(body: Website, **_: Any) -> NewWebsite:
    return NewWebsite(spec=body.spec)


@kopf.on.convert("v2", "v1", kind="websites.example.com")
async def converted_as_dictionaries(spec: dict[str, Any], **_: Any) -> None:
    spec["replicas"] = spec.pop("size")


def spec_is_right(website: Website) -> int:
    return website.spec.replicas


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
