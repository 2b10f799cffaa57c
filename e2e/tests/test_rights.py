"""Rights to take part in peering and to keep the configurations of webhooks, on a real API server.

When one of them is absent, it is told once, nothing ends, and all works as soon as it is granted.
"""

from __future__ import annotations

import asyncio
import contextlib
import pathlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import yaml

from e2e.clusters import Cluster
from e2e.tests.accounts import REVIEW
from e2e.tests.harness import CRDS, GROUP, PATIENCE, World
from kopf_core.intents import decorators as on
from kopf_kits.webhooks import WebhookServer

ROOT = pathlib.Path(__file__).resolve().parents[2]
KEX = (GROUP, "kexes")
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/{}webhookconfigurations/{}"
GROUP_OF_HOOKS = "admissionregistration.k8s.io"
TYPES = ("validating", "mutating")
RESOURCES = [f"{type}webhookconfigurations" for type in TYPES]


@pytest.fixture(autouse=True)
def _real(cluster: Cluster) -> None:
    if cluster.name == "emulator":
        pytest.skip("the emulator does not check permissions")


@pytest.fixture(autouse=True)
def _handlers(world: World) -> None:
    world.settings.scanning.disabled = True

    @on.create(*KEX, id="fn", registry=world.registry)
    def fn(name: str, **_: Any) -> None:
        world.calls(name)


# --- Peering ---


@pytest.fixture(scope="module")
def _peerings(cluster: Cluster) -> Iterator[None]:
    """Both kinds of peering objects: defined once, as it takes a while."""
    documents = [*yaml.safe_load_all((ROOT / "examples" / "peering.yaml").read_text())]
    definitions = [doc for doc in documents if doc["kind"] == "CustomResourceDefinition"]
    urls = [f"{CRDS}/{definition['metadata']['name']}" for definition in definitions]

    async def define() -> None:
        async with connected(cluster) as world:
            for definition in definitions:
                with contextlib.suppress(AssertionError):  # from other tests on a shared server
                    await world.request("POST", CRDS, definition)

    async def undefine() -> None:
        async with connected(cluster) as world:
            for url in urls:
                await world.request("DELETE", url)
            async with asyncio.timeout(PATIENCE):
                while any([(await world.attempt("GET", url)).status != 404 for url in urls]):  # noqa: ASYNC110
                    await asyncio.sleep(0.1)

    asyncio.run(define())
    yield
    asyncio.run(undefine())


@contextlib.asynccontextmanager
async def connected(cluster: Cluster) -> AsyncIterator[World]:
    headers, context = cluster.make_headers(), cluster.make_ssl_context()
    world = World(cluster.url, "default", cluster.kubeconfig_path, headers=headers, context=context)
    try:
        yield world
    finally:
        await world.close()


@pytest.fixture
async def peering(request: pytest.FixtureRequest, world: World, _peerings: None) -> str:
    """The URL of the peering object of the kind, which is only for the operator of the test."""
    kind: str = request.param
    name = world.settings.peering.name = world.namespace
    world.settings.peering.clusterwide = is_clusterwide = kind == "ClusterKopfPeering"
    body = {"apiVersion": "kopf.dev/v1", "kind": kind, "metadata": {"name": name}}
    where = "" if is_clusterwide else f"/namespaces/{world.namespace}"
    url = f"/apis/kopf.dev/v1{where}/{kind}s".lower()
    async with asyncio.timeout(PATIENCE):
        while True:
            with contextlib.suppress(Exception):  # it takes a moment until it is served
                await world.request("POST", url, body)
                return f"{url}/{name}"
            await asyncio.sleep(0.1)


SCOPES = pytest.mark.parametrize(
    ("account", "peering"),
    [("namespaced", "KopfPeering"), ("cluster-wide", "ClusterKopfPeering")],
    indirect=True,
)


async def until_recorded(world: World, url: str) -> None:
    async with asyncio.timeout(PATIENCE):
        while not (await world.request("GET", url)).get("status"):  # noqa: ASYNC110
            await asyncio.sleep(0.1)


def describe_denial(verb: str, url: str) -> str:
    """As the server says it."""
    plural = url.split("/")[-2]
    where = "at the cluster scope" if plural.startswith("cluster") else "in the namespace"
    return f'cannot {verb} resource "{plural}" in API group "kopf.dev" {where}'


@pytest.mark.timeout(600)
@SCOPES
@pytest.mark.parametrize("verb", ["list", "watch", "patch"])
async def test_b3_b4_absent_rights_to_peerings_are_named_once_and_recovered_from(
    world, peering, account, messages, verb
):
    text = describe_denial(verb, peering)
    await account.restrict(verb, peering.split("/")[-2])
    await world.create(name="before")
    async with world.operator() as operator:
        await messages.until(text, times=2)
        await messages.until(REVIEW)
        if verb == "patch":
            assert operator.is_paused
            assert not world.calls
        else:
            await world.until_handled("before")
        complaints = messages.find()
        await account.restore()
        await until_recorded(world, peering)
        await world.create(name="after")
        await world.until_handled("after")
        await world.until_handled("before")
    assert not (await world.request("GET", peering)).get("status")
    [complaint] = complaints
    assert text in complaint
    [review] = messages.find(REVIEW)  # of K30
    rule = f'"resources": ["{peering.split("/")[-2]}"], "verbs": ["{verb}"]}}'
    assert review.endswith(f"{rule}]}}]}}")
    assert sorted(world.calls) == ["after", "before"]
    assert messages.find() == complaints


@SCOPES
async def test_documented_rights_to_peerings_are_enough(world, peering, account, messages):
    """There is no `get` among them: all is seen in lists, watches, and responses to patches."""
    async with world.operator():
        await until_recorded(world, peering)
        await world.create()
        await world.until_handled()
    assert not (await world.request("GET", peering)).get("status")
    assert not messages.find()


# --- Webhooks ---


@pytest.fixture
def rules() -> list[Any]:
    documents = yaml.safe_load_all((ROOT / "deploy" / "webhooks" / "rbac.yaml").read_text())
    [role] = [doc for doc in documents if doc["kind"] == "ClusterRole"]
    return [r for r in role["rules"] if r["apiGroups"] == ["admissionregistration.k8s.io"]]


@pytest.fixture
async def judged(world: World) -> AsyncIterator[str]:
    """The name of the configurations; there are warnings when they are in use."""
    name = f"{world.namespace}.kopf.dev"
    world.settings.peering.standalone = True  # the definitions for other tests can be there
    world.settings.admission.managed = name
    world.settings.admission.server = WebhookServer(addr="127.0.0.1")
    selector = {"kubernetes.io/metadata.name": world.namespace}

    @on.validate(*KEX, id="judge", namespace_selector=selector, registry=world.registry)
    def judge(warnings: list[str], **_: Any) -> None:
        warnings.append("It is judged.")

    yield name
    for type in TYPES:
        await world.attempt("DELETE", CONFIGURATIONS.format(type, name))


async def until_judged(world: World) -> None:
    body = world.make(name="dry")
    async with asyncio.timeout(PATIENCE):
        while True:
            answer = await world.attempt("POST", world.path() + "?dryRun=All", body)
            if answer.warnings == ["It is judged."]:
                break
            await asyncio.sleep(0.1)  # nobody tells when an API server has noticed the webhooks


@pytest.mark.timeout(600)
@pytest.mark.parametrize("account", ["cluster-wide"], indirect=True)
@pytest.mark.parametrize("verb", ["create", "patch"])
async def test_b4_absent_rights_to_webhooks_are_named_once_and_recovered_from(
    world, judged, account, messages, verb
):
    await account.restrict(verb, *RESOURCES)
    async with world.operator():
        for type in TYPES:
            await messages.until(f'cannot {verb} resource "{type}webhookconfigurations"', times=2)
        await world.create()
        await world.until_handled()
        complaints = messages.find()
        await account.restore()
        await until_judged(world)
    assert sorted(text.split()[1] for text in complaints) == ["mutating", "validating"]
    assert all('API group "admissionregistration.k8s.io" at the cluster' in c for c in complaints)
    assert messages.find() == complaints


@pytest.mark.parametrize("account", ["cluster-wide"], indirect=True)
@pytest.mark.parametrize("verb", [None, "list"])
async def test_documented_rights_to_webhooks_are_enough(world, judged, account, messages, verb):
    if verb is not None:
        await account.restrict(verb, *RESOURCES)
    async with world.operator():
        await until_judged(world)
        await world.create()
        await world.until_handled()
    for type in TYPES:
        found = await world.attempt("GET", CONFIGURATIONS.format(type, judged))
        assert found.status == 404 or not found.body.get("webhooks")
    assert not messages.find()


@pytest.mark.parametrize("account", ["cluster-wide"], indirect=True)
async def test_b3_absent_rights_to_watch_webhooks_are_named_once_and_prevent_nothing(
    world, judged, account, messages
):
    await account.restrict("watch", *RESOURCES)
    async with world.operator():
        await until_judged(world)  # they are served nevertheless
        for type in TYPES:
            await messages.until(f'cannot watch resource "{type}webhookconfigurations"', times=2)
    complaints = messages.find()
    assert len(complaints) == 2
    assert all(f'API group "{GROUP_OF_HOOKS}" at the cluster scope' in c for c in complaints)
    for type in TYPES:
        found = await world.attempt("GET", CONFIGURATIONS.format(type, judged))
        assert found.status == 404 or not found.body.get("webhooks")
