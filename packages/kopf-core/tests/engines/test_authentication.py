"""Logging in whenever there are no credentials."""

import asyncio
import contextlib

import pytest

from kopf_cogs.clients.vault import Vault
from kopf_cogs.structs.credentials import ConnectionInfo
from kopf_cogs.structs.memos import Memo
from kopf_core.actions.errors import PermanentError, TemporaryError
from kopf_core.engines.activities import ActivityError, ActivityRunner
from kopf_core.engines.authentication import Authenticator, get_default_logins
from kopf_core.intents import decorators as on
from kopf_core.intents.causes import Activity

INFO = ConnectionInfo(server="http://localhost", token="t1")
OTHER = ConnectionInfo(server="http://localhost", token="t2")


@pytest.fixture
async def vault():
    vault = Vault()
    yield vault
    vault.close()


@pytest.fixture
def authenticator(settings, registry, vault):
    return Authenticator(
        vault=vault, registry=registry, activities=ActivityRunner(settings, Memo(), {})
    )


@contextlib.asynccontextmanager
async def running(authenticator):
    task = asyncio.create_task(authenticator.run())
    try:
        async with asyncio.timeout(10):
            yield task
    finally:
        task.cancel()
        await asyncio.wait([task])


@pytest.mark.docs("authentication")
async def test_credentials_come_from_login_handlers(authenticator, registry, vault, logged):
    on.login(registry=registry)(lambda **_: INFO)
    async with running(authenticator):
        assert (await vault.acquire()).info is INFO
    messages = logged()
    assert messages[0] == "Initial authentication has been initiated."
    assert messages[-1] == "Initial authentication has finished."


@pytest.mark.docs("authentication")
async def test_logging_in_is_repeated_when_credentials_are_refused(
    authenticator, registry, vault, logged
):
    infos = [INFO, OTHER]
    on.login(registry=registry)(lambda **_: infos.pop(0))
    async with running(authenticator):
        item = await vault.acquire()
        vault.invalidate(item, exc=ValueError())
        assert (await vault.acquire()).info is OTHER
    assert "Re-authentication has finished." in logged()


async def test_b8_failing_handlers_do_not_matter_if_others_succeed(authenticator, registry, vault):
    @on.login(registry=registry, id="bad")
    def bad(**_):
        raise PermanentError("boom")

    on.login(registry=registry, id="good")(lambda **_: INFO)
    async with running(authenticator):
        assert (await vault.acquire()).info is INFO


@pytest.mark.docs("authentication")
async def test_b8_retried_handlers_are_waited_for(authenticator, registry, vault):
    @on.login(registry=registry)
    def fn(retry, **_):
        if retry < 2:
            raise TemporaryError("x", delay=0)
        return INFO

    async with running(authenticator):
        assert (await vault.acquire()).info is INFO


async def test_b8_if_all_fail_the_operator_fails(authenticator, registry):
    @on.login(registry=registry)
    def fn(**_):
        raise PermanentError("no way")

    with pytest.raises(ActivityError, match=r"authentication activity has failed: .*no way"):
        await authenticator.run()


async def test_b8_no_credentials_are_an_error(authenticator, registry, logged):
    on.login(registry=registry)(lambda **_: None)
    with pytest.raises(Exception, match="no usable credentials"):
        await authenticator.run()
    assert any("no credentials were retrieved" in message for message in logged())


@pytest.mark.docs("authentication")
def test_default_logins_are_login_handlers():
    handlers = get_default_logins()
    assert handlers
    assert {handler.activity for handler in handlers} == {Activity.AUTHENTICATION}
