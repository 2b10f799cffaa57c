"""Waiting without sleeping."""

import asyncio
import threading

import idleness
import pytest
from idleness import quiet, until


async def test_k37_checks_are_made_when_something_has_happened() -> None:
    happened, checks = asyncio.Event(), 0

    def check() -> bool:
        nonlocal checks
        checks += 1
        return happened.is_set()

    loop = asyncio.get_running_loop()
    task = asyncio.create_task(until(check))
    await quiet()
    before = checks
    loop.call_soon(happened.set)
    assert await task is True
    assert checks > before


async def test_k37_nothing_is_checked_while_nothing_happens() -> None:
    """It neither sleeps nor spins: what was checked once, is not checked again by itself."""
    checks: list[int] = []
    task = asyncio.create_task(until(lambda: checks.append(1)))
    await quiet()
    woken = asyncio.Event()
    threading.Thread(
        target=asyncio.get_running_loop().call_soon_threadsafe, args=[woken.set]
    ).start()
    await woken.wait()
    assert 1 <= len(checks) <= 4
    task.cancel()


async def test_k37_results_are_returned_also_of_coroutines() -> None:
    async def check() -> str:
        await asyncio.sleep(0)
        return "result"

    assert await until(check) == "result"


async def test_k37_it_is_quiet_when_all_that_was_begun_is_done() -> None:
    done = []

    async def work(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readexactly(5))
        writer.close()
        await writer.wait_closed()

    async def talk(port: int) -> None:
        for _ in range(10):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"hello")
            done.append(await reader.readexactly(5))
            writer.close()
            await writer.wait_closed()

    async with await asyncio.start_server(work, "127.0.0.1", 0) as server:
        task = asyncio.create_task(talk(server.sockets[0].getsockname()[1]))
        await quiet()
        assert task.done()
    assert done == [b"hello"] * 10


async def test_k37_what_never_comes_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idleness, "PATIENCE", 0)
    with pytest.raises(TimeoutError):
        await until(lambda: False)
