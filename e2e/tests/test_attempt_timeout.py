"""The time for one attempt, on any cluster."""

from __future__ import annotations

import asyncio

from e2e.tests.harness import GROUP, World
from kopf_core.intents import decorators as on


async def test_attempts_that_hang_are_cancelled_and_retried(world: World, caplog) -> None:
    """Those of handlers of changes, of events, of timers, and passes of reconcilers."""
    world.plural = "subs"
    world.settings.execution.attempt_timeout = 0.05
    world.settings.execution.default_backoff = 0.01

    async def hang(id: str, retry: int) -> None:
        world.calls((id, min(retry, 1)))
        if not retry:
            await asyncio.Event().wait()

    @on.event(GROUP, "subs", id="event", registry=world.registry)
    async def event(retry, **_):
        await hang("event", retry)

    @on.create(GROUP, "subs", id="change", registry=world.registry)
    async def change(retry, **_):
        await hang("change", retry)

    @on.timer(GROUP, "subs", id="timer", registry=world.registry)
    async def timer(retry, **_):
        await hang("timer", retry)

    @on.reconcile(GROUP, "subs", id="pass", registry=world.registry)
    async def make(retry, **_):
        await hang("pass", retry)
        yield None

    wanted = {(id, retry) for id in ("change", "timer", "pass") for retry in (0, 1)}
    async with world.operator():
        await world.create({"n": 1})
        await world.calls.until(lambda calls: {*calls} >= wanted | {("event", 0)})
        await world.until_handled()
    for title in ("Handler 'event'", "Handler 'change'", "Timer 'timer'", "Reconciler 'pass'"):
        assert f"{title} failed with an exception" in caplog.text
    assert "(settings.execution.attempt_timeout)" in caplog.text
