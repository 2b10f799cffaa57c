"""Words and tables: what fits, and what is cut."""

import datetime

import pytest

from kopf_kits.cli.duty.tables import Cell, Column, render
from kopf_kits.cli.duty.words import clean, cut, measure, show_duration, show_moment, show_value

NOW = datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(0, "0s"), (119, "119s"), (120, "2m"), (7199, "119m"), (7200, "2h"), (172800, "2d")],
)
def test_durations(seconds, expected):
    assert show_duration(seconds) == expected


@pytest.mark.parametrize(
    ("seconds", "expected"), [(0, "now"), (0.1, "in 1s"), (300, "in 5m"), (-300, "5m ago")]
)
def test_moments(seconds, expected):
    assert show_moment(NOW + datetime.timedelta(seconds=seconds), NOW) == expected


def test_cutting_by_columns_of_terminals():
    assert cut("abc", 3) == "abc"
    assert cut("abcd", 3) == "ab…"
    assert cut("\u4e16\u754c\u4e16", 4) == "\u4e16…"
    assert measure("\u4e16e\u0301") == 3


def test_cleaning():
    assert clean("a\n b\x1b[0m\ud800\u202e") == "a b\ufffd[0m\ufffd\ufffd"


def test_values():
    assert show_value({"a": ["\u4e16"]}, 100) == '{"a": ["\u4e16"]}'
    assert show_value("x" * 100, 10) == '"xxxxxxxx…'


def test_tables_cut_only_what_can_be_cut():
    columns = [Column("NAME", 4), Column("STATE"), Column("ERROR", 5)]
    rows = [[Cell("x" * 30), Cell("retried"), Cell("y" * 30)]]
    assert [*render(columns, rows, 0)][1] == f"{'x' * 30}  retried  {'y' * 30}"
    assert max(map(len, render(columns, rows, 40))) == 40
    assert [*render(columns, rows, 10)][1] == "xxx…  retried  yyyy…"


def test_keys_are_the_last_to_be_cut():
    columns = [Column("NAME", 4, is_key=True), Column("ERROR", 5)]
    rows = [[Cell("x" * 30), Cell("y" * 10)]]
    assert [*render(columns, rows, 40)][1] == f"{'x' * 30}  yyyyyyy…"
    assert [*render(columns, rows, 30)][1] == f"{'x' * 22}…  yyyy…"
