"""Signals of the process: all operators get them, in whatever order they start and end."""

import asyncio
import signal
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from kopf_core.reactor.process.signals import SIGNALS, install_signals


@pytest.fixture(autouse=True)
def outer() -> Iterator[list[int]]:
    """What gets the signals when no operators do."""
    received: list[int] = []
    previous = {
        signum: signal.signal(signum, lambda n, _: received.append(n)) for signum in SIGNALS
    }
    yield received
    for signum, handler in previous.items():
        signal.signal(signum, handler)


@pytest.fixture
def calls() -> list[str]:
    return []


@pytest.fixture
def make(calls: list[str]) -> Any:
    def make_operator(name: str) -> Any:
        return SimpleNamespace(
            exit=SimpleNamespace(bound=1.0, describe=str),
            stop=lambda: calls.append(f"{name} stops"),
            abort=lambda: calls.append(f"{name} aborts"),
        )

    return make_operator


async def raise_signal(signum: int) -> None:
    signal.raise_signal(signum)
    await asyncio.sleep(0)
    await asyncio.sleep(0)


@pytest.mark.parametrize("signum", SIGNALS)
async def test_f4_signals_stop_all_operators_of_the_process(make, calls, outer, signum):
    one, two = install_signals(make("one"), None), install_signals(make("two"), None)
    await raise_signal(signum)
    assert sorted(calls) == ["one stops", "two stops"]
    await raise_signal(signum)
    assert sorted(calls) == ["one aborts", "one stops", "two aborts", "two stops"]
    two.uninstall()
    one.uninstall()
    assert outer == []


@pytest.mark.parametrize("signum", SIGNALS)
@pytest.mark.parametrize("ended", ["one", "two", "three"])
async def test_f4_the_rest_get_signals_when_one_has_ended(make, calls, outer, signum, ended):
    names = ["one", "two", "three"]
    operators = {name: install_signals(make(name), None) for name in names}
    operators.pop(ended).uninstall()
    await raise_signal(signum)
    assert sorted(calls) == sorted(f"{name} stops" for name in operators)
    for operator in operators.values():
        operator.uninstall()
    await raise_signal(signum)
    assert outer == [signum]


async def test_signals_are_told_to_the_owner_of_the_process(make, calls, outer):
    told: list[float] = []
    owner: Any = SimpleNamespace(
        is_asked=False, on_signal=lambda timeout, describe: told.append(timeout)
    )
    signals = install_signals(make("one"), owner)
    await raise_signal(signal.SIGTERM)
    signals.uninstall()
    assert len(told) == 1
    assert told[0] > 1.0


async def test_k16_signals_that_came_before_the_operator_stop_it(make, calls, outer):
    owner: Any = SimpleNamespace(is_asked=True)
    install_signals(make("one"), owner).uninstall()
    assert calls == ["one stops"]


async def test_threads_other_than_the_main_one_get_no_signals(make, calls, outer):
    async def run() -> None:
        install_signals(make("one"), None).uninstall()

    before = signal.getsignal(signal.SIGTERM)
    await asyncio.to_thread(asyncio.run, run())
    assert signal.getsignal(signal.SIGTERM) is before
