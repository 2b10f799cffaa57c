"""Operators that are killed, restarted, and shown the past."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pathlib
import signal
import sys
import time

import pytest

from e2e.tests.harness import (
    FINALIZER,
    GROUP,
    get_essence,
    get_finalizers,
    get_progress,
    is_ours,
)
from kopf_core.intents import decorators as on
from kopf_core.intents.registries import OperatorRegistry

KEX = (GROUP, "kexes")

# Each handler has a side effect: a line in the file. It then waits for a permission to go on.
HANDLERS = """
import os, pathlib, time
import kopf

folder = pathlib.Path(os.environ["FOLDER"])

@kopf.on.startup()
def configure(settings, **_):
    settings.posting.enabled = False

def make(id):
    @kopf.on.create("e2e.kopf.dev", "kexes", id=id)
    @kopf.on.update("e2e.kopf.dev", "kexes", id=id)
    @kopf.on.delete("e2e.kopf.dev", "kexes", id=id)
    def fn(reason, **_):
        with (folder / "log").open("a") as file:
            file.write(f"{reason} {id}\\n")
        while (folder / f"hold-{id}").exists():
            (folder / f"held-{id}").touch()
            time.sleep(0.01)
        return id

for id in "abc":
    make(id)
"""

PATIENCE = 120
"""In seconds: processes start slowly when the machine is busy."""


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    (tmp_path / "handlers.py").write_text(HANDLERS)
    (tmp_path / "log").touch()
    return tmp_path


def read(folder):
    return (folder / "log").read_text().splitlines()


async def until_exists(path):
    """Files are the only way to see what happens in another process."""
    async with asyncio.timeout(60):
        await asyncio.to_thread(_wait_for_file, path)


def _wait_for_file(path):
    while not path.exists():
        time.sleep(0.01)


def is_done(obj):
    return obj is not None and get_essence(obj) is not None and not get_progress(obj)


@pytest.mark.docs("continuity/restarts")
async def test_c1_killed_between_the_side_effect_and_its_record(world, folder):
    """Each handler in its turn. Only that one is repeated, and only once."""
    env = {"FOLDER": str(folder)}
    await world.create()
    for n, victim in enumerate("abc"):
        (folder / f"hold-{victim}").touch()
        async with world.process(folder / "handlers.py", env=env) as process:
            await until_exists(folder / f"held-{victim}")
            process.send_signal(signal.SIGKILL)
            await process.wait()
        (folder / f"hold-{victim}").unlink()
        records = get_progress(await world.get())
        assert {id for id, record in records.items() if record["success"]} == {*"abc"[:n]}
    async with world.process(folder / "handlers.py", env=env):
        obj = await world.until(is_done)
    assert sorted(read(folder)) == sorted(f"create {id}" for id in "aabbcc")
    assert obj["status"] == {id: id for id in "abc"}


async def test_c1_killed_while_deleting(world, folder):
    env = {"FOLDER": str(folder)}
    await world.create()
    async with world.process(folder / "handlers.py", env=env) as process:
        await world.until(is_done)
        (folder / "hold-b").touch()
        await world.delete()
        await until_exists(folder / "held-b")
        process.send_signal(signal.SIGKILL)
        await process.wait()
    (folder / "hold-b").unlink()
    assert get_finalizers(await world.get()) == [FINALIZER]
    async with world.process(folder / "handlers.py", env=env):
        await world.until_gone()
    deleted = [line for line in read(folder) if line.startswith("delete")]
    assert sorted(deleted) == ["delete a", "delete b", "delete b", "delete c"]


@pytest.mark.skipif(sys.platform == "win32", reason="There are no such signals.")
async def test_f1_graceful_exit_repeats_nothing(world, folder):
    env = {"FOLDER": str(folder)}
    await world.create()
    async with world.process(folder / "handlers.py", env=env) as process:
        await world.until(is_done)
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(PATIENCE):
            assert await process.wait() == 0
    async with world.process(folder / "handlers.py", env=env):
        await world.patch({"spec": {"x": 1}})
        await world.until_handled(spec={"x": 1})
    assert sorted(read(folder)) == sorted(
        f"{reason} {id}" for reason in ("create", "update") for id in "abc"
    )


HANGING = """
import asyncio, kopf

@kopf.on.startup()
def configure(settings, **_):
    settings.queueing.exit_timeout = 600

@kopf.on.create("e2e.kopf.dev", "kexes")
async def fn(**_):
    print("hanging", flush=True)
    await asyncio.sleep(600)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="There are no such signals.")
@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
async def test_f1_the_second_signal_aborts_with_no_noise(world, tmp_path, signum):
    await world.create()
    async with running(world, tmp_path, HANGING) as process:
        lines = []
        for milestone in (b"hanging", b"Operator is stopping"):
            lines += await read_until(process, milestone)
            process.send_signal(signum)
        rest = await process.stdout.read()
        assert await process.wait() == 0
    assert b"Operator is aborted" in rest
    assert b"Traceback" not in b"".join(lines) + rest


QUICK = """
import kopf

@kopf.on.create("e2e.kopf.dev", "kexes")
def fn(**_):
    pass
"""


@contextlib.asynccontextmanager
async def running(world, path, source):
    """A process of an operator; its output is read from the pipe."""
    (path / "handlers.py").write_text(source)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "kopf",
        "run",
        "-n",
        world.namespace,
        str(path / "handlers.py"),
        env={**os.environ, "KUBECONFIG": str(world.kubeconfig)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(PATIENCE):
            yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def read_until(process, milestone):
    lines = []
    while milestone not in (line := await process.stdout.readline()):
        assert line, f"The output has ended: {lines}"
        lines.append(line)
    return lines


@pytest.mark.skipif(sys.platform == "win32", reason="There are no such signals.")
@pytest.mark.parametrize("delay", [0, 0.005, 0.02, 0.05])
async def test_f1_signals_during_the_exit_are_harmless(world, tmp_path, delay):
    await world.create()
    async with running(world, tmp_path, QUICK) as process:
        await read_until(process, b"Creation is processed")
        process.send_signal(signal.SIGTERM)
        await asyncio.sleep(delay)  # there is nothing to wait for: any moment must be good
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        rest = await process.stdout.read()
        assert await process.wait() == 0
    assert b"Traceback" not in rest


async def test_c4_states_from_the_past_do_not_repeat_the_deletion(faulty):
    """A replica that lags behind shows the object with its finalizer, already removed."""

    @on.create(*KEX, id="create", registry=faulty.registry)
    @on.delete(*KEX, id="delete", registry=faulty.registry)
    def fn(reason, name, **_):
        faulty.calls((str(reason), name))

    seen = []

    async with faulty.operator():
        await faulty.create(metadata={"finalizers": ["foreign.com/f"]})
        await faulty.until_handled()
        await faulty.delete()
        obj = await faulty.until(
            lambda obj: seen.append(obj) or get_finalizers(obj) == ["foreign.com/f"]
        )
        past = [o for o in seen if FINALIZER in get_finalizers(o)]
        assert obj["metadata"]["deletionTimestamp"]
        lines = [json.dumps({"type": "MODIFIED", "object": o}) for o in past]
        past = "\n".join(lines).encode()
        with faulty.sandbox.faults.inject(past, path="*/kexes", match=is_ours):
            faulty.sandbox.cut_watches("*/kexes")
            await faulty.create({}, "last")
            await faulty.until_handled("last")
        await faulty.patch({"metadata": {"finalizers": None}})
        await faulty.until_gone()
    assert faulty.calls == [("create", "obj"), ("delete", "obj"), ("create", "last")]


async def test_o2_restarts_in_the_middle_of_retries_keep_counting(world):
    from kopf_core.actions.errors import TemporaryError

    def make(fails):
        registry = OperatorRegistry()

        @on.create(*KEX, id="fn", retries=5, registry=registry)
        def fn(retry, started, **_):
            world.calls((retry, started))
            if fails:
                raise TemporaryError("x", delay=0.05)

        return registry

    async with world.operator(make(True)):
        await world.create()
        await world.until(lambda obj: get_progress(obj).get("fn", {}).get("retries") == 2)
    async with world.operator(make(False)):
        await world.until(is_done)
    assert [call[0] for call in world.calls] == [*range(len(world.calls))]
    assert len({call[1] for call in world.calls}) == 1  # since the very first attempt
