"""Pools of threads which do not hold the exit."""

import subprocess
import sys
import threading

import pytest

from kopf_cogs.aiokits.pools import DaemonPool, group_var


def test_results_and_errors():
    pool = DaemonPool(1, name="pool")
    assert pool.submit(divmod, 7, 2).result() == (3, 1)
    with pytest.raises(ZeroDivisionError):
        pool.submit(lambda: 1 / 0).result()
    pool.shutdown()


def test_threads_are_started_up_to_the_limit_and_reused():
    pool, names = DaemonPool(3, name="pool"), []
    barrier = threading.Barrier(3)

    def work():
        names.append(threading.current_thread().name)
        barrier.wait(timeout=60)

    for future in [pool.submit(work) for _ in range(9)]:
        future.result()
    assert {*names} == {"pool_0", "pool_1", "pool_2"}
    pool.shutdown()


def test_raised_limits_take_effect():
    pool, barrier = DaemonPool(1, name="pool"), threading.Barrier(2)
    first = pool.submit(barrier.wait, 60)
    pool.max_workers = 2
    second = pool.submit(barrier.wait, 60)
    assert {first.result(), second.result()} == {0, 1}
    pool.shutdown()


def test_shutdown_ends_the_threads_and_cancels_what_waits():
    pool, release = DaemonPool(1, name="pool"), threading.Event()
    running = pool.submit(release.wait, 60)
    while not running.running():
        pass
    waiting = pool.submit(int)
    pool.shutdown(wait=False, cancel_futures=True)
    assert waiting.cancelled()
    with pytest.raises(RuntimeError, match="closed"):
        pool.submit(int)
    release.set()
    pool.shutdown()
    assert running.result() is True


HANGING = """
import threading
from kopf_cogs.aiokits.pools import DaemonPool
started = threading.Event()
def hang():
    started.set()
    threading.Event().wait()
DaemonPool(1, name="pool").submit(hang)
started.wait()
"""


def test_f2_functions_that_hang_do_not_hold_the_interpreter():
    subprocess.run([sys.executable, "-c", HANGING], check=True, timeout=120)


@pytest.mark.parametrize("count", [100, 1000])
def test_o_a_function_for_a_namespace_waits_for_a_few_of_another_one(count):
    pool, release, begun = DaemonPool(1, name="pool"), threading.Event(), []

    def submit(group, value):
        token = group_var.set(group)
        try:
            return pool.submit(begun.append, value)
        finally:
            group_var.reset(token)

    pool.submit(release.wait, 60)
    for number in range(count):
        submit("flooded", number)
    other = submit("other", "other")
    release.set()
    other.result()
    pool.shutdown(wait=True, cancel_futures=True)
    assert begun.index("other") <= 2


def test_functions_of_one_namespace_are_called_in_the_order_of_coming():
    pool, called = DaemonPool(1, name="pool"), []
    for number in range(100):
        pool.submit(called.append, number)
    pool.shutdown()
    assert called == [*range(100)]
