"""Driving of all kinds of functions: what they yield is accepted, outcomes come back."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from kopf_core.actions.threads import Door, TakenBack
from kopf_core.engines.desired.driving import PassInterrupted, drive


class Acceptor:
    """Remembers what it is given, and returns something recognisable; or fails."""

    def __init__(self, failing: Any = None) -> None:
        self.items: list[Any] = []
        self.failing = failing

    async def __call__(self, item: Any) -> Any:
        self.items.append(item)
        if self.failing is not None and item == self.failing:
            raise ValueError(f"{item} is refused")
        return f"live {item}"


async def run(fn: Any, acceptor: Acceptor, **kwargs: Any) -> list[Any]:
    await drive(fn, kwargs, accept=acceptor, executor=None)
    return acceptor.items


def sync_generator(seen: list[Any], **_: Any) -> Iterator[Any]:
    seen.append((yield "a"))
    seen.append((yield ["b", "c"]))
    seen.append((yield None))
    seen.append(threading.current_thread() is threading.main_thread())


async def async_generator(seen: list[Any], **_: Any) -> AsyncIterator[Any]:
    seen.append((yield "a"))
    seen.append((yield ["b", "c"]))
    seen.append((yield None))
    seen.append(threading.current_thread() is not threading.main_thread())


@pytest.mark.parametrize("fn", [sync_generator, async_generator])
async def test_generators_get_the_outcomes_back(fn: Any) -> None:
    seen: list[Any] = []
    assert await run(fn, Acceptor(), seen=seen) == ["a", "b", "c"]
    assert seen == ["live a", ["live b", "live c"], None, False]


def returns_list(**_: Any) -> Any:
    return ["a", None, "b"]


async def returns_list_async(**_: Any) -> Any:
    return ("a", "b")


def returns_generator(**kwargs: Any) -> Any:
    return (item for item in "ab")


@pytest.mark.parametrize("fn", [returns_list, returns_list_async, returns_generator])
async def test_functions_return_everything_at_once(fn: Any) -> None:
    assert await run(fn, Acceptor()) == ["a", "b"]


@pytest.mark.parametrize("value", [None, [], ()])
async def test_nothing_can_be_wanted(value: Any) -> None:
    assert await run(lambda **_: value, Acceptor()) == []


def careful(seen: list[Any], **_: Any) -> Iterator[Any]:
    try:
        yield "bad"
    except ValueError as e:
        seen.append(str(e))
    yield "good"


async def careful_async(seen: list[Any], **_: Any) -> AsyncIterator[Any]:
    try:
        yield "bad"
    except ValueError as e:
        seen.append(str(e))
    yield "good"


@pytest.mark.parametrize("fn", [careful, careful_async])
async def test_errors_of_applying_can_be_caught(fn: Any) -> None:
    seen: list[Any] = []
    assert await run(fn, Acceptor(failing="bad"), seen=seen) == ["bad", "good"]
    assert seen == ["bad is refused"]


def careless(seen: list[Any], **_: Any) -> Iterator[Any]:
    try:
        yield "bad"
        yield "never"
    finally:
        seen.append("closed")


async def careless_async(seen: list[Any], **_: Any) -> AsyncIterator[Any]:
    try:
        yield "bad"
        yield "never"
    finally:
        seen.append("closed")


@pytest.mark.parametrize("fn", [careless, careless_async])
async def test_errors_that_are_not_caught_end_the_pass(fn: Any) -> None:
    seen: list[Any] = []
    acceptor = Acceptor(failing="bad")
    with pytest.raises(ValueError, match="bad is refused"):
        await run(fn, acceptor, seen=seen)
    assert acceptor.items == ["bad"]
    assert seen == ["closed"]


@pytest.mark.parametrize("fn", [careless, careless_async])
async def test_interrupted_passes_only_close_the_function(fn: Any) -> None:
    async def interrupt(_: Any) -> Any:
        raise PassInterrupted()

    seen: list[Any] = []
    with pytest.raises(PassInterrupted):
        await drive(fn, {"seen": seen}, accept=interrupt, executor=None)
    assert seen == ["closed"]


async def no_thread(*_: Any, **__: Any) -> Any:
    raise AssertionError("There is no need for a thread.")


def yields_and_returns(value: Any, **_: Any) -> Iterator[Any]:
    yield "a"
    return value  # a generator can do both


@pytest.mark.parametrize(
    ("value", "items"), [("b", ["a", "b"]), (["b", None, "c"], ["a", "b", "c"]), (None, ["a"])]
)
async def test_generators_can_return_the_last_wishes(value: Any, items: list[Any]) -> None:
    assert await run(yields_and_returns, Acceptor(), value=value) == items


async def test_refused_returns_of_generators_end_the_pass() -> None:
    acceptor = Acceptor(failing="b")
    with pytest.raises(ValueError, match="b is refused"):
        await run(yields_and_returns, acceptor, value="b")
    assert acceptor.items == ["a", "b"]


async def test_generators_take_no_threads_to_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asyncio.get_running_loop(), "run_in_executor", no_thread)
    seen: list[Any] = []
    assert await run(async_generator, Acceptor(), seen=seen) == ["a", "b", "c"]


@pytest.mark.parametrize("is_async", [False, True])
async def test_k12_no_step_is_made_behind_a_shut_door(is_async):
    steps, door = [], Door()

    def fn():
        try:
            yield "one"
            steps.append("next")
        finally:
            steps.append("closed")

    async def afn():
        with contextlib.closing(fn()) as generator:
            for item in generator:
                yield item

    async def accept(item):
        door.is_shut = True

    with pytest.raises(TakenBack):
        await drive(afn if is_async else fn, {}, accept=accept, executor=None, door=door)
    assert steps == ["closed"]
    with pytest.raises(TakenBack):
        await drive(afn if is_async else fn, {}, accept=accept, executor=None, door=door)
    assert steps == ["closed"]
