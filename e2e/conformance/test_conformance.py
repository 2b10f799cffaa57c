"""Every behaviour is as on the real server, on whichever cluster; the differences are explained."""

from __future__ import annotations

from collections.abc import AsyncIterator

import aiohttp
import pytest

from e2e.clusters import Cluster
from e2e.conformance import runner
from e2e.conformance.api import connect
from e2e.conformance.expectations import Expectations, load_differences
from e2e.conformance.registry import Behaviour

BEHAVIOURS = runner.collect()


@pytest.fixture(scope="session")
def expectations(pytestconfig: pytest.Config, cluster: Cluster) -> Expectations:
    return Expectations.load(cluster, recording=pytestconfig.getoption("--record"))


@pytest.fixture
async def session(cluster: Cluster, prepared: None) -> AsyncIterator[aiohttp.ClientSession]:
    async with connect(cluster) as session:
        yield session


@pytest.mark.parametrize("behaviour", BEHAVIOURS, ids=lambda behaviour: behaviour.id)
async def test_behaviour(
    behaviour: Behaviour,
    cluster: Cluster,
    session: aiohttp.ClientSession,
    expectations: Expectations,
) -> None:
    reason = runner.why_not(behaviour, cluster)
    if reason is not None:
        pytest.skip(reason)
    observation = await runner.observe(behaviour, cluster, session)
    if expectations.recording:
        expectations.record(behaviour, observation)
    elif cluster.name == "emulator" and behaviour.id in load_differences():
        assert not expectations.agree(behaviour, observation), "This is not a difference anymore."
    else:
        shown, expected = expectations.compare(behaviour, observation)
        if shown != expected and not expectations.exact:
            pytest.xfail(f"This cluster differs: {shown!r} instead of {expected!r}")
        assert shown == expected


def test_there_are_many_behaviours_with_different_names() -> None:
    ids = [behaviour.id for behaviour in BEHAVIOURS]
    assert len(set(ids)) == len(ids) >= 100


def test_all_differences_are_about_existing_behaviours() -> None:
    assert set(load_differences()) <= {behaviour.id for behaviour in BEHAVIOURS}
