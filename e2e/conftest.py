"""The options and the clusters of all end-to-end tests."""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Iterator

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from e2e.clusters import NAMES, Cluster, ClusterError, open_cluster  # noqa: E402


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("e2e", "end-to-end tests of Kopf")
    group.addoption(
        "--cluster",
        choices=NAMES,
        default="emulator",
        help="the cluster to run on: the sandbox of Kopf (the default), a real control plane "
        "on this machine, a new k3d cluster, or the current cluster of kubectl",
    )
    group.addoption(
        "--record",
        action="store_true",
        help="rewrite the expectations of the conformance suite by what this cluster does; "
        "or the recorded run of the playground by what the browser does",
    )


@pytest.fixture(scope="session")
def cluster(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """The cluster of this run: the same one for all tests."""
    folder = tmp_path_factory.mktemp("cluster")
    try:
        with open_cluster(pytestconfig.getoption("--cluster"), folder) as running:
            yield running
    except ClusterError as e:
        pytest.exit(str(e), returncode=1)
