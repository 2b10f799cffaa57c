"""Operators that are asked to exit, and their forks that must."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from e2e.chaos.driver.notes import at

SLOW = """
@kopf.on.startup()
def hurry(settings, **_):
    settings.queueing.exit_timeout = 0.3

@kopf.on.create(*KEXES)
@noted
def a(**_):
    time.sleep(2)  # longer than the operator is going to wait
"""


async def test_r15_what_was_waited_for_at_the_exit_is_recorded(world):
    """A graceful exit costs no repetitions, however long the handlers are."""
    world.api.create(spec={"x": 1})
    async with world.operator(SLOW) as process:
        await world.notebook.until(at("begin", "a"))
        await process.stop()
    async with world.operator(SLOW):
        await world.until_handled()
    assert len(world.notebook.find(at("end", "a", outcome="success"))) == 1


LIMITED = """
@kopf.on.startup()
def limit(settings, **_):
    settings.queueing.exit_timeout = 0.3
    settings.process.ultimate_exiting_timeout = 3
"""

HUNG = {
    "handler": """
@kopf.on.create(*KEXES)
def hung(**_):
    note("hung")
    threading.Event().wait()
""",
    "timer": """
@kopf.timer(*KEXES, interval=1)
def hung(**_):
    note("hung")
    threading.Event().wait()
""",
    "daemon": """
@kopf.daemon(*KEXES)
def hung(**_):
    note("hung")
    threading.Event().wait()
""",
    "failing cleanup": """
@kopf.on.create(*KEXES)
def serve(**_):
    note("hung")

@kopf.on.cleanup()
def hung(**_):
    raise Exception("never clean")
""",
    "cancelled cleanup": """
@kopf.on.create(*KEXES)
def serve(**_):
    note("hung")

@kopf.on.cleanup()
async def hung(**_):
    raise asyncio.CancelledError("never clean")
""",
    "swallowing handler": """
@kopf.on.create(*KEXES)
async def hung(**_):
    await asyncio.to_thread(note, "hung")
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass
""",
}


@pytest.mark.parametrize("what", HUNG)
async def test_r16_the_whole_exit_has_a_limit(world, what):
    world.tolerated["O1"] = "there is nobody to finish it"
    if "cleanup" in what:
        world.tolerated["O6"] = "these errors are users', and are shown with their tracebacks"
    world.api.create(spec={"x": 1})
    async with world.operator(LIMITED + HUNG[what]) as process:
        await world.notebook.until(at("hung"))
        code = await process.stop()
    if what == "cancelled cleanup":  # it is either a failure to be reported, or nothing at all
        assert code in (0, 1)
    else:
        assert code == 1
        assert any("hung" in line for line in process.log[-10:]), process.tail


LOGINS = {
    "plugin": "",
    "handler": """
@kopf.on.login()
def hung(**_):
    threading.Event().wait()
""",
}


@pytest.mark.parametrize("what", LOGINS)
async def test_b17_hung_logins_do_not_hold_the_exit(world, what):
    """Nobody needs credentials anymore: plugins are killed, threads are left, quietly."""
    fifo, plugin = world.folder / "fifo", world.folder / "plugin"
    os.mkfifo(fifo)
    plugin.write_text(f"#!/bin/sh\nexec 3>{fifo}; echo begun >&3; exec sleep 3600\n")
    plugin.chmod(0o700)
    user = {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": str(plugin),
            "interactiveMode": "Never",
        }
    }
    async with world.operator(LOGINS[what], user=user) as process:
        with await asyncio.to_thread(fifo.open) as pipe:
            assert await asyncio.to_thread(pipe.readline) == "begun\n"
            assert await process.stop() == 0
            assert await asyncio.to_thread(pipe.readline) == ""  # nobody has it open
    assert not process.find("ERROR") + process.find("not ended")
    assert all("is cancelled" in line for line in process.find("WARNING"))


async def test_f1_the_second_signal_ends_it_at_once(world):
    world.tolerated["O1"] = "there is nobody to finish it"
    world.api.create(spec={"x": 1})
    async with world.operator(HUNG["handler"]) as process:
        await world.notebook.until(at("hung"))
        process.send(signal.SIGTERM)
        await process.until_logged("Operator is stopping")
        assert await process.stop() != 0


FORKS = {
    "sync": """
@kopf.on.create(*KEXES)
def forks(**_):
    pid = os.fork()
    if not pid:
        note("child")
        sys.exit()
    os.waitpid(pid, 0)
    note("reaped")
""",
    "async": """
@kopf.on.create(*KEXES)
async def forks(**_):
    pid = os.fork()
    if not pid:
        note("child")
        sys.exit()
    await asyncio.to_thread(os.waitpid, pid, 0)
    await asyncio.to_thread(note, "reaped")
""",
    "signalled": """
@kopf.on.create(*KEXES)
def forks(**_):
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        note("child")
        os.write(writing, b"!")
        time.sleep(600)
    os.read(reading, 1)
    os.kill(pid, 15)
    os.waitpid(pid, 0)
    note("reaped")
""",
}


@pytest.mark.parametrize("what", FORKS)
async def test_r26_forks_are_not_operators(world, what):
    """They end when they say so, do it once, and leave the operator as it was."""
    world.api.create(spec={"x": 1})
    async with world.operator(FORKS[what]) as process:
        await world.notebook.until(at("reaped"))
        await world.until_handled()
        world.api.create("two", spec={"x": 1})
        await world.until_handled("two")
        assert process.code is None
    assert len(world.notebook.find(at("child"))) == 2
    assert len(world.notebook.find(at("reaped"))) == 2
