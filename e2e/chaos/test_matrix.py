"""The matrix: every fault at every kind of requests. Nothing ends the operator, nothing is lost.

Each cell breaks the first few requests of its kind, and then lets the operator work. All the cells
exist in some form: there are no HTTP statuses in the middle of a stream, but there are ERROR events
with their codes; there are no ERROR events out of streams, but their bodies can come in replies;
and logins have no requests of their own, but here they get the token by an HTTP request.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import urllib.error
import urllib.request

import pytest

import kopf
from e2e.chaos.driver.marks import is_handled
from e2e.chaos.driver.oracles import TOKEN
from e2e.chaos.fake.errors import make_status
from e2e.chaos.fake.faults import black_hole, hang_up, refuse, reply_with, reset, stream
from e2e.chaos.fake.journal import PATIENCE, where
from e2e.chaos.fake.server import FakeAPI
from kopf_core.reactor.shape import observation

TIMES = 2
"""How many requests are broken in each cell."""

STATUSES = (401, 403, 404, 410, 429, 500, 503)
HTML = b"<html><body>\n<h1>It works!</h1>\n</body></html>\n"
BAD_JSON = b'{"kind": "List", "items": [}\n'
BAD_UTF8 = b'{"kind": "List", "metadata": {"name": "\xf0\x9f'
SHORT = 1.0
"""In seconds, the time limits of requests and streams in the rows of hanging."""


def make_error_event(code):
    return json.dumps({"type": "ERROR", "object": make_status(code)}).encode() + b"\n"


async def silence(exchange):
    """Begin a reply, and never continue it."""
    await exchange.connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{")
    await black_hole(exchange)


WHOLE = {  # the faults of requests & replies as a whole
    "EOF": hang_up,
    "RST": reset,
    "ERROR event": reply_with(make_error_event(500)),
    "bad JSON": reply_with(BAD_JSON),
    "cut UTF-8": reply_with(BAD_UTF8),
    "HTML": reply_with(HTML, content_type="text/html"),
    **{f"{code}": refuse(code) for code in STATUSES},
    "hang": black_hole,
    "silence": silence,
}

STREAMED = {  # the faults in the middle of streams
    "EOF": stream(),
    "RST": stream(then=reset),
    "ERROR event": stream(make_error_event(500)),
    "bad JSON": stream(BAD_JSON),
    "cut UTF-8": stream(BAD_UTF8),
    "HTML": stream(HTML),
    **{f"{code}": stream(make_error_event(code)) for code in STATUSES},
    "hang": stream(b'{"type": "ADDED", "obj', then=black_hole),
    "silence": stream(then=black_hole),
}

PLACES = {
    "discovery": lambda entry: entry.verb == "discover" and entry.request.path != "/token",
    "list": where("list", "kexes"),
    "next page": where("next", "kexes"),
    "watch start": where("watch", "kexes"),
    "mid-stream": where("watch", "kexes"),
    "patch": where("patch", "kexes", "one"),
    "event post": where("create", "events"),
    "login": lambda entry: entry.request.path == "/token",
}


@pytest.fixture
async def api():
    async with FakeAPI() as api:
        token = json.dumps({"token": TOKEN}).encode()
        api.on(PLACES["login"], reply_with(token))
        api.token = TOKEN
        for name in ("n1", "n2", "n3", "one"):
            api.create(name, spec={"x": 1})
        yield api


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("fault", WHOLE)
async def test_matrix(api, fault, place, monkeypatch):
    # B9: objects that are not found are gone: this is quiet, nothing is repeated until they change.
    is_gone = (fault, place) == ("404", "patch")
    monkeypatch.setattr(observation, "BROKEN_GROUPS_DELAY", 0.1)
    is_short = fault in ("hang", "silence")
    action = (STREAMED if place == "mid-stream" else WHOLE)[fault]
    check = PLACES[place]
    api.on(check, action, times=TIMES)
    calls = []
    async with serve(make_registry(api, calls), make_settings(is_short=is_short)) as operator:
        await api.journal.until(check, count=1 if is_gone else TIMES)
        api.patch({"spec": {"x": 2}})
        if is_gone:
            await api.journal.until(check, count=TIMES)
            api.patch({"spec": {"x": 2.5}})
        for name in ("n1", "n2", "n3", "one"):
            await api.until(is_handled, name)
        await api.journal.until(check, count=TIMES + 1)  # it was tried again
        await api.until_watched()
        api.patch({"spec": {"x": 3}})
        await api.until(is_handled)
        assert not operator.done()
    assert calls[-1] == ("one", 3)
    assert len(calls) == len({*calls})  # the same is never handled twice


def make_registry(api, calls):
    registry = kopf.OperatorRegistry()

    @kopf.on.login(registry=registry, backoff=0.05)
    def login(**_):
        try:
            with urllib.request.urlopen(f"{api.url}/token", timeout=SHORT) as response:
                token = json.load(response)["token"]
        except urllib.error.HTTPError as e:
            e.close()  # it has the connection inside
            raise
        return kopf.ConnectionInfo(server=api.url, token=token)

    @kopf.on.create("kexes", registry=registry)
    @kopf.on.update("kexes", registry=registry)
    def handle(body, name, spec, **_):
        calls.append((name, spec["x"]))
        kopf.info(body, reason="Handled", message="It is handled.")

    return registry


def make_settings(*, is_short):
    settings = kopf.OperatorSettings()
    settings.watching.chunk_size = 2
    settings.watching.reconnect_backoff = 0.01
    settings.queueing.error_delays = [0.05]
    settings.networking.error_backoffs = [0.05] * 10
    settings.posting.default_backoffs = [0.05] * 10
    settings.posting.logging_backoffs = [0.05] * 10
    if is_short:
        settings.watching.inactivity_timeout = SHORT
        settings.watching.connect_timeout = SHORT
        settings.networking.request_timeout = SHORT
    return settings


@contextlib.asynccontextmanager
async def serve(registry, settings):
    """Run an operator in this loop; its errors are raised in the end."""
    stop = asyncio.Event()
    task = asyncio.create_task(
        kopf.operator(
            registry=registry, settings=settings, clusterwide=True, standalone=True, stop_flag=stop
        )
    )
    try:
        yield task
    finally:
        stop.set()
        await asyncio.wait([task], timeout=PATIENCE)
        task.cancel()
    await task
