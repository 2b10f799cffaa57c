import asyncio
import logging

import pytest

from kopf_cogs.aiokits import guards


@pytest.fixture(autouse=True)
def _debug(caplog):
    caplog.set_level(logging.DEBUG)


async def succeed():
    pass


async def fail():
    raise ZeroDivisionError("boo!")


async def hang():
    await asyncio.Event().wait()


@pytest.fixture
def records(caplog):
    def get():
        return [(r.levelname, r.getMessage()) for r in caplog.records if r.name != "asyncio"]

    return get


async def test_unexpected_exits_are_reported(records):
    await guards.guard(succeed(), "the task")
    assert records() == [("WARNING", "The task has finished unexpectedly.")]


async def test_expected_exits_are_not_reported(records):
    await guards.guard(succeed(), "the task", finishable=True)
    assert records() == []


async def test_failures_are_reported_and_raised(records, caplog):
    with pytest.raises(ZeroDivisionError):
        await guards.guard(fail(), "the task", finishable=True)
    assert records() == [("ERROR", "The task has failed: boo!")]
    assert caplog.records[-1].exc_info


async def test_expected_failures_have_no_tracebacks(records, caplog):
    class Expected(Exception):
        expected = True

    async def refuse():
        raise Expected("no!")

    with pytest.raises(Expected):
        await guards.guard(refuse(), "the task")
    assert records() == [("ERROR", "The task has failed: no!")]
    assert not caplog.records[-1].exc_info


@pytest.mark.parametrize(
    ("cancellable", "expected"),
    [
        (True, []),
        (False, [("DEBUG", "The task is cancelled.")]),
    ],
)
async def test_cancellations(records, cancellable, expected):
    task = guards.create_guarded_task(hang(), "the task", cancellable=cancellable)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert records() == expected
    assert task.get_name() == "the task"


async def test_flags_are_waited_for(records):
    flag = asyncio.Event()
    task = guards.create_guarded_task(fail(), "the task", flag=flag)
    await asyncio.sleep(0)
    assert not task.done()
    flag.set()
    with pytest.raises(ZeroDivisionError):
        await task


@pytest.mark.parametrize("started", [True, False])
async def test_cancellation_before_the_flag(started):
    # There must be no warnings of coroutines that were never awaited.
    task = guards.create_guarded_task(succeed(), "the task", flag=asyncio.Event())
    if started:
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()


def test_errors_are_described_by_all_means():
    class Bad(Exception):
        def __str__(self):
            raise ValueError

        def __repr__(self):
            return "<bad>"

    assert guards.describe(ValueError("x")) == "x"
    assert guards.describe(ValueError()) == "ValueError()"
    assert guards.describe(Bad()) == "<bad>"


async def test_nothing_to_wait_for():
    assert await guards.wait([]) == (set(), set())
    assert await guards.stop([], title="Tasks") == (set(), set())


async def test_stopping(records):
    tasks = [asyncio.create_task(hang()), asyncio.create_task(succeed())]
    await asyncio.sleep(0)
    done, pending = await guards.stop(tasks, title="Tasks")
    assert done == set(tasks)
    assert pending == set()
    assert records() == [("DEBUG", "Tasks are stopped.")]


async def test_quiet_stopping(records):
    await guards.stop([asyncio.create_task(hang())], title="Tasks", quiet=True)
    assert records() == []


async def stubborn(gate):
    while not gate.is_set():
        try:
            await gate.wait()
        except asyncio.CancelledError:
            pass


async def test_slow_tasks_are_reported_and_waited_for(records):
    gate = asyncio.Event()
    task = asyncio.create_task(stubborn(gate), name="stubborn1")
    await asyncio.sleep(0)
    stopping = asyncio.create_task(guards.stop([task], title="Tasks", interval=0.001))
    while not records():  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    assert records()[0] == ("WARNING", "Tasks are still running: stubborn1.")
    gate.set()
    assert await stopping == ({task}, set())


async def test_cancelled_stopping_goes_on(records):
    gate = asyncio.Event()
    task = asyncio.create_task(stubborn(gate), name="stubborn1")
    await asyncio.sleep(0)
    stopping = asyncio.create_task(guards.stop([task], title="Tasks"))
    await asyncio.sleep(0)
    stopping.cancel()
    await asyncio.sleep(0)
    assert not stopping.done()
    gate.set()
    assert await stopping == ({task}, set())


async def test_stopping_cancelled_twice_gives_up(records):
    gate = asyncio.Event()
    task = asyncio.create_task(stubborn(gate), name="stubborn1")
    await asyncio.sleep(0)
    stopping = asyncio.create_task(guards.stop([task], title="Tasks", cancelled=True))
    await asyncio.sleep(0)
    stopping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stopping
    assert records() == [("WARNING", "Tasks are left running: stubborn1.")]
    gate.set()
    await task


async def test_errors_of_tasks_are_reraised():
    tasks = [asyncio.create_task(coro) for coro in [succeed(), hang(), fail(), hang()]]
    await asyncio.sleep(0)
    tasks[-1].cancel()
    await asyncio.sleep(0)
    with pytest.raises(ZeroDivisionError):
        await guards.reraise(tasks)
    await guards.stop(tasks, title="Tasks")
    await guards.reraise([tasks[0], tasks[1], tasks[3]])
