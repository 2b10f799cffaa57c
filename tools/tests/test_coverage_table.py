"""The table of what is covered by which tests."""

import pathlib

import coverage_table
import pytest

SOURCE = """
@pytest.mark.docs("results")
@mark.docs("memos", "async")
async def test_a5_b10_something(): ...

def test_r9_b10_repaired(): ...

class TestIt:
    def test_plain(self): ...

def helper(): ...
"""
TITLES = {
    "docs": {"results": "R", "memos": "M", "async": "A", "scopes": "S"},
    "scenarios": {"A5": "five", "B10": "ten", "C1": "one"},
    "repairs": {"R9": "nine"},
}


@pytest.fixture
def tests(tmp_path: pathlib.Path) -> list[coverage_table.Test]:
    path = tmp_path / "e2e" / "test_it.py"
    path.parent.mkdir()
    path.write_text(SOURCE)
    return coverage_table.collect(tmp_path)


def test_tests_are_found_with_what_they_verify(tests: list[coverage_table.Test]) -> None:
    found = {test.name: test for test in tests}
    assert {*found} == {"test_a5_b10_something", "test_r9_b10_repaired", "test_plain"}
    assert found["test_a5_b10_something"].sections == {"results", "memos", "async"}
    assert found["test_a5_b10_something"].scenarios == {"A5", "B10"}
    assert found["test_a5_b10_something"].path == "e2e/test_it.py"
    assert not found["test_plain"].scenarios


def test_the_page_lists_both_covered_and_uncovered(tests: list[coverage_table.Test]) -> None:
    page = coverage_table.render(tests, TITLES)
    assert "| results | R | e2e/test_it.py: `test_a5_b10_something` |" in page
    assert "| A5 | five | e2e/test_it.py: `test_a5_b10_something` |" in page
    assert "| B10 | ten | e2e/test_it.py: `test_a5_b10_something`, `test_r9_b10_repaired` |" in page
    assert "| R9 | nine | e2e/test_it.py: `test_r9_b10_repaired` |" in page
    assert "| scopes | S | — |" in page
    assert "| C1 | one | — |" in page


@pytest.mark.parametrize("kind", ["docs", "scenarios", "repairs"])
def test_unknown_references_are_errors(tests: list[coverage_table.Test], kind: str) -> None:
    with pytest.raises(coverage_table.CoverageError, match="unknown"):
        coverage_table.render(tests, TITLES | {kind: {}})


def test_all_tests_of_this_repository_refer_to_known_things() -> None:
    tests = coverage_table.collect()
    page = coverage_table.render(tests, coverage_table.read_titles())
    assert all(f"`{test.name}`" in page for test in tests if test.sections or test.scenarios)
