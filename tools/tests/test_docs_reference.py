"""The API reference has every public name, once."""

import importlib
import inspect
import re
from pathlib import Path

import coverage_table
import pytest

PAGES = Path(__file__).resolve().parents[2] / "docs" / "reference" / "api"
DIRECTIVE = re.compile(r"^\.\. auto(?:class|function|data):: (\S+)$", re.MULTILINE)
MODULES = ["kopf", "kopf.on", "kopf.api", "kopf.lifecycles", "kopf.testing", "kopf.cli"]
LAYERS = ["kopf_cogs", "kopf_kits", "kopf_kits.sandbox"]


@pytest.fixture(scope="module")
def documented() -> list[str]:
    return [name for page in PAGES.glob("*.md") for name in DIRECTIVE.findall(page.read_text())]


def get_value(path: str) -> object:
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def test_nothing_is_documented_twice(documented: list[str]) -> None:
    assert len(documented) == len({*documented})


@pytest.mark.parametrize("module", [*MODULES, *LAYERS])
def test_all_public_names_are_documented(module: str, documented: list[str]) -> None:
    values = [get_value(path) for path in documented]
    for name in importlib.import_module(module).__all__:
        value = get_value(f"{module}.{name}")
        if f"{module}.{name}" in documented or inspect.ismodule(value):
            continue
        assert any(value is known for known in values), f"{module}.{name} is in no page."


def test_documented_names_have_docstrings(documented: list[str]) -> None:
    for path in documented:
        value = get_value(path)
        if inspect.isclass(value) or inspect.isroutine(value):
            assert inspect.getdoc(value), f"{path} has no docstring."


SECTIONS = PAGES.parent / "sections.md"
ROW = re.compile(r"^\| ([\d.]+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \| ([^|]*)\|$", re.MULTILINE)


def test_sections_of_the_specification_have_pages_and_tests() -> None:
    rows = ROW.findall(SECTIONS.read_text("utf-8"))
    assert {int(number.partition(".")[0]) for number, *_ in rows} == {*range(1, 56)}
    for number, title, page, test, remark in rows:
        if page.strip() == "—":
            assert remark.strip(), f"Why is it dropped? {number} {title}"
            continue
        [path] = re.findall(r"\]\(([^)]+)\)", page)
        assert (SECTIONS.parent / path).is_file(), f"{number} {title}: {path}"
        assert (PAGES.parents[2] / test.strip(" `")).exists(), f"{number} {title}: {test}"


def test_the_landing_page_does_not_overstate_how_many_failures_are_tested() -> None:
    stated = re.search(r"Over (\d+) failures", (PAGES.parents[1] / "index.md").read_text())
    scenarios = {key for key in coverage_table.read_titles()["scenarios"] if key[0] != "O"}
    tested = set().union(*(test.scenarios for test in coverage_table.collect())) & scenarios
    assert stated is not None
    assert len(tested) > int(stated[1])
