"""The reference describes every option of every decorator, and no alias in words of builtins."""

import ast
import importlib
import inspect
import itertools
from typing import Any, get_args

import pytest

import kopf
import kopf.on
from kopf_core.intents.decorators import options

DECORATORS = [
    *(f"kopf.on.{name}" for name in kopf.on.__all__ if name[0].islower()),
    *("kopf.daemon", "kopf.index", "kopf.reconcile", "kopf.register", "kopf.subhandler"),
    "kopf.timer",
]


def read_docstrings(source: str) -> set[str]:
    """The names in classes and modules that have docstrings below them."""
    bodies = [getattr(node, "body", None) for node in ast.walk(ast.parse(source))]
    pairs = [pair for body in bodies if isinstance(body, list) for pair in itertools.pairwise(body)]
    return {
        ast.unparse(one.target if isinstance(one, ast.AnnAssign) else one.targets[0])
        for one, other in pairs
        if isinstance(one, ast.Assign | ast.AnnAssign)
        and isinstance(other, ast.Expr)
        and isinstance(other.value, ast.Constant)
    }


@pytest.mark.parametrize("path", DECORATORS)
def test_k34_all_options_are_described(path: str) -> None:
    value: Any = kopf
    for name in path.split(".")[1:]:
        value = getattr(value, name)
    *_, last = inspect.signature(value.__wrapped__).parameters.values()
    [declared] = get_args(last.annotation)
    sources = {options.__name__, declared.__module__}
    modules = [importlib.import_module(name) for name in sources]
    described = set[str]().union(*(read_docstrings(inspect.getsource(one)) for one in modules))
    assert set(declared.__annotations__) <= described


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("kopf_cogs.structs.dicts", "FieldSpec"),
        ("kopf_cogs.structs.dicts", "FieldPath"),
        ("kopf_cogs.structs.bodies", "Labels"),
        ("kopf_cogs.structs.bodies", "Annotations"),
        ("kopf_cogs.structs.bodies", "RawEventType"),
        ("kopf_core.actions.conditions", "Condition"),
        ("kopf_core.intents.families", "Related"),
        ("kopf_core.intents.families", "Wishes"),
    ],
)
def test_k34_aliases_have_docstrings_of_their_own(module: str, name: str) -> None:
    source = inspect.getsource(importlib.import_module(module))
    assert name in read_docstrings(source)


def test_k34_errors_tell_of_their_attributes() -> None:
    assert "delay" in read_docstrings(inspect.getsource(kopf.TemporaryError))
    assert "code" in read_docstrings(inspect.getsource(kopf.AdmissionError))
