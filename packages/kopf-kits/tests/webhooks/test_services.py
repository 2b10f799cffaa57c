"""Servers behind Services: with certificates of cert-manager, or shared in a Secret."""

import asyncio
import base64
import contextlib
import datetime
import pathlib
import socket
from collections.abc import AsyncIterator
from typing import Any, cast

import aiohttp
import pytest

from kopf_cogs.aiokits.clocks import Clock, FakeClock, SystemClock
from kopf_cogs.clients.session import Client
from kopf_cogs.configs.settings import OperatorSettings
from kopf_cogs.structs.credentials import ConnectionInfo
from kopf_core.actions.context import OperatorContext, operator_var
from kopf_core.engines.leasing.fences import Fence
from kopf_kits.certificates import Authority, CertificateError
from kopf_kits.sandbox import Sandbox
from kopf_kits.webhooks import WebhookServerError, WebhookServiceServer
from kopf_kits.webhooks.shared import SecretProvider

from .conftest import REVIEW, Serve, Served, make_client_context, write_pair

HOST = "svc1.ns1.svc"
URL = "/api/v1/namespaces/ns1/secrets"


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with Sandbox() as sandbox, Client(ConnectionInfo(server=sandbox.url)) as client:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns1"}}
        await client.post("/api/v1/namespaces", namespace)
        context = OperatorContext(OperatorSettings(), cast(Any, None), client)
        token = operator_var.set(context)
        yield client
        operator_var.reset(token)


def make_provider(client: Client, clock: Clock | None = None) -> SecretProvider:
    return SecretProvider(client, "ns1", "secret1", {HOST}, clock or SystemClock())


def make_later(days: float) -> FakeClock:
    return FakeClock(datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=days))


async def read(client: Client) -> dict[str, Any]:
    return cast(dict[str, Any], await client.get(f"{URL}/secret1"))


@pytest.mark.usefixtures("cryptography")
async def test_created_by_the_first_and_read_by_others(client: Client) -> None:
    providers = [make_provider(client) for _ in range(5)]
    materials = await asyncio.gather(*(provider.fetch() for provider in providers))
    assert len({material.certificate for material in materials}) == 1
    secret = await read(client)
    assert secret["type"] == "kubernetes.io/tls"
    assert base64.b64decode(secret["data"]["tls.crt"]) == materials[0].certificate
    assert base64.b64decode(secret["data"]["ca.crt"]) == materials[0].bundle


@pytest.mark.usefixtures("cryptography")
async def test_the_same_while_nothing_changes(client: Client) -> None:
    provider = make_provider(client)
    first = await provider.fetch()
    version = (await read(client))["metadata"]["resourceVersion"]
    assert await provider.fetch() is first
    assert (await read(client))["metadata"]["resourceVersion"] == version


@pytest.mark.usefixtures("cryptography")
async def test_renewed_once_by_whoever_is_the_first(client: Client) -> None:
    old = await make_provider(client).fetch()
    assert (await make_provider(client, make_later(59)).fetch()).certificate == old.certificate
    providers = [make_provider(client, make_later(61)) for _ in range(5)]
    materials = await asyncio.gather(*(provider.fetch() for provider in providers))
    assert {material.certificate for material in materials} != {old.certificate}
    assert len({material.certificate for material in materials}) == 1
    assert materials[0].bundle == materials[0].certificate + old.certificate
    follower = await make_provider(client).fetch()
    assert follower.certificate == materials[0].certificate
    assert follower.bundle == materials[0].bundle


@pytest.mark.parametrize("data", [None, {}, {"tls.crt": "", "tls.key": ""}, {"tls.crt": "eHl6"}])
@pytest.mark.usefixtures("cryptography")
async def test_broken_ones_of_ours_are_replaced(client: Client, data: Any) -> None:
    metadata = {"name": "secret1", "labels": {"app.kubernetes.io/managed-by": "kopf", "x": "y"}}
    await client.post(URL, {"metadata": metadata, "data": data, "type": "Opaque"})
    material = await make_provider(client).fetch()
    secret = await read(client)
    assert base64.b64decode(secret["data"]["tls.crt"]) == material.certificate
    assert secret["metadata"]["labels"]["x"] == "y"


@pytest.mark.usefixtures("cryptography")
async def test_other_hostnames(client: Client) -> None:
    old = await make_provider(client).fetch()
    another = SecretProvider(client, "ns1", "secret1", {"svc2.ns1.svc"}, SystemClock())
    assert (await another.fetch()).certificate != old.certificate


async def test_foreign_certificates_are_only_read(client: Client, authority: Authority) -> None:
    pair = authority.issue("x", hostnames=[HOST])
    data = {"tls.crt": pair.certificate, "tls.key": pair.key, "ca.crt": authority.pair.certificate}
    encoded = {name: base64.b64encode(value).decode() for name, value in data.items()}
    await client.post(URL, {"metadata": {"name": "secret1"}, "data": encoded})
    material = await make_provider(client, make_later(1000)).fetch()
    assert material.certificate == pair.certificate
    assert material.bundle == authority.pair.certificate


@pytest.mark.usefixtures("cryptography")
async def test_foreign_secrets_are_not_touched(client: Client) -> None:
    secret = await client.post(URL, {"metadata": {"name": "secret1"}, "data": {"a": "eHl6"}})
    with pytest.raises(CertificateError, match=r"^Secret ns1/secret1 is not of ours"):
        await make_provider(client).fetch()
    assert await read(client) == secret


@pytest.mark.usefixtures("cryptography")
async def test_no_access(client: Client) -> None:
    provider = SecretProvider(client, "nosuch", "secret1", {HOST}, SystemClock())
    with pytest.raises(CertificateError, match=r"^Secret nosuch/secret1 cannot be read or written"):
        await provider.fetch()


@pytest.mark.usefixtures("cryptography")
async def test_serving_with_a_secret(
    serve: Serve, client: Client, session: aiohttp.ClientSession, unused_port: int
) -> None:
    server = WebhookServiceServer("svc1", namespace="ns1", port=unused_port, path="hooks")
    async with serve(server) as served:
        service = {"name": "svc1", "namespace": "ns1", "port": 443, "path": "/hooks"}
        assert served.configs[0]["service"] == service
        tls = make_client_context(base64.b64decode(served.configs[0]["caBundle"] or ""))
        url = f"https://127.0.0.1:{unused_port}/hooks/fn1"
        async with session.post(url, json=REVIEW, ssl=tls, server_hostname=HOST) as response:
            assert response.status == 200
    assert served.handlers.calls[0]["webhook"] == "fn1"
    assert await client.get(f"{URL}/svc1-certificate")


@pytest.mark.usefixtures("cryptography")
async def test_q_replicas_that_do_not_lead_can_make_the_certificate(
    serve: Serve, client: Client, unused_port: int
) -> None:
    client.fence = Fence(SystemClock())  # it is closed: nobody else can write
    server = WebhookServiceServer("svc1", namespace="ns1", port=unused_port)
    async with serve(server):
        assert await client.get(f"{URL}/svc1-certificate")


@pytest.mark.parametrize("has_ca", [True, False])
async def test_serving_with_files(
    serve: Serve, authority: Authority, tmp_path: pathlib.Path, has_ca: bool
) -> None:
    pair = authority.issue("x", hostnames=[HOST])
    write_pair(tmp_path, pair)
    if has_ca:
        (tmp_path / "ca.crt").write_bytes(authority.pair.certificate)
    server = WebhookServiceServer("svc1", namespace="ns1", port=0, folder=tmp_path)
    async with serve(server) as served:
        assert served.configs[0]["service"] == {"name": "svc1", "namespace": "ns1", "port": 443}
        bundle = base64.b64decode(served.configs[0]["caBundle"] or "")
    assert bundle == (authority.pair.certificate if has_ca else pair.certificate)


async def test_outside_of_clusters(serve: Serve) -> None:
    with pytest.raises(WebhookServerError, match="not known outside of the cluster"):
        async with serve(WebhookServiceServer("svc1", port=0)):
            pass
    with pytest.raises(WebhookServerError, match="only accessible in operators"):
        async with serve(WebhookServiceServer("svc1", namespace="ns1", port=0)):
            pass


def test_both_a_folder_and_a_secret() -> None:
    with pytest.raises(ValueError, match="not both"):
        WebhookServiceServer("svc1", folder="/x", secret="y")


def find_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        servers = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
        return [stack.enter_context(server).getsockname()[1] for server in servers]


async def ask(session: aiohttp.ClientSession, port: int, bundle: bytes) -> int:
    """Ask as the API server does: with the name of the Service, whatever pod is behind it."""
    url, tls = f"https://127.0.0.1:{port}", make_client_context(bundle)
    async with session.post(url, json=REVIEW, ssl=tls, server_hostname=HOST) as response:
        return response.status


def get_bundle(served: Served) -> bytes:
    return base64.b64decode(served.configs[-1]["caBundle"] or "")


@pytest.mark.usefixtures("cryptography")
async def test_replicas_are_trusted_by_what_any_of_them_has_configured(
    serve: Serve, client: Client, session: aiohttp.ClientSession
) -> None:
    ports = find_ports(2)
    one, two = (WebhookServiceServer("svc1", namespace="ns1", port=port) for port in ports)
    async with serve(one) as first, serve(two) as second:
        assert get_bundle(first) == get_bundle(second)
        for served in (first, second):
            for port in ports:
                assert await ask(session, port, get_bundle(served)) == 200


async def test_g4_remounted_secrets_of_cert_manager_are_followed(
    serve: Serve, authority: Authority, alien: Authority, tmp_path: pathlib.Path, unused_port: int
) -> None:
    """Volumes are changed by one symlink, all the files at once."""

    def mount(owner: Authority, version: str) -> None:
        folder = tmp_path / version
        folder.mkdir()
        write_pair(folder, owner.issue("x", hostnames=[HOST]))
        (folder / "ca.crt").write_bytes(owner.pair.certificate)
        (tmp_path / "new").symlink_to(folder)
        (tmp_path / "new").replace(tmp_path / "..data")

    mount(authority, "..1")
    for name in ("tls.crt", "tls.key", "ca.crt"):
        (tmp_path / name).symlink_to(pathlib.Path("..data") / name)
    server = WebhookServiceServer(
        "svc1", namespace="ns1", port=unused_port, folder=tmp_path, file_check_interval=0.01
    )
    async with serve(server) as served:
        old = get_bundle(served)
        assert old == authority.pair.certificate
        mount(alien, "..2")
        await served.wait(3)
        assert get_bundle(served) == alien.pair.certificate
        async with aiohttp.ClientSession() as session:
            assert await ask(session, unused_port, get_bundle(served)) == 200
        async with aiohttp.ClientSession() as session:
            with pytest.raises(aiohttp.ClientConnectorCertificateError):
                await ask(session, unused_port, old)
    both = base64.b64decode(served.configs[1]["caBundle"] or "")
    assert both == alien.pair.certificate + authority.pair.certificate
