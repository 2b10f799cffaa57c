"""The last requests of an exiting operator, while the API does not answer."""

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest
from idleness import quiet

from kopf_core.engines.admission import managing
from kopf_core.engines.leasing import elector
from kopf_core.engines.peering import member
from kopf_core.intents import decorators as on
from kopf_core.reactor.life import exiting

PEERINGS = "/apis/kopf.dev/v1/clusterkopfpeerings"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
MERGE = "application/merge-patch+json"


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody else ends these requests in time."""
    monkeypatch.setattr(managing, "EXIT_TIMEOUT", 999)
    monkeypatch.setattr(member, "LEAVE_TIMEOUT", 999)
    monkeypatch.setattr(elector, "RELEASE_TIMEOUT", 999)
    monkeypatch.setattr(exiting, "LAST_MOMENT", 0.01)


@pytest.fixture
async def farewell(request: Any, cluster: Any, registry: Any, settings: Any) -> tuple[str, str]:
    """Have something to say at the exit; get the path and the warning if it is not said."""
    if request.param == "peering":
        crd = request.getfixturevalue("make_definition")("v1")
        crd["metadata"]["name"] = "clusterkopfpeerings.kopf.dev"
        names = {"kind": "ClusterKopfPeering", "plural": "clusterkopfpeerings"}
        crd["spec"] |= {"scope": "Cluster", "names": {**names, "singular": "clusterkopfpeering"}}
        await cluster.sandbox.apply(crd)
        body = {"apiVersion": "kopf.dev/v1", "kind": "ClusterKopfPeering"}
        await cluster.client.post(PEERINGS, {**body, "metadata": {"name": "default"}})
        return f"{PEERINGS}/default", "The record in the peering 'default' cluster-wide is not"
    if request.param == "lease":
        settings.leasing.name, settings.leasing.namespace = "op", "default"
        return f"{LEASES}/op", "The lease default/op cannot be released"

    async def server(_: Any) -> AsyncIterator[Any]:
        yield {"url": "https://127.0.0.1:1/"}
        await asyncio.Event().wait()

    async def check(**_: Any) -> None:
        pass

    settings.admission.server, settings.admission.managed = server, "hooks.kopf.dev"
    on.validate("kopfexamples", registry=registry)(check)
    return "*/validatingwebhookconfigurations/*", "The webhooks remain in hooks.kopf.dev"


@pytest.mark.parametrize("farewell", ["peering", "lease", "webhooks"], indirect=True)
async def test_k16_hastened_exits_do_not_wait_for_silent_servers(
    cluster, operate, registry, journal, logged, farewell
):
    @on.create("kopfexamples", registry=registry)
    async def fn(name: str, **_: Any) -> None:
        journal(name)

    path, warning = farewell
    requests = cluster.sandbox.journal
    await cluster.create("a")
    async with operate(clusterwide=True) as operator:
        await journal.until(lambda calls: "a" in calls)
        if "webhook" in path:  # they are there, with the mark of this replica
            await requests.wait("PATCH", path, count=2)
        await quiet()
        since = requests[-1].number
        cluster.sandbox.faults.hang(path=path)
        operator.stop()
        await requests.arrived(None, path, since=since)
        operator.abort()
    assert not operator.exit.over.is_set()
    assert any(warning in text for text in logged(logging.WARNING))
