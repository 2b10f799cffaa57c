"""Clusters whose kubeconfigs are in Secrets: over HTTP, with a sandbox for each of them."""

import asyncio
import base64
import contextlib
import json
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest
from idleness import until

from kopf_cogs.clients.session import Client
from kopf_cogs.structs.credentials import ConnectionInfo
from kopf_core.intents import decorators as on
from kopf_core.reactor.process.cluster_secrets import KubeconfigSecrets
from kopf_core.reactor.process.fleet import Fleet
from kopf_core.reactor.process.operator_arguments import choose_options
from kopf_core.reactor.process.supervising import supervise

sandboxes = pytest.importorskip("kopf_kits.sandbox")

KEXES = "/apis/kopf.dev/v1/namespaces/default/kopfexamples"
SECRETS = "/api/v1/namespaces/default/secrets"
LABEL = "example.com/cluster"


def make_kubeconfig(url: str, *, user: Any = None, cluster: Any = None) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "main",
        "contexts": [{"name": "main", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": url, **(cluster or {})}}],
        "users": [{"name": "u", "user": user or {"token": "s3cret"}}],
    }


class Home:
    """The cluster where the Secrets are; and what is put into them."""

    def __init__(self, sandbox: Any, client: Client) -> None:
        self.sandbox, self.client = sandbox, client

    async def put(self, name: str, content: Any, *, key: str = "kubeconfig") -> None:
        text = content if isinstance(content, str) else json.dumps(content)
        data = {key: base64.b64encode(text.encode()).decode()}
        metadata = {"name": name, "labels": {LABEL: "yes"}}
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}
        with contextlib.suppress(Exception):
            await self.client.delete(f"{SECRETS}/{name}")
        await self.client.post(SECRETS, body)

    async def change(self, name: str, content: Any) -> None:
        data = {"kubeconfig": base64.b64encode(json.dumps(content).encode()).decode()}
        await self.sandbox.patch("secrets", name, {"data": data}, namespace="default")


@pytest.fixture
async def make_place(make_definition) -> AsyncIterator[Any]:
    async with contextlib.AsyncExitStack() as stack:

        async def make_place(**options: Any) -> Home:
            chosen = sandboxes.ClusterOptions(**options)
            sandbox = await stack.enter_async_context(sandboxes.Sandbox(options=chosen))
            await sandbox.apply(make_definition("v1"))
            client = await stack.enter_async_context(Client(ConnectionInfo(server=sandbox.url)))
            return Home(sandbox, client)

        yield make_place


async def create(place: Any, name: str) -> None:
    body = {"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": {"name": name}}
    await place.client.post(KEXES, body)


@pytest.fixture
async def home(make_place) -> Home:
    return await make_place()


@pytest.fixture
async def away(make_place) -> Home:
    return await make_place()


@pytest.fixture
def serve(registry, settings, home):
    settings.posting.enabled = False

    @contextlib.asynccontextmanager
    async def serve(**kwargs: Any) -> AsyncIterator[Fleet]:
        def log_in(**_: Any) -> ConnectionInfo:
            return ConnectionInfo(server=home.sandbox.url)

        given = {"namespace": "default", "login": log_in, **kwargs}
        clusters = KubeconfigSecrets(f"{LABEL}=yes", **given)
        options = {"registry": registry, "settings": settings, "clusterwide": True}
        fleet = Fleet(choose_options({"clusters": clusters, **options}))  # type: ignore[typeddict-item]
        task = asyncio.create_task(supervise(fleet))
        try:
            yield fleet
        finally:
            fleet.stop()
            async with asyncio.timeout(60):
                await task

    return serve


async def test_o_secrets_with_kubeconfigs_add_and_remove_clusters(
    home, away, serve, registry, journal, caplog
):
    caplog.set_level(logging.DEBUG)

    @on.event("kopfexamples", registry=registry)
    def event_fn(cluster, name, **_):
        journal((cluster, name))

    await create(home, "obj")
    await create(away, "obj")
    await home.put("east", make_kubeconfig(home.sandbox.url))
    async with serve() as fleet:
        await journal.until(lambda seen: seen == [("east", "obj")])
        await home.put("west", make_kubeconfig(away.sandbox.url))
        await journal.until(lambda seen: ("west", "obj") in seen)
        await home.client.delete(f"{SECRETS}/east")
        await until(lambda: {*fleet._keepers} == {"west"})
        await create(home, "later")
        await create(away, "later")
        await journal.until(lambda seen: ("west", "later") in seen)
    assert ("east", "later") not in journal
    assert "s3cret" not in caplog.text


async def test_o_a_secret_of_another_server_moves_the_cluster(home, away, serve, registry, journal):
    @on.event("kopfexamples", registry=registry)
    def event_fn(cluster, name, **_):
        journal((cluster, name))

    await create(home, "here")
    await create(away, "there")
    await home.put("east", make_kubeconfig(home.sandbox.url))
    async with serve():
        await journal.until(lambda seen: seen == [("east", "here")])
        await home.change("east", make_kubeconfig(away.sandbox.url))
        await journal.until(lambda seen: seen == [("east", "here"), ("east", "there")])


async def test_o_changed_credentials_are_used_when_the_previous_are_refused(
    home, away, serve, registry, settings, journal
):
    settings.networking.error_backoffs = ()
    settings.watching.reconnect_backoff = 0

    @on.event("kopfexamples", registry=registry)
    def event_fn(name, **_):
        journal(name)

    await create(away, "before")
    await home.put("east", make_kubeconfig(away.sandbox.url, user={"token": "old"}))
    async with serve() as fleet:
        await journal.until(lambda seen: seen == ["before"])
        operator = fleet._keepers["east"]._operator
        assert operator is not None
        await home.change("east", make_kubeconfig(away.sandbox.url, user={"token": "new"}))
        secrets: Any = fleet._options.clusters
        await until(lambda: secrets._found["east"].token == "new")
        with away.sandbox.faults.fail(401, times=1):
            away.sandbox.cut_watches()
            await until(lambda: get_tokens(operator) == ["new"])
        await create(away, "after")
        await journal.until(lambda seen: "after" in seen)
        assert fleet._keepers["east"]._operator is operator


def get_tokens(operator: Any) -> list[str]:
    return [item.info.token for item in operator.essentials.vault._items.values()]


@pytest.mark.parametrize(
    ("user", "cluster", "problem"),
    [
        ({"exec": {"command": "s3cret"}}, None, "user 'u' has exec"),
        ({"token": "s3cret", "exec": {"command": "x"}}, None, "user 'u' has exec"),
        ({"tokenFile": "/s3cret"}, None, "user 'u' has tokenFile"),
        ({"client-certificate": "/s3cret"}, None, "user 'u' has client-certificate"),
        ({"client-key": "/s3cret"}, None, "user 'u' has client-key"),
        ({"token": "s3cret"}, {"certificate-authority": "/x"}, "'c' has certificate-authority"),
    ],
)
async def test_o_secrets_cannot_make_the_operator_run_programs_or_read_files(
    home, serve, registry, journal, caplog, user, cluster, problem
):
    on.event("kopfexamples", registry=registry)(lambda cluster, **_: journal(cluster))
    await create(home, "obj")
    await home.put("bad", make_kubeconfig(home.sandbox.url, user=user, cluster=cluster))
    await home.put("good", make_kubeconfig(home.sandbox.url))
    async with serve() as fleet:
        await journal.until(lambda seen: seen == ["good"])
        assert {*fleet._keepers} == {"good"}
    assert "Secret default/bad is not used: " in caplog.text
    assert problem in caplog.text
    assert "s3cret" not in caplog.text


@pytest.mark.parametrize(
    "content", ["s3cret: [", "[s3cret]", "s3cret", "a: *s3cret", "a: !s3cret b"]
)
async def test_o_broken_secrets_leave_their_clusters_and_others_alone(
    home, serve, registry, journal, caplog, content
):
    on.event("kopfexamples", registry=registry)(lambda cluster, name, **_: journal((cluster, name)))
    await create(home, "obj")
    await home.put("bad", content)
    await home.put("other", make_kubeconfig(home.sandbox.url), key="value")
    await home.put("good", make_kubeconfig(home.sandbox.url))
    async with serve() as fleet:
        await journal.until(lambda seen: seen == [("good", "obj")])
        await home.change("good", "s3cret")
        await until(lambda: "Secret default/good is not used" in caplog.text)
        assert {*fleet._keepers} == {"good"}
        await create(home, "later")
        await journal.until(lambda seen: seen == [("good", "obj"), ("good", "later")])
    assert "Secret default/bad is not used" in caplog.text
    assert "Secret default/other is not used: It has no key 'kubeconfig'." in caplog.text
    assert "s3cret" not in caplog.text


async def test_o_secrets_can_have_another_key(home, serve, registry, journal):
    on.event("kopfexamples", registry=registry)(lambda cluster, **_: journal(cluster))
    await create(home, "obj")
    await home.put("east", make_kubeconfig(home.sandbox.url), key="value")
    async with serve(key="value", namespace=None):
        await journal.until(lambda seen: seen == ["east"])
