"""Who of the members is alive, in the eyes of the coordinator."""

import asyncio
import copy
import math
from types import SimpleNamespace
from typing import Any

import pytest
from idleness import quiet

from kopf_cogs.clients.errors import APIConflictError, APIResponseError
from kopf_cogs.configs.settings import LeasingSettings
from kopf_core.engines.sharding.roll import CONFIRMED, Attendance, Roll


class Leases:
    """The Leases on a server; the requests take as long as the test says."""

    def __init__(self, clock: Any) -> None:
        self.items: dict[str, Any] = {}
        self.deleted: list[Any] = []
        self.delay = 0.0
        self._clock = clock
        self._version = 0

    def renew(self, member: str, confirmed: object = 0, holder: str = "pod") -> None:
        self._version += 1
        self.items[f"group-{member}"] = {
            "metadata": {
                "name": f"group-{member}",
                "resourceVersion": f"{self._version}",
                "annotations": {CONFIRMED: f"{confirmed}"},
            },
            "spec": {
                "holderIdentity": holder,
                "leaseDurationSeconds": 15,
                "renewTime": f"{self._version}",
            },
        }

    async def get(self, url: str, **_: Any) -> Any:
        metadata = {"resourceVersion": f"{self._version}"}
        reply = {"items": [*self.items.values()], "metadata": metadata}
        self._clock.advance(self.delay)
        return reply

    async def request(self, method: str, url: str, *, payload: Any, **_: Any) -> Any:
        name = url.rpartition("/")[2]
        if (
            self.items[name]["metadata"]["resourceVersion"]
            != payload["preconditions"]["resourceVersion"]
        ):
            raise APIConflictError(status=409)
        self.deleted.append(name)
        del self.items[name]


@pytest.fixture
def leases(clock):
    return Leases(clock)


@pytest.fixture
def roll(leases, clock):
    settings = LeasingSettings(name="group", namespace="ns", duration=15)
    return Roll(leases, settings, clock)


async def look(roll: Roll, named: set[str]) -> Attendance:
    roll.expect(named)
    return await roll.call()


async def test_o_members_are_alive_while_their_leases_change(roll, leases, clock):
    leases.renew("a")
    leases.renew("b", confirmed=7)
    await roll.call()
    clock.advance(14)
    leases.renew("a")
    assert (await roll.call()).living == {"a": 0, "b": 7}
    clock.advance(1)
    assert (await roll.call()).living == {"a": 0}


async def test_o_an_old_reply_does_not_make_anybody_dead(roll, leases, clock):
    leases.renew("a")
    await roll.call()
    clock.advance(14)
    leases.delay = 60  # the coordinator is suspended when it has the reply
    assert (await roll.call()).living == {"a": 0}


async def test_o_released_members_are_dead_at_once(roll, leases):
    leases.renew("a")
    await roll.call()
    leases.renew("a", holder="")
    assert (await roll.call()).living == {}


async def test_o_the_owner_of_a_deleted_lease_is_alive_for_as_long_as_with_the_lease(
    roll, leases, clock
):
    assert (await look(roll, {"a"})).living == {"a": 0}
    clock.advance(14)
    assert (await look(roll, {"a"})).living == {"a": 0}
    clock.advance(1)
    assert (await look(roll, {"a"})).living == {}


async def test_shard5_a_member_can_have_renewed_its_lease_before_people_deleted_it(
    roll, leases, clock
):
    """The look of long ago says nothing of that. Such looks are made when a coordinator is late."""
    leases.renew("a", confirmed=7)
    await roll.call()
    clock.advance(60)
    leases.items.clear()
    assert (await look(roll, {"a"})).living == {"a": 7}
    clock.advance(14)
    assert (await look(roll, {"a"})).living == {"a": 7}
    clock.advance(1)
    assert (await look(roll, {"a"})).living == {}


async def test_o_a_member_is_silent_since_a_stream_has_announced_its_last_change(
    roll, leases, clock
):
    leases.renew("a")
    roll.announce(leases.items["group-a"])
    clock.advance(1.9)
    await roll.call()
    clock.advance(13.1)
    assert (await roll.call()).living == {}


async def test_o_repeated_states_in_a_stream_are_no_signs_of_life(roll, leases, clock):
    """API servers can have old caches: each new stream brings the past again."""
    leases.renew("a")
    old = leases.items["group-a"]
    leases.renew("a")
    await roll.call()
    for _ in range(15):
        clock.advance(1)
        roll.announce(old)
        living = (await roll.call()).living
    assert living == {}


async def test_o_a_stream_alone_makes_nobody_dead_and_confirms_nothing(roll, leases):
    leases.renew("a", confirmed=1)
    await roll.call()
    lie = copy.deepcopy(leases.items["group-a"])
    lie["metadata"] |= {"resourceVersion": "99", "annotations": {CONFIRMED: "7"}}
    lie["spec"]["holderIdentity"] = ""
    assert roll.announce(lie)
    assert (await roll.call()).living == {"a": 1}


async def test_o_a_late_stream_does_not_revive_a_buried_member(roll, leases):
    leases.renew("a")
    late = leases.items["group-a"]
    leases.renew("a", holder="")
    await roll.bury((await roll.call()).dead)
    await roll.call()
    roll.announce(late)
    assert (await roll.call()).living == {}


async def test_o_a_member_that_was_only_announced_is_silent_since_then(roll, leases, clock):
    leases.renew("a")
    roll.announce(leases.items["group-a"])
    roll.expect({"b"})  # the assignment does not name it yet
    clock.advance(15)
    assert (await roll.call()).living == {}


@pytest.mark.parametrize("change", [{"confirmed": 2}, {"holder": ""}])
async def test_o_it_is_news_if_a_known_member_has_ended_any_work(roll, leases, change):
    leases.renew("a", confirmed=1)
    await roll.call()
    leases.renew("a", **{"confirmed": 1, **change})
    assert roll.announce(leases.items["group-a"])
    assert not roll.announce(leases.items["group-a"])


async def test_o_renewals_and_new_members_are_no_news(roll, leases):
    leases.renew("a", confirmed=1)
    await roll.call()
    leases.renew("a", confirmed=1)
    leases.renew("b")
    assert not roll.announce(leases.items["group-a"])
    assert not roll.announce(leases.items["group-b"])


@pytest.mark.parametrize("name", ["group", "groupa", "other-a"])
async def test_o_other_leases_with_the_label_are_no_members(roll, leases, name):
    leases.renew("a")
    foreign = copy.deepcopy(leases.items["group-a"])
    foreign["metadata"]["name"] = name
    leases.items[name] = foreign
    assert not roll.announce(foreign)
    assert (await roll.call()).living == {"a": 0}


async def test_o_unusual_contents_of_leases_do_no_harm(roll, leases, clock):
    leases.renew("a")
    leases.items["group-a"]["metadata"]["annotations"] = ["x"]
    leases.items["group-a"]["spec"]["leaseDurationSeconds"] = 10**400
    roll.announce(leases.items["group-a"])
    assert (await roll.call()).living == {"a": 0}
    clock.advance(15)
    assert (await roll.call()).living == {}


async def test_o_members_without_leases_are_forgotten_unless_they_are_assigned(roll, leases):
    leases.renew("a")
    leases.renew("b")
    leases.renew("c")
    await roll.call()
    del leases.items["group-a"], leases.items["group-b"]
    roll.expect({"b"})
    await roll.call()
    assert roll._members.keys() == {"b", "c"}


async def test_o_an_assigned_member_without_a_lease_is_waited_for_since_it_is_known(
    roll, leases, clock
):
    roll.expect({"a"})
    clock.advance(14)
    assert (await look(roll, {"a"})).living == {"a": 0}
    clock.advance(1)
    assert (await look(roll, {"a"})).living == {}


async def test_o_a_member_can_become_assigned_during_the_look(roll, leases, clock):
    leases.renew("a", confirmed=7)
    reply = await leases.get("")

    async def get(*_: Any, **__: Any) -> Any:
        clock.advance(1)
        roll.expect({"a", "b"})
        return reply

    roll._client = SimpleNamespace(get=get)
    assert (await roll.call()).living == {"a": 7, "b": 0}


async def test_o_the_time_until_the_next_death_is_known(roll, leases, clock):
    leases.renew("a")
    await roll.call()
    clock.advance(5)
    leases.renew("b")
    await roll.call()
    assert roll.get_left({"a", "b"}) == 10
    assert roll.get_left({"b"}) == 15
    assert roll.get_left({"unknown"}) == math.inf


async def test_o_only_the_dead_are_buried(roll, leases):
    leases.renew("a", holder="")
    leases.renew("b")
    verdict = await look(roll, {"c"})
    assert verdict == ({"b": 0, "c": 0}, {"a"}, "2")
    await roll.bury(verdict.dead)
    assert leases.deleted == ["group-a"]


async def test_o_a_lease_that_has_changed_is_not_deleted(roll, leases):
    leases.renew("a", holder="")
    verdict = await roll.call()
    leases.renew("a")
    await roll.bury(verdict.dead)
    assert not leases.deleted


@pytest.mark.parametrize("confirmed", ["", "x", "-1", "1.5", "9" * 5000, "٣"])
async def test_o_senseless_confirmations_confirm_nothing(roll, leases, confirmed):
    leases.renew("a", confirmed=confirmed)
    assert (await roll.call()).living == {"a": 0}


@pytest.mark.parametrize(
    "reply", [None, [], "x", {}, {"items": [1]}, {"items": [{}]}, {"items": []}]
)
async def test_o_replies_that_are_no_lists_are_errors(roll, leases, reply):
    async def get(*_: Any, **__: Any) -> Any:
        return reply

    leases.get = get
    with pytest.raises(APIResponseError):
        await roll.call()


async def test_o_an_old_reply_after_a_new_one_is_no_sign_of_life(roll, leases, clock, monkeypatch):
    leases.renew("a")
    await roll.call()
    get, is_late = leases.get, asyncio.Event()

    async def reply_late(*args: Any, **kwargs: Any) -> Any:
        monkeypatch.setattr(leases, "get", get)
        reply = copy.deepcopy(await get(*args, **kwargs))
        await is_late.wait()
        return reply

    monkeypatch.setattr(leases, "get", reply_late)
    first = asyncio.create_task(roll.call())
    await quiet()
    leases.renew("a")
    second = asyncio.create_task(roll.call())
    await quiet()
    is_late.set()
    await asyncio.gather(first, second)
    clock.advance(14)
    assert (await roll.call()).living == {"a": 0}
    clock.advance(1)
    assert (await roll.call()).living == {}
