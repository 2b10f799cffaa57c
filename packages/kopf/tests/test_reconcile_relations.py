"""``@kopf.reconcile`` and those who depend on objects without owning them."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

import kopf

from .conftest import config_map, make_crd

GADGETS = "gadgets.example.com"


def is_ready(message: str) -> Any:
    def check(obj: Any) -> bool:
        conditions = obj.get("status", {}).get("conditions", [])
        return any(c["message"] == message for c in conditions)

    return check


def secret(name: str, to: str | None) -> Any:
    metadata = {"name": name, "namespace": "ns1", "labels": {} if to is None else {"to": to}}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}


def find_labelled(body: Any) -> Any:
    return body["metadata"]["labels"]["to"]


def relate(websites: Any) -> None:
    """Let websites tell which secrets are related to them by their labels."""

    @websites.reconcile(id="fn", related={"v1/secrets": find_labelled})
    def fn(related: Any, conditions: Any, **_: Any) -> None:
        conditions.set("Ready", True, message=",".join(sorted(related["Secret"])) or "none")


@pytest.mark.parametrize("to", ["other", None], ids=["others", "nobody"])
async def test_h2_those_who_are_not_related_anymore_are_told(websites: Any, to: str | None) -> None:
    """Also if the function fails for what the object is like now, as there is no label anymore."""
    relate(websites)
    for name in "abc":
        await websites.sandbox.apply(secret(name, "web"))
    await websites.apply()
    async with websites.operating():
        await websites.wait(websites.kind, "web", check=is_ready("a,b,c"))
        for name, left in [("a", "b,c"), ("b", "c")]:
            await websites.sandbox.delete("secrets", name, namespace="ns1")
            await websites.wait(websites.kind, "web", check=is_ready(left))
        labels = {"metadata": {"labels": {"to": to}}}
        await websites.sandbox.patch("secrets", "c", labels, namespace="ns1")
        await websites.wait(websites.kind, "web", check=is_ready("none"))


@pytest.mark.parametrize("is_relisted", [False, True], ids=["told", "relisted"])
async def test_h2_those_whose_related_objects_are_deleted_are_told(
    websites: Any, is_relisted: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """If it is only noticed by a list, nothing is left of the object but its name."""
    websites.settings.watching.reconnect_backoff = 0.01
    relate(websites)
    await websites.sandbox.apply(secret("a", "web"))
    await websites.apply()
    async with websites.operating():
        await websites.wait(websites.kind, "web", check=is_ready("a"))
        with websites.sandbox.faults.hold(path="*/secrets", watch=True):
            await websites.sandbox.delete("secrets", "a", namespace="ns1")
            if is_relisted:
                websites.sandbox.compact()
                websites.sandbox.cut_watches("*/secrets")
        await websites.wait(websites.kind, "web", check=is_ready("none"))
    assert "cannot tell" not in caplog.text


@pytest.mark.parametrize("source", ["spec.config", lambda _: "gadget"], ids=["field", "function"])
async def test_h2_what_is_applied_by_one_is_told_to_those_related_to_it(
    websites: Any, source: Any
) -> None:
    await websites.sandbox.apply(make_crd("gadgets", "Gadget"))

    @websites.reconcile(id="fn")
    def fn(spec: Any, conditions: Any, **_: Any) -> Iterator[Any]:
        yield config_map("child", x=spec["x"])
        conditions.set("Ready", True, message=spec["x"])

    @kopf.reconcile(GADGETS, registry=websites.registry, related={"configmaps": source}, id="fn")
    def gadget(related: Any, conditions: Any, **_: Any) -> None:
        child = related["ConfigMap"].get("child", {"data": {"x": "none"}})
        conditions.set("Ready", True, message=child["data"]["x"])

    metadata, spec = {"name": "gadget", "namespace": "ns1"}, {"config": "child"}
    body = {"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": metadata, "spec": spec}
    await websites.sandbox.apply(body)
    async with websites.operating():
        await websites.wait(GADGETS, "gadget", check=is_ready("none"))
        await websites.apply(x="1")
        await websites.wait(GADGETS, "gadget", check=is_ready("1"))
        await websites.patch(x="2")
        await websites.wait(GADGETS, "gadget", check=is_ready("2"))


async def test_h2_those_who_lose_what_is_related_by_our_own_write_are_told(websites: Any) -> None:
    """Their passes can be made when it is written already, but is not told of yet."""
    await websites.sandbox.apply(make_crd("gadgets", "Gadget"))

    @websites.reconcile(id="fn")
    def fn(spec: Any, conditions: Any, **_: Any) -> Iterator[Any]:
        child = config_map("child")
        child["metadata"]["labels"] = {"to": spec["to"]}
        yield child
        conditions.set("Ready", True, message=spec["to"])

    @kopf.reconcile(
        GADGETS, registry=websites.registry, related={"v1/configmaps": find_labelled}, id="fn"
    )
    def gadget(spec: Any, related: Any, conditions: Any, **_: Any) -> None:
        text = ",".join(related["ConfigMap"]) or "none"
        conditions.set("Ready", True, message=f"{text} {spec['x']}")

    async def apply(name: str, x: int) -> None:
        metadata = {"name": name, "namespace": "ns1"}
        gadget = {"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": metadata}
        await websites.sandbox.apply({**gadget, "spec": {"x": x}})

    await websites.apply(to="one")
    await apply("one", 1)
    await apply("two", 1)
    async with websites.operating():
        await websites.wait(GADGETS, "one", check=is_ready("child 1"))
        await websites.wait(GADGETS, "two", check=is_ready("none 1"))
        with websites.sandbox.faults.hold(path="*/configmaps", watch=True):
            await websites.patch(to="two")
            await websites.wait(websites.kind, "web", check=is_ready("two"))
            await apply("two", 2)
            await websites.wait(GADGETS, "two", check=is_ready("child 2"))
        await websites.wait(GADGETS, "one", check=is_ready("none 1"))


async def test_h2_what_is_applied_by_one_is_told_to_the_other_of_the_same_object(
    websites: Any,
) -> None:
    calls: list[str] = []
    applied = asyncio.Event()

    @websites.reconcile(id="second")
    def second(children: Any, conditions: Any, **_: Any) -> None:
        calls.append("second")
        child = children["ConfigMap"].get("child", {"data": {"x": "none"}})
        conditions.set("Second", True, message=child["data"]["x"])

    @websites.reconcile(id="first")
    async def first(spec: Any, **_: Any) -> Any:
        calls.append("first")
        yield config_map("child", x=spec["x"])
        applied.set()

    await websites.apply(x="1")
    async with websites.operating():
        await applied.wait()
        await websites.wait(websites.kind, "web", check=is_ready("1"))
        await websites.patch(x="2")
        await websites.wait(websites.kind, "web", check=is_ready("2"))
    assert calls.count("first") == 2
