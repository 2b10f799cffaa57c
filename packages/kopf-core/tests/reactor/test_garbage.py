"""What is not needed anymore is freed at once: the collector of garbage can be very late."""

import asyncio
import gc
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from idleness import until

from kopf_core.actions.errors import PermanentError, TemporaryError
from kopf_core.engines.background.live_objects import LiveObject
from kopf_core.engines.background.spawned import SpawnedHandler
from kopf_core.engines.memories import ObjectMemory
from kopf_core.intents import decorators as on
from kopf_core.reactor.object.turns import Turn
from kopf_core.reactor.streams.work import WorkItem

KINDS = (SpawnedHandler, LiveObject, ObjectMemory, WorkItem, Turn)
NAMES = [f"obj{number}" for number in range(5)]


@pytest.fixture
def _no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def find_left(known: Any) -> list[str]:
    """What has come since then, and is there still; with no collection of garbage."""
    return [type(o).__name__ for o in gc.get_objects() if isinstance(o, KINDS) and o not in known]


async def stopped_daemon(stopped: Any, **_: Any) -> None:
    await stopped.wait()


async def cancelled_daemon(**_: Any) -> None:
    await asyncio.Event().wait()


def sync_daemon(stopped: Any, **_: Any) -> None:
    stopped.wait()


async def failing_daemon(stopped: Any, retry: int, **_: Any) -> None:
    if retry < 2:
        raise ValueError("Not yet.") if retry else TemporaryError("Not yet.", delay=0)
    await stopped.wait()


async def failed_daemon(**_: Any) -> None:
    raise PermanentError("Never.")


@pytest.mark.usefixtures("_no_collector")
@pytest.mark.parametrize(
    "fn", [stopped_daemon, cancelled_daemon, sync_daemon, failing_daemon, failed_daemon]
)
async def test_k19_stopped_daemons_leave_nothing_to_the_collector(
    cluster, operate, registry, settings, caplog, fn
):
    settings.background.instant_exit_timeout = None
    caplog.set_level(logging.CRITICAL, "kopf.objects")  # its records would keep the tracebacks
    on.daemon("kopfexamples", registry=registry, backoff=0, cancellation_timeout=9)(fn)

    @on.create("kopfexamples", registry=registry)
    async def create(retry: int, **_: Any) -> None:
        if not retry:
            raise TemporaryError("Not yet.", delay=0)

    known = [o for o in gc.get_objects() if isinstance(o, KINDS)]
    async with operate() as operator:
        for name in NAMES:
            await cluster.create(name)
        await until(lambda: len(operator.essentials.memories) == len(NAMES))
        assert find_left(known)
        for name in NAMES:
            await cluster.delete(name)
        await until(lambda: not operator.essentials.memories and not find_left(known))
