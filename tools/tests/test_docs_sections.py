"""The table of the sections of the specification is whole, and what it names exists."""

import re
from pathlib import Path

import coverage_table
import pytest
import snippets

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "docs" / "reference" / "sections.md"
ROW = re.compile(r"^\| ([\d.]+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \| ([^|]*)\|$", re.MULTILINE)
SIZES = {1: 5, 3: 2, 5: 2, 9: 2, 12: 7, 13: 13, 14: 10, 15: 9, 18: 7, 19: 7, 20: 3, 22: 6, 23: 2}
SIZES |= {24: 4, 25: 11, 26: 13, 29: 3, 30: 4, 31: 15, 32: 7, 33: 6, 34: 3, 35: 7, 36: 2, 37: 4}
SIZES |= {38: 10, 39: 3, 40: 3, 42: 4, 43: 1, 44: 1, 47: 2, 48: 3, 52: 6, 53: 1, 54: 1}
"""How many sections there are in the chapters, of those that have any; there are 55 chapters."""

SNIPPETS = "e2e/docs/test_docs_snippets.py::test_code"
DROPPED = {"48.2", "50", "52.3", "55"}
LINK = re.compile(r"^\[[^]]+\]\(([^)#]+)(?:#([^)]+))?\)$")
CODE = re.compile(r"^( *)(`{3,}).*?^\1\2$", re.MULTILINE | re.DOTALL)
INCLUDED = re.compile(r"^```\{include\} (\S+)$", re.MULTILINE)


def read_rows() -> list[tuple[str, str, str, str]]:
    rows = ROW.findall(TABLE.read_text("utf-8"))
    return [(number, place.strip(), tests, why.strip()) for number, _, place, tests, why in rows]


def get_anchors(page: Path) -> set[str]:
    """The anchors as the builds of the docs make them: of headings, and explicit ones."""
    text = page.read_text("utf-8")
    for name in INCLUDED.findall(text):
        text += (page.parent / name).read_text("utf-8")
    text = CODE.sub("", text)
    titles = re.findall(r"^#{1,3} (.+)$", text, re.MULTILINE)
    slugs = {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
    return slugs | set(re.findall(r"^\(([\w-]+)\)=$", text, re.MULTILINE))


@pytest.fixture(scope="module")
def tests() -> list[coverage_table.Test]:
    return coverage_table.collect()


def test_every_chapter_and_section_is_there_once() -> None:
    numbers = [number for number, *_ in read_rows()]
    expected = {str(chapter) for chapter in range(1, 56)}
    expected |= {f"{chapter}.{n}" for chapter, size in SIZES.items() for n in range(1, size + 1)}
    assert len(numbers) == len({*numbers})
    assert {number for number in numbers if number.count(".") < 2} == expected
    assert {number.rpartition(".")[0] for number in numbers if number.count(".") == 2} <= expected


def test_only_known_ones_are_dropped_and_it_is_said_why() -> None:
    dropped = {number: why for number, place, _, why in read_rows() if place == "—"}
    assert dropped.keys() == DROPPED
    assert all(why.startswith("dropped: ") for why in dropped.values())


def test_places_exist() -> None:
    for number, place, _, _ in read_rows():
        if place == "—":
            continue
        found = LINK.match(place)
        assert found is not None, number
        page = (TABLE.parent / found[1]).resolve()
        assert page.is_file(), f"{number}: {found[1]}"
        assert not found[2] or found[2] in get_anchors(page), f"{number}: {found[1]}#{found[2]}"


def test_tests_exist(tests: list[coverage_table.Test]) -> None:
    known = {f"{test.path}::{test.name}" for test in tests}
    for number, place, cell, _ in read_rows():
        named = re.findall(r"`([^`]+)`", cell)
        assert named or place == "—", number
        assert {*named} <= known, number
        assert SNIPPETS not in named or has_code(place), f"{number}: there is no code to run."


def has_code(place: str) -> bool:
    found = LINK.match(place)
    assert found is not None
    blocks = snippets.read_blocks((TABLE.parent / found[1]).resolve())
    return any(block.not_run is None for block in blocks)


def test_the_landing_page_does_not_overstate_how_many_failures_are_tested(
    tests: list[coverage_table.Test],
) -> None:
    stated = re.search(r"Over (\d+) failures", (ROOT / "docs" / "index.md").read_text("utf-8"))
    scenarios = {key for key in coverage_table.read_titles()["scenarios"] if key[0] != "O"}
    tested = set().union(*(test.scenarios for test in tests)) & scenarios
    assert stated is not None
    assert len(tested) > int(stated[1])
