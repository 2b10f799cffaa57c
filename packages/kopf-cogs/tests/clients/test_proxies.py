"""Proxies: they get the requests instead of the servers."""

import pytest

from kopf_cogs.clients import errors
from kopf_cogs.clients.session import Client
from kopf_cogs.structs.credentials import ConnectionInfo, LoginError

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
