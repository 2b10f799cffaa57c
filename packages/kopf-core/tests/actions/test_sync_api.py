"""``kopf.sync_api`` in threads which live longer than their operators."""

import asyncio
import contextvars
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from kopf_cogs.configs.settings import OperatorSettings
from kopf_core.actions import sync_api
from kopf_core.actions.context import OperatorContext, operator_var

STOPPED = "kopf.sync_api does not work anymore: the operator has stopped."


class SlowAPI:
    """It replies to nothing."""

    def __init__(self) -> None:
        self.asked = threading.Event()

    async def get(self, *_: Any, **__: Any) -> Any:
        self.asked.set()
        await asyncio.Event().wait()


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sync_api, "CHECK_INTERVAL", 0.01)


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


def in_thread(loop: asyncio.AbstractEventLoop, api: Any, fn: Callable[[], Any]) -> Future[Any]:
    """Call the function in a thread of an operator."""
    outcome: Future[Any] = Future()

    def run() -> None:
        operator_var.set(
            OperatorContext(OperatorSettings(), recorder=None, api=api, loop=loop)  # type: ignore[arg-type]
        )
        try:
            outcome.set_result(fn())
        except BaseException as e:
            outcome.set_exception(e)

    threading.Thread(target=contextvars.copy_context().run, args=[run], daemon=True).start()
    return outcome


def call() -> Any:
    return sync_api.get("pods", "x", namespace="ns")


def start(loop: asyncio.AbstractEventLoop) -> threading.Thread:
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    return thread


def test_loops_that_are_closed(loop: asyncio.AbstractEventLoop) -> None:
    loop.close()
    outcome = in_thread(loop, SlowAPI(), call)
    with pytest.raises(RuntimeError, match=STOPPED):
        outcome.result(30)


def test_loops_that_have_stopped(loop: asyncio.AbstractEventLoop) -> None:
    outcome = in_thread(loop, SlowAPI(), call)
    with pytest.raises(RuntimeError, match=STOPPED):
        outcome.result(30)


def test_loops_that_stop_amid_a_request(loop: asyncio.AbstractEventLoop) -> None:
    api, thread = SlowAPI(), start(loop)
    outcome = in_thread(loop, api, call)
    assert api.asked.wait(30)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    with pytest.raises(RuntimeError, match=STOPPED):
        outcome.result(30)
    for task in asyncio.all_tasks(loop):
        task.cancel()
    loop.run_until_complete(asyncio.sleep(0))


def test_requests_that_are_cancelled(loop: asyncio.AbstractEventLoop) -> None:
    api, thread = SlowAPI(), start(loop)
    outcome = in_thread(loop, api, call)
    assert api.asked.wait(30)
    loop.call_soon_threadsafe(lambda: [task.cancel() for task in asyncio.all_tasks(loop)])
    with pytest.raises(RuntimeError, match=STOPPED):
        outcome.result(30)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()


def test_slow_replies_are_waited_for(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked, checks = asyncio.Event(), list[bool]()
    is_running = loop.is_running

    def check() -> bool:
        checks.append(is_running())
        if len(checks) == 5:
            loop.call_soon_threadsafe(checked.set)
        return checks[-1]

    class LateAPI:
        async def get(self, *_: Any, **__: Any) -> Any:
            await checked.wait()
            return "late"

    thread = start(loop)
    monkeypatch.setattr(loop, "is_running", check)
    assert in_thread(loop, LateAPI(), call).result(30) == "late"
    loop.call_soon_threadsafe(loop.stop)
    thread.join()


def test_timeouts_of_requests_are_raised(loop: asyncio.AbstractEventLoop) -> None:
    class FailingAPI:
        async def get(self, *_: Any, **__: Any) -> Any:
            raise TimeoutError("it is of the request")

    thread = start(loop)
    with pytest.raises(TimeoutError, match="it is of the request"):
        in_thread(loop, FailingAPI(), call).result(30)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
