"""What a member makes of the assignment, and what others see in its Lease."""

import pytest

from kopf_core.engines.sharding.assignments import Assignment, Shard
from kopf_core.engines.sharding.hashing import SHARDS
from kopf_core.engines.sharding.seats import Seat
from kopf_core.engines.sharding.shares import Order


class Member:
    """The seat of ``me``; its orders, and its Lease, which is stored when the test says."""

    def __init__(self) -> None:
        self.orders: list[Order] = []
        self.hastened = 0
        self.lease: dict[str, object] = {}
        self.seat = Seat("me", "group", give=self.orders.append, hasten=self._hasten)

    def _hasten(self) -> None:
        self.hastened += 1

    def store(self) -> None:
        self.lease = dict(self.seat.stow(self.lease))
        self.seat.load(self.lease)

    @property
    def confirmed(self) -> object:
        return self.seat.stow({})["annotations"]["kopf.dev/confirmed-round"]


@pytest.fixture
def member() -> Member:
    return Member()


def assign(round: int, *shards: Shard) -> Assignment:
    return Assignment((*shards, *[Shard("rest")] * (SHARDS - len(shards))), round)


MINE, OTHERS = Shard("me"), Shard("other")


def test_o_the_first_order_is_given_when_its_confirmation_is_stored(member):
    member.seat.follow(assign(3, MINE))
    assert (member.orders, member.confirmed, member.hastened) == ([], "3", 1)
    member.store()
    assert member.orders == [Order(3, frozenset({0}))]


def test_o_of_several_first_orders_the_latest_one_is_given(member):
    member.seat.follow(assign(3, MINE))
    member.seat.follow(assign(4, OTHERS, MINE))
    member.store()
    assert member.orders == [Order(4, frozenset({1}))]
    assert member.confirmed == "3"


def test_o_assignments_that_do_not_name_a_new_member_are_not_for_it(member):
    member.seat.follow(None)
    member.seat.follow(assign(3, OTHERS))
    member.store()
    assert not member.orders
    assert member.confirmed == "0"
    assert not member.seat.is_over.is_set()


def test_o_a_shard_can_go_to_others_after_it_is_confirmed(member):
    member.seat.follow(assign(3, MINE, MINE))
    member.store()
    member.seat.confirm(3)
    member.seat.follow(assign(4, MINE, Shard("me", "other", 4)))
    member.seat.confirm(4)
    member.seat.follow(assign(5, MINE, OTHERS))
    assert [order.shards for order in member.orders] == [{0, 1}, {0}, {0}]
    assert not member.seat.is_over.is_set()


def test_o_a_member_is_over_if_others_get_a_shard_that_it_has_not_given_away(member):
    member.seat.follow(assign(3, MINE, MINE))
    member.store()
    member.seat.confirm(3)
    member.seat.follow(assign(4, MINE, Shard("me", "other", 4)))
    member.seat.follow(assign(5, MINE, OTHERS))
    assert member.seat.is_over.is_set()
    assert len(member.orders) == 2


@pytest.mark.parametrize("assignment", [None, assign(2, MINE)], ids=["lost", "older"])
def test_o_a_member_is_over_if_the_assignment_is_lost_or_begins_anew(member, assignment):
    member.seat.follow(assign(3, MINE))
    member.store()
    member.seat.follow(assignment)
    assert member.seat.is_over.is_set()


def test_o_labels_and_annotations_of_others_are_kept_in_the_lease(member):
    metadata = {"name": "x", "labels": {"a": "b"}, "annotations": {"c": "d"}}
    assert member.seat.stow(metadata) == {
        "name": "x",
        "labels": {"a": "b", "kopf.dev/members-of": "group"},
        "annotations": {"c": "d", "kopf.dev/confirmed-round": "0"},
    }
