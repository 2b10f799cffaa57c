"""``kopf run --shards`` in three processes: killed, suspended, and stopped while all changes.

The processes write to one journal: when handlers and daemons begin and end, in the order as it is.
"""

from __future__ import annotations

import asyncio
import contextlib
import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable

import pytest

from e2e.tests.harness import World

HANDLERS = """
import asyncio, contextlib, os, pathlib
import kopf

log = os.open(pathlib.Path(os.environ["FOLDER"]) / "log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)

def tell(*words):
    os.write(log, " ".join(map(str, (os.getpid(), *words, chr(10)))).encode())

@contextlib.contextmanager
def told(*words):
    tell("begins", *words)
    try:
        yield
    finally:
        tell("ends", *words)

@kopf.on.startup()
def configure(settings, **_):
    settings.posting.enabled = False
    settings.sharding.duration = 3
    settings.sharding.renew_deadline = 2
    settings.sharding.retry_period = 0.2

@kopf.on.create("e2e.kopf.dev", "kexes")
@kopf.on.update("e2e.kopf.dev", "kexes")
async def fn(name, spec, **_):
    with told("handler", name, spec["n"]):
        await asyncio.sleep(0.02)

@kopf.daemon("e2e.kopf.dev", "kexes")
async def daemon(name, stopped, **_):
    with told("daemon", name):
        await stopped.wait()
"""

NAMES = [f"obj-{number}" for number in range(15)]
LEASES = "/apis/coordination.k8s.io/v1/namespaces/{}/leases"

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="There are no such signals.")


class Journal:
    """What all processes have told."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._path = folder / "log"
        self._path.touch()

    @property
    def lines(self) -> list[list[str]]:
        return [line.split() for line in self._path.read_text().splitlines()]

    def excuse(self, process: asyncio.subprocess.Process) -> None:
        """It cannot tell that its work has ended: it is killed or suspended."""
        with self._path.open("a") as file:
            file.write(f"{process.pid} is-excused\n")

    async def until(self, check: Callable[[list[list[str]]], object]) -> None:
        def wait() -> None:
            while not check(self.lines):
                time.sleep(0.01)

        async with asyncio.timeout(60):
            await asyncio.to_thread(wait)

    async def until_works(self, process: asyncio.subprocess.Process) -> None:
        """Wait until the process has begun something since it was excused, or at all."""

        def check(lines: list[list[str]]) -> bool:
            own = [line[1] for line in lines if line[0] == str(process.pid)]
            since = own.index("is-excused") if "is-excused" in own else 0
            return "begins" in own[since:]

        await self.until(check)

    def find_overlaps(self) -> list[list[str]]:
        """When anything begins for an object while another process still does the same."""
        working: dict[tuple[str, ...], str] = {}
        found = []
        for pid, verb, *rest in self.lines:
            what = (*rest[:2],)
            if verb == "is-excused":
                working = {what: owner for what, owner in working.items() if owner != pid}
            elif verb == "begins":
                found += [[pid, *rest]] if working.get(what, pid) != pid else []
                working[what] = pid
            elif working.get(what) == pid:
                del working[what]
        return found


class Stage:
    """The replicas, and the objects that they share."""

    def __init__(self, world: World, folder: pathlib.Path) -> None:
        self.world = world
        self.journal = Journal(folder)
        self.n = 0
        self._folder = folder

    @contextlib.asynccontextmanager
    async def replica(self) -> AsyncIterator[asyncio.subprocess.Process]:
        shards, env = f"--shards=mine@{self.world.namespace}", {"FOLDER": str(self._folder)}
        async with self.world.process(self._folder / "handlers.py", shards, env=env) as process:
            yield process

    async def create_all(self) -> None:
        for name in NAMES:
            await self.world.create({"n": 0}, name)

    async def change_all(self) -> None:
        self.n += 1
        for name in NAMES:
            await self.world.patch({"spec": {"n": self.n}}, name)

    async def until_handled(self) -> None:
        for name in NAMES:
            await self.world.until_handled(name, {"n": self.n})

    async def until_all_handle_a_change(self) -> None:
        await self.change_all()
        await self.until_handled()

    async def kill(self, process: asyncio.subprocess.Process) -> None:
        process.kill()
        await process.wait()
        self.journal.excuse(process)

    def check_the_journal(self) -> None:
        """Each object was handled in its last state, and never by two replicas at once."""
        assert not self.journal.find_overlaps()
        ended = {tuple(rest) for _, verb, *rest in self.journal.lines if verb == "ends"}
        assert ended >= {("handler", name, str(self.n)) for name in NAMES}

    async def suspend(self, process: asyncio.subprocess.Process) -> None:
        process.send_signal(signal.SIGSTOP)

        def wait() -> None:
            command = ["ps", "-o", "stat=", "-p", str(process.pid)]
            while not subprocess.check_output(command, text=True).startswith("T"):
                time.sleep(0.01)

        await asyncio.to_thread(wait)
        self.journal.excuse(process)

    async def finish(self, process: asyncio.subprocess.Process) -> None:
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(60):
            assert await process.wait() == 0


@pytest.fixture
def stage(world: World, tmp_path: pathlib.Path) -> Stage:
    (tmp_path / "handlers.py").write_text(HANDLERS)
    return Stage(world, tmp_path)


async def test_o_every_change_is_handled_by_one_replica_though_they_fail(stage):
    journal = stage.journal
    async with stage.replica() as one, stage.replica() as two, stage.replica() as three:
        await stage.create_all()
        for process in (one, two, three):
            await journal.until_works(process)
        await stage.change_all()
        await stage.kill(one)
        await stage.until_all_handle_a_change()  # the other replicas have taken its objects over

        await stage.suspend(two)
        await stage.until_all_handle_a_change()
        two.send_signal(signal.SIGCONT)
        await stage.change_all()
        await journal.until_works(two)  # as another member
        await stage.until_handled()

        await stage.change_all()
        await stage.finish(three)
        await stage.until_all_handle_a_change()
        await stage.finish(two)
    stage.check_the_journal()


async def test_o_memberships_are_removed_after_their_replicas(stage):
    path = LEASES.format(stage.world.namespace)
    async with stage.replica() as one:
        await stage.create_all()
        await stage.journal.until_works(one)
        async with stage.replica() as two:
            await stage.journal.until_works(two)
            await stage.finish(two)
        await stage.until_all_handle_a_change()
        await stage.finish(one)
        leases = (await stage.world.request("GET", path))["items"]
    assert {lease["spec"].get("holderIdentity", "") for lease in leases} == {""}
    assert "mine" in {lease["metadata"]["name"] for lease in leases}
    assert not stage.journal.find_overlaps()
