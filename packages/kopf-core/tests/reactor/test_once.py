"""Runs that end by themselves, seen from inside the operator."""

from __future__ import annotations

import asyncio
from typing import Any

from idleness import until

from kopf_core.actions.errors import TemporaryError
from kopf_core.intents import decorators as on
from kopf_core.reactor.life.once import Once


async def test_n5_timers_that_end_late_let_their_objects_go(cluster, operate, registry):
    """Nothing else happens to the object since its finalizer was added."""
    gate = asyncio.Event()

    @on.timer("kopfexamples", interval=1, registry=registry)
    async def fn(**_: Any) -> None:
        await gate.wait()

    await cluster.create("a")
    async with operate(once=Once()) as operator:
        intakes = operator.handling.orchestrator.intakes
        await cluster.sandbox.wait("kopfexamples", "a", jsonpath="{.metadata.finalizers[0]}")
        await until(lambda: intakes and not any(len(one.queue) for one in intakes.values()))
        gate.set()
        await cluster.sandbox.wait("kopfexamples", "a", lambda obj: not has_finalizers(obj))


async def test_n5_startup_handlers_that_are_retried_run_out_of_time(operate, registry):
    """The run must not wait for them for ever."""
    once = Once(timeout=0)

    @on.startup(registry=registry)
    def fn(**_: Any) -> None:
        raise TemporaryError("not yet", delay=60)

    async with operate(once=once) as operator:
        await operator.exit.requested.wait()
    assert once.unfinished == ["Time is out: the startup handlers have not finished"]


def has_finalizers(obj: Any) -> bool:
    return bool(obj["metadata"].get("finalizers"))
