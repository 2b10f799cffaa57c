"""``@kopf.reconcile`` with functions that return early, because something is not there yet."""

from collections.abc import Iterator
from typing import Any

import pytest

import kopf

from .conftest import config_map

NAMES = ["app-1", "app-2", "database"]


@pytest.mark.parametrize("is_kept", [True, False], ids=["kept", "dropped"])
@pytest.mark.parametrize("again", [(), (kopf.Again(after=3600),)], ids=["return", "again"])
async def test_early_returns_keep_only_the_children_that_are_yielded_back(
    websites: Any, is_kept: bool, again: tuple[Any, ...]
) -> None:
    """In other frameworks, an early return changes nothing."""

    @websites.reconcile(id="fn")
    def fn(spec: Any, children: Any, conditions: Any, **_: Any) -> Iterator[Any]:
        is_waiting = spec["n"] == 2
        conditions.set("Waiting", is_waiting)
        yield config_map("database")
        if is_waiting:
            if is_kept:
                yield from children["ConfigMap"].values()
            yield from again
            return
        yield config_map("app-1")
        yield config_map("app-2")

    await websites.apply(n=1)
    async with websites.operating():
        await websites.wait(websites.kind, "web", condition="Waiting=False")
        await websites.patch(n=2)
        await websites.wait(websites.kind, "web", condition="Waiting")
    assert await websites.names() == (NAMES if is_kept else ["database"])
    deleted = [entry for entry in websites.writes() if entry.startswith("DELETE")]
    assert deleted == ([] if is_kept else ["DELETE app-1", "DELETE app-2"])


async def test_q_children_that_are_yielded_back_leave_the_fields_of_others_alone(
    websites: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """If they were applied, the operator would own these fields, too."""

    @websites.reconcile(id="fn")
    def fn(spec: Any, children: Any, conditions: Any, **_: Any) -> Iterator[Any]:
        is_waiting = spec["n"] == 2
        if is_waiting:
            yield from children["ConfigMap"].values()
        else:
            live = yield config_map("app")
            conditions.set("Mixed", "of" in live["data"])
        conditions.set("Waiting", is_waiting)

    await websites.apply(n=1)
    async with websites.operating():
        await websites.wait(websites.kind, "web", condition="Waiting=False")
        theirs = {"data": {"of": "others"}}
        await websites.sandbox.patch("configmaps", "app", theirs, namespace="ns1")
        await websites.wait(websites.kind, "web", condition="Mixed")
        await websites.patch(n=2)
        await websites.wait(websites.kind, "web", condition="Waiting")
        await websites.patch(n=3)
        await websites.wait(websites.kind, "web", condition="Waiting=False")
    assert [entry for entry in websites.writes() if "app" in entry] == ["PATCH app"]
