"""Who works, and who waits: decided by the records and the time, with no I/O."""

import dataclasses
import datetime

import pytest

from kopf_core.engines.peering.membership import Membership, Moment, Standing
from kopf_core.engines.peering.peers import Peer, Records, parse_records
from kopf_core.engines.peering.references import measure_lead

START = datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC)
LIFETIME = 60.0


def at(seconds: float, *, wall: float | None = None) -> Moment:
    return Moment(seconds, START + datetime.timedelta(seconds=seconds if wall is None else wall))


def peer(name: str, priority: int, *, seen: float = 0.0, lifetime: float = LIFETIME) -> Peer:
    return Peer(name, priority, lifetime, START + datetime.timedelta(seconds=seen))


def records(*peers: Peer) -> Records:
    return Records({item.identity: item for item in peers}, frozenset())


def judge(membership: Membership, moment: Moment, priority: int = 0) -> Standing:
    return membership.judge(priority, LIFETIME, moment).standing


def join(*others: Peer, handover: float = 0.0) -> Membership:
    """Become a member with these peers at the zero time."""
    membership = Membership("me", handover=handover)
    membership.confirm(records(peer("me", 0), *others), at(0), at(0))
    return membership


def test_nothing_is_known_until_it_is_read():
    assert judge(Membership("me"), at(0)) is Standing.UNKNOWN


def test_there_can_be_no_peering():
    membership = Membership("me")
    membership.see_absence()
    assert judge(membership, at(0)) is Standing.ABSENT
    assert not membership.is_restless(at(0))


def test_own_record_goes_first():
    membership = Membership("me")
    membership.see(records(), at(0))
    assert judge(membership, at(0)) is Standing.JOINING
    assert membership.is_restless(at(0))
    membership.confirm(records(peer("me", 0)), at(0), at(0))
    assert judge(membership, at(0)) is Standing.LEADING
    assert not membership.is_restless(at(0))


@pytest.mark.parametrize(
    ("priority", "expected"),
    [(1, Standing.OUTRANKED), (0, Standing.TIED), (-1, Standing.LEADING)],
)
def test_priorities_decide(priority, expected):
    membership = join(peer("other", priority))
    assert judge(membership, at(0)) is expected


def test_rivals_are_named():
    verdict = join(peer("a", 5), peer("b", 0), peer("c", -5)).judge(0, LIFETIME, at(0))
    assert [rival.identity for rival in verdict.rivals] == ["a"]


def test_records_of_the_same_identity_are_not_rivals():
    membership = join(peer("me", 100, seen=-3))
    assert judge(membership, at(0)) is Standing.LEADING


def test_others_have_time_to_give_way():
    membership = join(peer("other", -1), handover=3)
    assert judge(membership, at(2.9)) is Standing.JOINING
    assert judge(membership, at(3)) is Standing.LEADING
    membership.confirm(records(peer("me", 0), peer("late", -1)), at(5), at(5))
    assert judge(membership, at(5)) is Standing.LEADING


def test_those_who_leave_have_time_to_finish():
    membership = join(peer("other", 5), handover=3)
    membership.see(records(peer("me", 0)), at(10))
    assert judge(membership, at(12.9)) is Standing.SUCCEEDING
    assert judge(membership, at(13)) is Standing.LEADING


def test_those_who_leave_are_not_waited_for_if_they_did_nothing():
    membership = join(peer("other", -5), handover=3)
    membership.see(records(peer("me", 0)), at(10))
    assert judge(membership, at(10)) is Standing.LEADING


def test_nobody_is_waited_for_if_there_is_nobody():
    assert judge(join(handover=3), at(0)) is Standing.LEADING


@pytest.mark.parametrize("skew", [-300, 0, 300])
def test_f8_peers_are_dead_after_the_observed_silence(skew):
    membership = join(peer("other", 1, seen=skew))
    assert judge(membership, at(10)) is Standing.OUTRANKED
    membership.confirm(records(peer("me", 0), peer("other", 1, seen=skew)), at(59), at(59))
    assert judge(membership, at(59)) is Standing.OUTRANKED
    assert membership.is_restless(at(60))
    membership.confirm(records(peer("me", 0), peer("other", 1, seen=skew)), at(60), at(60))
    assert judge(membership, at(60)) is Standing.LEADING
    assert [dead.identity for dead in membership.roster.dead] == ["other"]


@pytest.mark.parametrize("skew", [-300, 0, 300])
def test_f8_peers_are_alive_while_their_records_change(skew):
    membership = join(peer("other", 1, seen=skew))
    for now in range(20, 400, 20):
        found = records(peer("me", 0), peer("other", 1, seen=skew + now))
        membership.confirm(found, at(now), at(now))
        assert judge(membership, at(now)) is Standing.OUTRANKED


def test_f8_silence_of_the_network_is_not_silence_of_peers():
    membership = join(peer("other", 1))
    membership.see(records(peer("me", 0), peer("other", 1)), at(500))  # a late event, maybe
    assert membership.is_restless(at(500))
    assert not membership.roster.dead
    found = records(peer("me", 0), peer("other", 1, seen=480))
    membership.confirm(found, at(500), at(501))
    assert judge(membership, at(501)) is Standing.OUTRANKED


def test_f8_records_from_long_ago_are_dead_from_the_first_sight():
    assert judge(join(peer("other", 1, seen=-661)), at(0)) is Standing.LEADING
    assert judge(join(peer("other", 1, seen=-659)), at(0)) is Standing.OUTRANKED


def test_f8_revived_peers_count():
    membership = join(peer("other", 1, seen=-10_000))
    membership.see(records(peer("me", 0), peer("other", 1, seen=0)), at(1))
    assert judge(membership, at(1)) is Standing.OUTRANKED


def test_f8_zero_lifetime_is_over_at_once():
    membership = join(peer("other", 1, lifetime=0))
    membership.confirm(records(peer("me", 0), peer("other", 1, lifetime=0)), at(1), at(1))
    assert judge(membership, at(1)) is Standing.LEADING


def test_f8_many_thousands_of_peers():
    status = {f"peer{n}": {"priority": -n, "lifetime": 60} for n in range(1, 10_001)}
    membership = Membership("me")
    found = parse_records({**status, "me": {"priority": 0}})
    membership.confirm(found, at(0), at(0))
    assert judge(membership, at(0)) is Standing.LEADING


def test_f9_operators_step_down_before_others_take_over():
    ours, theirs = join(peer("other", -1)), Membership("other")
    mine = peer("me", 0)
    theirs.confirm(records(mine, peer("other", -1)), at(0), at(0))
    lost = next(now for now in range(100) if judge(ours, at(now)) is Standing.LOST)
    for now in range(100):
        theirs.confirm(records(mine, peer("other", -1, seen=now)), at(now), at(now))
        if judge(theirs, at(now), -1) is Standing.LEADING:
            break
    assert lost < now


@pytest.mark.parametrize("moment", [at(600), at(0, wall=600), at(600, wall=-600)])
def test_f11_frozen_operators_check_their_peers_first(moment):
    membership = join(handover=3)
    assert judge(membership, moment) is Standing.LOST
    later = dataclasses.replace(moment, monotonic=moment.monotonic + 1)
    membership.confirm(records(peer("me", 0), peer("other", -1)), moment, later)
    assert judge(membership, later) is Standing.JOINING


def test_removed_records_are_written_again_before_working():
    membership = join()
    membership.see(records(), at(1))
    assert judge(membership, at(1)) is Standing.JOINING
    assert membership.is_restless(at(1))


def test_records_that_are_not_kept_confirm_nothing():
    membership = Membership("me")
    membership.confirm(records(), at(0), at(0))
    assert judge(membership, at(0)) is Standing.JOINING


def test_d1_blocked_operators_do_not_take_over_from_those_alive():
    """Both are blocked in turn; whoever comes back, sees the other one."""
    low = Membership("low")
    low.confirm(records(peer("low", 0), peer("high", 1)), at(0), at(0))
    found = records(peer("low", 0), peer("high", 1, seen=85))
    low.confirm(found, at(90), at(90))
    assert judge(low, at(90)) is Standing.OUTRANKED


@pytest.mark.parametrize(
    ("moments", "server", "expected"),
    [
        ([], None, 0),
        ([300], None, 300),
        ([-300], None, 0),
        ([1], None, 0),
        ([10_000], None, 0),
        ([300, 10_000], None, 300),
        ([], "2030-01-01T00:05:00Z", 300),
        ([], "2029-12-31T23:55:00Z", 0),
        ([], "garbage", 0),
    ],
)
def test_f8_late_clocks_follow_those_of_others(moments, server, expected):
    peers = [peer(f"p{moment}", 0, seen=moment) for moment in moments]
    body = {"metadata": {"managedFields": [{"time": server}, {}]}}
    assert measure_lead(peers, body, START).total_seconds() == expected


@pytest.mark.parametrize("time", ["2030-99-99T99:99:99Z", "2030-01-01T00:00:60Z", "soon", 1, None])
def test_f8_senseless_times_of_the_server_are_ignored(time):
    body = {"metadata": {"managedFields": [{"time": time}, None]}}
    assert not measure_lead([], body, START)
