"""The cluster which checks permissions, and the custom resources for all behaviours, once a run."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from e2e.clusters import Cluster, ClusterError, open_cluster
from e2e.conformance import runner
from e2e.conformance.api import connect


@pytest.fixture(scope="session")
def cluster(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """The cluster of this run: with RBAC, also if it is the emulator."""
    name, folder = pytestconfig.getoption("--cluster"), tmp_path_factory.mktemp("cluster")
    try:
        with open_cluster(name, folder, rbac=True) as running:
            yield running
    except ClusterError as e:
        pytest.exit(str(e), returncode=1)


@pytest.fixture(scope="session")
def prepared(cluster: Cluster) -> Iterator[None]:
    async def run(what: object) -> None:
        async with connect(cluster) as session:
            await what(cluster, session)  # type: ignore[operator]

    asyncio.run(run(runner.prepare))
    yield
    asyncio.run(run(runner.cleanup))
