"""Objects of several versions of a kind, converted by the operator for API servers."""

from __future__ import annotations

import asyncio
import contextlib
import pathlib
import ssl
from collections.abc import AsyncIterator, Collection
from typing import Any

import pytest

import kopf
from e2e.clusters import Cluster
from e2e.tests.convertibles import (
    KIND,
    NO_CONVERSION,
    PLURAL,
    VERSIONS,
    Kind,
    defining,
    until,
)
from e2e.tests.harness import CRDS, GROUP, MERGE, PATIENCE, Answer, World
from kopf_core.intents import decorators as on
from kopf_kits.webhooks import WebhookServer


@pytest.fixture
async def kind(world: World, cluster: Cluster) -> AsyncIterator[Kind]:
    if cluster.name == "emulator":
        pytest.skip("the emulator never converts the objects")
    async with defining(world) as kind:
        yield kind


@pytest.mark.timeout(600)
async def test_n8_objects_are_the_same_in_all_versions(kind: Kind) -> None:
    """Also those stored before the conversions were there; also ten at once; also later."""
    world = kind.world
    await world.request("POST", kind.path("v1beta1"), kind.make("v1beta1", 1))

    @on.create(f"{GROUP}/v1", PLURAL, registry=world.registry)
    async def created(name: str, spec: Any, **_: Any) -> None:
        if "replicas" not in spec:  # the server has not taken up the conversion of this kind yet
            raise kopf.TemporaryError("It is not converted.", delay=0.1)
        world.calls((name, spec["replicas"]))

    async with kind.serving():
        for number in range(2, 13):
            version = VERSIONS[number % 3]
            await world.request("POST", kind.path(version), kind.make(version, number))
        for version in VERSIONS:
            specs = await asyncio.gather(*(kind.read(version, n) for n in range(1, 13)))
            assert specs == [kind.make(version, n)["spec"] for n in range(1, 13)]
        await world.calls.until(lambda calls: len({*calls}) == 12)
        assert {*world.calls} == {(f"obj-{n}", n) for n in range(1, 13)}
        patch = {"spec": {"kept": {"a": ["changed"]}}}
        await world.request("PATCH", kind.path("v1alpha1", "obj-1"), patch, MERGE)
        assert await kind.read("v1", 1) == {"replicas": 1, "kept": {"a": ["changed"]}}
    assert await kind.is_configured()
    assert await kind.read("v1beta1", 2) == kind.make("v1beta1", 2)["spec"]
    async with kind.serving():  # at another port
        page = await world.request("GET", kind.path("v1"))
        assert {item["spec"]["replicas"] for item in page["items"]} == {*range(1, 13)}
        await world.request(
            "PATCH", f"{CRDS}/{KIND}", {"spec": {"conversion": NO_CONVERSION}}, MERGE
        )
        await until(kind.is_configured)


@pytest.mark.long
@pytest.mark.timeout(900)
async def test_n10_nothing_is_lost_while_certificates_are_swapped_and_operators_restart(
    world: World, cluster: Cluster, tmp_path: pathlib.Path
) -> None:
    """Ten clients read and write objects of all versions all the time; each its own object.

    While the certificate is swapped, no request fails. While there is no operator, they do.
    """
    if cluster.name == "emulator":
        pytest.skip("the emulator never converts the objects")
    certificate = Certificate(tmp_path)
    async with defining(world, certificate.server) as kind:
        clients = [Client(kind, number) for number in range(1, 11)]
        async with kind.serving():
            for client in clients:
                version = VERSIONS[client.number % 3]
                await world.request("POST", kind.path(version), kind.make(version, client.number))
            async with working(clients):
                port = await certificate.get_port(kind)
                before = await asyncio.to_thread(ssl.get_server_certificate, port)
                certificate.renew()

                async def is_swapped() -> bool:
                    return await asyncio.to_thread(ssl.get_server_certificate, port) != before

                await until(is_swapped)
                await meet(clients, rounds=2)
        assert [client.failures for client in clients] == [[]] * len(clients)
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(3):
                async with kind.serving():
                    if clients[0].task is None:
                        await stack.enter_async_context(working(clients))
                    await meet(clients, rounds=2)
            async with kind.serving():
                await meet(clients, rounds=2)
                await stack.aclose()
                for client in clients:
                    for version in VERSIONS:
                        assert await client.read(version) == client.show(version)
        assert any(client.failures for client in clients), "The operator has never been away."


class Certificate:
    """Files with the certificate of the webhook server."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._certfile, self._pkeyfile = folder / "cert.pem", folder / "key.pem"
        self.renew()
        self.server = WebhookServer(
            addr="127.0.0.1", certfile=self._certfile, pkeyfile=self._pkeyfile,
            cafile=self._certfile, file_check_interval=8,
        )  # fmt: skip

    def renew(self) -> None:
        certificate, key = WebhookServer.build_certificate(["127.0.0.1"])
        self._pkeyfile.write_bytes(key)
        self._certfile.write_bytes(certificate)

    async def get_port(self, kind: Kind) -> tuple[str, int]:
        definition = await kind.world.request("GET", f"{CRDS}/{KIND}")
        url = definition["spec"]["conversion"]["webhook"]["clientConfig"]["url"]
        return "127.0.0.1", int(url.split(":")[2].split("/")[0])


class Client:
    """Somebody who counts in an object, in one version after another, and verifies it each time."""

    def __init__(self, kind: Kind, number: int) -> None:
        self.kind = kind
        self.number = number
        self.count = 0
        self.rounds = 0
        self.failures: list[Answer] = []
        self.task: asyncio.Task[None] | None = None
        self.progress = asyncio.Event()

    async def run(self) -> None:
        while True:
            for version in VERSIONS:
                written = await self.write(version)
                assert written == self.show(version)
                others = [name for name in VERSIONS if name != version]
                for other in others:
                    assert await self.read(other) == self.show(other)
            self.rounds += 1
            self.progress.set()

    def show(self, version: str) -> Any:
        spec = self.kind.make(version, self.number)["spec"]
        return {**spec, "kept": {"a": [self.number], "count": self.count}}

    async def write(self, version: str) -> Any:
        """The same count again, until it is confirmed: the failed request can be fulfilled, too."""
        self.count += 1
        patch = {"spec": {"kept": {"count": self.count}}}
        return await self._repeat("PATCH", version, patch, MERGE)

    async def read(self, version: str) -> Any:
        return await self._repeat("GET", version)

    async def _repeat(self, method: str, version: str, *args: Any) -> Any:
        path = self.kind.path(version, f"obj-{self.number}")
        while True:
            answer = await self.kind.world.attempt(method, path, *args)
            if answer.status == 200:
                assert answer.body["apiVersion"] == f"{GROUP}/{version}"
                assert answer.body["metadata"]["labels"] == {"n": str(self.number)}
                return answer.body["spec"]
            assert answer.status == 500, answer
            assert "conversion webhook" in answer.body["message"], answer
            self.failures.append(answer)
            await asyncio.sleep(0.05)  # nobody tells when the operator is back


@contextlib.asynccontextmanager
async def working(clients: Collection[Client]) -> AsyncIterator[None]:
    for client in clients:
        client.task = asyncio.create_task(client.run())
    try:
        yield
    finally:
        for client in clients:
            assert client.task is not None
            client.task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await client.task
            client.task = None
            client.count = (await client.read("v1"))["kept"]["count"]


async def meet(clients: Collection[Client], *, rounds: int) -> None:
    """Wait until each of them has done so many more rounds; or one of them has failed."""
    for client in clients:
        goal = client.rounds + rounds
        assert client.task is not None
        while client.rounds < goal:
            client.progress.clear()
            waiter = asyncio.create_task(client.progress.wait())
            async with asyncio.timeout(PATIENCE):
                await asyncio.wait([client.task, waiter], return_when=asyncio.FIRST_COMPLETED)
            waiter.cancel()
            if client.task.done():
                client.task.result()
