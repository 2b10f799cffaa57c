"""The surroundings: the time, the threads, and the chance of whatever runs in a context."""

import contextvars
import random
import threading

from kopf_cogs.aiokits.clocks import FakeClock, SystemClock
from kopf_cogs.aiokits.surroundings import (
    Surroundings,
    get_chance,
    get_clock,
    get_threads,
    surroundings_var,
)
from kopf_cogs.aiokits.threads import SystemThreads
from kopf_cogs.clients.retries import Backoff


def test_they_are_real_by_default():
    assert isinstance(get_clock(), SystemClock)
    assert isinstance(get_threads(), SystemThreads)
    assert isinstance(get_chance(), random.SystemRandom)


def test_they_are_of_the_context():
    clock, chance = FakeClock(), random.Random(1)
    context = contextvars.copy_context()
    context.run(surroundings_var.set, Surroundings(clock=clock, chance=chance))
    assert context.run(get_clock) is clock
    assert context.run(get_chance) is chance
    assert isinstance(get_clock(), SystemClock)


def test_delays_are_the_same_by_the_same_chance():
    def advance() -> float:
        surroundings_var.set(Surroundings(chance=random.Random(7)))
        return Backoff(1.0).advance()

    assert contextvars.Context().run(advance) == contextvars.Context().run(advance)


def test_system_threads_start_wait_and_repeat():
    started, ticked, event = threading.Event(), threading.Event(), threading.Event()
    threads = SystemThreads()
    threads.start(started.set, name="one")
    assert started.wait(30)
    assert not threads.wait(event, 0)
    stop = threads.repeat(ticked.set, period=0.001, name="two")
    assert threads.wait(ticked, 30)
    stop()
    pool = threads.make_pool(1, name="three")
    assert pool.submit(lambda: 5).result(30) == 5
    pool.shutdown()
