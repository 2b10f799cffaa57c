"""Proxies: they get the requests instead of the servers."""

import logging
import traceback

import aiohttp
import pytest

from kopf_cogs.clients import errors
from kopf_cogs.clients.session import Client
from kopf_cogs.structs.credentials import AiohttpSession, ConnectionInfo, Impersonation, LoginError

URL = "http://example.invalid:1234"


@pytest.fixture(autouse=True)
def _environ(monkeypatch):
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY"]:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


async def request(settings, **fields):
    async with Client(ConnectionInfo(server=URL, **fields), settings) as client:
        return await client.get("/path")


async def test_b15_explicit_proxies(server, settings):
    server.script(server.reply({"a": 1}))
    assert await request(settings, proxy_url=server.url) == {"a": 1}
    assert server.requests[0].path == f"{URL}/path"


async def test_b15_proxies_with_passwords(server, settings):
    server.script(server.reply({"a": 1}))
    proxy = server.url.replace("://", "://usr:pwd@")
    assert await request(settings, proxy_url=proxy) == {"a": 1}
    assert server.requests[0].headers["Proxy-Authorization"] == "Basic dXNyOnB3ZA=="


async def test_b15_proxies_of_the_environment_if_trusted(server, settings, monkeypatch):
    monkeypatch.setenv("http_proxy", server.url)
    server.script(server.reply({"a": 1}))
    assert await request(settings, trust_env=True) == {"a": 1}
    assert server.requests[0].path == f"{URL}/path"


async def test_b15_proxies_of_the_environment_are_ignored_by_default(server, settings, monkeypatch):
    monkeypatch.setenv("http_proxy", server.url)
    with pytest.raises(errors.APIConnectionError):
        await request(settings)
    assert not server.requests


@pytest.mark.parametrize("scheme", ["socks5", "ftp"])
async def test_b15_unsupported_proxies_are_refused(settings, scheme):
    with pytest.raises(LoginError, match=rf"Proxies of type '{scheme}' .* kopf\.AiohttpSession"):
        await request(settings, proxy_url=f"{scheme}://127.0.0.1:1")


@pytest.fixture
def netrc(monkeypatch, tmp_path):
    """Passwords for whatever host it is asked about."""
    path = tmp_path / "netrc"
    path.write_text("default login foreign password secret\n")
    path.chmod(0o600)
    monkeypatch.setenv("NETRC", str(path))


@pytest.mark.usefixtures("netrc")
@pytest.mark.parametrize("token", ["tkn", None])
async def test_k21_passwords_of_netrc_are_not_used(server, settings, token):
    server.script(server.reply({"a": 1}))
    info = ConnectionInfo(server=server.url, token=token, trust_env=True)
    async with Client(info, settings) as client:
        assert await client.get("/path") == {"a": 1}
    assert server.requests[0].headers.get("Authorization") == (token and f"Bearer {token}")


@pytest.mark.usefixtures("netrc")
@pytest.mark.parametrize("scheme", ["http://", ""])
async def test_k21_passwords_of_netrc_are_not_for_proxies(server, settings, monkeypatch, scheme):
    monkeypatch.setenv("http_proxy", server.url.replace("http://", scheme))
    server.script(server.reply({"a": 1}))
    assert await request(settings, trust_env=True, token="tkn") == {"a": 1}
    assert server.requests[0].path == f"{URL}/path"
    assert server.requests[0].headers["Authorization"] == "Bearer tkn"
    assert "Proxy-Authorization" not in server.requests[0].headers


@pytest.mark.parametrize("trusted", [True, False])
async def test_k21_tokens_are_not_told_to_proxies(server, settings, monkeypatch, trusted):
    """The request to connect is for the proxy alone, and is not encrypted."""
    monkeypatch.setenv("https_proxy", server.url)
    settings.networking.error_backoffs = ()
    server.script(server.reply({}, status=403))
    info = ConnectionInfo(
        server="https://example.invalid:1234",
        token="tkn",
        impersonation=Impersonation(user="other"),
        proxy_url=None if trusted else server.url,
        trust_env=trusted,
    )
    async with Client(info, settings) as client:
        with pytest.raises(errors.APIConnectionError, match="403"):
            await client.get("/path")
    assert server.requests[0].method == "CONNECT"
    assert not {"Authorization", "Proxy-Authorization"} & server.requests[0].headers.keys()
    assert not [name for name in server.requests[0].headers if name.startswith("Impersonate")]


@pytest.mark.parametrize("excluded", ["*", "example.invalid", ".invalid", "example.invalid:1234"])
async def test_k21_servers_excluded_in_the_environment_have_no_proxy(
    server, settings, monkeypatch, excluded
):
    monkeypatch.setenv("http_proxy", server.url)
    monkeypatch.setenv("no_proxy", excluded)
    settings.networking.error_backoffs = ()
    with pytest.raises(errors.APIConnectionError):
        await request(settings, trust_env=True)
    assert not server.requests


async def test_k21_unsupported_proxies_of_the_environment_are_refused(settings, monkeypatch):
    monkeypatch.setenv("http_proxy", "socks5://127.0.0.1:1")
    with pytest.raises(LoginError, match="Proxies of type 'socks5' "):
        await request(settings, trust_env=True)


async def test_k21_requests_that_cannot_be_made_fail_as_all_others(server, settings):
    """They are those of foreign sessions: e.g. these cannot have both the header and the auth."""
    settings.networking.error_backoffs = ()
    session = aiohttp.ClientSession(headers={"Authorization": "Bearer tkn"})
    url = server.url.replace("://", "://usr:pwd@")
    async with Client(AiohttpSession(server=url, aiohttp_session=session), settings) as c:
        with pytest.raises(errors.APIConnectionError, match="AUTHORIZATION"):
            await c.get("/path")
        with pytest.raises(errors.APIConnectionError, match="AUTHORIZATION"):
            async with c.stream("/path"):
                pass
    assert not server.requests


@pytest.mark.parametrize(
    "url", ["", "/", "example.com", "example.com:6443", "http://[", "http://a:b"]
)
async def test_k21_addresses_that_make_no_sense_are_refused(settings, url):
    async with Client(ConnectionInfo(server=url), settings) as client:
        with pytest.raises(LoginError, match="address of the server"):
            await client.get("/path")


@pytest.mark.parametrize(
    "url",
    [
        "usr:pwd@127.0.0.1:1",
        "http://usr:pwd@127.0.0.1:99999999",
        "http://usr:pwd@[::1",
        "http://",
        "127.0.0.1:1",
    ],
)
async def test_k21_proxies_that_make_no_sense_are_refused_with_no_passwords(settings, url):
    with pytest.raises(LoginError, match="address of the proxy makes no sense") as err:
        await request(settings, proxy_url=url)
    assert "pwd" not in "".join(traceback.format_exception(err.value))


async def test_k21_it_is_not_the_server_that_refuses_proxies(settings, caplog):
    caplog.set_level(logging.INFO)
    with pytest.raises(LoginError):
        await request(settings, proxy_url="socks5://127.0.0.1:1")
    assert not [message for message in caplog.messages if "refused by the server" in message]
