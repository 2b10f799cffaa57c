"""The health endpoint: what handlers report, over real HTTP."""

import asyncio
import contextlib
import socket
import threading

import aiohttp
import pytest
from free_ports import find_free_port
from idleness import quiet, until

from kopf_cogs.aiokits import listeners
from kopf_cogs.structs.memos import Memo
from kopf_core.actions.errors import PermanentError
from kopf_core.engines import probing
from kopf_core.engines.activities import ActivityRunner
from kopf_core.engines.listening import ListeningError
from kopf_core.engines.probing import CACHE_TIME, FAILURE_CACHE_TIME, serve_probes
from kopf_core.intents import decorators as on


@pytest.fixture
def serve(settings, registry, clock):
    @contextlib.asynccontextmanager
    async def serve(path="/healthz", find_problems=tuple, port=None):
        url = f"http://127.0.0.1:{port or find_free_port()}{path}"
        runner = ActivityRunner(settings, Memo(), {}, clock)
        task = asyncio.create_task(serve_probes(url, registry, runner, find_problems))

        async def get(suffix=""):
            async with aiohttp.ClientSession() as session:
                while True:
                    try:
                        async with session.get(url + suffix) as response:
                            text = await response.text()
                            return response.status, text
                    except aiohttp.ClientConnectorError:
                        if task.done():
                            task.result()
                        await asyncio.sleep(0)

        try:
            yield get
        finally:
            task.cancel()
            await asyncio.wait([task])

    return serve


@pytest.mark.docs("probes")
async def test_results_are_reported_by_ids(serve, registry):
    on.probe(id="now", registry=registry)(lambda **_: "value")
    on.probe(id="nothing", registry=registry)(lambda **_: None)
    async with serve() as get:
        assert await get() == (200, '{"now": "value"}')


@pytest.mark.docs("probes")
async def test_no_handlers_mean_alive(serve):
    async with serve() as get:
        assert await get() == (200, "{}")
        assert (await get("/other"))[0] == 404


async def test_results_that_are_not_json_are_shown_as_text(serve, registry):
    on.probe(id="it", registry=registry)(
        lambda **_: {
            1,
        }
    )
    async with serve() as get:
        assert await get() == (200, '{"it": "{1}"}')


@pytest.mark.docs("probes")
@pytest.mark.parametrize("exc", [PermanentError, ValueError])
async def test_f7_failing_handlers_are_failing_probes(serve, registry, exc):
    @on.probe(id="bad", registry=registry)
    def bad(**_):
        raise exc("boom")

    async with serve() as get:
        status, text = await get()
    assert status == 500
    assert "bad" in text
    assert "boom" not in text  # whoever reaches the port, needs no rights for the log


async def test_f7_many_probes_are_cheap(serve, registry, clock):
    calls = []
    on.probe(id="it", registry=registry)(lambda **_: calls.append(1))
    async with serve() as get:
        await get()
        for _ in range(20):  # not all at once: there can be few descriptors of files for a process
            assert {*await asyncio.gather(*(get() for _ in range(50)))} == {(200, "{}")}
        assert len(calls) == 1
        clock.advance(CACHE_TIME)
        await get()
        assert len(calls) == 2


@pytest.mark.parametrize("endpoint", ["https://localhost:1/x", "http://localhost/", "garbage"])
async def test_wrong_endpoints_are_errors(registry, settings, endpoint):
    with pytest.raises(ValueError, match=r"http://host:port/path"):
        await serve_probes(endpoint, registry, ActivityRunner(settings, Memo(), {}))


async def test_busy_ports_are_errors_of_one_line(registry, settings):
    with socket.create_server(("127.0.0.1", 0)) as busy:
        endpoint = f"http://127.0.0.1:{busy.getsockname()[1]}/healthz"
        with pytest.raises(ListeningError) as excinfo:
            await serve_probes(endpoint, registry, ActivityRunner(settings, Memo(), {}))
    assert str(excinfo.value) == f"Cannot serve the probes at {endpoint}: address already in use"


@pytest.mark.parametrize("turns", range(6))
async def test_connections_of_the_last_moment_are_closed(serve, turns):
    port = find_free_port()
    async with serve(port=port) as get:
        await get()
        client = socket.create_connection(("127.0.0.1", port), timeout=10)
        for _ in range(turns):
            await asyncio.sleep(0)
    with client, contextlib.suppress(ConnectionResetError):  # it is so if never accepted
        assert await asyncio.to_thread(client.recv, 1) == b""


async def test_f7_stale_streams_are_failing_probes(serve, registry):
    stale = ["pods in ns"]
    async with serve(find_problems=lambda: stale) as get:
        status, text = await get()
        assert status == 503
        assert "pods in ns" in text
        stale.clear()
        assert await get() == (200, "{}")


async def test_f7_failures_are_cheap_too_but_recover_soon(serve, registry, clock):
    calls = []

    @on.probe(id="probe", registry=registry)
    def probe(**_):
        calls.append(1)
        if len(calls) == 1:
            raise Exception("boom")
        return "fine"

    async with serve() as get:
        statuses = {status for status, _ in await asyncio.gather(*(get() for _ in range(50)))}
        assert (statuses, len(calls)) == ({500}, 1)
        clock.advance(FAILURE_CACHE_TIME)
        assert await get() == (200, '{"probe": "fine"}')


@pytest.mark.parametrize("is_sync", [False, True], ids=["async", "sync"])
async def test_f7_hanging_handlers_are_failing_probes_and_hold_nothing(
    serve, registry, monkeypatch, is_sync
):
    monkeypatch.setattr(probing, "PATIENCE", 0.05)
    gate = threading.Event()

    def sync_fn(**_):
        gate.wait(60)

    async def async_fn(**_):
        if not gate.is_set():
            await asyncio.Event().wait()

    on.probe(id="it", registry=registry)(sync_fn if is_sync else async_fn)
    async with serve() as get:
        try:
            for _ in range(3):
                assert await get() == (500, '{"error": "The probe handlers hang."}')
        finally:
            gate.set()
        monkeypatch.setattr(probing, "PATIENCE", 60)
        assert await get() == (200, "{}")


async def test_r20_results_that_cannot_be_shown(serve, registry):
    class Evil:
        def __str__(self):
            raise SystemExit(1)

        __repr__ = __str__

    on.probe(id="evil", registry=registry)(lambda **_: Evil())
    async with serve() as get:
        status, text = await get()
        assert status == 500
        assert "SystemExit" in text


async def test_k18_half_open_requests_are_limited_in_number(serve, monkeypatch):
    monkeypatch.setattr(listeners, "MAX_CONNECTIONS", 5)
    port = find_free_port()
    async with serve(port=port) as get:
        assert (await get())[0] == 200
        opened = []
        for _ in range(20):
            opened.append(await asyncio.open_connection("127.0.0.1", port))
            opened[-1][1].write(b"GET /healthz HTTP/1.1\r\nHost: ")
        async with asyncio.timeout(60):
            for reader, _ in opened[:15]:
                assert await reader.read() == b""
            assert (await get())[0] == 200
        assert not opened[-1][0].at_eof()
        for _, writer in opened:
            writer.close()


@pytest.mark.parametrize("data", [b"", b"GET /healthz HTTP/1.1\r\nHost: "])
async def test_k18_half_open_requests_are_limited_in_time(serve, monkeypatch, data):
    monkeypatch.setattr(listeners, "SILENCE_TIMEOUT", 0.01)
    port = find_free_port()
    async with serve(port=port) as get:
        assert (await get())[0] == 200
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(data)
        async with asyncio.timeout(60):
            try:
                assert await reader.read() == b""
            except ConnectionResetError:  # it was closed before it had read all of the data
                pass
        writer.close()


@pytest.mark.parametrize(("method", "status"), [("HEAD", 200), ("POST", 405), ("OPTIONS", 405)])
async def test_k18_only_reading_is_served(serve, method, status):
    port = find_free_port()
    async with serve(port=port) as get, aiohttp.ClientSession() as session:
        assert (await get())[0] == 200
        assert (await get("/else"))[0] == 404
        async with session.request(method, f"http://127.0.0.1:{port}/healthz") as response:
            assert response.status == status


async def test_k18_requests_sent_ahead_are_not_answered(serve):
    port = find_free_port()
    async with serve(port=port) as get:
        assert (await get())[0] == 200
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" * 10)
        async with asyncio.timeout(60):
            assert (await reader.read()).count(b"HTTP/1.1") == 1
        writer.close()


async def send_probe(port):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    return reader, writer


async def test_k18_hanging_probes_do_not_hold_all_places(serve, registry, monkeypatch):
    monkeypatch.setattr(listeners, "MAX_CONNECTIONS", 5)
    on.probe(id="it", registry=registry)(lambda **_: asyncio.Event().wait())
    port = find_free_port()
    async with serve(port=port) as get:
        assert (await get("/else"))[0] == 404
        opened = [await send_probe(port) for _ in range(20)]
        async with asyncio.timeout(60):
            for reader, _ in opened[:15]:
                assert await reader.read() == b""
            assert (await get("/else"))[0] == 404
        assert not opened[-1][0].at_eof()
        for _, writer in opened:
            writer.close()


async def test_k18_probes_of_the_same_time_share_one_call_of_the_handlers(serve, registry):
    calls, gate = [], asyncio.Event()

    @on.probe(id="it", registry=registry)
    async def probe(**_):
        calls.append("begun")
        await gate.wait()
        calls.append("ended")

    port = find_free_port()
    async with serve(port=port) as get:
        assert (await get("/else"))[0] == 404
        _, writer = await send_probe(port)
        await until(lambda: calls)
        asking = asyncio.create_task(get())
        await quiet()
        writer.transport.abort()
        await quiet()
        gate.set()
        async with asyncio.timeout(60):
            assert await asking == (200, "{}")
    assert calls == ["begun", "ended"]


async def test_k18_handlers_are_stopped_when_nobody_waits_for_them(serve, registry):
    stopped = asyncio.Event()

    @on.probe(id="it", registry=registry)
    async def probe(**_):
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    port = find_free_port()
    async with serve(port=port) as get:
        assert (await get("/else"))[0] == 404
        _, writer = await send_probe(port)
        await quiet()
        writer.transport.abort()
        async with asyncio.timeout(60):
            await stopped.wait()
