"""The repaired defects have tests, and these exist."""

import re
from pathlib import Path

import coverage_table

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "robustness.md"
ROW = re.compile(r"^\| R(\d+) \| [^|]+ \| ([^|]+) \| [^|]+ \|$", re.MULTILINE)


def test_repaired_defects_have_tests() -> None:
    rows = ROW.findall(PAGE.read_text("utf-8"))
    assert [int(number) for number, _ in rows] == [*range(1, 41)]
    known = {test.name: test.scenarios for test in coverage_table.collect()}
    for number, tests in rows:
        names = re.findall(r"`(test_\w+)`", tests)
        assert f"R{number}" in frozenset().union(*(known[name] for name in names))
