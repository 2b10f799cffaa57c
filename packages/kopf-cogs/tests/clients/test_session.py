import asyncio
import gzip
import json
import logging

import aiohttp
import pytest

from kopf_cogs.clients import errors
from kopf_cogs.clients.session import Client
from kopf_cogs.clients.slots import LIMIT
from kopf_cogs.clients.vault import Vault
from kopf_cogs.structs.credentials import AiohttpSession, ConnectionInfo, Impersonation, LoginError


async def test_json_is_decoded_and_headers_are_sent(server, client):
    server.script(server.reply({"hello": "world"}))
    assert await client.get("/path", params={"a": "b c"}) == {"hello": "world"}
    (request,) = server.requests
    assert (request.method, request.path, request.query) == ("GET", "/path", {"a": "b c"})
    assert request.headers["Authorization"] == "Bearer secret"
    assert request.headers["User-Agent"].startswith("kopf/")
    assert request.headers["Accept"] == "application/json"
    assert "Cookie" not in request.headers


@pytest.mark.parametrize("method", ["post", "put"])
async def test_payloads_are_sent_as_json(server, client, method):
    server.script(server.reply({}))
    await getattr(client, method)("/path", {"x": "й"})
    assert server.requests[0].method == method.upper()
    assert server.requests[0].body == '{"x":"й"}'.encode()
    assert server.requests[0].headers["Content-Type"] == "application/json"


async def test_patches_have_their_content_types(server, client):
    server.script(server.reply({}))
    await client.patch("/path", [1], content_type="application/json-patch+json")
    assert server.requests[0].headers["Content-Type"] == "application/json-patch+json"
    assert server.requests[0].json == [1]


async def test_empty_responses_are_none(server, client):
    server.script(server.reply(b""))
    assert await client.delete("/path") is None


async def test_connections_are_reused(server, client):
    server.script(server.reply({}), server.reply({}))
    await client.get("/1")
    await client.get("/2")
    connector = client._pool.connections[0].session.connector
    assert sum(len(pool) for pool in connector._conns.values()) == 1


@pytest.mark.parametrize(
    "fields", [{"token": "a\r\nX: 1"}, {"token": "a\0b"}, {"scheme": "B\n", "token": "x"}]
)
async def test_b17_headers_cannot_be_injected_with_tokens(server, settings, fields):
    """E.g. with those printed by exec plugins. It is as any other unusable credentials."""
    async with Client(ConnectionInfo(server=server.url, **fields), settings) as client:
        with pytest.raises(LoginError, match="control characters in the token"):
            await client.get("/")


async def test_cookies_are_not_kept(server, client):
    server.script(server.reply({}, headers={"Set-Cookie": "a=b"}), server.reply({}))
    await client.get("/1")
    await client.get("/2")
    assert "Cookie" not in server.requests[1].headers


async def test_servers_with_paths_and_slashes(server, settings):
    server.script(server.reply({}))
    async with Client(ConnectionInfo(server=f"{server.url}/k8s/c-1/"), settings) as client:
        await client.get("/api")
    assert server.requests[0].path == "/k8s/c-1/api"


async def test_c22_escaped_urls_are_sent_as_they_are(server, client):
    server.script(server.reply({}))
    await client.get("/api/v1/a%3Fx=1%20%23b%2F")
    assert server.requests[0].path == "/api/v1/a%3Fx=1%20%23b%2F"


@pytest.mark.parametrize(
    ("status", "cls"),
    [
        (400, errors.APIClientError),
        (401, errors.APIUnauthorizedError),
        (403, errors.APIForbiddenError),
        (404, errors.APINotFoundError),
        (409, errors.APIConflictError),
        (410, errors.APIGoneError),
        (422, errors.APIUnprocessableError),
        (429, errors.APITooManyRequestsError),
        (500, errors.APIServerError),
        (503, errors.APIServerError),
    ],
)
async def test_statuses_become_errors(server, client, status, cls):
    server.script(server.error(status, reason="Because", details={"name": "x"}))
    with pytest.raises(cls) as err:
        await client.get("/path")
    assert type(err.value) is cls
    assert err.value.status == err.value.code == status
    assert err.value.reason == "Because"
    assert err.value.details == {"name": "x"}
    assert str(err.value) == f"{status} Because: error {status}"


@pytest.mark.parametrize(
    ("status", "location"),
    [
        (307, "http://{other}/path"),
        (307, "https://{same}/path"),
        (307, "//{other}/path"),
        (308, "http://[/path"),
        (307, ""),
        (302, "http://{same}/path"),
        (303, "/path"),
    ],
)
async def test_b12_redirects_elsewhere_are_not_followed(server, client, status, location):
    same = server.url.removeprefix("http://")
    location = location.format(same=same, other=f"user@{same}1")
    server.script(server.reply(b"<html>", status=status, headers={"Location": location}))
    with pytest.raises(errors.APIRedirectError, match="redirects are not followed"):
        await client.get("/path")
    assert [request.path for request in server.requests] == ["/path"]


@pytest.mark.parametrize("location", ["{url}/%2F?r=1", "/%2F?r=1"])
async def test_b12_redirects_of_requests_within_the_server_are_followed(server, client, location):
    headers = {"Location": location.format(url=server.url)}
    server.script(server.reply(b"<html>", status=308, headers=headers), server.reply({"ok": 1}))
    reply = await client.patch("/path", {"x": 1}, content_type="application/json-patch+json")
    assert reply == {"ok": 1}
    one, two = server.requests
    assert (two.path, two.query) == ("/%2F", {"r": "1"})
    assert (two.method, two.body) == (one.method, one.body) == ("PATCH", one.body)
    assert two.headers["Authorization"] == one.headers["Authorization"]


async def test_b12_redirects_have_no_more_time_than_the_request(server, client, monkeypatch):
    timeouts, original = [], aiohttp.ClientSession.request

    def request(*args, timeout, **kwargs):
        timeouts.append(timeout.total)
        return original(*args, timeout=timeout, **kwargs)

    monkeypatch.setattr(aiohttp.ClientSession, "request", request)
    step = server.reply(b"", status=307, headers={"Location": "/path"})
    server.script(step, step, server.reply({}))
    await client.get("/path", timeout=1000)
    assert timeouts[0] == 1000 > timeouts[1] > timeouts[2]


async def test_b12_endless_redirects_are_errors(server, client):
    steps = [server.reply(b"", status=307, headers={"Location": "/path"}) for _ in range(4)]
    server.script(*steps)
    with pytest.raises(errors.APIRedirectError):
        await client.get("/path")
    assert len(server.requests) == 4


async def test_b13_huge_error_bodies_are_not_read(server, client):
    head = b"HTTP/1.1 500 Oops\r\nContent-Length: 1000000000\r\n\r\n"
    server.script(server.raw(head, b"x" * 300_000, server.HANG))
    with pytest.raises(errors.APIServerError) as err:
        await client.get("/path")
    assert len(str(err.value)) < 100


async def test_b13_html_errors_are_not_quoted(server, client):
    server.script(server.reply(b"<html>secrets</html>", status=502))
    with pytest.raises(errors.APIServerError) as err:
        await client.get("/path")
    assert str(err.value) == "502: Whatever"


@pytest.mark.parametrize("body", [b"<html>", b'{"a":', b'{"a": "\xff"}', b"{} {}"])
async def test_b12_garbage_with_success(server, client, body):
    server.script(server.reply(body))
    with pytest.raises(errors.APIResponseError, match="not JSON"):
        await client.get("/path")


async def test_b12_patches_with_unreadable_replies_are_not_repeated(server, client, settings):
    settings.networking.error_backoffs = [0, 0]
    server.script(server.reply(b"<html>"))
    with pytest.raises(errors.APIPatchReplyError, match="not JSON"):
        await client.patch("/path", {}, content_type="application/merge-patch+json")
    assert len(server.requests) == 1


async def test_a9_deep_responses_are_not_retried(server, client, settings):
    settings.networking.error_backoffs = [0, 0]
    body = b"[" * 2000 + b"]" * 2000
    server.script(server.reply(body))
    with pytest.raises(errors.APITooDeepError) as err:
        await client.get("/path")
    assert err.value.body == body
    assert len(server.requests) == 1


@pytest.mark.parametrize("case", ["length", "gzip", "eof", "rst", "garbage"])
async def test_b12_broken_transport(server, client, case):
    head = b"HTTP/1.1 200 OK\r\n"
    step = {
        "length": server.raw(head + b"Content-Length: 100\r\n\r\n{}", server.EOF),
        "gzip": server.reply(b"not gzip", headers={"Content-Encoding": "gzip"}),
        "eof": server.raw(server.EOF),
        "rst": server.raw(server.RST),
        "garbage": server.raw(b"not http at all\r\n\r\n", server.EOF),
    }[case]
    server.script(step, step)  # the HTTP library itself repeats some of requests once
    with pytest.raises(errors.APIConnectionError) as err:
        await client.get("/path")
    assert str(err.value)
    assert err.value.__cause__ is not None


async def test_gzip_is_supported(server, client):
    body = gzip.compress(json.dumps({"a": "b" * 1000}).encode())
    server.script(server.reply(body, headers={"Content-Encoding": "gzip"}))
    assert await client.get("/path") == {"a": "b" * 1000}


async def test_unreachable_servers(settings):
    async with Client(ConnectionInfo(server="http://127.0.0.1:1"), settings) as client:
        with pytest.raises(errors.APIConnectionError, match="Cannot connect"):
            await client.get("/path")


@pytest.mark.parametrize("silent", [True, False])
async def test_a3_requests_time_out(server, client, settings, silent):
    settings.networking.request_timeout = 0.05
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"
    server.script(server.raw(server.HANG) if silent else server.raw(head, server.HANG))
    with pytest.raises(errors.APIConnectionError, match="timed out"):
        await client.get("/path")


async def test_a4_silent_requests_are_cancelled_at_once(server, client):
    task = asyncio.create_task(client.get("/path"))
    await server.until(len)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_b1_temporary_errors_are_retried(server, client, settings, caplog):
    caplog.set_level(logging.INFO)
    settings.networking.error_backoffs = (0, 0, 0)
    for _ in range(2):  # the same settings are good for many requests
        server.script(server.error(500), server.error(503), server.reply(b"<"))
        server.script(server.reply({"a": 1}))
        assert await client.get("/path?secret=x") == {"a": 1}
    assert len(server.requests) == 8
    messages = [record.getMessage() for record in caplog.records]
    assert messages[0].startswith("Request attempt #1 failed; will retry in 0 seconds: GET /path ")
    assert not any("secret" in message for message in messages)
    assert messages[3] == "Request attempt #4 succeeded: GET /path"
    assert [record.levelname for record in caplog.records] == 2 * [*3 * ["WARNING"], "INFO"]


async def test_b1_retries_are_bounded(server, client, settings):
    settings.networking.error_backoffs = 0.001  # a single retry
    server.script(server.error(500), server.error(503), server.reply({}))
    with pytest.raises(errors.APIServerError) as err:
        await client.get("/path")
    assert err.value.status == 503
    assert len(server.requests) == 2


@pytest.mark.parametrize("status", [400, 403, 404, 409, 410, 422])
async def test_permanent_errors_are_not_retried(server, client, settings, status):
    settings.networking.error_backoffs = [0, 0]
    server.script(server.error(status))
    with pytest.raises(errors.APIClientError):
        await client.get("/path")
    assert len(server.requests) == 1


async def test_an_error_in_a_retry_can_be_permanent(server, client, settings):
    settings.networking.error_backoffs = [0, 0]
    server.script(server.error(500), server.error(404))
    with pytest.raises(errors.APINotFoundError):
        await client.get("/path")
    assert len(server.requests) == 2


async def test_backoffs_of_individual_requests(server, client):
    server.script(server.error(500), server.reply({}))
    assert await client.get("/path", backoffs=[0]) == {}


async def test_a18_too_many_requests_are_retried_when_asked(server, client, settings):
    settings.networking.error_backoffs = [100]
    settings.networking.enforce_retry_after = True
    server.script(server.error(429, headers={"Retry-After": "0.001"}), server.reply({}))
    assert await client.get("/path") == {}


async def test_b5_parallel_refusals_cause_one_relogin(server, settings):
    vault = Vault()
    logins = 0

    async def authenticator():
        nonlocal logins
        while True:
            await vault.wait_for_emptiness()
            logins += 1
            vault.populate({"x": ConnectionInfo(server=server.url, token=f"token{logins}")})

    gate = asyncio.Event()
    count = 50
    refusal = server.error(401)
    server.script(*[server.raw(gate, *refusal.parts) for _ in range(count)])
    server.script(*[server.reply({"n": n}) for n in range(count)])
    task = asyncio.create_task(authenticator())
    try:
        async with Client(vault, settings) as client:
            requests = asyncio.gather(*(client.get("/path") for _ in range(count)))
            await server.until(lambda requests: len(requests) == count)
            gate.set()
            results = await requests
    finally:
        task.cancel()
    assert sorted(result["n"] for result in results) == list(range(count))
    assert logins == 2
    tokens = [request.headers["Authorization"] for request in server.requests]
    assert tokens == ["Bearer token1"] * count + ["Bearer token2"] * count


async def test_b5_waiting_for_a_login_takes_no_places(server, settings):
    """All the places would be taken by those who wait; then, others would wait for nothing."""
    vault = Vault()
    waiting = LIMIT
    server.script(*[server.reply({}) for _ in range(waiting)])
    async with Client(vault, settings) as client:
        tasks = [asyncio.create_task(client.get("/path")) for _ in range(waiting)]
        await asyncio.sleep(0)
        assert not client._slots.taken
        vault.populate({"x": ConnectionInfo(server=server.url)})
        await asyncio.gather(*tasks)


async def test_b5_200_requests_with_one_login(server, settings):
    """Those in flight are refused and repeated once; those in the queue use the new token."""
    vault = Vault({"x": ConnectionInfo(server=server.url, token="old")})
    gate = asyncio.Event()
    count, refused = 200, LIMIT
    server.script(*[server.raw(gate, *server.error(401).parts) for _ in range(refused)])
    server.script(*[server.reply({}) for _ in range(count)])
    async with Client(vault, settings) as client:
        tasks = [asyncio.create_task(client.get("/path")) for _ in range(count)]
        await server.until(lambda requests: len(requests) == refused)
        gate.set()
        await vault.wait_for_emptiness()
        vault.populate({"x": ConnectionInfo(server=server.url, token="new")})
        await asyncio.gather(*tasks)
    tokens = [request.headers["Authorization"] for request in server.requests]
    assert tokens == ["Bearer old"] * refused + ["Bearer new"] * count


async def test_closing_stops_those_who_wait_for_their_turn(server, settings):
    client = Client(ConnectionInfo(server=server.url), settings)
    server.script(*[server.raw(server.HANG) for _ in range(LIMIT)])
    count = LIMIT + 1
    tasks = [asyncio.create_task(client.get("/path")) for _ in range(count)]
    await server.until(lambda requests: len(requests) == LIMIT)
    await client.close()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert {type(result) for result in results} == {errors.APIConnectionError}


async def test_impersonation(server, settings):
    impersonation = Impersonation(
        user="me", uid="u1", groups=("a", "b,c"), extra=(("Key/x y", "1"), ("Key/x y", "é"))
    )
    server.script(server.reply({}))
    info = ConnectionInfo(server=server.url, token="T", impersonation=impersonation)
    async with Client(info, settings) as client:
        await client.get("/path")
    pairs = [pair for pair in server.requests[0].raw_headers if pair[0].startswith(("Imp", "Auth"))]
    assert pairs == [
        ("Authorization", "Bearer T"),
        ("Impersonate-User", "me"),
        ("Impersonate-Uid", "u1"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Group", "b,c"),
        ("Impersonate-Extra-Key%2Fx%20y", "1"),
        ("Impersonate-Extra-Key%2Fx%20y", "é"),
    ]


async def test_refused_credentials_of_a_lone_client(server, client):
    server.script(server.error(401, message="go away"))
    with pytest.raises(errors.APIUnauthorizedError, match="go away"):
        await client.get("/path")
    with pytest.raises(LoginError):
        await client.get("/path")
    assert len(server.requests) == 1


async def test_other_credentials_are_used_when_refused(server, settings):
    vault = Vault(
        {
            "bad": ConnectionInfo(server=server.url, token="bad", priority=2),
            "good": ConnectionInfo(server=server.url, token="good", priority=1),
        }
    )
    server.script(server.error(401), server.reply({}), server.reply({}))
    async with Client(vault, settings) as client:
        await client.get("/path")
        await client.get("/path")
    tokens = [request.headers["Authorization"] for request in server.requests]
    assert tokens == ["Bearer bad", "Bearer good", "Bearer good"]


async def test_streams_survive_the_replacement_of_credentials(server, settings):
    gate = asyncio.Event()
    vault = Vault({"x": ConnectionInfo(server=server.url, token="old")})
    server.script(server.stream(b"1\n", gate, b"2\n"), server.reply({}), path="/stream")
    server.script(server.reply({}))
    async with Client(vault, settings) as client, client.stream("/stream") as response:
        assert await response.content.readany() == b"1\n"
        vault.populate({"x": ConnectionInfo(server=server.url, token="new")})
        assert await client.get("/path") == {}
        gate.set()
        assert await response.content.read() == b"2\n"
    assert server.requests[1].headers["Authorization"] == "Bearer new"


async def test_o8_replaced_connections_are_closed_with_the_client(server, settings):
    vault = Vault({"x": ConnectionInfo(server=server.url, token="old")})
    server.script(server.stream(b"1\n", server.HANG), path="/stream")
    server.script(server.reply({}))
    client = Client(vault, settings)
    async with client.stream("/stream"):
        old = client._pool.connections[0]
        vault.populate({"x": ConnectionInfo(server=server.url, token="new")})
        await client.get("/path")
        assert old not in client._pool.connections
        assert not old.session.closed
        await client.close()
        assert old.session.closed
        assert old.closed


async def test_o8_replaced_connections_are_forgotten_when_closed(server, settings):
    vault = Vault({"x": ConnectionInfo(server=server.url, token="0")})
    server.script(*[server.reply({}) for _ in range(10)])
    async with Client(vault, settings) as client:
        for number in range(10):
            vault.populate({"x": ConnectionInfo(server=server.url, token=str(number))})
            await client.get("/path")
        assert len(client._pool.connections) == 1
        assert len(client._pool.retired) <= 2


async def test_custom_sessions_are_used_and_closed(server, settings):
    session = aiohttp.ClientSession(headers={"X-Custom": "hello"})
    info = AiohttpSession(server=server.url, aiohttp_session=session, default_namespace="ns")
    server.script(server.reply({}))
    async with Client(info, settings) as client:
        assert client.default_namespace == "ns"
        await client.get("/path")
    assert session.closed
    assert server.requests[0].headers["X-Custom"] == "hello"
    assert server.requests[0].headers["User-Agent"].startswith("kopf/")


async def test_own_user_agents_of_custom_sessions_are_respected(server, settings):
    session = aiohttp.ClientSession(headers={"User-Agent": "mine/1"})
    server.script(server.reply({}))
    info = AiohttpSession(server=server.url, aiohttp_session=session)
    async with Client(info, settings) as client:
        await client.get("/path")
    assert server.requests[0].headers["User-Agent"] == "mine/1"


@pytest.mark.parametrize(
    "fields",
    [
        {"ca_data": "not base64!"},
        {"ca_path": "/does/not/exist"},
        {"certificate_path": "/does/not/exist", "private_key_path": "/does/not/exist"},
    ],
)
async def test_b16_unusable_certificates(settings, fields):
    async with Client(ConnectionInfo(server="https://127.0.0.1:1", **fields), settings) as client:
        with pytest.raises(LoginError, match="TLS certificates or keys cannot be used"):
            await client.get("/path")


async def test_b16_unusable_certificates_are_waited_to_be_replaced(server, settings, caplog):
    bad = ConnectionInfo(server="https://127.0.0.1:1", ca_path="/does/not/exist")
    vault = Vault({"handler1": bad})
    server.script(server.reply({"a": 1}))
    async with Client(vault, settings) as client:
        task = asyncio.create_task(client.get("/path"))
        await vault.wait_for_emptiness()
        vault.populate({"handler1": ConnectionInfo(server=server.url)})
        assert await task == {"a": 1}
    assert caplog.messages[0].startswith(
        "Ignoring the credentials of handler1: TLS certificates or keys cannot be used: "
    )


async def test_closed_clients_do_nothing(server, client):
    await client.close()
    with pytest.raises(errors.APIConnectionError, match="closed"):
        await client.get("/path")
    assert not server.requests


async def test_timeouts_follow_the_settings(client, settings):
    settings.networking.request_timeout = 123
    settings.networking.connect_timeout = 4
    timeout = client._get_timeout(None)
    assert (timeout.total, timeout.sock_connect) == (123, 4)
    assert client._get_timeout(None) is timeout
    settings.networking.request_timeout = None
    assert client._get_timeout(None).total is None
    assert client._get_timeout(5).total == 5


async def test_secrets_are_not_in_logs(server, client, settings, caplog):
    caplog.set_level(logging.DEBUG)
    settings.networking.error_backoffs = [0]
    server.script(server.error(500), server.error(500))
    with pytest.raises(errors.APIServerError):
        await client.get("/path")
    assert "secret" not in caplog.text
    assert "secret" not in repr(client.vault)


async def test_e5_proxy_passwords_are_not_in_errors(settings):
    info = ConnectionInfo(server="http://127.0.0.1:1", proxy_url="http://user:hush@127.0.0.1:1")
    async with Client(info, settings) as client:
        with pytest.raises(errors.APIConnectionError) as err:
            await client.get("/path")
    assert "hush" not in str(err.value)


class Fence:
    """It is open for so many seconds, and then it is closed."""

    term = 0

    def __init__(self, left):
        self.left = left

    @property
    def is_open(self):
        return self.left > 0

    def check(self):
        if not self.is_open:
            raise errors.APIError("it is closed")
        return self.left


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_i_writes_are_not_in_flight_when_the_fence_is_closed(
    server, client, settings, method
):
    settings.networking.request_timeout = None
    client.fence = Fence(0.01)
    with pytest.raises(errors.APIConnectionError):
        await client.request(method, "/silent", payload={}, backoffs=())


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_i_nothing_is_written_behind_a_closed_fence(server, client, method):
    server.script(server.reply({"read": True}))
    client.fence = Fence(0)
    with pytest.raises(errors.APIError, match="it is closed"):
        await client.request(method, "/path", payload={}, backoffs=())
    assert await client.get("/path") == {"read": True}
    assert [request.method for request in server.requests] == ["GET"]


@pytest.mark.parametrize("is_connected", [True, False])
@pytest.mark.parametrize("payload", [{"a": 1}, None])
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_k12_nothing_is_written_if_the_fence_is_closed_on_the_way_to_the_socket(
    server, client, method, payload, is_connected
):
    if is_connected:  # otherwise, it takes time to connect
        server.script(server.reply({"read": True}))
        await client.get("/path")
    server.script(server.reply({"written": True}))
    client.fence = ClosingFence()
    with pytest.raises(errors.APIError):
        await client.request(method, "/path", payload=payload, backoffs=())
    assert await client.get("/path") == {"written": True}  # it was not taken until now
    assert {request.method for request in server.requests} == {"GET"}


class ClosingFence(Fence):
    """It is closed as soon as it has been looked at: e.g. the process is suspended right then."""

    def __init__(self):
        super().__init__(60)

    def check(self):
        left, self.left = super().check(), 0
        return left


async def test_i_the_free_client_does_not_wait_for_the_places_of_the_other(server, client):
    free = client.without_fence()
    server.script(server.reply({"renewed": True}), path="/lease")
    tasks = [asyncio.create_task(client.get("/silent")) for _ in range(LIMIT)]
    await server.until(lambda requests: len(requests) == LIMIT)
    assert await free.get("/lease") == {"renewed": True}
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
