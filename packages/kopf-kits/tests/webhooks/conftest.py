import asyncio
import contextlib
import pathlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import aiohttp
import pytest
from free_ports import find_free_port

from kopf_cogs.structs.reviews import ReviewError, WebhookClientConfig
from kopf_kits.certificates import Authority, Pair
from kopf_kits.webhooks import WebhookContextManager, WebhookServer

REVIEW = {"request": {"uid": "uid1"}}


class Handlers:
    """What the operator does with reviews; it remembers the arguments."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[dict[str, Any]] = []
        self.error: Exception | None = None
        self.extra: dict[str, Any] = {}
        self.is_leaving = False
        self.gate = asyncio.Event()
        self.gate.set()
        self.called = asyncio.Event()

    async def __call__(
        self,
        request: Any,
        *,
        webhook: str | None = None,
        headers: Mapping[str, str] | None = None,
        sslpeer: Mapping[str, Any] | None = None,
    ) -> Any:
        call = {"request": request, "webhook": webhook, "headers": headers, "sslpeer": sslpeer}
        self.calls.append(call)
        self.called.set()
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        if not isinstance(request.get("request"), dict) or "uid" not in request["request"]:
            raise ReviewError("There is no request in the review.")
        response = {"uid": request["request"]["uid"], "allowed": True} | self.extra
        return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"} | {
            "response": response
        }


class Served:
    """A server that runs in the background; its configs are collected."""

    def __init__(self, server: Any, handlers: Handlers) -> None:
        super().__init__()
        self.server = server
        self.handlers = handlers
        self.configs: list[WebhookClientConfig] = []
        self.applied: Callable[[], Awaitable[None]] | None = None
        """What is waited for after each of the configs, as when it is sent to the API."""

        self._changed = asyncio.Condition()

    async def run(self) -> None:
        async for config in self.server(self.handlers):
            async with self._changed:
                self.configs.append(config)
                self._changed.notify_all()
            if self.applied is not None:
                await self.applied()

    async def wait(self, count: int) -> WebhookClientConfig:
        """Wait for so many configs, and return the last one."""
        async with self._changed:
            await self._changed.wait_for(lambda: len(self.configs) >= count)
            return self.configs[count - 1]

    @property
    def url(self) -> str:
        return str(self.configs[-1]["url"])


Serve = Callable[[Any], contextlib.AbstractAsyncContextManager[Served]]


@pytest.fixture
def handlers() -> Handlers:
    return Handlers()


@pytest.fixture
def serve(handlers: Handlers) -> Serve:
    @contextlib.asynccontextmanager
    async def fn(server: WebhookContextManager) -> AsyncIterator[Served]:
        async with server as entered:
            served = Served(entered, handlers)
            task = asyncio.create_task(served.run())
            first = asyncio.create_task(served.wait(1))
            try:
                await asyncio.wait({task, first}, return_when=asyncio.FIRST_COMPLETED)
                if task.done():
                    task.result()
                yield served
            finally:
                for each in (task, first):
                    each.cancel()
                await asyncio.gather(task, first, return_exceptions=True)

    return fn


@pytest.fixture
async def insecure(serve: Serve) -> AsyncIterator[Served]:
    async with serve(WebhookServer(addr="127.0.0.1", insecure=True)) as served:
        yield served


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


@pytest.fixture
def unused_port() -> int:
    return find_free_port()


@pytest.fixture(scope="session")
def authority(cryptography: None) -> Authority:
    return Authority("Some CA")


@pytest.fixture(scope="session")
def alien(cryptography: None) -> Authority:
    return Authority("Another CA")


def write_pair(folder: pathlib.Path, pair: Pair, name: str = "tls") -> tuple[str, str]:
    """Write the files as cert-manager names them; returns their paths."""
    (folder / f"{name}.crt").write_bytes(pair.certificate)
    (folder / f"{name}.key").write_bytes(pair.key)
    return str(folder / f"{name}.crt"), str(folder / f"{name}.key")


def make_client_context(ca: bytes | None, *files: str) -> ssl.SSLContext:
    """The TLS of a client which trusts this CA only, and has these certificate & key."""
    context = ssl.create_default_context(cadata=None if ca is None else ca.decode())
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    if files:
        context.load_cert_chain(*files)
    return context
