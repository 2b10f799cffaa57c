"""The clusters of simulated lives: the sandbox, and the fake; and what they do badly."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self

from e2e.chaos.fake.errors import Refusal
from e2e.chaos.fake.faults import cut_reply, lose_reply, refuse, reset
from e2e.chaos.fake.journal import Entry, where
from e2e.chaos.fake.kinds import Kind
from e2e.chaos.fake.server import FakeAPI
from e2e.chaos.fake.watching import is_own
from kopf_kits.sandbox import ClusterOptions, Nature, Sandbox
from kopf_kits.sandbox.base.statuses import StatusError

if TYPE_CHECKING:
    from e2e.chaos.fake.store import Change
    from e2e.simulation.plans import Event
    from kopf_kits.simulation import World

GROUP = "sim.kopf.dev"
REFUSALS = (StatusError, Refusal, LookupError)
"""What people get if what they do is not possible."""

ERRORS = [429, 500, 503, 504, 409]


class Request(NamedTuple):
    """One request of an operator, and when it came in the virtual time."""

    method: str
    path: str
    status: int | None
    time: float


class Restore(NamedTuple):
    """A restored backup: the versions after ``version`` and up to ``last`` have never been."""

    time: float
    version: int
    last: int


class Cluster(Protocol):
    """What people do in a cluster, and what can be known of it."""

    restores: list[Restore]

    @property
    def url(self) -> str: ...
    @property
    def requests(self) -> Sequence[Request]: ...
    @property
    def last_write(self) -> float: ...
    @property
    def holder(self) -> str: ...
    def exists(self, uid: str) -> bool: ...

    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, *args: object) -> None: ...
    async def create(self, name: str, spec: dict[str, Any]) -> None: ...
    async def patch(self, plural: str, name: str, patch: dict[str, Any]) -> None: ...
    async def set_status(self, name: str, status: dict[str, Any]) -> None: ...
    async def delete(self, name: str, plural: str = "kexes") -> None: ...
    async def list(self, plural: str) -> list[dict[str, Any]]: ...
    async def go_wrong(self, event: Event) -> None: ...
    def recover(self) -> None: ...
    def read_by_quorum(self) -> None: ...


class SandboxCluster:
    """The sandbox of the framework."""

    def __init__(self, world: World, *, has_status: bool) -> None:
        self._world = world
        self._chance = random.Random(f"{world.seed}:cluster")
        self._has_status = has_status
        nature = Nature(world.clock.now, random.Random(world.seed))
        self._sandbox = Sandbox(options=ClusterOptions(nature=nature))
        self._beginning = world.clock.now().timestamp()
        self.restores: list[Restore] = []

    @property
    def url(self) -> str:
        return self._sandbox.url

    @property
    def requests(self) -> Sequence[Request]:
        return [
            Request(e.method, e.path, e.status, e.time - self._beginning)
            for e in self._sandbox.journal
        ]

    @property
    def last_write(self) -> float:
        """When the last of them came; zero if nothing was written."""
        journal = self._sandbox.journal
        entries = (journal[index] for index in range(len(journal) - 1, -1, -1))
        times = (e.time - self._beginning for e in entries if is_write(e.method, e.path))
        return next(times, 0.0)

    @property
    def holder(self) -> str:
        """Who holds the lease right now; empty if nobody does."""
        stored = self._leases.get(("default", "sim"))
        return "" if stored is None else str(stored.obj["spec"].get("holderIdentity") or "")

    def exists(self, uid: str) -> bool:
        store = self._sandbox.cluster.registry.find("kexes").resource.store
        return any(stored.uid == uid for stored in store.select(None))

    async def __aenter__(self) -> Self:
        await self._sandbox.__aenter__()
        self._leases = self._sandbox.cluster.registry.find("leases").resource.store
        kind = Kind(GROUP, "v1", "kexes", "Kex", has_status=self._has_status)
        await self._sandbox.apply({key: v for key, v in kind.define().items() if key != "status"})
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._sandbox.__aexit__(None, None, None)

    async def create(self, name: str, spec: dict[str, Any]) -> None:
        meta = {"name": name, "namespace": "default"}
        body = {"apiVersion": f"{GROUP}/v1", "kind": "Kex", "metadata": meta}
        await self._sandbox.create({**body, "spec": spec})

    async def patch(self, plural: str, name: str, patch: dict[str, Any]) -> None:
        await self._sandbox.patch(plural, name, patch)

    async def set_status(self, name: str, status: dict[str, Any]) -> None:
        subresource = "status" if self._has_status else None
        await self._sandbox.patch("kexes", name, {"status": status}, subresource=subresource)

    async def delete(self, name: str, plural: str = "kexes") -> None:
        await self._sandbox.delete(plural, name)

    async def list(self, plural: str) -> list[dict[str, Any]]:
        return await self._sandbox.list(plural)

    def read_by_quorum(self) -> None:
        """It always does."""

    def recover(self) -> None:
        self._sandbox.faults.clear()

    async def go_wrong(self, event: Event) -> None:
        faults, choose = self._sandbox.faults, self._chance.choice
        match event.what:
            case "lose-lease":  # its renewals fail for a while
                with faults.fail(503, path="*/leases/*", method=None):
                    await asyncio.sleep(event.seconds * 2)
            case "slow-lease":  # its renewals are executed, but it is too late then
                with faults.delay(event.seconds * 2, path="*/leases/*", method=None):
                    await asyncio.sleep(event.seconds * 2)
            case "absent":
                faults.fail(404, path="*/kexes/*", method="PATCH", times=event.number)
            case "cut-watches":
                self._sandbox.cut_watches()
            case "compact":
                self._sandbox.compact()
                self._sandbox.cut_watches()
            case "hold-watches":
                with faults.hold(watch=True):
                    await asyncio.sleep(event.seconds)
            case "fail":
                method = choose(["PATCH", "GET", None])
                faults.fail(choose(ERRORS), method=method, times=event.number)
            case "drop":
                faults.drop(method="PATCH", times=event.number)
            case _:
                raise ValueError(event.what)


class FakeCluster:
    """The fake of the tests of chaos: it shares no code with the sandbox, so it errs elsewhere."""

    def __init__(self, world: World, *, has_status: bool) -> None:
        self._world = world
        self._chance = random.Random(f"{world.seed}:cluster")
        self._kind = Kind(GROUP, "v1", "kexes", "Kex", has_status=has_status)
        self._leases = Kind("coordination.k8s.io", "v1", "leases", "Lease")
        self._api: FakeAPI
        self._holds: list[Any] = []
        self.restores: list[Restore] = []

    @property
    def url(self) -> str:
        return self._api.url

    @property
    def requests(self) -> Sequence[Request]:
        return [
            Request(e.request.method, e.request.path, e.status, e.time) for e in self._api.journal
        ]

    @property
    def last_write(self) -> float:
        entries = reversed(self._api.journal.entries)
        return next((e.time for e in entries if is_write(e.request.method, e.request.path)), 0.0)

    @property
    def holder(self) -> str:
        lease = self._api.find("sim", kind=self._leases)
        return "" if lease is None else str(lease["spec"].get("holderIdentity") or "")

    def exists(self, uid: str) -> bool:
        return any(obj["metadata"]["uid"] == uid for obj in self._api.store.list(self._kind, ""))

    async def __aenter__(self) -> Self:
        self._api = FakeAPI(self._kind, self._leases, now=self._world.clock.now)
        await self._api.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._api.__aexit__()

    async def create(self, name: str, spec: dict[str, Any]) -> None:
        self._api.create(name, kind=self._kind, spec=spec)

    async def patch(self, plural: str, name: str, patch: dict[str, Any]) -> None:
        self._api.patch(patch, name, kind=self._kind)

    async def set_status(self, name: str, status: dict[str, Any]) -> None:
        self._api.patch({"status": status}, name, kind=self._kind)

    async def delete(self, name: str, plural: str = "kexes") -> None:
        if plural != "kexes":
            raise LookupError(plural)
        self._api.delete(name, kind=self._kind)

    async def list(self, plural: str) -> list[dict[str, Any]]:
        return self._api.store.list(self._kind, "") if plural == "kexes" else []

    def read_by_quorum(self) -> None:
        """No list is from the past anymore."""
        self._api.stale_lists(self._kind, None)

    def recover(self) -> None:
        self._api.clear_hooks()
        self._api.lag(0.0)
        self.read_by_quorum()
        for hold in self._holds:
            hold.release()

    async def go_wrong(self, event: Event) -> None:
        api, choose, times = self._api, self._chance.choice, event.number
        patching = where("patch", "kexes")
        match event.what:
            case "fail":
                verb = choose(["patch", "list", "watch", "get"])
                api.on(where(verb, "kexes"), refuse(choose(ERRORS)), times=times)
            case "absent":
                api.on(patching, refuse(404), times=times)
            case "drop":
                api.on(patching, reset, times=times)
            case "lose-reply":
                api.on(patching, lose_reply, times=times)
            case "cut-reply":
                api.on(_is_plain, cut_reply, times=times)
            case "twice":  # e.g. by a proxy that has not got the first reply
                api.on(patching, _execute_twice, times=times)
            case "lose-lease" | "slow-lease":
                hook = api.on(where(None, "leases"), refuse(503))
                await asyncio.sleep(event.seconds * 2)
                hook.stop()
            case "cut-watches":
                for stream in [*api.streams]:
                    choose([stream.close, stream.reset])()
            case "compact":
                api.store.compacted = api.store.version
                for stream in [*api.streams]:
                    await stream.expire()
            case _:
                await self._be_late(event)

    async def _be_late(self, event: Event) -> None:
        """Show the past: in streams, in lists, or for ever."""
        api, version = self._api, self._api.store.version
        match event.what:
            case "hold-watches":
                check = self._chance.choice([_Backlog(), lambda _: True])
                self._holds.append(hold := api.hold(check))
                await asyncio.sleep(event.seconds)
                hold.release()
            case "lag":
                api.lag(event.seconds)
                await asyncio.sleep(event.seconds)
                api.lag(0.0)
            case "stale-lists":
                api.stale_lists(self._kind, max(self._find_newest(), version - event.number))
                await asyncio.sleep(event.seconds)
                self.read_by_quorum()
            case "travel":  # and versions are raised, as it must be done: see etcdutl(1)
                past = max(104, version - event.number)
                self.restores.append(Restore(self._world.loop.time(), past, version))
                api.travel(past)
                api.store.version = api.store.compacted = version + 1000
            case "repeat":
                for stream in [one for one in api.streams if one.is_fresh]:
                    for obj in api.store.list(stream.kind, stream.namespace):
                        await stream.send("MODIFIED", obj)
            case _:
                raise ValueError(event.what)

    def _find_newest(self) -> int:
        """The version in which the newest object was created.

        Without it, an older list is the same as a restored backup: the object has never been.
        """
        history = self._api.store.history
        return max((change.version for change in history if change.type == "ADDED"), default=101)


class _Backlog:
    """Holds all changes since the first one that an operator has made.

    Servers never show a later change before an earlier one: a client whose stream is cut goes on
    after the latest shown change.
    """

    def __init__(self) -> None:
        self._first = math.inf

    def __call__(self, change: Change) -> bool:
        if is_own(change):
            self._first = min(self._first, change.version)
        return change.version >= self._first


async def _execute_twice(exchange: Any) -> None:
    exchange.execute()
    await exchange.serve()


def _is_plain(entry: Entry) -> bool:
    return entry.verb in ("list", "get", "patch")


def is_write(method: str, path: str) -> bool:
    """Whether it changes anything but the leases, which are renewed for ever."""
    return method != "GET" and "/leases" not in path and "reviews" not in path


CLUSTERS = {"sandbox": SandboxCluster, "fake": FakeCluster}
