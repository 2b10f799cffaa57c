"""A fair line, by counts: how many places go to others before an entry gets its own."""

import pytest

from kopf_cogs.helpers.lines import OLDEST_SHARE, FairLine

FLOOD = 10_000


def make_line(**groups):
    line = FairLine()
    for group, count in groups.items():
        for number in range(count):
            line.put((group, number), group)
    return line


def take_all(line):
    return [line.take() for _ in range(len(line))]


def count_before(line, entry):
    count = 0
    while line.take() != entry:
        count += 1
    return count


def test_one_group_is_a_plain_line():
    line = make_line(a=20)
    assert take_all(line) == [("a", number) for number in range(20)]
    assert not line


@pytest.mark.parametrize("taken", range(OLDEST_SHARE))
def test_an_entry_of_another_group_waits_for_a_few_only(taken):
    line = make_line(a=FLOOD)
    for _ in range(taken):
        line.take()
    line.put("new", "b")
    assert count_before(line, "new") <= 2


def test_groups_wait_for_each_other_and_not_for_their_entries():
    line = make_line(**{f"g{number}": 100 for number in range(50)})
    line.put("new", "b")
    assert count_before(line, "new") <= 50 * OLDEST_SHARE / (OLDEST_SHARE - 1) + 1


def test_an_old_entry_waits_for_no_more_than_a_few_times_as_many_as_in_a_plain_line():
    """However many groups with one entry each come all the time."""
    line = make_line(a=100)
    for number in range(500):
        line.put(number, f"g{number}")
        line.take()
    remaining = {entry for entry in take_all(line) if isinstance(entry, tuple)}
    assert not remaining & {("a", number) for number in range(100)}


def test_those_who_left_are_not_taken():
    line = make_line(a=2, b=1)
    line.discard(("a", 0))
    line.discard(("b", 0))
    line.discard("unknown")
    assert take_all(line) == [("a", 1)]


def test_an_entry_waits_once_and_keeps_its_place():
    line = make_line(a=2)
    line.put(("a", 0), "elsewhere")
    assert take_all(line) == [("a", 0), ("a", 1)]


def test_the_oldest_is_known():
    line = make_line(a=1, b=1)
    assert line.oldest == ("a", 0)
    line.take()
    assert line.oldest == ("b", 0)


def test_nobody_waits_in_a_cleared_line():
    line = make_line(a=2, b=2)
    line.clear()
    line.put("new", "a")
    assert take_all(line) == ["new"]
