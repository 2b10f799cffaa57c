"""A lease on a server in memory, and those who take part in the election by it."""

import asyncio
import contextlib
import copy
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from kopf_cogs.aiokits.clocks import FakeClock
from kopf_cogs.clients.errors import (
    APIConflictError,
    APIConnectionError,
    APINotFoundError,
)
from kopf_cogs.configs.settings import LeasingSettings
from kopf_core.engines.leasing.elector import Cargo, Elector
from kopf_core.engines.leasing.fences import Fence

Hook = Callable[[str], Awaitable[None]]


class Server:
    """One lease, and whatever happens to the requests for it."""

    def __init__(self) -> None:
        self.stored: Any = None
        self.version = 0
        self.requests: list[tuple[str, Any]] = []
        self.before: Hook | None = None
        self.after: Hook | None = None
        self._changed = asyncio.Event()

    def write(self, **spec: Any) -> None:
        """As somebody else does."""
        self._store({"metadata": {"name": "lease"}, "spec": spec})

    @property
    def holder(self) -> str:
        return "" if self.stored is None else self.stored["spec"].get("holderIdentity", "")

    async def get(self, url: str, **_: Any) -> Any:
        return await self._serve("GET", None, self._read)

    async def post(self, url: str, body: Any, **_: Any) -> Any:
        return await self._serve("POST", body, self._create)

    async def put(self, url: str, body: Any, **_: Any) -> Any:
        return await self._serve("PUT", body, self._update)

    async def until(self, check: Callable[[], object]) -> None:
        async with asyncio.timeout(60):
            while not check():
                self._changed.clear()
                await self._changed.wait()

    async def _serve(self, method: str, body: Any, fn: Callable[[Any], Any]) -> Any:
        self.requests.append((method, copy.deepcopy(body)))
        self._changed.set()
        await asyncio.sleep(0)
        if self.before is not None:
            await self.before(method)
        result = copy.deepcopy(fn(body))
        self._changed.set()
        if self.after is not None:
            await self.after(method)
        return result

    def _read(self, _: Any) -> Any:
        if self.stored is None:
            raise APINotFoundError(status=404)
        return self.stored

    def _create(self, body: Any) -> Any:
        if self.stored is not None:
            raise APIConflictError(status=409)
        return self._store(body)

    def _update(self, body: Any) -> Any:
        if self.stored is None:
            raise APINotFoundError(status=404)
        if body["metadata"].get("resourceVersion") != self.stored["metadata"]["resourceVersion"]:
            raise APIConflictError(status=409)
        return self._store(body)

    def _store(self, body: Any) -> Any:
        self.version += 1
        self.stored = copy.deepcopy(body)
        self.stored["metadata"]["resourceVersion"] = str(self.version)
        self._changed.set()
        return self.stored


class Link:
    """The way of one candidate to the server."""

    def __init__(self, server: Server) -> None:
        self.is_cut = False
        self._server = server

    async def get(self, url: str, **kwargs: Any) -> Any:
        return await self._get_server().get(url, **kwargs)

    async def post(self, url: str, body: Any, **kwargs: Any) -> Any:
        return await self._get_server().post(url, body, **kwargs)

    async def put(self, url: str, body: Any, **kwargs: Any) -> Any:
        return await self._get_server().put(url, body, **kwargs)

    def _get_server(self) -> Server:
        if self.is_cut:
            raise APIConnectionError("the network is cut")
        return self._server


class Candidate:
    """An elector, and what it has told of itself."""

    def __init__(
        self,
        server: Server,
        clock: FakeClock,
        identity: str,
        *,
        on_leading: Callable[["Candidate"], Awaitable[None]] | None = None,
        cargo: Cargo | None = None,
        **settings: Any,
    ) -> None:
        self._on_leading, self._server, self.requested = on_leading, server, 0
        leasing = LeasingSettings(name="lease", namespace="ns", retry_period=0.001)
        for key, value in settings.items():
            setattr(leasing, key, value)
        self.link = Link(server)
        self.fence = Fence(clock)
        self.task: asyncio.Task[None] | None = None
        self.led, self.lost = asyncio.Event(), asyncio.Event()
        self.elector = Elector(
            self.link,  # type: ignore[arg-type]
            leasing,
            identity=identity,
            clock=clock,
            fence=self.fence,
            on_leading=self._lead,
            on_following=self._follow,
            cargo=cargo,
        )

    async def _lead(self) -> None:
        self.led.set()
        if self._on_leading is not None:
            await self._on_leading(self)

    async def _follow(self) -> None:
        assert not self.fence.is_open
        assert not self.elector.is_leading
        self.requested = len(self._server.requests)
        self.lost.set()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["Candidate"]:
        self.task = task = asyncio.create_task(self.elector.run())
        try:
            async with asyncio.timeout(60):
                yield self
        finally:
            task.cancel()
            await asyncio.wait([task])
            if not task.cancelled():
                task.result()


@pytest.fixture
async def server() -> Server:
    return Server()


@pytest.fixture
def join(server: Server, clock: FakeClock) -> Callable[..., Any]:
    def join(identity: str = "me", **settings: Any) -> Any:
        return Candidate(server, clock, identity, **settings).running()

    return join
