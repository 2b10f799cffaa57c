"""What a coordinator stores in the common Lease, by what it knows of the members."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
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
        self._version = 0

    async def get(self, url: str, **_: Any) -> Any:
        self.listed.set()
        items = [self._make(*item) for item in self.members.items()]
        return {"items": items, "metadata": {"resourceVersion": "1"}}

    def _make(self, member: str, confirmed: int) -> Any:
        annotations = {CONFIRMED: str(confirmed)}
        self._version += 1
        version = f"{self._version}"
        metadata = {
            "name": f"group-{member}",
            "annotations": annotations,
            "resourceVersion": version,
        }
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


def make_common(metadata: Any) -> dict[str, Any]:
    """The common Lease, as a stream brings it."""
    metadata = {**metadata, "name": "group", "resourceVersion": "9"}
    return {"metadata": metadata, "spec": {"holderIdentity": "other"}}


def get_annotations(metadata: Any) -> Any:
    return metadata.get("annotations")


def read(metadata: Any) -> Assignment | None:
    return parse_assignment(metadata.get("annotations", {}).get(ASSIGNMENT))


async def test_o_nothing_is_assigned_before_the_members_are_known(coordinator):
    labels = {"kopf.dev/members-of": "group"}
    assert coordinator.stow({"name": "group"}) == {"name": "group", "labels": labels}
    assert coordinator.stow(make("a")) == {**make("a"), "labels": labels}


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
    assert get_annotations(coordinator.stow({})) is None


async def test_o_an_assignment_restored_from_a_backup_waits_for_those_who_follow_a_later_one(
    coordinator, server, clock
):
    server.members = {"a": 12, "b": 12, "new": 0}
    restored = make("a", round=7)
    await look(coordinator, server)
    assert get_annotations(coordinator.stow(restored)) == get_annotations(restored)
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
    assert get_annotations(coordinator.stow(make("b", round=7))) == get_annotations(
        make("b", round=7)
    )


async def test_o_members_that_were_not_there_at_the_latest_look_are_not_taken_for_dead(
    coordinator, server
):
    server.members = {"a": 1, "b": 1}
    await look(coordinator, server)
    # This one is suspended. Others have coordinated meanwhile: "c" has come, and works.
    metadata = make("a", "c", round=5)
    assert get_annotations(coordinator.stow(metadata)) == get_annotations(metadata)


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


async def test_q_each_death_is_told_once(coordinator, server, caplog):
    caplog.set_level(logging.INFO, "kopf.sharding")
    server.members, server.released = {"a": 1, "b": 1, "c": 1}, {"b", "c"}
    coordinator.load(make("a", "b"))
    await look(coordinator, server)
    await look(coordinator, server)
    text = "The replica with the lease group-b is gone: others get its shards."
    assert caplog.messages == [text]


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


@contextlib.asynccontextmanager
async def coordinating(coordinator: Coordinator, server: Server) -> AsyncIterator[None]:
    """It coordinates, and has looked at the members once. Its next regular look is far away."""
    coordinator._settings.retry_period = 999
    server.listed.clear()
    task = asyncio.create_task(coordinator._coordinate())
    try:
        async with asyncio.timeout(60):
            await server.listed.wait()
            server.listed.clear()
            await asyncio.sleep(0)
            yield
    finally:
        task.cancel()
        await asyncio.wait([task])


@pytest.mark.parametrize("change", ["confirmed", "released"])
async def test_o_the_coordinator_looks_at_once_if_a_member_has_given_up_any_shards(
    coordinator, server, change
):
    server.members = {"a": 1, "b": 1}
    async with coordinating(coordinator, server):
        if change == "released":
            server.released = {"b"}
        coordinator.announce(server._make("b", 2 if change == "confirmed" else 1))
        await server.listed.wait()


async def test_o_the_coordinator_does_not_hurry_for_renewals_and_new_members(coordinator, server):
    server.members = {"a": 1}
    async with coordinating(coordinator, server):
        coordinator.announce(server._make("a", 1))
        coordinator.announce(server._make("b", 0))
        assert not coordinator._news.is_set()


async def test_o_the_coordinator_looks_when_a_member_is_surely_dead(coordinator, server, clock):
    server.members = {"a": 1}
    coordinator._settings.duration = 0.001
    async with coordinating(coordinator, server):
        clock.advance(0.001)
        await server.listed.wait()
        await asyncio.sleep(0)
        assert coordinator._attendance.dead == {"a"}


async def test_o_a_follower_reads_the_common_lease_at_once_if_it_has_changed(coordinator):
    coordinator.load(make("a"))
    coordinator.announce(make_common(make("b", round=2)))
    assert coordinator.elector._hastened.is_set()


async def test_o_a_follower_does_not_hurry_for_repeated_states(coordinator):
    coordinator.load(make("a"))
    coordinator.announce(make_common(make("b", round=2)))
    coordinator.elector._hastened.clear()
    coordinator.announce(make_common(make("b", round=2)))
    assert not coordinator.elector._hastened.is_set()


async def test_o_a_look_at_all_leases_includes_the_common_one(coordinator, server):
    server.members = {"a": 1}
    assert await coordinator.look() == "1"
    assert coordinator.elector._hastened.is_set()
