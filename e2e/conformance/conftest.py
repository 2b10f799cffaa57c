"""The custom resources for all behaviours, once a run."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from e2e.clusters import Cluster
from e2e.conformance import runner
from e2e.conformance.api import connect


@pytest.fixture(scope="session")
def prepared(cluster: Cluster) -> Iterator[None]:
    async def run(what: object) -> None:
        async with connect(cluster) as session:
            await what(cluster, session)  # type: ignore[operator]

    asyncio.run(run(runner.prepare))
    yield
    asyncio.run(run(runner.cleanup))
