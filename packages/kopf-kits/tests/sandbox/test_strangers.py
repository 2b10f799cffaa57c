"""Web pages that a developer has opened while the sandbox runs: they may neither read nor write."""

import json
from collections.abc import AsyncIterator, Mapping

import aiohttp
import pytest

from kopf_kits.sandbox import Sandbox

URL = "/api/v1/namespaces/default/configmaps"
BODY = json.dumps({"metadata": {"name": "written-by-a-page"}}).encode()


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    async with Sandbox() as sandbox:
        yield sandbox


async def send(
    sandbox: Sandbox, method: str, headers: Mapping[str, str], body: bytes | None = None
) -> int:
    skipped = ["Content-Type"]  # otherwise, the library adds one
    async with aiohttp.ClientSession(skip_auto_headers=skipped) as session:
        url = f"{sandbox.url}{URL}"
        async with session.request(method, url, data=body, headers=headers) as response:
            await response.read()
            return response.status


JSON = {"Content-Type": "application/json"}


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Host": "evil.example"},
        {"Host": "evil.example:{port}"},
        {"Host": "127.0.0.1.evil.example"},
        {"Host": "10.0.0.1"},
        {"Host": ""},
    ],
    ids=str,
)
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_k25_web_pages_are_refused_by_the_sandbox(
    sandbox: Sandbox, method: str, headers: Mapping[str, str]
) -> None:
    sent = {key: value.format(port=sandbox.port) for key, value in headers.items()}
    status = await send(sandbox, method, JSON | sent, BODY if method == "POST" else None)
    assert status == 403
    assert not await sandbox.list("configmaps", namespace="default")
    assert not sandbox.journal.select(path=URL)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
@pytest.mark.parametrize(
    "browser",
    [{"User-Agent": "Mozilla/5.0 (X11; Linux x86_64)"}, {"Sec-Fetch-Site": "none"}],
    ids=str,
)
async def test_k25_browsers_write_nothing_with_no_content_type(
    sandbox: Sandbox, method: str, browser: Mapping[str, str]
) -> None:
    assert await send(sandbox, method, browser, BODY) == 415
    assert not await sandbox.list("configmaps", namespace="default")


async def test_k25_tools_may_send_no_content_type(sandbox: Sandbox) -> None:
    assert await send(sandbox, "POST", {"User-Agent": "pykube-ng/22.9.0"}, BODY) == 201


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]", "LOCALHOST", "127.1.2.3"])
@pytest.mark.parametrize("port", ["", ":{port}", ":1"])
async def test_k25_tools_of_this_machine_are_let_in(sandbox: Sandbox, host: str, port: str) -> None:
    headers = {"Host": f"{host}{port}".format(port=sandbox.port), "Sec-Fetch-Site": "none"}
    assert await send(sandbox, "POST", JSON | headers, BODY) == 201
