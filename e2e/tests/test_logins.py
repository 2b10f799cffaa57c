"""Tokens that are replaced and revoked, and permissions that are absent, on a real API server."""

from __future__ import annotations

import asyncio
import logging
import pathlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from e2e.clusters import Cluster
from e2e.tests.accounts import Account
from e2e.tests.harness import GROUP, PATIENCE, World
from kopf_cogs.clients.errors import APIUnauthorizedError
from kopf_cogs.clients.session import Client
from kopf_cogs.structs.credentials import ConnectionInfo
from kopf_core.intents import decorators as on

KEX = (GROUP, "kexes")


@pytest.fixture(autouse=True)
def _real(cluster: Cluster) -> None:
    if cluster.name == "emulator":
        pytest.skip("the emulator checks neither tokens nor permissions")


@pytest.fixture
async def account(
    request: pytest.FixtureRequest,
    cluster: Cluster,
    world: World,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[Account]:
    account = Account(world, cluster, getattr(request, "param", "namespaced"), tmp_path)
    await account.create()
    monkeypatch.setenv("KUBECONFIG", str(account.kubeconfig_path))
    yield account
    await account.delete()


@pytest.fixture
def _handlers(world: World) -> None:
    @on.create(*KEX, id="fn", registry=world.registry)
    @on.update(*KEX, id="fn", registry=world.registry)
    def fn(name: str, spec: Any, **_: Any) -> None:
        world.calls((name, spec.get("n")))


async def until_refused(world: World, cluster: Cluster, token: str) -> None:
    """Servers remember good tokens for 10 seconds."""
    described = cluster.kubeconfig["clusters"][0]["cluster"]
    info = ConnectionInfo(
        server=cluster.url, ca_data=described["certificate-authority-data"], token=token
    )
    async with asyncio.timeout(PATIENCE):
        while True:
            async with Client(info) as client:
                try:
                    await client.get(world.path())
                except APIUnauthorizedError:
                    return
            await asyncio.sleep(0.2)


class Messages(logging.Handler):
    """What the framework says, which can be waited for."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self._records: list[logging.LogRecord] = []
        self._changed = asyncio.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self._records.append(record)
        self._changed.set()

    def find(self, text: str = "", level: int = logging.WARNING) -> list[str]:
        messages = [r.getMessage() for r in self._records if r.levelno >= level]
        return [message for message in messages if text in message]

    async def until(self, text: str, times: int = 1) -> None:
        try:
            async with asyncio.timeout(PATIENCE):
                while len(self.find(text, logging.DEBUG)) < times:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise AssertionError(f"It is not said: {text!r}; but: {self.find()!r}") from None


@pytest.fixture
async def messages(caplog: pytest.LogCaptureFixture) -> AsyncIterator[Messages]:
    handler = Messages()
    loggers = [logging.getLogger("kopf"), logging.getLogger("kopf_cogs")]
    for logger in loggers:
        caplog.set_level(logging.DEBUG, logger.name)
        logger.addHandler(handler)
    yield handler
    for logger in loggers:
        logger.removeHandler(handler)


@pytest.mark.usefixtures("_handlers")
async def test_b6_tokens_are_rotated_and_revoked_under_load(world, cluster, account, messages):
    secrets = f"/api/v1/namespaces/{world.namespace}/secrets"
    world.settings.scanning.disabled = True
    secret = await world.request("POST", secrets, {"metadata": {"name": "first"}})
    token = await account.request_token(secret)
    account.token_path.write_text(token)
    async with world.operator():
        await world.create({"n": 0})
        await world.until_handled(spec={"n": 0})
        account.token_path.write_text(await account.request_token())
        await world.request("DELETE", f"{secrets}/first")
        refused = asyncio.create_task(until_refused(world, cluster, token))
        count = 0
        while not refused.done():
            count += 1
            await world.patch({"spec": {"n": count}})
            await world.until_handled(spec={"n": count})
        await refused
        await world.patch({"spec": {"n": -1}})
        await world.until_handled(spec={"n": -1})
    assert world.calls[-1] == ("obj", -1)
    assert not messages.find()


@pytest.mark.parametrize("account", ["namespaced", "cluster-wide"], indirect=True)
async def test_documented_permissions_are_enough(world, account, messages, request):
    world.settings.posting.enabled = True
    world.settings.scanning.disabled = request.node.callspec.params["account"] == "namespaced"

    @on.create(*KEX, id="fn", registry=world.registry)
    def fn(body: Any, **_: Any) -> str:
        from kopf_core.engines.posting import info

        info(body, reason="Tested", message="Well.")
        info(body, reason="Tested", message="Well.")
        return "result"

    @on.delete(*KEX, id="fn", registry=world.registry)
    def delete_fn(name: str, **_: Any) -> None:
        world.calls(name)

    async with world.operator():
        await world.create()
        await world.until(lambda obj: obj and obj.get("status") == {"fn": "result"})
        await world.until_handled()
        await world.delete()
        await world.until_gone()
    assert [*world.calls] == ["obj"]
    assert not messages.find()


@pytest.mark.parametrize(
    ("verb", "resource", "group"),
    [
        ("list", "kexes", GROUP),
        ("watch", "kexes", GROUP),
        ("patch", "kexes", GROUP),
        ("create", "events", ""),
    ],
)
async def test_b3_b4_absent_permissions_are_named_once_and_recovered_from(
    world, account, messages, verb, resource, group
):
    world.settings.posting.enabled = True
    world.settings.scanning.disabled = True

    @on.create(*KEX, id="fn", registry=world.registry)
    def fn(body: Any, name: str, **_: Any) -> None:
        from kopf_core.engines.posting import info

        world.calls(name)
        info(body, reason="Tested", message=f"{name} is well.")

    await account.restrict(verb, resource)
    await world.create(name="before")
    text = f'cannot {verb} resource "{resource}" in API group "{group}" in the namespace'
    async with world.operator():
        if resource == "events":
            for name in ["second", "third"]:
                await world.create(name=name)
                await world.until_handled(name)
        else:
            await messages.until(text, times=3)
        complaints = messages.find()
        await account.restore()
        await world.create(name="after")
        await world.until_handled("after")
        await world.until_handled("before")
    assert len(complaints) == 1, complaints
    assert text in complaints[0]
    assert len(world.calls) == len({*world.calls})  # nothing is repeated
    assert {*world.calls} >= {"after", "before"}
