"""``@kopf.reconcile`` comes to the same end whatever happens on the way."""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kopf_kits.sandbox import Sandbox

REQUESTS = 4
"""How many requests an undisturbed pass makes: three children, and the status."""


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def is_ready(message: str) -> Any:
    def check(obj: Any) -> bool:
        conditions = obj.get("status", {}).get("conditions", [])
        is_clean = not obj["metadata"].get("annotations")
        return is_clean and any(c["message"] == message for c in conditions)

    return check


async def check_end(websites: Any, x: str) -> None:
    """The end state is that of an undisturbed run, and nothing was made twice."""
    await websites.wait(websites.kind, "web", check=is_ready(x))
    for name in ("a", "b", "c"):
        child = await websites.sandbox.get("configmaps", name, namespace="ns1")
        assert child["data"] == {"x": x}
        assert len(child["metadata"]["ownerReferences"]) == 1
    assert await websites.names() == ["a", "alien", "b", "c"]
    created = [
        entry.path.rpartition("/")[2]
        for entry in websites.sandbox.journal
        if entry.method == "PATCH" and entry.status == 201
    ]
    assert sorted(created) == ["a", "b", "c"]
    assert not websites.sandbox.journal.select("DELETE")


async def add_alien(websites: Any) -> None:
    alien = config_map("alien")
    alien["metadata"]["namespace"] = "ns1"
    await websites.sandbox.apply(alien)


def is_write(call: Any) -> bool:
    is_aside = "/events" in call.path or "/apis/authorization.k8s.io" in call.path
    return call.method in ("PATCH", "POST", "PUT", "DELETE") and not is_aside


@pytest.mark.parametrize("status", [403, 409, 422, 429, 500, "drop"])
@pytest.mark.parametrize("number", range(REQUESTS))
async def test_faults_at_any_request(websites: Any, status: Any, number: int) -> None:
    @websites.reconcile(backoff=0.01, id="fn")
    async def fn(spec: Any, conditions: Any, **_: Any) -> Any:
        for name in ("a", "b", "c"):
            yield config_map(name, x=spec["x"])
        conditions.set("Ready", True, message=spec["x"])

    faults = websites.sandbox.faults
    where = {"match": is_write, "skip": number, "times": 1}
    fault = faults.drop(**where) if status == "drop" else faults.fail(status, **where)
    await add_alien(websites)
    await websites.apply(x="1")
    async with websites.operating():
        await check_end(websites, "1")
        assert fault.hits == 1


@pytest.mark.parametrize("number", range(REQUESTS))
async def test_owners_changed_at_any_request(websites: Any, number: int) -> None:
    @websites.reconcile(id="fn")
    async def fn(spec: Any, conditions: Any, **_: Any) -> Any:
        for name in ("a", "b", "c"):
            yield config_map(name, x=spec["x"])
        conditions.set("Ready", True, message=spec["x"])

    await add_alien(websites)
    await websites.apply(x="1")
    with websites.sandbox.faults.hang(match=is_write, skip=number, times=1) as fault:
        async with websites.operating():
            await websites.sandbox.journal.arrived("PATCH", count=number + 1)
            await websites.patch(x="2")
            fault.release()
            await check_end(websites, "2")


NAMES = st.sets(st.sampled_from("abcde"), max_size=4)
ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("want"), NAMES, st.integers(0, 2)),
        st.tuples(st.just("edit"), st.sampled_from("abcde"), st.integers(0, 2)),
        st.tuples(st.just("delete"), st.sampled_from("abcde"), st.none()),
        st.tuples(st.just("restart"), st.none(), st.none()),
    ),
    min_size=3,
    max_size=10,
)


@settings(
    max_examples=15,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(actions=ACTIONS)
def test_quiet_states_are_as_wanted(make_websites: Any, actions: Any) -> None:
    asyncio.run(live_through(make_websites, actions))


async def live_through(make: Any, actions: Any) -> None:
    async with Sandbox() as sandbox:
        world = await make(sandbox)

        @world.reconcile(id="fn")
        def fn(spec: Any, conditions: Any, **_: Any) -> Iterator[Any]:
            for name in spec["names"]:
                yield config_map(name, x=spec["x"])
            conditions.set("Ready", True, message=spec["token"])

        names, x = ["a"], "0"
        await world.apply(names=names, x=x, token="begin")
        await add_alien(world)
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(world.operating())
            for number, (action, what, value) in enumerate(actions):
                match action:
                    case "want":
                        names, x = sorted(what), str(value)
                        await world.patch(names=names, x=x, token=f"step-{number}")
                    case "edit" if what in await world.names():
                        patch = {"data": {"x": f"foreign-{value}"}}
                        await sandbox.patch("configmaps", what, patch, namespace="ns1")
                    case "delete" if what in await world.names():
                        await sandbox.delete("configmaps", what, namespace="ns1")
                    case "restart":
                        await stack.aclose()
                        await stack.enter_async_context(world.operating())
            await world.patch(token="end")
            await world.wait(world.kind, "web", check=is_ready("end"))
            for name in names:
                await world.wait("configmaps", name, jsonpath="data.x", value=x)
            for name in {*"abcde"} - {*names}:
                await world.wait("configmaps", name, gone=True)
        assert await world.names() == sorted([*names, "alien"])
