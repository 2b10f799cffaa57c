"""Handlers that ask to exit by ``SystemExit``: the process ends gracefully, with their code."""

from __future__ import annotations

import sys

import pytest
from free_ports import find_free_port

from e2e.tests.harness import get_progress
from e2e.tests.test_exits import SHORT, start

__all__ = ["start"]

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="The codes of exits differ."),
    pytest.mark.timeout(1200),  # each of the many processes can be slow to start
]

ASKING = {
    "startup": "@kopf.on.startup()",
    "login": "@kopf.on.login()",
    "cleanup": "@kopf.on.cleanup()",
    "event": "@kopf.on.event(*KEX)",
    "index": "@kopf.index(*KEX)",
    "create": "@kopf.on.create(*KEX)",
    "daemon": "@kopf.daemon(*KEX)",
    "timer": "@kopf.timer(*KEX, interval=1)",
    "reconcile": "@kopf.reconcile(*KEX)",
}

REVIEW = """
REQUEST = {
    "uid": "x",
    "operation": "CREATE",
    "resource": {"group": KEX[0], "version": "v1", "resource": KEX[1]},
    "userInfo": {},
    "object": {"apiVersion": f"{KEX[0]}/v1", "kind": "Kex", "metadata": {"name": "obj"}},
}

async def server(fn):
    yield {"url": "https://127.0.0.1:1"}
    await fn({"request": REQUEST}, webhook="asking")
    await asyncio.Event().wait()

@kopf.on.startup()
async def serve(settings, **_):
    settings.admission.server = server
"""

PROBING = """
import aiohttp

@kopf.on.startup()
async def serve(settings, **_):
    settings.serving.endpoint = os.environ["ENDPOINT"]

@kopf.on.event(*KEX)
async def probe(**_):
    async with aiohttp.ClientSession() as session:
        await session.get(os.environ["ENDPOINT"] + "/livez")
"""

ASKING |= {
    "validate": f'{REVIEW}\n@kopf.on.validate(*KEX, id="asking")',
    "mutate": f'{REVIEW}\n@kopf.on.mutate(*KEX, id="asking")',
    "probe": f"{PROBING}\n@kopf.on.probe()",
}

STOPPING = """
@kopf.on.event(*KEX, id="stopping")
async def stopping(**_):
    os.kill(os.getpid(), signal.SIGTERM)
"""


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("kind", ASKING)
async def test_k39_any_handler_can_ask_to_exit(world, start, monkeypatch, kind, is_async):
    monkeypatch.setenv("ENDPOINT", f"http://127.0.0.1:{find_free_port()}")
    await world.create()
    source = f"""
{ASKING[kind]}
{"async " if is_async else ""}def asking(**_):
    mark("asked")
    sys.exit(5)
"""
    async with start(source + (STOPPING if kind == "cleanup" else "")) as running:
        assert await running.end() == 5
    assert (running.folder / "asked").read_text() == "\n"  # once
    assert (running.folder / "cleaned").exists()
    (line,) = [line for line in running.lines if "to exit" in line]
    assert "'asking'" in line
    assert "SystemExit(5)" in line
    assert "handlers.py:" in line
    assert "Traceback" not in running.output
    assert not running.errors


async def test_k39_filters_can_ask_to_exit(world, start):
    await world.create()
    source = """
@kopf.on.event(*KEX, when=lambda **_: sys.exit(5))
def asking(**_):
    pass
"""
    async with start(source) as running:
        assert await running.end() == 5
    assert (running.folder / "cleaned").exists()
    (line,) = [line for line in running.lines if "to exit" in line]
    assert "handlers.py:" in line


@pytest.mark.parametrize(("arg", "code"), [("", 0), ("None", 0), ("'a reason'", 1)])
async def test_k39_codes_are_those_of_python(world, start, arg, code):
    await world.create()
    source = f"""
@kopf.on.create(*KEX)
async def asking(**_):
    sys.exit({arg})
"""
    async with start(source) as running:
        assert await running.end() == code
    assert running.lines.count("a reason\n") == code


@pytest.mark.parametrize(("arg", "code"), [("5", 5), ("", 0), ("'a reason'", 1)])
async def test_k39_files_can_ask_to_exit_when_loaded(start, arg, code):
    async with start(f"sys.exit({arg})") as running:
        assert await running.end() == code
    assert running.lines.count("a reason\n") == (arg == "'a reason'")
    (line,) = [line for line in running.lines if "to exit" in line]
    assert f"SystemExit({arg})" in line
    assert "handlers.py:" in line


async def test_k39_what_has_succeeded_is_recorded_first(world, start):
    await world.create()
    source = """
@kopf.on.startup()
def choose(settings, **_):
    kopf.set_default_lifecycle(kopf.lifecycles.all_at_once)

@kopf.on.create(*KEX, id="one")
async def one(**_):
    mark("one")

@kopf.on.create(*KEX, id="two")
async def two(**_):
    mark("two")
    if len((folder / "two").read_text()) == 1:
        sys.exit(3)
"""
    async with start(source + "kopf.set_default_lifecycle(kopf.lifecycles.all_at_once)") as running:
        assert await running.end() == 3
    progress = get_progress(await world.get())
    assert progress["one"]["success"]
    assert not progress["two"].get("failure")
    async with start(source) as running:
        await world.until_handled()
        running.signal()
        assert await running.end() == 0
    assert (running.folder / "one").read_text() == "\n"
    assert (running.folder / "two").read_text() == "\n\n"


async def test_k39_the_exit_is_bounded_and_keeps_the_code(world, start):
    await world.create()
    source = """
hanging = threading.Event()

@kopf.on.create(*KEX)
def hang(**_):
    hanging.set()
    threading.Event().wait()

@kopf.daemon(*KEX)
def asking(**_):
    hanging.wait()
    sys.exit(4)
"""
    async with start(SHORT + source) as running:
        assert await running.end() == 4
    assert "Handler 'hang'" in running.output
    assert "is left as is" in running.output


EMBEDDED = {
    "run": "kopf.run(namespaces=[os.environ['NAMESPACE']])",
    "operator": "asyncio.run(kopf.operator(namespaces=[os.environ['NAMESPACE']]))",
}


@pytest.mark.parametrize("kind", EMBEDDED)
async def test_k39_embedded_operators_raise_it_to_their_callers(world, start, kind, tmp_path):
    await world.create()
    source = f"""
@kopf.on.create(*KEX)
def asking(**_):
    sys.exit(5)

try:
    {EMBEDDED[kind]}
except SystemExit as e:
    print("raised", e.code, flush=True)
"""
    async with start(source, str(tmp_path / "handlers.py"), wrapper=()) as running:
        assert await running.end() == 0
    assert "raised 5\n" in running.lines
    assert (running.folder / "cleaned").exists()


async def test_k39_sources_of_happenings_can_ask_to_exit(world, start):
    source = """
@kopf.reconcile(*KEX)
def passing(**_):
    pass

@kopf.on.external()
async def asking(**_):
    mark("asked")
    sys.exit(5)
    yield
"""
    async with start(source) as running:
        assert await running.end() == 5
    assert (running.folder / "asked").read_text() == "\n"  # once
    assert (running.folder / "cleaned").exists()
    (line,) = [line for line in running.lines if "to exit" in line]
    assert "'asking'" in line


async def test_k39_tasks_of_users_can_ask_to_exit(world, start):
    await world.create()
    source = """
async def work():
    sys.exit(5)

@kopf.on.startup()
async def begin(memo, **_):
    memo.task = asyncio.create_task(work())
"""
    async with start(source) as running:
        assert await running.end() == 5
    assert (running.folder / "cleaned").exists()


NESTED = {
    "task": "background.append(asyncio.create_task(ask()))",
    "group": "async with asyncio.TaskGroup() as group: group.create_task(ask())",
    "gather": "await asyncio.gather(ask())",
}


@pytest.mark.parametrize("kind", NESTED)
async def test_k39_handlers_end_their_work_if_tasks_of_users_ask_to_exit(world, start, kind):
    await world.create()
    source = f"""
began, released, background = asyncio.Event(), asyncio.Event(), []

async def ask():
    await began.wait()
    sys.exit(5)

@kopf.daemon(*KEX, id="asking")
async def asking(**_):
    {NESTED[kind]}

@kopf.daemon(*KEX, id="waiting")
async def waiting(stopped, **_):
    await stopped.wait()
    released.set()

@kopf.on.create(*KEX, id="working")
async def working(**_):
    began.set()
    await released.wait()
    mark("worked")
"""
    async with start(source) as running:
        assert await running.end() == 5
    assert (running.folder / "worked").read_text() == "\n"
    assert (running.folder / "cleaned").exists()
    assert not get_progress(await world.get())
    assert "A task of users asks to exit by SystemExit(5)" in running.output
    assert "handlers.py:" in running.output
    assert "Traceback" not in running.output


async def test_k39_the_exit_is_bounded_even_if_the_loop_is_blocked(world, start):
    await world.create()
    source = """
@kopf.on.create(*KEX)
async def asking(**_):
    sys.exit(4)

@kopf.on.cleanup()
async def block(**_):
    threading.Event().wait()
"""
    async with start(SHORT + source) as running:
        assert await running.end() == 4
    (error,) = running.errors
    assert "Activity 'block'" in error
