import asyncio
import datetime

from kopf_cogs.aiokits.clocks import FakeClock, SteadyClock, SystemClock


async def test_system_clock_is_as_of_the_loop():
    loop = asyncio.get_running_loop()
    before = loop.time()
    assert before <= SystemClock().monotonic() <= loop.time()


def test_system_clock_is_in_utc():
    before = datetime.datetime.now(datetime.UTC)
    now = SystemClock().now()
    assert before <= now <= datetime.datetime.now(datetime.UTC)
    assert now.utcoffset() == datetime.timedelta(0)


def test_fake_clock_moves_only_when_moved():
    start = datetime.datetime(2030, 1, 2, tzinfo=datetime.UTC)
    clock = FakeClock(start)
    assert (clock.monotonic(), clock.now()) == (0, start)
    clock.advance(90)
    assert (clock.monotonic(), clock.now()) == (90, start + datetime.timedelta(seconds=90))


def test_wall_time_of_the_fake_clock_jumps_alone():
    clock = FakeClock()
    clock.advance(5)
    moment = datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC)
    clock.set_wall_time(moment)
    assert (clock.monotonic(), clock.now()) == (5, moment)


def test_steady_clocks_do_not_jump():
    clock = FakeClock()
    clock.advance(5)
    start = clock.now()
    steady = SteadyClock(clock)
    clock.set_wall_time(datetime.datetime(2050, 1, 1, tzinfo=datetime.UTC))
    clock.advance(90)
    assert (steady.monotonic(), steady.now()) == (95, start + datetime.timedelta(seconds=90))
