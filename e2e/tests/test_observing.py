"""The metrics and the status of an operator, on any cluster."""

from __future__ import annotations

import asyncio
import json

import aiohttp
import pytest
from free_ports import find_free_port
from idleness import until

from e2e.tests.harness import GROUP, World
from kopf_core.actions.errors import PermanentError
from kopf_core.intents import decorators as on
from kopf_core.reactor.life import operator_status

OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


async def test_q_metrics_are_open_and_bounded_and_long_attempts_are_named(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    parser = pytest.importorskip("prometheus_client.openmetrics.parser")
    monkeypatch.setattr(operator_status, "CACHE_TIME", 0)
    monkeypatch.setattr(operator_status, "LONG", 0)
    world.plural = "subs"
    serving = world.settings.serving
    serving.endpoint, serving.status = (f"http://127.0.0.1:{find_free_port()}" for _ in range(2))
    release = asyncio.Event()

    @on.create(GROUP, "subs", id="quick", registry=world.registry)
    def quick(**_):
        raise PermanentError("no way")

    @on.create(GROUP, "subs", id="hanging", registry=world.registry)
    async def hanging(**_):
        world.calls("hangs")
        await release.wait()

    async with world.operator(), aiohttp.ClientSession() as session:
        await world.create(name="one")
        await world.calls.until(lambda calls: calls)
        async with session.get(f"{serving.status}/status.json") as response:
            status = json.loads(await response.text())
        release.set()
        await world.until_handled("one")

        async def get_metrics() -> str | None:
            headers = {"Accept": OPENMETRICS}
            async with session.get(f"{serving.endpoint}/metrics", headers=headers) as response:
                assert response.content_type == "application/openmetrics-text"
                text = await response.text()
            return text if 'handler="hanging",kind="changing",outcome="success"' in text else None

        text = await until(get_metrics)
    (attempt,) = status["attempts"]
    place = {"resource": f"subs.{GROUP}", "namespace": world.namespace, "name": "one"}
    assert {**attempt, **place, "handler": "hanging"} == attempt
    families = {family.name: family for family in parser.text_string_to_metric_families(text)}
    labels = [sample.labels for sample in families["kopf_request_seconds"].samples]
    assert {"patch", "list"} <= {one["verb"] for one in labels}
    assert "0" not in {one["code"] for one in labels}
    values = {value for family in families.values() for s in family.samples for value in s.labels}
    assert "one" not in values
