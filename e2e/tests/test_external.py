"""Happenings outside of the cluster, on any cluster."""

from __future__ import annotations

import asyncio

import kopf
from e2e.tests.harness import GROUP, World
from kopf_core.intents import decorators as on


async def test_happenings_are_brought_to_objects(world: World) -> None:
    world.plural = "subs"
    orders: asyncio.Queue[str] = asyncio.Queue()

    @on.external(registry=world.registry)
    async def shop(**_):
        while True:
            yield kopf.Happening(f"subs.{GROUP}", "shop", world.namespace, await orders.get())

    @on.reconcile(GROUP, "subs", id="fn", registry=world.registry)
    def fn(name, triggers, **_):
        world.calls([name, *sorted(map(str, triggers))])

    async with world.operator():
        await world.create(name="shop")
        await world.calls.until(lambda calls: ["shop", "appeared"] in calls)
        orders.put_nowait("one")
        await world.calls.until(lambda calls: ["shop", "external: one"] in calls)
        kopf.trigger(f"subs.{GROUP}", "shop", world.namespace, reason="two")
        await world.calls.until(lambda calls: ["shop", "external: two"] in calls)
