"""What passes say in the status comes back as an event: there is nothing to be done for that."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from idleness import until

import kopf
from kopf_core.engines.desired.desired_states import DesiredStates
from kopf_core.engines.records.holds import FREE_ROUNDS


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The versions of the objects for which it was looked if a pass must be made."""
    versions: list[str] = []
    original = DesiredStates.make_passes

    async def make_passes(self: Any, step: Any) -> Any:
        versions.append(step.cause.body.metadata["resourceVersion"])
        return await original(self, step)

    monkeypatch.setattr(DesiredStates, "make_passes", make_passes)
    return versions


async def test_own_status_is_not_looked_at_again(websites: Any, steps: list[str]) -> None:
    @websites.reconcile(id="fn")
    def fn(name: str, conditions: Any, **_: Any) -> Iterator[Any]:
        yield config_map(name)
        conditions.set("Ready", True)

    await websites.apply(x="1")
    async with websites.operating():
        await websites.wait(websites.kind, "web", condition="Ready")
        await websites.apply("last", x="1")
        await websites.wait(websites.kind, "last", condition="Ready")
        await websites.sandbox.delete("configmaps", "web", namespace="ns1")
        await websites.sandbox.journal.wait("PATCH", "*/configmaps/web", count=2)
        await websites.wait("configmaps", "web")
    assert len(steps) == 3
    assert len({*steps}) == 3  # the last one is for the state with our status in it


async def test_own_status_is_looked_at_if_a_filter_can_depend_on_it(
    websites: Any, steps: list[str]
) -> None:
    @websites.reconcile(id="fn", when=lambda status, **_: "conditions" not in status)
    def fn(name: str, conditions: Any, **_: Any) -> Iterator[Any]:
        yield config_map(name)
        conditions.set("Ready", True)

    await websites.apply(x="1")
    async with websites.operating():
        await websites.wait(websites.kind, "web", condition="Ready")
        await websites.apply("last", x="1")
        await websites.wait(websites.kind, "last", condition="Ready")
    assert len(steps) >= 3


async def test_those_who_want_it_are_called_again_after_their_own_status(websites: Any) -> None:
    calls: list[int] = []

    @websites.reconcile(id="fn")
    def fn(name: str, conditions: Any, **_: Any) -> Iterator[Any]:
        yield config_map(name)
        calls.append(len(calls))
        conditions.set("Ready", len(calls) > 2, message=str(len(calls)))
        if len(calls) < 3:
            yield kopf.Again(after=0.01)

    await websites.apply(x="1")
    async with websites.operating():
        await websites.wait(websites.kind, "web", condition="Ready")
    assert calls == [0, 1, 2]


async def test_changes_amid_a_pass_are_not_taken_for_own_status(websites: Any) -> None:
    seen: list[str] = []
    stored, go = asyncio.Event(), asyncio.Event()

    @websites.reconcile(id="fn")
    async def fn(name: str, spec: Any, conditions: Any, **_: Any) -> list[Any]:
        seen.append(spec["x"])
        if len(seen) == 1:
            stored.set()
            await go.wait()
        conditions.set("Ready", True, message=spec["x"])
        return [config_map(name, x=spec["x"])]

    await websites.apply(x="1")
    async with websites.operating():
        await stored.wait()
        await websites.apply(x="2")
        await websites.apply("other", x="0")  # when it is handled, the change has come, too
        await websites.wait(websites.kind, "other", condition="Ready")
        go.set()
        await websites.sandbox.journal.wait("PATCH", "*/configmaps/web", count=2)
    assert seen == ["1", "0", "2"]


async def test_h3_objects_are_reconciled_in_all_versions_of_their_kind(websites: Any) -> None:
    def declare(version: str) -> None:
        plural, _, group = websites.kind.partition(".")

        @kopf.reconcile(
            group, version, plural, id=version, owns=["configmaps"], registry=websites.registry
        )
        def fn(name: str, spec: Any, conditions: Any, **_: Any) -> Iterator[Any]:
            yield config_map(f"{name}-{version}", x=spec["x"])
            conditions.set(f"Ready{version}", True, message=spec["x"])

    def is_data(x: str) -> Any:
        return lambda obj: obj["data"]["x"] == x

    crd = await websites.sandbox.get("customresourcedefinitions", websites.kind)
    crd["spec"]["versions"].append(crd["spec"]["versions"][0] | {"name": "v2", "storage": False})
    await websites.sandbox.apply(crd)
    versions = ("v1", "v2")
    for version in versions:
        declare(version)
    await websites.apply(x="1")
    async with websites.operating():
        for version in versions:
            await websites.wait(websites.kind, "web", condition=f"Ready{version}")
        await websites.patch(x="2")
        for version in versions:
            await websites.wait("configmaps", f"web-{version}", check=is_data("2"))
        for version in versions:
            name = f"web-{version}"
            await websites.sandbox.patch("configmaps", name, {"data": {"x": "3"}}, namespace="ns1")
        for version in versions:
            await websites.wait("configmaps", f"web-{version}", check=is_data("2"))


async def test_l1_passes_that_change_their_own_object_come_ever_later(
    websites: Any, caplog: pytest.LogCaptureFixture
) -> None:
    passes: list[int] = []

    @websites.reconcile(id="fn")
    def fn(spec: Any, patch: Any, **_: Any) -> Iterator[Any]:
        passes.append(int(spec["x"]))
        patch.spec["x"] = str(int(spec["x"]) + 1)
        yield from ()

    await websites.apply(x="1")
    async with websites.operating():
        await until(lambda: "They will be ever more rare" in caplog.text)
        await websites.apply(x="1000")
        await until(lambda: 1000 + FREE_ROUNDS in passes)
    assert passes[:FREE_ROUNDS] == [*range(1, FREE_ROUNDS + 1)]
    warning = "Reconciler 'fn' changes the field 'spec.x' of its own object in every pass"
    assert caplog.text.count(warning) == caplog.text.count("ever more rare") == 1
