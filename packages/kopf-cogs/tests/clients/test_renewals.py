"""Credentials that change while they are used: rotated files, expiring tokens of plugins."""

import asyncio
import dataclasses
import datetime
import threading

import pytest

from kopf_cogs.aiokits.clocks import FakeClock
from kopf_cogs.clients.renewals import POLLING, SETTLING, Renewer
from kopf_cogs.clients.vault import Vault
from kopf_cogs.structs.credentials import AiohttpSession, ConnectionInfo, LoginError

NOW = datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC)
SERVER = "https://localhost"


@pytest.fixture
def clock():
    return FakeClock(NOW)


@pytest.fixture
def vault(clock):
    return Vault(clock=clock)


@pytest.fixture
def renewer(vault, clock):
    return Renewer(vault, clock=clock)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "token"
    path.write_text("old\n")
    return path


@pytest.fixture
async def info(vault, renewer, path):
    info = ConnectionInfo(server=SERVER, token="old", token_path=path)
    vault.populate({"x": info})
    assert await renewer.check() == POLLING
    return info


def token(vault):
    return vault.select().info.token


async def test_nothing_to_renew(vault, renewer):
    assert await renewer.check() is None
    vault.populate(
        {
            "x": ConnectionInfo(server=SERVER, token="T"),
            "y": AiohttpSession(server=SERVER, aiohttp_session=None),
        }
    )
    assert await renewer.check() is None


async def test_b6_rotated_tokens_are_used_when_they_are_settled(vault, clock, renewer, path, info):
    path.write_text("new\n")
    assert await renewer.check() == POLLING  # not due yet, nothing is read
    clock.advance(POLLING)
    assert await renewer.check() == SETTLING
    assert token(vault) == "old"
    clock.advance(SETTLING)
    await renewer.check()
    assert token(vault) == "new"
    assert await renewer.check() == POLLING


async def test_b6_tokens_rotated_by_swapped_symlinks(vault, clock, renewer, tmp_path):
    """As kubelets do: the times and sizes of files mean nothing."""
    for name in ["a", "b"]:
        (tmp_path / name).mkdir()
        (tmp_path / name / "token").write_text(name)
    (tmp_path / "data").symlink_to("a")
    path = tmp_path / "data" / "token"
    vault.populate({"x": ConnectionInfo(server=SERVER, token="a", token_path=path)})
    await renewer.check()
    (tmp_path / "next").symlink_to("b")
    (tmp_path / "next").rename(tmp_path / "data")
    for delay in [POLLING, SETTLING]:
        clock.advance(delay)
        await renewer.check()
    assert token(vault) == "b"


@pytest.mark.parametrize("content", [b"", b"\n", b"\xff", None])
async def test_b6_unreadable_tokens_keep_the_old_ones(
    vault, clock, renewer, path, info, caplog, content
):
    path.unlink() if content is None else path.write_bytes(content)
    for _ in range(3):
        clock.advance(POLLING)
        assert await renewer.check() == POLLING
    assert vault.select().info is info
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "The credentials of 'x' cannot be renewed: The token" in caplog.text


async def test_b6_tokens_that_are_being_written_are_not_used(vault, clock, renewer, path, info):
    for content in ["n", "ne", "new"]:
        path.write_text(content)
        clock.advance(POLLING)
        await renewer.check()
        assert vault.select().info is info
    clock.advance(SETTLING)
    await renewer.check()
    assert token(vault) == "new"


async def test_b6_files_are_watched_closely_when_the_token_is_refused(
    vault, clock, renewer, path, info
):
    """The login handlers have read a half of the new token; the rest comes a moment later."""
    vault.invalidate(vault.select())
    vault.populate({"x": dataclasses.replace(info, token="ne")})
    vault.invalidate(vault.select())
    vault.populate({"x": dataclasses.replace(info, token="ne")})
    assert vault.select().usable_since > clock.monotonic()
    path.write_text("ne")
    assert await renewer.check() == SETTLING
    path.write_text("new")
    clock.advance(SETTLING)
    await renewer.check()
    assert token(vault) == "new"


async def test_certificates_make_new_connections_when_they_change(vault, clock, renewer, tmp_path):
    path = tmp_path / "ca.crt"
    path.write_bytes(b"1")
    vault.populate({"x": ConnectionInfo(server=SERVER, ca_path=path)})
    item = vault.select()
    await renewer.check()
    clock.advance(POLLING)
    await renewer.check()
    assert vault.select() is item


async def test_b16_broken_certificates_keep_the_old_ones(vault, clock, renewer, tmp_path, caplog):
    path = tmp_path / "ca.crt"
    path.write_bytes(b"1")
    vault.populate({"x": ConnectionInfo(server=SERVER, ca_path=path)})
    item = vault.select()
    await renewer.check()
    path.write_bytes(b"2")
    for delay in [POLLING, SETTLING, POLLING]:
        clock.advance(delay)
        await renewer.check()
    assert vault.select() is item
    assert caplog.text.count("The CA cannot be loaded") == 1


async def test_expiring_credentials_are_renewed_ahead(vault, clock, renewer):
    def renew(info):
        expiration = clock.now() + datetime.timedelta(seconds=3600)
        return dataclasses.replace(info, token=info.token + "+", expiration=expiration)

    vault.populate(
        {
            "x": ConnectionInfo(
                server=SERVER,
                token="T",
                expiration=NOW + datetime.timedelta(seconds=100),
                renewal=renew,
            )
        }
    )
    assert await renewer.check() == 80
    clock.advance(79)
    assert await renewer.check() == 1
    assert token(vault) == "T"
    clock.advance(1)
    await renewer.check()
    assert token(vault) == "T+"
    assert await renewer.check() == 3600 - 60


async def test_failing_renewals_are_repeated_with_growing_delays(vault, clock, renewer, caplog):
    def renew(info):
        raise LoginError("The plugin has failed.")

    expiration = NOW + datetime.timedelta(seconds=1000)
    info = ConnectionInfo(server=SERVER, token="T", expiration=expiration, renewal=renew)
    vault.populate({"x": info})
    clock.advance(await renewer.check())
    delays = []
    for _ in range(4):
        delays.append(await renewer.check())
        clock.advance(delays[-1])
    assert delays == sorted(delays)
    assert 1 <= delays[0] < 2 < 8 <= delays[-1] < 13
    assert token(vault) == "T"
    assert caplog.text.count("cannot be renewed: The plugin has failed.") == 1


async def test_caches_of_plugins_do_not_cause_busy_loops(vault, clock, renewer):
    calls = []

    def renew(info):
        calls.append(threading.current_thread().name)
        return dataclasses.replace(info)

    expiration = NOW + datetime.timedelta(seconds=1000)
    info = ConnectionInfo(server=SERVER, token="T", expiration=expiration, renewal=renew)
    vault.populate({"x": info})
    clock.advance(await renewer.check())
    assert await renewer.check() > 0
    assert await renewer.check() > 0
    assert calls == ["kopf-login"]  # and it is not the thread of the loop


async def test_requests_go_on_while_the_plugin_works(vault, clock, renewer):
    called, finish = threading.Event(), threading.Event()

    def renew(info):
        called.set()
        finish.wait()
        return dataclasses.replace(info, token="new")

    expiration = NOW + datetime.timedelta(seconds=100)
    info = ConnectionInfo(server=SERVER, token="T", expiration=expiration, renewal=renew)
    vault.populate({"x": info})
    await renewer.check()
    clock.advance(90)
    task = asyncio.create_task(renewer.check())
    try:
        await asyncio.to_thread(called.wait)
        assert (await vault.acquire()).info.token == "T"
    finally:
        finish.set()
        await task
    assert (await vault.acquire()).info.token == "new"


async def test_renewals_do_not_bring_back_what_is_refused_meanwhile(vault, clock, renewer):
    other = ConnectionInfo(server=SERVER, token="other")

    def renew(info):
        return dataclasses.replace(info, token="new")

    expiration = NOW + datetime.timedelta(seconds=100)
    info = ConnectionInfo(server=SERVER, token="T", expiration=expiration, renewal=renew)
    vault.populate({"x": info})
    item = vault.select()
    vault.populate({"x": other})
    vault.replace(item, renew(info))
    assert vault.select().info is other


async def test_running_reacts_on_doubts(vault, clock, renewer):
    """With no waiting for the usual time: that time would be real here."""
    called = asyncio.Event()
    loop = asyncio.get_running_loop()

    def renew(info):
        loop.call_soon_threadsafe(called.set)
        return info

    expiration = NOW + datetime.timedelta(seconds=1000)
    vault.populate({"x": ConnectionInfo(server=SERVER, expiration=expiration, renewal=renew)})
    task = asyncio.create_task(renewer.run())
    try:
        await asyncio.sleep(0)
        clock.advance(999)
        vault.doubt(vault.select(), ValueError())
        async with asyncio.timeout(60):
            await called.wait()
    finally:
        task.cancel()
        await asyncio.wait([task])
