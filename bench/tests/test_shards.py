"""The speeds of replicas: in the whole run, and without its edges."""

from bench.shards import Speeds


def test_sustained_speeds_have_no_edges() -> None:
    busy = [50 + number / 10 for number in range(1, 1000)]
    speeds = Speeds.of(0, [*busy, 1000])
    assert round(speeds.sustained, 6) == 10
    assert speeds.whole == 1


def test_idleness_in_the_middle_is_not_hidden() -> None:
    busy = [number / 10 for number in range(500)]
    speeds = Speeds.of(0, [*busy, *(moment + 100 for moment in busy)])
    assert 6 < speeds.sustained < 7
