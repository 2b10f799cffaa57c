"""The API reference has every public name, once."""

import importlib
import inspect
import re
from pathlib import Path

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
