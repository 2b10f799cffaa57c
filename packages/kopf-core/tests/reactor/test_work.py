"""Work items: what is awaited for each of them."""

import pytest

from kopf_core.reactor.work import AwaitChange, WorkItem


def make_item(version="10", until=100):
    item = WorkItem("a")
    item.awaited = AwaitChange(version, until)
    return item


@pytest.mark.docs("configuration/consistency")
def test_unpatched_objects_are_consistent():
    item = WorkItem("a")
    assert item.get_awaited(0) is None
    item.notice({"metadata": {"resourceVersion": "1"}})
    assert item.get_awaited(0) is None


@pytest.mark.docs("configuration/consistency")
@pytest.mark.parametrize(
    ("version", "is_awaited"),
    [("10", False), ("11", False), ("9", True), (None, True), ("abc", True)],
)
def test_c2_patched_objects_are_inconsistent_until_the_version_comes(version, is_awaited):
    item = make_item()
    assert item.get_awaited(95) == AwaitChange("10", 100)
    item.notice({"metadata": {"resourceVersion": version}})
    assert (item.get_awaited(95) is not None) == is_awaited


def test_c2_versions_that_are_not_numbers_are_compared_as_they_are():
    item = make_item("abc")
    item.notice({"metadata": {"resourceVersion": "abd"}})
    assert item.get_awaited(95) is not None
    item.notice({"metadata": {"resourceVersion": "abc"}})
    assert item.get_awaited(95) is None


@pytest.mark.docs("configuration/consistency")
def test_inconsistency_is_limited_in_time():
    item = make_item()
    assert item.get_awaited(100) is item.get_awaited(200) is None
