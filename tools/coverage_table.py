"""Write the table of what is covered by which tests: `python tools/coverage_table.py`.

The builds of the docs do it, so the page is always of the tests at hand, and is not kept.

Tests name what they verify: `@pytest.mark.docs("errors/timeouts")` for a section of
the documentation, `def test_a5_b10_...` for failure scenarios, `def test_r9_...` for
repairs. The names are read from the sources of tests; no tests are run for that.
"""

from __future__ import annotations

import ast
import dataclasses
import pathlib
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping

ROOT = pathlib.Path(__file__).resolve().parent.parent
TITLES = pathlib.Path(__file__).with_name("coverage_titles.toml")
TARGET = ROOT / "docs" / "reference" / "coverage.md"
PATTERNS = ("packages/*/tests/**/test_*.py", "e2e/**/test_*.py", "tools/tests/test_*.py")
SCENARIOS = re.compile(r"test_((?:[a-gor]\d+_)+)")

HEADER = """\
---
orphan: true
---

# What is tested where

This page is generated from the tests by `python tools/coverage_table.py`; do not edit it.
"""


class CoverageError(Exception):
    """The tests refer to what does not exist."""


@dataclasses.dataclass(frozen=True, order=True)
class Test:
    """A test function, and what it says of itself."""

    path: str
    name: str
    sections: frozenset[str] = dataclasses.field(default=frozenset(), compare=False)

    @property
    def scenarios(self) -> frozenset[str]:
        match = SCENARIOS.match(self.name)
        return frozenset(match.group(1).upper().strip("_").split("_") if match else ())


def collect(root: pathlib.Path = ROOT) -> list[Test]:
    """Find all tests in the sources."""
    paths = sorted({path for pattern in PATTERNS for path in root.glob(pattern)})
    return [test for path in paths for test in parse(path.read_text("utf-8"), path, root)]


def parse(source: str, path: pathlib.Path, root: pathlib.Path = ROOT) -> Iterator[Test]:
    """Find the tests in one file."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if node.name.startswith("test_"):
            sections = frozenset(_get_sections(node.decorator_list))
            yield Test(path.relative_to(root).as_posix(), node.name, sections)


def _get_sections(decorators: Iterable[ast.expr]) -> Iterator[str]:
    for decorator in decorators:
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func).endswith("mark.docs"):
            for arg in decorator.args:
                if isinstance(arg, ast.Constant):
                    yield str(arg.value)


def render(tests: Iterable[Test], titles: Mapping[str, Mapping[str, str]]) -> str:
    """Make the page; raise :class:`CoverageError` if the tests refer to unknown things."""
    tests = sorted(tests)
    by_section = {key: [t for t in tests if key in t.sections] for key in titles["docs"]}
    by_scenario = {key: [t for t in tests if key in t.scenarios] for key in titles["scenarios"]}
    by_repair = {key: [t for t in tests if key in t.scenarios] for key in titles["repairs"]}
    _verify("section", {s for t in tests for s in t.sections} - {*by_section})
    _verify("scenario", {s for t in tests for s in t.scenarios} - {*by_scenario, *by_repair})
    return "\n".join(
        [
            HEADER,
            "## Sections of the documentation\n",
            *_make_table(by_section, titles["docs"]),
            "\n## Failure scenarios\n",
            *_make_table(by_scenario, titles["scenarios"]),
            "\n## Repairs\n",
            *_make_table(by_repair, titles["repairs"]),
            "",
        ]
    )


def _verify(what: str, unknown: set[str]) -> None:
    if unknown:
        names = ", ".join(sorted(unknown))
        raise CoverageError(f"The tests name an unknown {what}: {names}. See {TITLES.name}.")


def _make_table(found: Mapping[str, list[Test]], titles: Mapping[str, str]) -> Iterator[str]:
    yield "| | what | tests |"
    yield "|---|---|---|"
    for key, tests in found.items():
        yield f"| {key} | {titles[key]} | {_list_tests(tests) or '—'} |"


def _list_tests(tests: Iterable[Test]) -> str:
    by_path: dict[str, list[str]] = {}
    for test in tests:
        by_path.setdefault(test.path, []).append(f"`{test.name}`")
    return "<br>".join(f"{path}: {', '.join(names)}" for path, names in by_path.items())


def read_titles() -> Mapping[str, Mapping[str, str]]:
    """What is to be covered, by keys."""
    return tomllib.loads(TITLES.read_text("utf-8"))


def write() -> None:
    """Make the page anew; raise :class:`CoverageError` if the tests refer to unknown things."""
    page = render(collect(), read_titles())
    if not TARGET.exists() or TARGET.read_text("utf-8") != page:
        TARGET.parent.mkdir(parents=True, exist_ok=True)
        TARGET.write_text(page, "utf-8")


if __name__ == "__main__":
    try:
        write()
    except CoverageError as e:
        sys.exit(str(e))
