"""How processes of operators end: on signals and failures, whatever handlers do meanwhile.

Nothing is asserted of how long it takes, except that it ends. Where the limit of an exit matters,
it is configured to be short.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pathlib
import signal
import sys

import pytest

from e2e.tests.harness import GROUP, get_essence, get_progress

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="There are no such signals."),
    pytest.mark.timeout(1200),  # each of the many processes can be slow to start
]

FOREVER = 120.0  # seconds: it is not what is tested, only the limit for broken operators

HEADER = f"""
import asyncio, os, pathlib, signal, sys, threading, time
import kopf

KEX = ("{GROUP}", "kexes")
folder = pathlib.Path(os.environ["FOLDER"])

def mark(name, text=""):
    with (folder / name).open("a") as file:
        file.write(f"{{text}}\\n")

@kopf.on.startup()
async def configure(settings, **_):
    settings.posting.enabled = False

@kopf.on.cleanup()
async def cleanup(**_):
    mark("cleaned")
"""

SHORT = """
@kopf.on.startup()
async def shorten(settings, **_):
    settings.process.ultimate_exiting_timeout = 3
"""


class Running:
    """A process of an operator, and all what it has printed."""

    def __init__(self, process: asyncio.subprocess.Process, folder: pathlib.Path) -> None:
        self.process = process
        self.folder = folder
        self.lines: list[str] = []

    def signal(self, signum: int = signal.SIGTERM) -> None:
        self.process.send_signal(signum)

    async def until(self, milestone: str) -> None:
        while True:
            line = (await self.process.stdout.readline()).decode()
            assert line, f"The output has ended: {''.join(self.lines)}"
            self.lines.append(line)
            if milestone in line:
                return

    async def end(self) -> int:
        self.lines += (await self.process.stdout.read()).decode().splitlines(keepends=True)
        return await self.process.wait()

    @property
    def output(self) -> str:
        return "".join(self.lines)

    @property
    def errors(self) -> list[str]:
        """What is explained to people in the end."""
        return [line for line in self.lines if line.startswith("Error: ")]


@pytest.fixture
def start(world, tmp_path):
    @contextlib.asynccontextmanager
    async def start(source, *args, wrapper=("-m", "kopf", "run"), kubeconfig=None):
        (tmp_path / "handlers.py").write_text(HEADER + source)
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *wrapper,
            *(args or ("-n", world.namespace, str(tmp_path / "handlers.py"))),
            env={
                **os.environ,
                "KUBECONFIG": str(kubeconfig or world.kubeconfig),
                "FOLDER": str(tmp_path),
                "NAMESPACE": world.namespace,
            },
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            limit=10_000_000,
        )
        try:
            async with asyncio.timeout(FOREVER):
                running = Running(process, tmp_path)
                yield running
        finally:
            print(running.output)
            if process.returncode is None:
                process.kill()
                await process.wait()

    return start


HUNG = {
    "sync-handler": """
@kopf.on.create(*KEX)
def hang(**_):
    print("hanging", flush=True)
    threading.Event().wait()
""",
    "async-handler": """
@kopf.on.create(*KEX)
async def hang(**_):
    print("hanging", flush=True)
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass
""",
    "sync-event": """
@kopf.on.event(*KEX)
def hang(**_):
    print("hanging", flush=True)
    threading.Event().wait()
""",
    "sync-daemon": """
@kopf.daemon(*KEX)
def hang(**_):
    print("hanging", flush=True)
    threading.Event().wait()
""",
    "sync-timer": """
@kopf.timer(*KEX, interval=1)
def hang(**_):
    print("hanging", flush=True)
    threading.Event().wait()
""",
    "custom-executor": """
import concurrent.futures

@kopf.on.startup()
async def customize(settings, **_):
    settings.execution.executor = concurrent.futures.ThreadPoolExecutor()

@kopf.on.create(*KEX)
def hang(**_):
    print("hanging", flush=True)
    threading.Event().wait()
""",
}


@pytest.mark.docs("shutdown")
@pytest.mark.parametrize("source", HUNG.values(), ids=HUNG.keys())
async def test_f2_r16_one_signal_is_enough_whatever_hangs(world, start, source):
    await world.create()
    async with start(SHORT + source) as running:
        await running.until("hanging")
        running.signal()
        assert await running.end() == 1
    (error,) = [error for error in running.errors if "forc" not in error]
    assert "'hang" in error
    assert f"kexes.v1.{GROUP} {world.namespace}/obj" in error
    assert "Traceback" not in running.output
    assert (running.folder / "cleaned").exists()


STUCK = {
    "sync": """
@kopf.index(*KEX)
def stuck(**_):
    print("hanging", flush=True)
    threading.Event().wait()
""",
    "async": """
@kopf.index(*KEX)
async def stuck(**_):
    print("hanging", flush=True)
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass
""",
}


@pytest.mark.parametrize("source", STUCK.values(), ids=STUCK.keys())
async def test_k4_index_functions_that_hang_do_not_hold_the_exit(world, start, source):
    """They have nothing to lose: the indices end with the process."""
    await world.create()
    async with start(source) as running:
        await running.until("hanging")
        running.signal()
        assert await running.end() == 0
    assert not running.errors
    assert (running.folder / "cleaned").exists()


async def test_f1_r16_the_second_signal_does_not_wait_for_threads(world, start):
    await world.create()
    async with start(HUNG["sync-handler"]) as running:
        await running.until("hanging")
        running.signal()
        await running.until("Threads cannot be cancelled")
        running.signal()
        assert await running.end() == 1
    (error,) = running.errors
    assert "'hang" in error
    assert (running.folder / "cleaned").exists()


@pytest.mark.parametrize("signals", [1, 3])
async def test_d1_f2_blocked_loops_are_left_by_force(world, start, signals):
    await world.create()
    source = """
@kopf.on.create(*KEX)
async def hang(**_):
    print("hanging", flush=True)
    while True:
        time.sleep(1)
"""
    async with start(SHORT + source) as running:
        await running.until("hanging")
        for _ in range(signals):
            running.signal()
            await asyncio.sleep(0.1)  # signals of one kind are merged if they are too frequent
        assert await running.end() == 1
    (error,) = running.errors
    assert "ended by force" in error
    assert "'hang" in error


CLEANUPS = {
    "hanging": "await asyncio.Event().wait()",
    "cancelled": "raise asyncio.CancelledError",
    "failing": "raise Exception('boom')",
    "stubborn": """
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass""",
}


@pytest.mark.docs("shutdown")
@pytest.mark.parametrize("body", CLEANUPS.values(), ids=CLEANUPS.keys())
async def test_f2_r16_cleanup_cannot_hold_the_exit(world, start, body):
    source = f"""
@kopf.on.cleanup()
async def fail(**_):
    print("cleaning", flush=True)
    {body}

@kopf.on.event(*KEX)
async def event(**_):
    print("ready", flush=True)
"""
    await world.create()
    async with start(SHORT + source) as running:
        await running.until("ready")
        running.signal()
        assert await running.end() == 1
    (error,) = running.errors
    assert "cleanup" in error
    assert (running.folder / "cleaned").exists()


@pytest.mark.parametrize("count", [1, 2])
async def test_o2_r15_sync_handlers_that_were_waited_for_are_not_repeated(world, start, count):
    source = f"""
@kopf.on.startup()
async def impatient(settings, **_):
    settings.queueing.exit_timeout = 0.1

def fn(name, **_):
    mark("called")
    print("called", flush=True)
    while not (folder / "release").exists():
        time.sleep(0.01)
    return "done"

for number in range({count}):
    kopf.on.create(*KEX, id=f"fn{{number}}")(fn)

@kopf.on.event(*KEX)
async def event(**_):
    print("ready", flush=True)
"""
    await world.create()
    async with start(source) as running:
        await running.until("called")
        running.signal()
        await running.until("Threads cannot be cancelled")
        (running.folder / "release").touch()
        assert await running.end() == 0
    obj = await world.get()
    assert len(obj["status"]) == 1
    assert (get_essence(obj) is not None) is (count == 1)
    async with start(source) as running:
        await running.until("ready")
        await world.until(lambda obj: get_essence(obj) is not None and not get_progress(obj))
        running.signal()
        assert await running.end() == 0
    assert len((running.folder / "called").read_text().splitlines()) == count


@pytest.mark.docs("startup")
async def test_failing_startup_is_one_line_and_no_requests(faulty, start):
    source = """
@kopf.on.startup()
def fail(**_):
    raise kopf.PermanentError("no way")
"""
    async with start(source, kubeconfig=faulty.kubeconfig) as running:
        assert await running.end() == 1
    assert running.errors == ["Error: The startup activity has failed: 'fail' (no way)\n"]
    assert not [entry for entry in faulty.sandbox.journal if "kopf" in entry.agent.lower()]
    assert (running.folder / "cleaned").exists()


@pytest.mark.docs("shutdown")
async def test_cleanup_is_run_when_a_part_fails(world, start, tmp_path):
    nowhere = tmp_path / "nowhere"
    async with start("", kubeconfig=nowhere) as running:
        assert await running.end() == 1
    assert len(running.errors) == 1
    assert (running.folder / "cleaned").exists()


TASKS = """
@kopf.on.startup()
async def spawn(memo, **_):
    async def work():
        try:
            await asyncio.Event().wait()
        finally:
            mark("finally")
    async def stubborn():
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                print("stubborn", flush=True)
    memo.tasks = [asyncio.create_task(work()), asyncio.create_task(stubborn(), name="stub")]

@kopf.on.event(*KEX)
async def event(**_):
    print("ready", flush=True)
"""

RUNNING = """
kopf.run(namespaces=[os.environ["NAMESPACE"]])
"""


@pytest.mark.parametrize("kind", ["cli", "code"])
async def test_r30_tasks_of_users_are_cancelled_in_the_end(world, start, kind, tmp_path):
    await world.create()
    wrapper = {
        "cli": {},
        "code": {"wrapper": (), "args": (str(tmp_path / "handlers.py"),)},
    }[kind]
    source = TASKS if kind == "cli" else TASKS + RUNNING
    async with start(source, *wrapper.pop("args", ()), **wrapper) as running:
        await running.until("ready")
        running.signal()
        assert await running.end() == 0
    assert (running.folder / "finally").exists()
    assert (running.folder / "cleaned").exists()


FORKING = """
def child(kind):
    pid = os.fork()
    if pid == 0:
        print("child", os.getpid(), flush=True)
        if kind == "exiting":
            sys.exit(3)
        if kind == "failing":
            raise Exception("boom")
        if kind == "terminated":
            os.kill(os.getpid(), signal.SIGTERM)
        return  # "returning"
    _, status = os.waitpid(pid, 0)
    print("code", kind, os.waitstatus_to_exitcode(status), flush=True)

@kopf.on.create(*KEX, param="sync", id="sync")
def sync(spec, **_):
    child(spec["kind"])
    mark("sync")

@kopf.on.create(*KEX, param="async", id="async")
async def coro(spec, **_):
    child(spec["kind"])
    mark("async")
"""


@pytest.mark.parametrize(
    ("kind", "code"), [("exiting", 3), ("failing", 1), ("terminated", -15), ("returning", 0)]
)
async def test_d18_r26_children_of_forks_are_not_operators(world, start, kind, code):
    await world.create({"kind": kind})
    async with start(FORKING) as running:
        for _ in range(2):
            await running.until(f"code {kind} {code}")
        await world.until_handled()
        running.signal()
        assert await running.end() == 0
    children = [int(line.split()[1]) for line in running.lines if line.startswith("child")]
    assert len(children) == 2
    for pid in children:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


async def test_f2_embedded_operators_do_not_hold_the_interpreter(world, start, tmp_path):
    await world.create()
    source = (
        SHORT
        + HUNG["sync-handler"]
        + "\ntry:"
        + RUNNING.replace("\n", "\n    ")
        + """
except Exception as e:
    print("raised", type(e).__name__, flush=True)
"""
    )
    async with start(source, str(tmp_path / "handlers.py"), wrapper=()) as running:
        await running.until("hanging")
        running.signal()
        assert await running.end() == 0
    assert "raised AbandonedError" in running.output


async def test_f1_startup_in_a_thread_is_interrupted(world, start):
    source = """
@kopf.on.startup()
def hang(**_):
    print("hanging", flush=True)
    threading.Event().wait()
"""
    async with start(SHORT + source) as running:
        await running.until("hanging")
        running.signal()
        assert await running.end() == 1
    (error,) = running.errors
    assert "Activity 'hang'" in error
    assert (running.folder / "cleaned").exists()


async def test_f1_signals_before_the_operator_is_there(start):
    source = """
print("loading", flush=True)
time.sleep(3600)
"""
    async with start(source) as running:
        await running.until("loading")
        running.signal(signal.SIGINT)
        assert await running.end() == 0  # as of an operator that is stopped later
    assert "Traceback" not in running.output


THREADS = """
released = threading.Event()

def work(kind):
    released.wait()
    mark("worked", kind)

def begin(kind):
    threading.Thread(target=work, args=(kind,), name=f"of-{kind}").start()

@kopf.on.startup()
def begin_in_startup(**_):
    begin("startup")

@kopf.on.create(*KEX)
def begin_in_handlers(**_):
    begin("handler")

@kopf.daemon(*KEX)
def begin_in_daemons(**_):
    begin("daemon")

@kopf.on.event(*KEX)
async def begin_in_the_loop(**_):
    begin("event")
"""

RELEASING = """
class Late(threading.Thread):
    def run(self):
        threading.main_thread().join()  # it is over when the interpreter waits for the rest
        released.set()

Late(daemon=True).start()
"""


async def test_k42_threads_of_users_are_waited_for(world, start):
    await world.create()
    async with start(THREADS + RELEASING) as running:
        await world.until_handled()
        running.signal()
        assert await running.end() == 0
    kinds = (running.folder / "worked").read_text().split()
    assert sorted({*kinds}) == ["daemon", "event", "handler", "startup"]


async def test_k42_threads_of_users_are_named_if_they_do_not_end(world, start):
    await world.create()
    async with start(SHORT + THREADS) as running:
        await world.until_handled()
        running.signal()
        assert await running.end() == 1
    (error,) = running.errors
    for kind in ["daemon", "event", "handler", "startup"]:
        assert f"thread 'of-{kind}'" in error
    assert not (running.folder / "worked").exists()
