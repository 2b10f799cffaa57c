import asyncio
import datetime
import logging
import math

import pytest

from kopf_cogs.aiokits.clocks import FakeClock
from kopf_cogs.clients.vault import Vault
from kopf_cogs.structs.credentials import ConnectionInfo, LoginError

NOW = datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC)


@pytest.fixture
def clock():
    return FakeClock(NOW)


@pytest.fixture
def vault(clock):
    return Vault(clock=clock, patience=100, holdback=1)


def info(token, **kwargs):
    return ConnectionInfo(server="https://localhost", token=token, **kwargs)


async def test_empty_vaults_wait(vault):
    assert vault.is_empty()
    await vault.wait_for_emptiness()
    task = asyncio.create_task(vault.acquire())
    await asyncio.sleep(0)
    assert not task.done()
    vault.populate({"x": info("1")})
    assert (await task).info == info("1")
    await vault.wait_for_readiness()
    assert not vault.is_empty()


async def test_emptiness_wakes_up_authenticators(vault):
    vault.populate({"x": info("1")})
    task = asyncio.create_task(vault.wait_for_emptiness())
    await asyncio.sleep(0)
    assert not task.done()
    vault.invalidate(vault.select())
    await task


async def test_the_highest_priority_is_used_randomly(vault):
    vault.populate(
        {"a": info("a", priority=1), "b": info("b", priority=5), "c": info("c", priority=5)}
    )
    assert {vault.select().key for _ in range(100)} == {"b", "c"}
    vault.invalidate(next(item for item in [vault.select()] * 1))
    assert len({vault.select().key for _ in range(100)}) == 1
    vault.invalidate(vault.select())
    assert vault.select().key == "a"


async def test_invalidation_is_of_specific_credentials(vault):
    vault.populate({"x": info("1")})
    old = vault.select()
    vault.populate({"x": info("2")})
    vault.invalidate(old)  # e.g. a slow request with the old credentials
    assert vault.select().info == info("2")
    assert old not in vault


async def test_the_same_credentials_are_not_replaced(vault):
    vault.populate({"x": info("1")})
    item = vault.select()
    vault.populate({"x": info("1")})
    assert vault.select() is item


@pytest.mark.parametrize("tzinfo", [None, datetime.UTC])
async def test_expired_credentials_are_dropped(vault, clock, tzinfo):
    moment = (NOW + datetime.timedelta(seconds=10)).replace(tzinfo=tzinfo)
    vault.populate({"x": info("1", expiration=moment), "y": info("2", priority=-1)})
    clock.advance(9)
    assert vault.select().key == "x"
    clock.advance(1)
    assert vault.select().key == "y"


async def test_expiration_of_everything_requires_a_login(vault, clock):
    vault.populate({"x": info("1", expiration=NOW + datetime.timedelta(seconds=10))})
    clock.advance(10)
    assert vault.is_empty()
    await vault.wait_for_emptiness()


async def test_b8_expired_credentials_are_not_accepted(vault):
    vault.populate({"x": info("1", expiration=NOW)})
    with pytest.raises(LoginError, match="no usable credentials"):
        await vault.acquire()


async def test_nothing_retrieved(vault):
    task = asyncio.create_task(vault.acquire())
    await asyncio.sleep(0)
    vault.populate({})
    with pytest.raises(LoginError, match="no usable credentials"):
        await task
    with pytest.raises(LoginError):
        await vault.wait_for_readiness()
    with pytest.raises(LoginError):  # or else, it would log in again and again
        await vault.wait_for_emptiness()
    vault.populate({"x": info("1")})  # better late than never
    assert (await vault.acquire()).info == info("1")


async def test_b7_unchanged_credentials_are_tried_again_with_growing_delays(vault, clock):
    delays = []
    for _ in range(7):
        vault.populate({"x": info("1")})
        item = vault.select()
        delays.append(max(0, item.usable_since - clock.monotonic()))
        vault.invalidate(item)
        assert vault.is_empty()
    assert delays == [0, 1, 2, 4, 8, 16, 30]


async def test_b7_patience_is_limited(vault, clock):
    vault.populate({"x": info("1")})
    vault.invalidate(vault.select())
    clock.advance(100)
    vault.populate({"x": info("1")})
    vault.invalidate(vault.select())
    clock.advance(1)
    vault.populate({"x": info("1")})
    with pytest.raises(LoginError):
        await vault.acquire()


async def test_b7_patience_is_restored_by_success(vault, clock):
    vault.populate({"x": info("1")})
    vault.invalidate(vault.select())
    clock.advance(50)
    vault.populate({"x": info("1")})
    vault.confirm(vault.select())
    assert vault.select().usable_since == 0
    clock.advance(1000)
    vault.invalidate(vault.select())
    vault.populate({"x": info("1")})
    assert not vault.is_empty()


async def test_b7_held_back_credentials_are_waited_for(clock):
    vault = Vault(holdback=0.001)  # with the real clock
    vault.populate({"x": info("1")})
    vault.invalidate(vault.select())
    vault.populate({"x": info("1")})
    item = await vault.acquire()
    assert item.usable_since > 0


async def test_b6_new_credentials_are_held_back_when_they_are_refused_in_a_row(vault, clock):
    """Otherwise, the login handlers that bring new credentials are called in a busy loop."""
    holds = []
    for n in range(5):
        vault.populate({"x": info(f"{n}")})
        item = vault.select()
        holds.append(item.usable_since and item.usable_since - clock.monotonic())
        vault.invalidate(item)
    assert holds == [0, 0, 1, 2, 4]
    clock.advance(60)
    vault.populate({"x": info("new")})
    assert vault.select().usable_since == 0


async def test_b6_refusals_in_a_row_are_warnings(vault, caplog):
    caplog.set_level(logging.INFO)
    for n in range(3):
        vault.populate({"login_fn": info(f"{n}")})
        vault.invalidate(vault.select(), Exception("401 Unauthorized"))
    vault.populate({"login_fn": info("good")})
    vault.confirm(vault.select())
    vault.invalidate(vault.select())
    levels = [record.levelno for record in caplog.records]
    assert levels == [logging.INFO, logging.WARNING, logging.WARNING, logging.INFO]
    assert "'login_fn'" in caplog.messages[1]
    assert "401 Unauthorized" in caplog.messages[1]


async def test_new_credentials_are_used_at_once(vault):
    vault.populate({"x": info("1")})
    vault.invalidate(vault.select())
    vault.populate({"x": info("2")})
    assert vault.select().usable_since == 0


async def test_refusals_are_remembered_in_limited_numbers(vault):
    for number in range(100):
        vault.populate({"x": info(str(number))})
        vault.invalidate(vault.select())
    assert len(vault._refusals["x"]) < 10


async def test_not_refillable_vaults_fail_at_once(clock):
    cause = ValueError("boo")
    vault = Vault({"x": info("1")}, refillable=False, clock=clock)
    vault.invalidate(vault.select(), cause)
    with pytest.raises(LoginError, match="refused") as err:
        await vault.acquire()
    assert err.value.__cause__ is cause


async def test_not_refillable_vaults_with_expired_credentials(clock):
    moment = NOW + datetime.timedelta(seconds=1)
    vault = Vault({"x": info("1", expiration=moment)}, refillable=False, clock=clock)
    clock.advance(1)
    with pytest.raises(LoginError, match="expired"):
        await vault.acquire()


async def test_closing_wakes_up_everyone(vault):
    tasks = [asyncio.create_task(vault.acquire()) for _ in range(3)]
    await asyncio.sleep(0)
    vault.close()
    for task in tasks:
        with pytest.raises(LoginError, match="closed"):
            await task


def test_e5_repr_has_no_secrets(vault):
    vault.populate({"handler": info("hush")})
    assert "hush" not in repr(vault)
    assert "hush" not in repr(vault.select())
    assert "handler" in repr(vault)


async def test_b6_newer_credentials_wake_up_those_who_wait_for_the_held_back_ones(vault, clock):
    """The time stands still here: only the replacement can let them go."""
    vault.populate({"x": info("1")})
    for _ in range(5):
        vault.invalidate(vault.select())
        vault.populate({"x": info("1")})
    assert vault.select().usable_since > clock.monotonic()
    tasks = [asyncio.create_task(vault.acquire()) for _ in range(3)]
    await asyncio.sleep(0)
    vault.populate({"y": info("2", priority=-1)})
    async with asyncio.timeout(60):
        items = await asyncio.gather(*tasks)
    assert [item.info.token for item in items] == ["2", "2", "2"]


async def test_b16_doubts_are_reasons_to_log_in_but_not_to_stop(vault, clock, caplog):
    vault.populate({"x": info("1")})
    item = vault.select()
    task = asyncio.create_task(vault.wait_for_emptiness())
    await asyncio.sleep(0)
    for _ in range(3):
        vault.doubt(item, ValueError("bad CA"))
    async with asyncio.timeout(60):
        await task
    assert await vault.acquire() is item
    vault.populate({"x": info("1")})
    assert vault.select() is item
    vault.doubt(item, ValueError("bad CA"))  # too early
    task = asyncio.create_task(vault.wait_for_emptiness())
    await asyncio.sleep(0)
    assert not task.done()
    clock.advance(30)
    vault.doubt(item, ValueError("bad CA"))
    async with asyncio.timeout(60):
        await task
    assert caplog.text.count("There is no trust between the server and 'x': bad CA") == 2


async def test_doubts_in_what_is_gone_mean_nothing(vault):
    vault.populate({"x": info("1")})
    item = vault.select()
    vault.populate({"x": info("2")})
    vault.doubt(item, ValueError("bad CA"))
    assert item.doubted_since is None


async def test_k22_credentials_can_be_refused_for_days(clock):
    vault = Vault({"x": info("1")}, clock=clock, patience=math.inf)
    for _ in range(1100):
        vault.invalidate(vault.select())
        vault.populate({"x": info("1")})
    assert vault.select().usable_since == clock.monotonic() + 30
