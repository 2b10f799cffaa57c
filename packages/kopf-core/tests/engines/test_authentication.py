"""Logging in whenever there are no credentials."""

import asyncio
import contextlib
import dataclasses
import datetime
import threading

import pytest

from kopf_cogs.aiokits.clocks import FakeClock
from kopf_cogs.clients.vault import Vault
from kopf_cogs.structs.credentials import ConnectionInfo, LoginError
from kopf_cogs.structs.memos import Memo
from kopf_core.actions.errors import PermanentError, TemporaryError
from kopf_core.engines import authentication
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
def clock():
    return FakeClock()


@pytest.fixture
def authenticator(settings, registry, vault, clock):
    return Authenticator(
        vault=vault, registry=registry, activities=ActivityRunner(settings, Memo(), {}, clock)
    )


@pytest.fixture
def delays(clock, monkeypatch):
    """The delays between the attempts, which take no time."""
    delays = []

    async def sleep(delay):
        delays.append(delay)
        clock.advance(delay)
        await asyncio.sleep(0)

    monkeypatch.setattr("kopf_core.engines.activities.sleep", sleep)
    return delays


@contextlib.asynccontextmanager
async def running(authenticator):
    task = asyncio.create_task(authenticator.run())
    try:
        async with asyncio.timeout(60):
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


async def test_b8_wrong_types_are_explained_and_ignored(authenticator, registry, vault, logged):
    on.login(registry=registry, id="bad")(lambda **_: "token")
    on.login(registry=registry, id="good")(lambda **_: INFO)
    async with running(authenticator):
        assert (await vault.acquire()).info is INFO
    assert (
        "Login handler 'bad' has returned an object of type str, which is ignored; "
        "it must be kopf.ConnectionInfo or kopf.AiohttpSession."
    ) in logged()


async def test_b8_only_wrong_types_are_an_error(authenticator, registry):
    on.login(registry=registry)(lambda **_: {"token": "T"})
    with pytest.raises(LoginError, match="no usable credentials"):
        await authenticator.run()


async def test_b8_expired_credentials_are_an_error(authenticator, registry):
    expiration = datetime.datetime(2020, 1, 1)
    on.login(registry=registry)(lambda **_: dataclasses.replace(INFO, expiration=expiration))
    with pytest.raises(LoginError, match="no usable credentials"):
        await authenticator.run()


async def test_b8_hanging_handlers_are_reported(authenticator, registry, monkeypatch, logged):
    monkeypatch.setattr(authentication, "PATIENCE", 0)
    asked = asyncio.Event()

    @on.login(registry=registry)
    async def fn(**_):
        asked.set()
        await asyncio.Event().wait()

    message = "Initial authentication takes long: all requests wait for the login handlers."
    async with running(authenticator):
        await asked.wait()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert message in logged()


async def test_r21_failed_logins_are_retried_soon_and_then_slower(
    authenticator, registry, vault, delays
):
    """By default, other handlers are retried in a minute: all requests would wait for it."""

    @on.login(registry=registry)
    def fn(retry, **_):
        if retry < 10:
            raise LoginError("The token file is empty.")
        return INFO

    async with running(authenticator):
        assert (await vault.acquire()).info is INFO
    assert delays[0] < 1
    assert delays[:6] == sorted(delays[:6])
    assert 20 < delays[-1] < 40


async def test_backoffs_of_login_handlers_are_respected(authenticator, registry, delays):
    @on.login(registry=registry, backoff=123, retries=2)
    def fn(**_):
        raise LoginError("No.")

    with pytest.raises(ActivityError):
        await authenticator.run()
    assert delays == [pytest.approx(123, abs=1)]


async def test_b16_doubts_cause_logins_while_requests_go_on(authenticator, registry, vault, logged):
    infos = [INFO, OTHER]
    on.login(registry=registry)(lambda **_: infos.pop(0))
    async with running(authenticator):
        item = await vault.acquire()
        vault.doubt(item, ValueError("bad CA"))
        assert not vault.is_empty()
        async with asyncio.timeout(60):
            await vault.wait_for_changes()
        assert (await vault.acquire()).info is OTHER


@pytest.mark.docs("authentication")
def test_default_logins_are_login_handlers():
    handlers = get_default_logins()
    assert handlers
    assert {handler.activity for handler in handlers} == {Activity.AUTHENTICATION}


@pytest.mark.parametrize("others", [0, 1])
async def test_cancelled_while_functions_log_in_in_threads(authenticator, registry, vault, others):
    """The cancellation must not be lost with the outcome of a thread: the operator waits for it."""
    started, proceed = threading.Event(), threading.Event()

    def slow(**_):
        started.set()
        proceed.wait()
        return INFO

    on.login(id="slow", registry=registry)(slow)
    for number in range(others):
        on.login(id=f"other{number}", registry=registry)(lambda **_: INFO)
    task = asyncio.create_task(authenticator.run())
    try:
        await asyncio.to_thread(started.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            async with asyncio.timeout(60):
                await task
        assert not proceed.is_set()
        assert vault.is_empty()
    finally:
        proceed.set()


async def test_b8_probes_fail_while_logins_hang(authenticator, registry, vault, clock):
    gate, called = asyncio.Event(), asyncio.Event()

    @on.login(registry=registry)
    async def login(**_):
        called.set()
        await gate.wait()
        return INFO

    async with running(authenticator):
        await called.wait()
        assert authenticator.find_problems() == []  # for now
        clock.advance(authentication.PATIENCE)
        problem = authenticator.find_problems()
        gate.set()
        await vault.wait_for_readiness()
        assert authenticator.find_problems() == []
    assert len(problem) == 1
    assert problem[0].startswith("Initial authentication has not succeeded in 30 seconds")


async def test_b8_probes_fail_while_logins_fail(authenticator, registry, vault, clock, delays):
    problems = []

    @on.login(registry=registry)
    def login(**_):
        problems.append(authenticator.find_problems())
        if len(problems) < 10:
            raise TemporaryError("not yet", delay=10)
        return INFO

    async with running(authenticator):
        await vault.wait_for_readiness()
    assert problems[:3] == [[], [], []]
    assert all(problems[3:])
    assert authenticator.find_problems() == []


async def test_b8_probes_do_not_care_of_renewals_while_the_credentials_are_usable(
    authenticator, registry, vault, clock
):
    called = asyncio.Event()

    @on.login(registry=registry)
    async def login(**_):
        if authenticator.find_problems() or not vault.is_empty():
            called.set()
            await asyncio.Event().wait()
        return INFO

    async with running(authenticator):
        vault.doubt(await vault.acquire(), Exception("boom"))
        await called.wait()
        clock.advance(authentication.PATIENCE * 10)
        assert authenticator.find_problems() == []
        assert not vault.is_empty()


class Slow:
    """A login handler that waits for its time."""

    def __init__(self, registry, outcome):
        self.outcome = outcome
        self.calls = 0
        self.gate = asyncio.Event()
        self.ended = asyncio.Event()
        on.login(registry=registry, id="slow", retries=1)(self.fn)

    async def fn(self, **_):
        self.calls += 1
        try:
            await self.gate.wait()
        finally:
            self.ended.set()
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


@pytest.fixture
def impatience(monkeypatch):
    monkeypatch.setattr(authentication, "PATIENCE", 0)


@pytest.mark.usefixtures("impatience")
async def test_b8_those_who_hang_are_not_waited_for_if_others_succeed(
    authenticator, registry, vault, clock, logged
):
    slow = Slow(registry, OTHER)
    on.login(registry=registry, id="good")(lambda **_: INFO)
    async with running(authenticator):
        assert (await vault.acquire()).info is INFO
        clock.advance(100)
        assert authenticator.find_problems() == []
        slow.gate.set()
        while len(vault.items) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0)
    assert {item.info.token for item in vault.items} == {"t1", "t2"}
    assert "Login handler 'slow' is late; it is not waited for." in logged()


@pytest.mark.usefixtures("impatience")
@pytest.mark.parametrize("outcome", [None, "token", PermanentError("boom")])
async def test_b8_what_is_late_and_senseless_changes_nothing(
    authenticator, registry, vault, outcome
):
    slow = Slow(registry, outcome)
    on.login(registry=registry, id="good")(lambda **_: INFO)
    async with running(authenticator) as task:
        assert (await vault.acquire()).info is INFO
        slow.gate.set()
        await slow.ended.wait()
        for _ in range(10):
            await asyncio.sleep(0)
        assert (await vault.acquire()).info is INFO
        assert not task.done()


@pytest.mark.usefixtures("impatience")
async def test_b8_those_who_hang_are_called_once_however_many_logins_there_are(
    authenticator, registry, vault
):
    tokens = ["t1", "t2", "t3"]
    infos = [dataclasses.replace(INFO, token=token) for token in tokens]
    slow = Slow(registry, None)
    on.login(registry=registry, id="good")(lambda **_: infos.pop(0))
    async with running(authenticator):
        for token in tokens:
            item = await vault.acquire()
            assert item.info.token == token
            if infos:
                vault.confirm(item)
                vault.invalidate(item, exc=ValueError())
    assert slow.calls == 1


@pytest.mark.usefixtures("impatience")
async def test_b8_those_who_hang_are_cancelled_in_the_end(authenticator, registry, vault):
    slow = Slow(registry, INFO)
    on.login(registry=registry, id="good")(lambda **_: INFO)
    async with running(authenticator):
        await vault.acquire()
    assert slow.ended.is_set()
    assert len(vault.items) == 1


@pytest.mark.usefixtures("impatience")
async def test_b8_late_handlers_are_waited_for_when_others_fail(
    authenticator, registry, vault, logged
):
    slow = Slow(registry, INFO)
    on.login(registry=registry, id="bad", retries=1)(lambda **_: 1 / 0)
    async with running(authenticator) as task:
        while not any("'bad' failed" in message for message in logged()):  # noqa: ASYNC110
            await asyncio.sleep(0)
        assert vault.is_empty()
        assert not task.done()
        slow.gate.set()
        assert (await vault.acquire()).info is INFO
