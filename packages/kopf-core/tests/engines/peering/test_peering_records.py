"""Records in the peering objects: the format, and the junk."""

import datetime

import pytest

from kopf_core.engines.peering.identities import detect_operator, detect_person
from kopf_core.engines.peering.peers import Peer, make_record, parse_peer, parse_records

SEEN = datetime.datetime(2026, 11, 20, 23, 35, 4, 279736, tzinfo=datetime.UTC)
RECORD = {"priority": 5, "lifetime": 60, "lastseen": "2026-11-20T23:35:04.279736+00:00"}


def test_records_are_as_those_of_the_previous_generation():
    assert make_record(Peer("me", 5, 60, SEEN)) == RECORD
    assert parse_peer("me", RECORD) == Peer("me", 5, 60, SEEN)


def test_whole_seconds_are_written_with_fractions():
    record = make_record(Peer("me", 5, 60, SEEN.replace(microsecond=0)))
    assert record["lastseen"] == "2026-11-20T23:35:04.000000+00:00"


def test_messages_are_there_only_if_there_is_something_to_say():
    record = make_record(Peer("me", 5, 60, SEEN, message="migration"))
    assert record == {**RECORD, "message": "migration"}
    assert str(parse_peer("me", record)) == "me (priority 5: migration)"


@pytest.mark.parametrize(
    ("lastseen", "expected"),
    [
        ("2026-11-20T23:35:04.279736Z", SEEN),
        ("2026-11-20T23:35:04.279736", SEEN),
        ("2026-11-21T01:35:04.279736+02:00", SEEN),
        (None, None),
    ],
)
def test_times_are_in_any_timezone(lastseen, expected):
    peer = parse_peer("x", {**RECORD, "lastseen": lastseen})
    assert peer is not None
    assert peer.lastseen == expected


def test_absent_fields_have_defaults():
    assert parse_peer("x", {}) == Peer("x", 0, 60, None)


@pytest.mark.parametrize(
    "junk",
    [
        "text",
        123,
        [],
        {"lifetime": "x"},
        {"lifetime": {}},
        {"lifetime": float("inf")},
        {"lifetime": float("nan")},
        {"priority": "high"},
        {"priority": float("inf")},
        {"lastseen": "garbage"},
        {"lastseen": ["2026"]},
        {"lastseen": "9999-12-31T23:59:59-23:00"},
    ],
)
def test_f8_junk_is_ignored(junk):
    records = parse_records({"junk": junk, "peer": RECORD, "gone": None})
    assert records.peers == {"peer": Peer("peer", 5, 60, SEEN)}
    assert records.junk == {"junk"}


@pytest.mark.parametrize("status", [None, "text", [], {}, 1])
def test_f8_senseless_statuses_have_no_records(status):
    assert parse_records(status).peers == {}


def test_operators_are_unique_unless_they_are_in_pods(monkeypatch):
    monkeypatch.delenv("POD_ID", raising=False)
    user, stamp, suffix = detect_operator(SEEN).split("/")
    assert user == detect_person()
    assert stamp == "20261120233504"
    assert len(suffix) == 3
    monkeypatch.setenv("POD_ID", "some-uid")
    assert detect_operator(SEEN) == "some-uid"
