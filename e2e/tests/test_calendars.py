"""Timers by the calendar, on any cluster: the latest call is remembered on the object."""

from __future__ import annotations

import datetime
import json
from typing import Any

import pytest

from e2e.tests.harness import GROUP, LAST_HANDLED, PREFIX, World
from kopf_core.intents import decorators as on

RECORD = f"{PREFIX}fn.schedule"
LONG_AGO = '{"started":"2024-05-01T00:00:00+00:00","stopped":"2024-05-01T00:00:00+00:00"}'


@pytest.mark.parametrize("plural", ["kexes", "subs"])
async def test_q_cron_the_latest_missed_call_is_made_once(world: World, plural) -> None:
    world.plural = plural

    @on.timer(GROUP, plural, id="fn", schedule="@yearly", missed="one", registry=world.registry)
    async def fn(scheduled: datetime.datetime, **_):
        world.calls(scheduled)

    @on.update(GROUP, plural, id="changed", registry=world.registry)
    async def changed(**_):
        world.calls("changed")

    def is_remembered(obj: Any) -> bool:
        annotations = obj["metadata"]["annotations"]
        stopped = datetime.datetime.fromisoformat(json.loads(annotations[RECORD])["stopped"])
        return LAST_HANDLED in annotations and stopped in world.calls

    async with world.operator():
        await world.create({"n": 1}, metadata={"annotations": {RECORD: LONG_AGO}})
        await world.until(is_remembered)
    async with world.operator():
        await world.patch({"spec": {"n": 2}})
        await world.calls.until(lambda calls: "changed" in calls)
    [scheduled, *later] = world.calls
    assert later == ["changed"]
    assert scheduled.replace(year=2024) == datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
    assert scheduled.year > 2024
