"""Our wheels in the environments of others, and a namespace for each test."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from e2e.clusters import Cluster
from e2e.compat.clients import Api

from .environments import build_wheels
from .running import Objects


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the wheels of our packages, as they would be released now."""
    return build_wheels(tmp_path_factory.mktemp("wheels"))


@pytest.fixture
async def objects(cluster: Cluster) -> AsyncIterator[Objects]:
    """A namespace of its own for the test."""
    namespace = f"field-{secrets.token_hex(4)}"
    async with Api(cluster) as api:
        await api.request("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
        yield Objects(api, namespace)
        await api.request("DELETE", f"/api/v1/namespaces/{namespace}")
