"""Observing the behaviours on a cluster."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

import aiohttp

from e2e.clusters import Cluster

from . import cases
from .api import Api
from .normal import normalise
from .objects import PLAIN, STRICT
from .registry import Area, Behaviour


def collect() -> list[Behaviour]:
    """Collect the behaviours of all modules in the order of their areas and definitions."""
    behaviours: list[Behaviour] = []
    for found in sorted(pkgutil.iter_modules(cases.__path__), key=lambda found: found.name):
        area = importlib.import_module(f"{cases.__name__}.{found.name}").area
        assert isinstance(area, Area)
        behaviours.extend(area.behaviours)
    return behaviours


def why_not(behaviour: Behaviour, cluster: Cluster) -> str | None:
    """Tell why the behaviour cannot be observed on that cluster; None if it can be."""
    if behaviour.local and not cluster.is_local:
        return "the API server must reach this process"
    if behaviour.bare and not cluster.is_local:
        return "the cluster must have no nodes and no controllers of workloads"
    if behaviour.compacts and cluster.compact is None:
        return "the history of this cluster cannot be compacted"
    return None


async def prepare(cluster: Cluster, session: aiohttp.ClientSession) -> None:
    """Create the custom resources that most of the behaviours are about."""
    api = Api(cluster, session)
    for crd in [PLAIN, STRICT]:
        path = f"customresourcedefinitions/{crd['metadata']['name']}"
        await api.create("customresourcedefinitions", crd)
        await api.settle(path, "status.conditions.*.status", ["True", "True"])
        version = crd["spec"]["versions"][0]["name"]
        await api.settle(f"/apis/{crd['spec']['group']}/{version}", "kind", "APIResourceList")


async def cleanup(cluster: Cluster, session: aiohttp.ClientSession) -> None:
    """Leave no custom resources behind."""
    api = Api(cluster, session)
    for crd in [PLAIN, STRICT]:
        await api.delete(f"customresourcedefinitions/{crd['metadata']['name']}")


async def observe(behaviour: Behaviour, cluster: Cluster, session: aiohttp.ClientSession) -> Any:
    """Observe one behaviour in a namespace of its own."""
    api = Api(cluster, session)
    await api.create("namespaces", {"metadata": {"name": api.namespace}})
    try:
        if not cluster.is_local:  # with all controllers: pods need the account that one creates
            await api.settle("serviceaccounts/default", "metadata.name", "default")
        observation = await behaviour.observe(api)
    finally:
        await api.delete(f"namespaces/{api.namespace}")
    return normalise(observation, api.namespace)
