"""The repaired defects have tests, and these exist."""

import re
from pathlib import Path

import coverage_table

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "robustness.md"
ROW = re.compile(r"^\| R(\d+) \| [^|]+ \| ([^|]+) \| [^|]+ \|$", re.MULTILINE)


def test_every_defect_has_an_id_of_its_own() -> None:
    """The next one of the same number has a suffix: K4, K4.2, K4.3."""
    ids = re.findall(r"^\| ([^|]+) \| .* \|$", PAGE.read_text("utf-8"), re.MULTILINE)
    repeated = {one for one in ids if ids.count(one) > 1}
    assert not repeated
    assert len(ids) > 100


def test_repaired_defects_have_tests() -> None:
    rows = ROW.findall(PAGE.read_text("utf-8"))
    assert [int(number) for number, _ in rows] == [*range(1, 41)]
    known = {test.name: test.scenarios for test in coverage_table.collect()}
    for number, tests in rows:
        names = re.findall(r"`(test_\w+)`", tests)
        assert f"R{number}" in frozenset().union(*(known[name] for name in names))


def test_all_tests_of_the_page_exist() -> None:
    named = re.findall(r"`(?:[\w/.-]+::)?(test_\w+)(?:\[[^`]*)?`", PAGE.read_text("utf-8"))
    assert {*named} <= {test.name for test in coverage_table.collect()}


def test_all_repairs_have_tests_of_their_own() -> None:
    """Their names begin with the number of the defect, or have it among others."""
    rows = dict[int, set[str]]()
    for line in PAGE.read_text("utf-8").splitlines():
        if match := re.match(r"\| K(\d+)(?:\.\d+)? \|", line):
            rows.setdefault(int(match[1]), set()).update(re.findall(r"`(test_\w+)`", line))
    assert sorted(rows) == [*range(1, 46)]
    for number, names in rows.items():
        assert [name for name in names if f"k{number}_" in name], number
