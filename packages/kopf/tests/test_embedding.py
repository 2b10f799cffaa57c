"""Operators inside of other applications, each way of it, on the local API.

Whatever happens to the operator, the tasks of the application in the same loop are left alone.
"""

import asyncio
import concurrent.futures
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import aiohttp.test_utils
import aiohttp.web
import fastapi
import pytest

import kopf
from kopf_kits.sandbox import Sandbox, SandboxThread

pytestmark = pytest.mark.docs("embedding")
EXAMPLES = Path(__file__).parents[3] / "examples"
BODY = {"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": {"name": "one"}}


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    async with Sandbox() as sandbox:
        await sandbox.apply(EXAMPLES / "crd.yaml")
        yield sandbox


class Embedded:
    """An operator to be embedded, and what is seen of its life from outside."""

    def __init__(self, url: str, title: str = "it") -> None:
        self.registry = kopf.OperatorRegistry()
        self.events: list[str] = []
        self.ready = asyncio.Event()
        self.stop = asyncio.Event()
        self.title = title
        self._declare(url)

    def _declare(self, url: str) -> None:
        @kopf.on.login(registry=self.registry)
        def login(**_: Any) -> Any:
            return kopf.ConnectionInfo(server=url)

        @kopf.on.cleanup(registry=self.registry)
        async def cleanup(**_: Any) -> None:
            self.events.append("cleanup")

        @kopf.on.create("kopfexamples", id="create_fn", registry=self.registry)
        async def create_fn(name: str, **_: Any) -> str:
            self.events.append(name)
            return self.title

    @property
    def options(self) -> dict[str, Any]:
        flags = {"ready_flag": self.ready, "stop_flag": self.stop}
        return {"registry": self.registry, "clusterwide": True, **flags}


class Host:
    """Tasks of an application in the same loop: one works, one waits."""

    def __init__(self) -> None:
        self.ticked = asyncio.Event()
        self.before = asyncio.all_tasks()
        self.tasks = [asyncio.create_task(self._tick()), asyncio.create_task(self._wait())]

    async def _tick(self) -> None:
        while True:
            self.ticked.set()
            await asyncio.sleep(0)

    async def _wait(self) -> None:
        await asyncio.Event().wait()

    async def check_alone(self) -> None:
        """Nobody has touched these tasks, and nobody has left others, or connections."""
        self.ticked.clear()
        await self.ticked.wait()
        assert not any(task.done() or task.cancelling() for task in self.tasks)
        left = asyncio.all_tasks() - self.before - {*self.tasks, asyncio.current_task()}
        names = [task.get_coro().__qualname__ for task in left]
        assert all(name.startswith("RequestHandler.") for name in names), names
        if left:  # the server ends them when it sees that their connections are closed
            _, left = await asyncio.wait(left, timeout=30)
        assert not left


@pytest.fixture
async def host() -> AsyncIterator[Host]:
    host = Host()
    yield host
    for task in host.tasks:
        task.cancel()
    await asyncio.wait(host.tasks)


async def see_it_working(sandbox: Sandbox, title: str = "it") -> None:
    await sandbox.apply(BODY)
    await sandbox.wait("kopfexamples", "one", jsonpath="{.status.create_fn}", value=title)


async def test_f3_a_task_is_stopped_by_its_flag(sandbox: Sandbox, host: Host) -> None:
    embedded = Embedded(sandbox.url)
    task = asyncio.create_task(kopf.operator(**embedded.options))
    await embedded.ready.wait()
    await see_it_working(sandbox)
    embedded.stop.set()
    await task
    assert embedded.events == ["one", "cleanup"]
    await host.check_alone()


async def test_f3_a_task_is_stopped_by_cancelling(sandbox: Sandbox, host: Host) -> None:
    embedded = Embedded(sandbox.url)
    task = asyncio.create_task(kopf.operator(**embedded.options))
    await see_it_working(sandbox)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert embedded.events == ["one", "cleanup"]
    await host.check_alone()


async def test_f3_a_failed_operator_fails_alone(sandbox: Sandbox, host: Host) -> None:
    embedded = Embedded(sandbox.url)

    @kopf.on.startup(registry=embedded.registry)
    async def startup(**_: Any) -> None:
        raise kopf.PermanentError("not today")

    with pytest.raises(Exception, match="not today"):
        await kopf.operator(**embedded.options)
    await host.check_alone()


async def test_f3_tasks_are_spawned_and_run_by_the_host(sandbox: Sandbox, host: Host) -> None:
    embedded = Embedded(sandbox.url)
    tasks = await kopf.spawn_tasks(**embedded.options)
    running = asyncio.create_task(kopf.run_tasks(tasks))
    await see_it_working(sandbox)
    embedded.stop.set()
    await running
    assert embedded.events == ["one", "cleanup"]
    await host.check_alone()


async def test_f3_spawned_tasks_are_stopped_by_cancelling(sandbox: Sandbox, host: Host) -> None:
    embedded = Embedded(sandbox.url)
    running = asyncio.create_task(kopf.run_tasks(await kopf.spawn_tasks(**embedded.options)))
    await see_it_working(sandbox)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert embedded.events == ["one", "cleanup"]
    await host.check_alone()


async def test_f3_a_failed_neighbour_in_a_group_stops_the_operator_properly(
    sandbox: Sandbox, host: Host
) -> None:
    embedded, failing = Embedded(sandbox.url), asyncio.Event()

    async def neighbour() -> None:
        await failing.wait()
        raise ValueError("something of the application")

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(kopf.operator(**embedded.options))
            group.create_task(neighbour())

    task = asyncio.create_task(main())
    await see_it_working(sandbox)
    failing.set()
    with pytest.raises(ExceptionGroup) as info:
        await task
    assert info.group_contains(ValueError, match="something of the application")
    assert len(info.value.exceptions) == 1
    assert embedded.events == ["one", "cleanup"]
    await host.check_alone()


async def test_f4_operators_run_one_after_another(sandbox: Sandbox, host: Host) -> None:
    embedded = Embedded(sandbox.url)
    for name in ("one", "two"):
        embedded.stop.clear()
        task = asyncio.create_task(kopf.operator(**embedded.options))
        await sandbox.apply({**BODY, "metadata": {"name": name}})
        await sandbox.wait("kopfexamples", name, jsonpath="{.status.create_fn}")
        embedded.stop.set()
        await task
    assert embedded.events == ["one", "cleanup", "two", "cleanup"]
    await host.check_alone()


async def test_f4_several_operators_are_stopped_one_by_one(sandbox: Sandbox, host: Host) -> None:
    first, second = Embedded(sandbox.url, "first"), Embedded(sandbox.url, "second")
    tasks = [asyncio.create_task(kopf.operator(**each.options)) for each in (first, second)]
    await asyncio.gather(first.ready.wait(), second.ready.wait())
    first.stop.set()
    await tasks[0]
    await see_it_working(sandbox, "second")
    second.stop.set()
    await tasks[1]
    assert (first.events, second.events) == (["cleanup"], ["one", "cleanup"])
    await host.check_alone()


async def test_f3_operators_live_as_long_as_aiohttp_applications(
    sandbox: Sandbox, host: Host
) -> None:
    embedded = Embedded(sandbox.url)

    async def operator(_: aiohttp.web.Application) -> AsyncIterator[None]:
        task = asyncio.create_task(kopf.operator(**embedded.options))
        yield
        embedded.stop.set()
        await task

    async def index(_: aiohttp.web.Request) -> aiohttp.web.Response:
        return aiohttp.web.Response(text=",".join(embedded.events))

    app = aiohttp.web.Application()
    app.cleanup_ctx.append(operator)
    app.router.add_get("/", index)
    async with aiohttp.test_utils.TestClient(aiohttp.test_utils.TestServer(app)) as client:
        await see_it_working(sandbox)
        assert await (await client.get("/")).text() == "one"
    assert embedded.events == ["one", "cleanup"]
    await host.check_alone()


async def test_f3_operators_live_as_long_as_fastapi_applications(
    sandbox: Sandbox, host: Host
) -> None:
    embedded = Embedded(sandbox.url)

    @asynccontextmanager
    async def lifespan(_: fastapi.FastAPI) -> AsyncIterator[None]:
        task = asyncio.create_task(kopf.operator(**embedded.options))
        yield
        embedded.stop.set()
        await task

    app = fastapi.FastAPI(lifespan=lifespan)

    @app.get("/")
    async def index() -> list[str]:
        return embedded.events

    async with served(app) as get:
        await see_it_working(sandbox)
        assert await get("/") == b'["one"]'
    assert embedded.events == ["one", "cleanup"]
    await host.check_alone()


@asynccontextmanager
async def served(app: fastapi.FastAPI) -> AsyncIterator[Callable[[str], Awaitable[bytes]]]:
    """What servers do with applications by the protocol of ASGI, with no server."""
    to_app: asyncio.Queue[Any] = asyncio.Queue()
    from_app: asyncio.Queue[Any] = asyncio.Queue()
    scope = {"type": "lifespan", "asgi": {"version": "3.0"}}
    lifespan = asyncio.create_task(app(scope, to_app.get, from_app.put))

    async def get(path: str) -> bytes:
        sent: list[Any] = []

        async def receive() -> Any:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        request = {
            "type": "http",
            "method": "GET",
            "path": path,
            "headers": [],
            "query_string": b"",
        }
        await app({**request, "asgi": scope["asgi"], "http_version": "1.1"}, receive, send)
        return b"".join(message.get("body", b"") for message in sent)

    await to_app.put({"type": "lifespan.startup"})
    assert (await from_app.get())["type"] == "lifespan.startup.complete"
    yield get
    await to_app.put({"type": "lifespan.shutdown"})
    assert (await from_app.get())["type"] == "lifespan.shutdown.complete"
    await lifespan


# Applications with no asyncio: the operator is in a thread, or the thread is its own.


@contextmanager
def sandbox_in_thread() -> Iterator[SandboxThread]:
    with SandboxThread() as sandbox:
        sandbox.apply(EXAMPLES / "crd.yaml")
        sandbox.apply(BODY)
        yield sandbox


@pytest.mark.parametrize("loop", ["none", "own", "debug", "uvloop"])
def test_f5_threads_are_stopped_by_flags(loop: str) -> None:
    with sandbox_in_thread() as sandbox:
        embedded = Embedded(sandbox.url)
        ready, stop = threading.Event(), threading.Event()
        options = embedded.options | {"ready_flag": ready, "stop_flag": stop}
        if loop != "none":
            module = pytest.importorskip("uvloop") if loop == "uvloop" else asyncio
            options["loop"] = module.new_event_loop()
            options["loop"].set_debug(loop == "debug")
        thread = threading.Thread(target=kopf.run, kwargs=options)
        thread.start()
        ready.wait()
        sandbox.wait("kopfexamples", "one", jsonpath="{.status.create_fn}")
        stop.set()
        thread.join()
        if loop != "none":
            assert not options["loop"].is_closed()  # it is not the operator's
            assert not asyncio.all_tasks(options["loop"])
            options["loop"].close()
    assert embedded.events == ["one", "cleanup"]


def test_f4_operators_in_several_threads_do_not_know_each_other() -> None:
    with sandbox_in_thread() as sandbox:
        operators = [Embedded(sandbox.url, title) for title in ("first", "second")]
        first, second = (each.options | {"stop_flag": threading.Event()} for each in operators)
        threads = []
        for options in (first, second):
            options["ready_flag"] = threading.Event()
            threads.append(threading.Thread(target=kopf.run, kwargs=options))
            threads[-1].start()
            options["ready_flag"].wait()
        first["stop_flag"].set()
        threads[0].join()
        sandbox.apply({**BODY, "metadata": {"name": "two"}})
        sandbox.wait("kopfexamples", "two", jsonpath="{.status.create_fn}", value="second")
        second["stop_flag"].set()
        threads[1].join()
    assert [each.events[-1] for each in operators] == ["cleanup", "cleanup"]
    assert "two" in operators[1].events
    assert "two" not in operators[0].events


FUTURES: dict[str, Callable[[], Any]] = {
    "asyncio": lambda: asyncio.get_running_loop().create_future(),
    "threads": lambda: concurrent.futures.Future(),
}


@pytest.mark.parametrize("kind", FUTURES)
def test_f5_futures_stop_operators_in_their_own_loops(kind: str) -> None:
    with sandbox_in_thread() as sandbox:
        embedded = Embedded(sandbox.url)

        async def main() -> None:
            stop = FUTURES[kind]()
            asyncio.get_running_loop().call_soon(stop.set_result, None)
            await kopf.operator(**embedded.options | {"stop_flag": stop})

        asyncio.run(main())
    assert embedded.events[-1:] == ["cleanup"]


async def test_f5_events_of_threads_stop_operators_in_loops(sandbox: Sandbox, host: Host) -> None:
    embedded, stop = Embedded(sandbox.url), threading.Event()
    task = asyncio.create_task(kopf.operator(**embedded.options | {"stop_flag": stop}))
    await see_it_working(sandbox)
    threading.Thread(target=stop.set).start()
    await task
    assert embedded.events == ["one", "cleanup"]


async def test_f5_running_in_a_running_loop_is_refused(sandbox: Sandbox, host: Host) -> None:
    with pytest.raises(RuntimeError, match=r"await kopf\.operator"):
        kopf.run(**Embedded(sandbox.url).options)
    await host.check_alone()
