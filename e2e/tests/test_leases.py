"""Three operators under one lease, as processes, with 300 objects that change all the time.

Whatever happens to the leader, only one of them acts at any time, and everything is handled as if
there was only one. Their journals are compared by the monotonic clock, which is the same for all.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import pathlib
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from typing import Any, Self

import pytest
import yaml

from e2e.clusters import Cluster
from e2e.tests.harness import World, get_essence
from e2e.tests.proxies import Proxy

DURATION, DEADLINE, PERIOD = 8.0, 6.0, 0.5
SUSPENSION = float(os.environ.get("SUSPENSION", 2.5 * DURATION))  # seconds: for several leases
PATIENCE = 120.0
OBJECTS = 300
LEASE = "/apis/coordination.k8s.io/v1/namespaces/{}/leases/the-lease"

pytestmark = pytest.mark.long  # it lives through the lifetimes of real leases

SCRIPT = f"""
import asyncio, datetime, os, time
import aiohttp
import kopf

who, skew = os.environ["WHO"], os.environ["SKEW"]
journal = os.open(os.environ["JOURNAL"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)

def note(*args):  # it is written at once: a killed process loses nothing of it
    os.write(journal, (" ".join(map(str, (time.monotonic(), *args))) + "\\n").encode())

class Skewed(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        seconds = float(open(skew).read()) if os.path.exists(skew) else 0
        return super().now(tz) + datetime.timedelta(seconds=seconds)

datetime.datetime = Skewed
request = aiohttp.ClientSession._request

async def noting(self, method, url, **kwargs):
    began, is_lease = time.monotonic(), "/leases" in str(url)
    if not is_lease:
        note("request", method, url)
    response = await request(self, method, url, **kwargs)
    if not is_lease:
        note("response", method, url, response.status)
    elif method != "GET" and response.status < 300:
        note("released" if b'"holderIdentity":""' in kwargs["data"] else "renewed", began)
    return response

aiohttp.ClientSession._request = noting

@kopf.on.startup()
def configure(settings, **_):
    settings.leasing.name = "the-lease"
    settings.leasing.namespace = os.environ["NAMESPACE"]
    settings.leasing.duration = {DURATION}
    settings.leasing.renew_deadline = {DEADLINE}
    settings.leasing.retry_period = {PERIOD}
    settings.posting.enabled = False

@kopf.on.leading()
def leading(**_):
    note("leading")

@kopf.on.following()
def following(**_):
    note("following")

@kopf.on.create("e2e.kopf.dev", "kexes")
@kopf.on.update("e2e.kopf.dev", "kexes")
async def handle(name, spec, **_):
    note("begin", name, spec["n"])
    await asyncio.sleep(0.02)
    note("end", name, spec["n"])
"""


@dataclasses.dataclass(frozen=True)
class Note:
    """One line of a journal."""

    time: float
    who: str
    what: str
    args: tuple[str, ...]

    @property
    def is_action(self) -> bool:
        """Is it something that only the leader may do?"""
        is_question = len(self.args) > 1 and "/apis/authorization.k8s.io/" in self.args[1]
        is_write = self.what == "request" and self.args[0] != "GET" and not is_question
        return self.what == "begin" or is_write

    @property
    def is_watch(self) -> bool:
        return self.what in ("request", "response") and "watch=" in self.args[1]

    @property
    def is_listing(self) -> bool:
        """Is it a list of all the objects?"""
        is_ours = self.what in ("request", "response") and self.args[0] == "GET"
        return is_ours and self.args[1].partition("?")[0].endswith("/kexes") and not self.is_watch


def get_time(note: Note) -> float:
    return note.time


class Replica:
    """One of the operators, with a network of its own."""

    def __init__(self, world: World, folder: pathlib.Path, who: str, proxy: Proxy) -> None:
        self.who = who
        self.proxy = proxy
        self._world = world
        self._folder = folder
        self._journal = folder / f"{who}.journal"
        self._skew = folder / f"{who}.skew"
        self._log = folder / f"{who}.log"
        self._process: asyncio.subprocess.Process | None = None
        self._notes: list[Note] = []
        self._offset = 0
        self._journal.touch()

    async def start(self) -> None:
        kubeconfig = yaml.safe_load(self._world.kubeconfig.read_text())
        kubeconfig["clusters"][0]["cluster"]["server"] = self.proxy.url
        path = self._folder / f"{self.who}.kubeconfig"
        path.write_text(yaml.safe_dump(kubeconfig))
        env = {
            **os.environ,
            "KUBECONFIG": str(path),
            "NAMESPACE": self._world.namespace,
            "WHO": self.who,
            "JOURNAL": str(self._journal),
            "SKEW": str(self._skew),
        }
        command = ["-m", "kopf", "run", "-n", self._world.namespace, str(self._folder / "op.py")]
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, *command, env=env, stdout=log, stderr=log
            )

    @property
    def notes(self) -> list[Note]:
        """Everything until now; what was read once is not read again."""
        with self._journal.open() as file:
            file.seek(self._offset)
            lines = file.read().rpartition("\n")[0].splitlines(keepends=True)
        self._offset += sum(map(len, lines)) + bool(lines)
        for line in lines:
            at, what, *args = line.split()
            self._notes.append(Note(float(at), self.who, what, (*args,)))
        return self._notes

    @property
    def is_following(self) -> bool:
        """Is it warm: listed and watching?"""
        return any(note.is_watch for note in self.notes)

    @property
    def log(self) -> str:
        return self._log.read_text() if self._log.exists() else f"{self.who} is not started."

    def send(self, signum: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(signum)

    async def wait(self) -> None:
        assert self._process is not None
        async with asyncio.timeout(PATIENCE):
            await self._process.wait()

    def move_clock(self, seconds: float) -> None:
        self._skew.write_text(f"{seconds}")

    async def close(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()


class Stage:
    """The objects that change all the time, the operators, and what they have done."""

    def __init__(self, world: World, folder: pathlib.Path, replicas: list[Replica]) -> None:
        self.world = world
        self.replicas = replicas
        self._counts = {f"obj-{i}": 0 for i in range(OBJECTS)}
        self._rounds = 0
        self._is_over = False

    async def __aenter__(self) -> Self:
        names = [*self._counts]
        for i in range(0, OBJECTS, 20):
            await asyncio.gather(*(self.world.create({"n": 0}, name) for name in names[i : i + 20]))
        self._load = asyncio.create_task(self._change_all())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._load.cancel()
        await asyncio.wait([self._load])

    async def _change_all(self) -> None:
        while True:
            for name in self._counts:
                if self._is_over:
                    return
                self._counts[name] += 1
                await self.world.patch({"spec": {"n": self._counts[name]}}, name)
                await asyncio.sleep(0.02)  # it is the rate, nothing is awaited here
            self._rounds += 1

    @property
    def notes(self) -> list[Note]:
        notes = [note for replica in self.replicas for note in replica.notes]
        return sorted(notes, key=get_time)

    @property
    def terms(self) -> list[Note]:
        notes = [note for replica in self.replicas for note in replica.notes]
        return sorted((note for note in notes if note.what == "leading"), key=get_time)

    async def until(self, check: Callable[[], object], patience: float = PATIENCE) -> None:
        try:
            async with asyncio.timeout(patience):
                while not check():
                    assert not self._load.done(), self._load.exception()
                    await asyncio.sleep(0.1)  # the journals are files
        except TimeoutError:
            logs = "\n".join(replica.log for replica in self.replicas)
            raise AssertionError(f"It has not happened:\n{logs}") from None

    async def start(self, *replicas: Replica) -> None:
        """Start them, and wait until they follow."""
        for replica in replicas:
            await replica.start()
        await self.until(lambda: all(replica.is_following for replica in replicas))

    async def get_leader(self) -> Replica:
        """The one who leads now, and has done something for that."""
        await self.until(lambda: self.terms)
        term = self.terms[-1]
        leader = next(replica for replica in self.replicas if replica.who == term.who)
        await self.until(
            lambda: any(note.is_action and note.time > term.time for note in leader.notes)
        )
        return leader

    async def lose(self, what: Callable[[Replica], Any]) -> tuple[Replica, Note, float]:
        """Do something to the leader; get it, the next term, and how many seconds it took."""
        leader = await self.get_leader()
        begun = time.monotonic()
        ended = await what(leader)

        def find() -> list[Note]:
            return [term for term in self.terms if term.time > begun and term.who != leader.who]

        await self.until(find)
        await self.get_leader()
        return leader, find()[0], find()[0].time - (ended or begun)

    async def finish(self) -> None:
        """Stop changing, and wait until everything is handled."""
        self._is_over = True  # it is not cancelled: what is counted must be sent
        await self._load
        for name, n in self._counts.items():
            await self.world.until(
                lambda obj, n=n: (get_essence(obj) or {}).get("spec") == {"n": n}, name
            )


@pytest.fixture
async def stage(world: World, cluster: Cluster, tmp_path: pathlib.Path) -> AsyncIterator[Stage]:
    (tmp_path / "op.py").write_text(SCRIPT)
    async with contextlib.AsyncExitStack() as stack:
        replicas = []
        for who in ("one", "two", "three"):
            proxy = await stack.enter_async_context(Proxy(cluster.url))
            replicas.append(Replica(world, tmp_path, who, proxy))
            stack.push_async_callback(replicas[-1].close)
        yield await stack.enter_async_context(Stage(world, tmp_path, replicas))


def find_resumed(notes: list[Note]) -> set[Note]:
    """The single lines that were being executed when the process was suspended.

    Nothing can be checked in between. It is the first one after a silence: a line of a handler, or
    a request that was just checked to be permitted, and that the server must refuse as a late one.
    """
    resumed, silent_since = set[Note](), dict[str, float]()
    for number, note in enumerate(notes, start=1):
        is_first = note.time - silent_since.get(note.who, 0.0) > DEADLINE
        if is_first and note.is_action and not is_accepted(note, notes[number:]):
            resumed.add(note)
        silent_since[note.who] = note.time
    return resumed


def is_accepted(request: Note, rest: list[Note]) -> bool:
    """Whether the server has done what was requested, by what comes next about that."""
    for note in rest:
        if request.what == "request" and note.who == request.who and note.args[:2] == request.args:
            return note.what == "response" and int(note.args[2]) < 400
    return False


def check_one_acts_at_a_time(notes: list[Note]) -> None:
    """Whatever is done, is done by the one who was the last to become the leader."""
    leader, resumed = "", find_resumed(notes)
    for note in notes:
        leader = note.who if note.what == "leading" else leader
        assert not note.is_action or note.who == leader or note in resumed, (note, leader)


def check_terms_are_apart(notes: list[Note]) -> None:
    """The next one leads if the lease is released, or is not renewed for as long as it lasts."""
    leader, renewed = "", dict[str, float]()
    for note in notes:
        if note.what == "renewed":
            renewed[note.who] = float(note.args[0])
        elif note.what == "released":
            renewed.pop(note.who, None)
        elif note.what == "leading":
            if leader != note.who and leader in renewed:
                assert note.time - renewed[leader] >= DURATION, (note, renewed[leader])
            leader = note.who


def check_handled_as_by_one(notes: list[Note]) -> None:
    """Never an older state after a newer one; none twice, once it is recorded as handled."""
    resumed, begun, recorded = find_resumed(notes), dict[str, int](), dict[str, int]()
    ended = dict[tuple[str, str], int]()
    for note in notes:
        if note.what == "begin" and note not in resumed:
            name, n = note.args[0], int(note.args[1])
            assert n >= begun.get(name, 0), (note, begun[name])
            assert n > recorded.get(name, -1), (note, recorded[name])
            begun[name] = n
        elif note.what == "end":
            ended[note.who, note.args[0]] = int(note.args[1])
        elif note.what == "response" and note.args[0] == "PATCH" and note.args[2] == "200":
            name = note.args[1].rpartition("/")[2]
            recorded[name] = max(recorded.get(name, -1), ended.get((note.who, name), -1))


def check_warm(notes: list[Note], term: Note) -> None:
    """The first action of the term has waited for no list."""
    mine = [note for note in notes if note.who == term.who and note.time >= term.time]
    first = next(i for i, note in enumerate(mine) if note.is_action)
    assert not [note for note in mine[:first] if note.what == "response" and note.is_listing]


@pytest.mark.timeout(900)
async def test_i_three_operators_act_as_one_whatever_happens_to_the_leader(stage: Stage) -> None:
    await stage.start(*stage.replicas[:1])
    await stage.get_leader()
    await stage.start(*stage.replicas[1:])

    async def stop(leader: Replica) -> float:
        leader.send(signal.SIGTERM)
        await leader.wait()
        return time.monotonic()

    async def kill(leader: Replica) -> None:
        leader.send(signal.SIGKILL)
        await leader.wait()

    async def suspend(leader: Replica) -> None:
        leader.send(signal.SIGSTOP)

    async def cut(leader: Replica) -> None:
        leader.proxy.cut()

    async def mute(leader: Replica) -> None:
        leader.proxy.mute()

    leader, term, graceful = await stage.lose(stop)
    check_warm(stage.notes, term)
    assert leader.notes[-1].what == "released"
    await stage.start(leader)

    leader, term, crash = await stage.lose(kill)
    check_warm(stage.notes, term)
    await stage.start(leader)

    until = time.monotonic() + SUSPENSION
    leader, _, suspension = await stage.lose(suspend)
    await stage.until(lambda: time.monotonic() > until, patience=SUSPENSION + PATIENCE)
    leader.send(signal.SIGCONT)
    await stage.until(lambda: leader.notes[-1].what != "end" and is_lost(leader))

    leader, _, partition = await stage.lose(cut)
    await stage.until(lambda: is_lost(leader))
    leader.proxy.repair()

    leader, _, silence = await stage.lose(mute)
    await stage.until(lambda: is_lost(leader))
    leader.proxy.repair()

    mark = {replica: len(replica.log) for replica in stage.replicas}
    for seconds in (300, -300):  # each of them: whoever leads, and whoever follows
        for replica in stage.replicas:
            replica.move_clock(seconds)
            handled = len(stage.notes)
            await stage.until(lambda handled=handled: len(stage.notes) > handled + 200)
    for replica in stage.replicas:
        log = replica.log[mark[replica] :]
        assert log.count("is lost") <= log.count("out of reach"), "It is lost by a wrong clock."

    await stage.finish()
    check_one_acts_at_a_time(stage.notes)
    check_terms_are_apart(stage.notes)
    check_handled_as_by_one(stage.notes)
    print(f"{graceful=:.2f} {crash=:.2f} {suspension=:.2f} {partition=:.2f} {silence=:.2f}")


def is_lost(replica: Replica) -> bool:
    """Does it know that it leads no more?"""
    changes = [note.what for note in replica.notes if note.what in ("leading", "following")]
    return changes[-1] == "following"
