"""The public surface: what is promised to those who embed the engine."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys

import pytest

import kopf_core


@pytest.mark.parametrize("name", kopf_core.__all__)
def test_every_name_is_importable_and_documented(name: str) -> None:
    value = getattr(kopf_core, name)
    assert name in dir(kopf_core)
    assert value.__doc__


def test_types_are_known_to_type_checkers() -> None:
    tree = ast.parse(inspect.getsource(kopf_core))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    typed = {
        alias.asname or alias.name: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert typed == {**kopf_core._MODULES, "on": "kopf_core.intents"}
    assert sorted(typed) == sorted(kopf_core.__all__)


def test_unknown_names() -> None:
    with pytest.raises(AttributeError, match="no attribute 'unknown'"):
        kopf_core.unknown  # noqa: B018


def test_import_of_the_package_costs_nothing() -> None:
    code = "import sys, kopf_core; print([n for n in sys.modules if n.startswith('kopf_')])"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert ast.literal_eval(done.stdout) == ["kopf_core"]
