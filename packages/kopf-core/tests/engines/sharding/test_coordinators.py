"""What a coordinator stores in the common Lease, by what it knows of the members."""

import asyncio
from typing import Any

import pytest

from kopf_cogs.configs.settings import LeasingSettings
from kopf_core.engines.sharding.assignment_records import format_assignment, parse_assignment
from kopf_core.engines.sharding.assignments import Assignment, Shard
from kopf_core.engines.sharding.coordinators import ASSIGNMENT, Coordinator
from kopf_core.engines.sharding.hashing import SHARDS
from kopf_core.engines.sharding.roll import CONFIRMED


class Server:
    """The Leases of members; the common Lease is what the test stores."""

    def __init__(self) -> None:
        self.members: dict[str, int] = {}
        self.released: set[str] = set()
        self.deleted: list[str] = []
        self.listed = asyncio.Event()

    async def get(self, url: str, **_: Any) -> Any:
        self.listed.set()
        return {"items": [self._make(*item) for item in self.members.items()]}

    def _make(self, member: str, confirmed: int) -> Any:
        annotations = {CONFIRMED: str(confirmed)}
        metadata = {"name": f"group-{member}", "annotations": annotations, "resourceVersion": "1"}
        holder = "" if member in self.released else "pod"
        renewed = f"2030-01-01T00:00:{confirmed:02}.000000Z"
        return {"metadata": metadata, "spec": {"holderIdentity": holder, "renewTime": renewed}}

    async def request(self, method: str, url: str, **_: Any) -> None:
        self.deleted.append(url.rpartition("/")[2])


@pytest.fixture
def server():
    return Server()


@pytest.fixture
def coordinator(server, clock):
    settings = LeasingSettings(name="group", namespace="ns")
    return Coordinator(
        server, settings, identity="me", clock=clock, on_assigned=lambda assignment: None
    )


async def look(coordinator: Coordinator, server: Server) -> None:
    """Let it look at the members once, as it does while it coordinates."""
    server.listed.clear()
    looking = asyncio.create_task(coordinator._coordinate())
    await server.listed.wait()
    await asyncio.sleep(0)
    looking.cancel()
    await asyncio.wait([looking])


def make(*owners: str, round: int = 1) -> dict[str, Any]:
    """The metadata of the common Lease, with an assignment to them by turns."""
    shards = tuple(Shard(owners[number % len(owners)]) for number in range(SHARDS))
    return {"annotations": {ASSIGNMENT: format_assignment(Assignment(shards, round))}}


def read(metadata: Any) -> Assignment | None:
    return parse_assignment(metadata.get("annotations", {}).get(ASSIGNMENT))


async def test_o_nothing_is_assigned_before_the_members_are_known(coordinator):
    assert coordinator.stow({"name": "group"}) == {"name": "group"}
    assert coordinator.stow(make("a")) == make("a")


async def test_o_the_first_assignment_is_made_when_nobody_follows_another_one(coordinator, server):
    server.members = {"a": 7, "b": 0}
    await look(coordinator, server)
    assert read(coordinator.stow({})) is None
    server.members = {"a": 0, "b": 0}
    await look(coordinator, server)
    assignment = read(coordinator.stow({}))
    assert assignment is not None
    assert len(assignment.get_share("a")) == len(assignment.get_share("b")) == SHARDS // 2


async def test_o_a_lost_assignment_is_not_made_anew_before_another_look(coordinator, server):
    server.members = {"a": 0}
    await look(coordinator, server)
    coordinator.load(coordinator.stow({}))
    coordinator.load({})  # "a" could have followed the assignment before it was deleted
    assert coordinator.stow({}) == {}


async def test_o_an_assignment_restored_from_a_backup_waits_for_those_who_follow_a_later_one(
    coordinator, server, clock
):
    server.members = {"a": 12, "b": 12, "new": 0}
    restored = make("a", round=7)
    await look(coordinator, server)
    assert coordinator.stow(restored) == restored
    server.members = {"c": 0, "new": 0}  # they have stopped, and this one has joined again
    coordinator.load(restored)
    await look(coordinator, server)
    clock.advance(15)
    server.members = {"c": 1, "new": 1}
    await look(coordinator, server)
    assignment = read(coordinator.stow(restored))
    assert assignment is not None
    assert len(assignment.get_share("c")) == len(assignment.get_share("new")) == SHARDS // 2


async def test_o_a_restored_assignment_is_not_continued_before_another_look(coordinator, server):
    server.members = {"a": 0}
    await look(coordinator, server)
    coordinator.load(make("a", round=12))
    coordinator.load(make("b", round=7))  # "a" could have confirmed the later one meanwhile
    assert coordinator.stow(make("b", round=7)) == make("b", round=7)


async def test_o_members_that_were_not_there_at_the_latest_look_are_not_taken_for_dead(
    coordinator, server
):
    server.members = {"a": 1, "b": 1}
    await look(coordinator, server)
    # This one is suspended. Others have coordinated meanwhile: "c" has come, and works.
    metadata = make("a", "c", round=5)
    assert coordinator.stow(metadata) == metadata


async def test_o_a_released_lease_is_not_deleted_while_the_assignment_names_its_member(
    coordinator, server
):
    server.members, server.released = {"a": 1, "b": 1}, {"b"}
    coordinator.load(make("a", "b"))
    await look(coordinator, server)
    assert not server.deleted
    coordinator.load(make("a", round=2))
    await look(coordinator, server)
    assert server.deleted == ["group-b"]


async def test_o_the_dead_lose_their_shards(coordinator, server, clock):
    server.members = {"a": 1, "b": 1}
    coordinator.load(make("a", "b", round=2))
    await look(coordinator, server)
    clock.advance(15)
    server.members["a"] = 2  # the Lease of the other member does not change
    await look(coordinator, server)
    assignment = read(coordinator.stow(make("a", "b", round=2)))
    assert assignment is not None
    assert assignment.get_share("b") == frozenset()
