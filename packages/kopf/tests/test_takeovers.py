"""Followers that take over with late streams: they act on what there is, not on what they know."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import kopf
from kopf_cogs.clients.errors import APIConflictError
from kopf_cogs.clients.session import Client
from kopf_core.reactor.object import takeovers
from kopf_kits.sandbox import Sandbox

EXAMPLES = Path(__file__).parents[3] / "examples"
KEXES = "*/kopfexamples"
LATE = 599  # seconds: the streams with this timeout are held back
FINALIZER = "kopf.zalando.org/KopfFinalizerMarker"
DONE = "kopf.zalando.org/last-handled-configuration"


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    async with Sandbox() as sandbox:
        await sandbox.apply(EXAMPLES / "crd.yaml")
        yield sandbox


class Replica:
    """One of the operators under one lease, with a journal that is the same for all of them."""

    def __init__(self, sandbox: Sandbox, journal: list[tuple[str, ...]], **timeouts: Any) -> None:
        self.stop = asyncio.Event()
        self.led = asyncio.Event()
        self.may_end = asyncio.Event()
        self.may_end.set()
        self.journal = journal
        self.registry = kopf.OperatorRegistry()
        self.settings = kopf.OperatorSettings()
        self.settings.leasing.name = "the-lease"
        self.settings.leasing.retry_period = 0.05
        self.settings.posting.enabled = False
        for key, value in timeouts.items():
            setattr(self.settings.watching, key, value)

        @kopf.on.login(registry=self.registry)
        def login(**_: Any) -> Any:
            return kopf.ConnectionInfo(server=sandbox.url, default_namespace="default")

        @kopf.on.leading(registry=self.registry)
        async def leading(**_: Any) -> None:
            self.led.set()

    def declare(self, *decorators: Callable[..., Any]) -> None:
        """Note the calls of the handler, and of which states."""
        for on in decorators:

            @on("kopfexamples", id=on.__name__, registry=self.registry)
            async def fn(name: str, spec: Any, on: Any = on, **_: Any) -> None:
                self.journal.append((on.__name__, name, f"{spec.get('n')}"))
                await self.may_end.wait()

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Replica"]:
        operator = kopf.operator(
            registry=self.registry,
            settings=self.settings,
            clusterwide=True,
            stop_flag=self.stop,
        )
        task = asyncio.create_task(operator)
        try:
            yield self
        finally:
            self.stop.set()
            await task


def example(name: str, n: int) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default"}
    api = {"apiVersion": "kopf.dev/v1", "kind": "KopfExample"}
    return {**api, "metadata": metadata, "spec": {"n": n}}


async def wait_handled(sandbox: Sandbox, name: str, n: int) -> None:
    def is_handled(obj: Any) -> bool:
        return f'"n":{n}' in obj["metadata"].get("annotations", {}).get(DONE, "")

    await sandbox.wait("kopfexamples", name, check=is_handled)


Change = Callable[[Sandbox], Awaitable[None]]


@asynccontextmanager
async def handing_over(
    sandbox: Sandbox, *, late: Replica, previous: Replica, before: Change, after: Change
) -> AsyncIterator[int]:
    """Let one replica see what is done before, but not what is done after that; and lead then.

    Gets the number of the latest request before it leads.
    """
    late.settings.watching.server_timeout = LATE
    async with previous.running():
        await previous.led.wait()
        await before(sandbox)
        async with late.running():
            await sandbox.journal.wait("GET", KEXES, count=4)  # lists and watches of both
            hold(sandbox)
            await after(sandbox)
            since = sandbox.journal[-1].number
            previous.stop.set()
            await late.led.wait()
            yield since


def hold(sandbox: Sandbox) -> Any:
    return sandbox.faults.hold(match=lambda call: call.query.get("timeoutSeconds") == f"{LATE}")


@pytest.fixture
def journal() -> list[tuple[str, ...]]:
    return []


@pytest.fixture
def previous(sandbox: Sandbox, journal: list[tuple[str, ...]]) -> Replica:
    return Replica(sandbox, journal)


@pytest.fixture
def late(sandbox: Sandbox, journal: list[tuple[str, ...]]) -> Replica:
    return Replica(sandbox, journal)


async def test_r36_what_is_handled_already_is_not_handled_again(
    sandbox: Sandbox, late: Replica, previous: Replica, journal: list[tuple[str, ...]]
) -> None:
    for replica in (late, previous):
        replica.declare(kopf.on.create, kopf.on.update)

    async def before(sandbox: Sandbox) -> None:
        for name in ("quiet", "changed"):
            await sandbox.apply(example(name, 0))
            await wait_handled(sandbox, name, 0)
        previous.may_end.clear()
        await sandbox.apply(example("changed", 1))
        await sandbox.apply(example("created", 0))
        while len(journal) < 4:  # noqa: ASYNC110
            await asyncio.sleep(0)

    async def after(sandbox: Sandbox) -> None:
        previous.may_end.set()
        await wait_handled(sandbox, "changed", 1)
        await wait_handled(sandbox, "created", 0)

    async with handing_over(
        sandbox, late=late, previous=previous, before=before, after=after
    ) as since:
        sandbox.faults.clear()
        await sandbox.apply(example("changed", 2))
        await wait_handled(sandbox, "changed", 2)
    assert sorted(journal) == [
        ("create", "changed", "0"),
        ("create", "created", "0"),
        ("create", "quiet", "0"),
        ("update", "changed", "1"),
        ("update", "changed", "2"),
    ]
    assert not sandbox.journal.select("GET", f"{KEXES}/quiet", since=since)


@pytest.mark.parametrize("is_permitted", [True, False], ids=["get", "list"])
async def test_r36_what_is_pending_for_the_late_is_looked_at_first(
    sandbox: Sandbox,
    late: Replica,
    previous: Replica,
    journal: list[tuple[str, ...]],
    is_permitted: bool,
) -> None:
    # The previous one handles nothing but creations: the updates are pending for the late one.
    previous.declare(kopf.on.create)
    late.declare(kopf.on.create, kopf.on.update, kopf.on.resume)

    async def before(sandbox: Sandbox) -> None:
        await sandbox.apply(example("one", 0))
        await wait_handled(sandbox, "one", 0)

    async def after(sandbox: Sandbox) -> None:
        for n in (1, 2):
            await sandbox.apply(example("one", n))
            await wait_handled(sandbox, "one", n)
        if not is_permitted:
            sandbox.faults.fail(403, method="GET", path=f"{KEXES}/one")

    async with handing_over(
        sandbox, late=late, previous=previous, before=before, after=after
    ) as since:
        await sandbox.journal.wait("GET", f"{KEXES}/one")
        while ("resume", "one", "2") not in journal:  # noqa: ASYNC110
            await asyncio.sleep(0)
        sandbox.faults.clear()
        await sandbox.apply(example("one", 3))
        await wait_handled(sandbox, "one", 3)
    assert journal == [("create", "one", "0"), ("resume", "one", "2"), ("update", "one", "3")]
    assert len(sandbox.journal.select("GET", f"{KEXES}/one", since=since)) == 1  # not once more


async def test_i_what_is_gone_is_left_alone(
    sandbox: Sandbox, late: Replica, previous: Replica, journal: list[tuple[str, ...]]
) -> None:
    for replica in (late, previous):
        replica.declare(kopf.on.create, kopf.on.resume)

    async def before(sandbox: Sandbox) -> None:
        for name in ("gone", "replaced"):
            await sandbox.apply(example(name, 0))
            await wait_handled(sandbox, name, 0)

    async def after(sandbox: Sandbox) -> None:
        await sandbox.delete("kopfexamples", "gone")
        await sandbox.delete("kopfexamples", "replaced")
        await sandbox.apply(example("replaced", 1))
        await wait_handled(sandbox, "replaced", 1)

    async with handing_over(
        sandbox, late=late, previous=previous, before=before, after=after
    ) as since:
        sandbox.faults.clear()
        await sandbox.apply(example("new", 0))
        await wait_handled(sandbox, "new", 0)
    assert [note for note in journal if note[0] == "resume"] == []
    assert not sandbox.journal.select("PATCH", f"{KEXES}/gone", since=since)


@pytest.mark.parametrize("is_single", [True, False], ids=["requested", "listed"])
async def test_k2_daemons_and_timers_begin_with_the_state_that_there_is(
    sandbox: Sandbox,
    late: Replica,
    previous: Replica,
    journal: list[tuple[str, ...]],
    monkeypatch: pytest.MonkeyPatch,
    is_single: bool,
) -> None:
    """Otherwise, they would do anew what the handlers of the deletion have cleaned up."""
    monkeypatch.setattr(takeovers, "MANY", takeovers.MANY if is_single else 1)
    names = ("changed", "gone", "replaced")
    previous.declare(kopf.on.create)
    late.declare(kopf.daemon, kopf.timer)

    async def before(sandbox: Sandbox) -> None:
        for name in names:
            await sandbox.apply(example(name, 0))
            await wait_handled(sandbox, name, 0)

    async def after(sandbox: Sandbox) -> None:
        await sandbox.apply(example("changed", 1))
        for name in ("gone", "replaced"):
            await sandbox.delete("kopfexamples", name)
        await sandbox.apply(example("replaced", 1))
        await wait_handled(sandbox, "replaced", 1)

    async with handing_over(
        sandbox, late=late, previous=previous, before=before, after=after
    ) as since:
        await sandbox.journal.wait("GET", f"{KEXES}/gone", since=since)
        await until_noted(journal, "changed", "1")
        sandbox.faults.clear()
        await until_noted(journal, "replaced", "1")
    assert sorted(note for note in {*journal} if note[0] != "create") == [
        (id, name, "1") for id in ("daemon", "timer") for name in ("changed", "replaced")
    ]


async def until_noted(journal: list[tuple[str, ...]], name: str, n: str) -> None:
    """Wait until both the daemon and the timer have begun for that state of the object."""
    while not {("daemon", name, n), ("timer", name, n)} <= {*journal}:  # noqa: ASYNC110
        await asyncio.sleep(0)


async def test_i_what_is_late_in_the_network_is_refused(
    sandbox: Sandbox, late: Replica, previous: Replica, journal: list[tuple[str, ...]]
) -> None:
    for replica in (late, previous):
        replica.declare(kopf.on.create, kopf.on.update)
    previous.settings.networking.error_backoffs = ()

    async def before(sandbox: Sandbox) -> None:
        sandbox.faults.drop(method="PATCH", path=f"{KEXES}/one")  # it is late, and never here
        await sandbox.apply(example("one", 0))
        await sandbox.journal.wait("PATCH", f"{KEXES}/one")

    async def after(sandbox: Sandbox) -> None:
        pass

    async with handing_over(sandbox, late=late, previous=previous, before=before, after=after):
        sandbox.faults.clear()
        await wait_handled(sandbox, "one", 0)
        await sandbox.apply(example("one", 1))
        await wait_handled(sandbox, "one", 1)
        patch = sandbox.journal.select("PATCH", f"{KEXES}/one")[0]
        async with Client(kopf.ConnectionInfo(server=sandbox.url)) as client:
            with pytest.raises(APIConflictError):
                await client.patch(patch.path, patch.json, content_type=patch.content_type)
        await sandbox.apply(example("one", 2))
        await wait_handled(sandbox, "one", 2)
    assert journal[1:] == [("create", "one", "0"), ("update", "one", "1"), ("update", "one", "2")]


@pytest.mark.parametrize("is_quiet", [True, False], ids=["quiet", "changed"])
async def test_f4_r36_wrong_absences_are_doubted(
    sandbox: Sandbox,
    late: Replica,
    previous: Replica,
    journal: list[tuple[str, ...]],
    monkeypatch: pytest.MonkeyPatch,
    is_quiet: bool,
) -> None:
    monkeypatch.setattr(takeovers, "DOUBTS", (0.01, 0.01) if is_quiet else (999, 999))
    previous.declare(kopf.on.create)
    late.declare(kopf.on.create, kopf.on.resume)

    async def before(sandbox: Sandbox) -> None:
        await sandbox.apply(example("one", 0))
        await wait_handled(sandbox, "one", 0)

    async def after(sandbox: Sandbox) -> None:
        sandbox.faults.fail(404, method="GET", path=f"{KEXES}/one", times=1)

    async with handing_over(
        sandbox, late=late, previous=previous, before=before, after=after
    ) as since:
        await sandbox.journal.wait("GET", f"{KEXES}/one", since=since)
        sandbox.faults.clear()
        if not is_quiet:
            await sandbox.apply(example("one", 1))
        while len(journal) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0)
    assert journal == [("create", "one", "0"), ("resume", "one", "0" if is_quiet else "1")]


@pytest.mark.parametrize("path", [KEXES, f"{KEXES}/obj7"], ids=["list", "object"])
async def test_f5_what_hangs_does_not_hold_up_the_others(
    sandbox: Sandbox,
    late: Replica,
    previous: Replica,
    journal: list[tuple[str, ...]],
    monkeypatch: pytest.MonkeyPatch,
    path: str,
) -> None:
    names = [f"obj{i}" for i in range(10)]
    monkeypatch.setattr(takeovers, "MANY", 5)
    monkeypatch.setattr(takeovers, "PATIENCE", 0.05)
    late.settings.queueing.worker_limit = 6
    late.settings.queueing.error_delays = [0.01]
    previous.declare(kopf.on.create)
    late.declare(kopf.on.create, kopf.on.resume)

    async def before(sandbox: Sandbox) -> None:
        for name in names:
            await sandbox.apply(example(name, 0))
        for name in names:
            await wait_handled(sandbox, name, 0)

    async def after(sandbox: Sandbox) -> None:
        sandbox.faults.hang(method="GET", path=path, watch=False)

    hanging = 0 if path == KEXES else 1
    async with handing_over(sandbox, late=late, previous=previous, before=before, after=after):
        while len(journal) < len(names) * 2 - hanging:  # noqa: ASYNC110
            await asyncio.sleep(0)
        sandbox.faults.clear()
        while len(journal) < len(names) * 2:  # noqa: ASYNC110
            await asyncio.sleep(0)
    assert sorted(journal[len(names) :]) == [("resume", name, "0") for name in sorted(names)]


async def test_f7_many_late_objects_cost_one_list(
    sandbox: Sandbox,
    late: Replica,
    previous: Replica,
    journal: list[tuple[str, ...]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = [f"obj{i}" for i in range(20)]
    monkeypatch.setattr(takeovers, "MANY", 5)
    previous.declare(kopf.on.create)
    late.declare(kopf.on.create, kopf.on.resume)

    async def before(sandbox: Sandbox) -> None:
        for name in names:
            await sandbox.apply(example(name, 0))
        for name in names:
            await wait_handled(sandbox, name, 0)

    async def after(sandbox: Sandbox) -> None:
        for name in names:
            await sandbox.apply(example(name, 1))
        for name in names:
            await wait_handled(sandbox, name, 1)

    async with handing_over(
        sandbox, late=late, previous=previous, before=before, after=after
    ) as since:
        while len(journal) < len(names) * 2:  # noqa: ASYNC110
            await asyncio.sleep(0)
    assert sorted(journal[len(names) :]) == [("resume", name, "1") for name in sorted(names)]
    lists = [e for e in sandbox.journal.select("GET", KEXES, since=since) if not e.watch]
    assert len(lists) == 1
    assert len(sandbox.journal.select("GET", f"{KEXES}/*", since=since)) == 5


async def test_i_many_are_listed_while_the_first_of_them_are_handled(
    sandbox: Sandbox, late: Replica, previous: Replica, journal: list[tuple[str, ...]]
) -> None:
    names = [f"obj{i}" for i in range(60)]
    late.settings.leasing.duration, late.settings.leasing.renew_deadline = 999, 500  # it can hang
    previous.declare(kopf.on.create)
    late.declare(kopf.on.create, kopf.on.resume)
    resumed = [("resume", name, "1" if name == "obj7" else "0") for name in names]

    async def before(sandbox: Sandbox) -> None:
        for name in names:
            await sandbox.apply(example(name, 0))
        for name in names:
            await wait_handled(sandbox, name, 0)

    async def after(sandbox: Sandbox) -> None:
        sandbox.faults.hang(method="GET", path=KEXES, watch=False)
        await sandbox.apply(example("obj7", 1))
        await wait_handled(sandbox, "obj7", 1)

    async with handing_over(
        sandbox, late=late, previous=previous, before=before, after=after
    ) as since:
        while len(journal) < len(names) + 50:  # noqa: ASYNC110 -- these need no list
            await asyncio.sleep(0)
        assert len(journal) == len(names) + 50
        sandbox.faults.clear()
        while len(journal) < len(names) * 2:  # noqa: ASYNC110
            await asyncio.sleep(0)
    assert sorted(journal[len(names) :]) == sorted(resumed)
    lists = [e for e in sandbox.journal.select("GET", KEXES, since=since) if not e.watch]
    assert len(lists) == 1
    assert len(sandbox.journal.select("GET", f"{KEXES}/*", since=since)) <= 51
