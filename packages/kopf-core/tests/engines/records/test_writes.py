"""The last write: what is known of how we have left an object."""

import pytest

from kopf_core.engines.records.writes import DOUBTED, UNWRITTEN, LastWrite


class State:
    """Stands for the progress of handlers."""


STATE = State()


def body(version, kind="kopf.dev/v1"):
    metadata = {} if version is None else {"resourceVersion": version}
    return {"apiVersion": kind, "metadata": metadata}


@pytest.mark.docs("configuration/consistency")
@pytest.mark.parametrize(
    ("floor", "version", "expected"),
    [
        (None, "5", False),
        (10, "9", True),
        (10, "10", False),
        (10, "11", False),
        (10, None, False),
        (10, "abc", False),
    ],
)
def test_c2_states_older_than_our_patch_are_outdated(floor, version, expected):
    assert LastWrite(floor=floor).outdates(body(version)) is expected


@pytest.mark.docs("configuration/consistency")
def test_unpatched_objects_are_consistent():
    assert not UNWRITTEN.is_awaited(0)
    assert UNWRITTEN.streamed(body("1")) is UNWRITTEN


@pytest.mark.docs("configuration/consistency")
@pytest.mark.parametrize(
    ("version", "is_awaited"),
    [("10", False), ("11", False), ("9", True), (None, True), ("abc", True)],
)
def test_c2_patched_objects_are_inconsistent_until_the_version_comes(version, is_awaited):
    write = UNWRITTEN.answered(body("10"), until=100)
    assert write.is_awaited(95)
    assert write.streamed(body(version)).is_awaited(95) == is_awaited


def test_c2_versions_that_are_not_numbers_are_compared_as_they_are():
    write = UNWRITTEN.answered(body("abc"), until=100)
    assert write.streamed(body("abd")).is_awaited(95)
    assert not write.streamed(body("abc")).is_awaited(95)


@pytest.mark.docs("configuration/consistency")
def test_inconsistency_is_limited_in_time():
    write = UNWRITTEN.answered(body("10"), until=100)
    assert not write.is_awaited(100)
    assert not write.is_awaited(200)


def test_objects_are_recognised_as_we_have_left_them_at_the_end_of_a_cycle():
    write = UNWRITTEN.finished(body("5"))
    assert write.has_left(body("5"))
    assert not write.has_left(body("6"))
    assert not write.has_left(body("5", kind="kopf.dev/v2"))
    assert not write.has_left(None)
    assert write.get_state(body("5")) is None
    assert not write.unknown().has_left(body("5"))


def test_objects_are_recognised_as_we_have_left_them_amid_a_cycle():
    write = UNWRITTEN.stepped(body("5"), STATE)
    assert write.get_state(body("5")) is STATE
    assert write.get_state(body("6")) is None
    assert write.get_state(body("5", kind="kopf.dev/v2")) is None
    assert write.get_state(None) is None
    assert not write.has_left(body("5"))
    assert write.unknown().get_state(body("5")) is None
    assert write.finished(body("5")).get_state(body("5")) is None


def test_objects_without_versions_are_never_recognised():
    assert not UNWRITTEN.finished(body(None)).has_left(body(None))
    assert UNWRITTEN.stepped(body(None), STATE).get_state(body(None)) is None


def test_r2_restored_servers_make_the_known_versions_void():
    assert DOUBTED.is_doubted
    assert not DOUBTED.outdates(body("9"))
    assert not DOUBTED.has_left(body("10"))
    assert not DOUBTED.is_awaited(95)
    assert DOUBTED.deleted() == DOUBTED.trusted() == UNWRITTEN
    assert not DOUBTED.answered(body("10"), until=100).is_doubted
