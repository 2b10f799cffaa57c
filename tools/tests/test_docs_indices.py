"""The indices of the guides follow their objects: no value stays when its reason is gone."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
import snippets

DOCS = Path(__file__).resolve().parents[2] / "docs"
FOUND = [*DOCS.glob("*.md"), *DOCS.glob("reference/*.md")]
PAGES = [page for page in sorted(FOUND) if page.stem != "indexing"]
"""The page about indices explains ``None`` and needs it; all other pages are to be copied."""


def find_returns(code: str) -> Iterator[ast.expr]:
    """The results of all indexing functions in the code."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and any(
            "index" in ast.unparse(decorator).partition("(")[0] for decorator in node.decorator_list
        ):
            for one in ast.walk(node):
                if isinstance(one, ast.Return):
                    yield one.value if one.value is not None else ast.Constant(None)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_q_indexing_functions_in_guides_return_no_none(page: Path) -> None:
    """``None`` keeps the previous values, so a finished pod would stay in the index."""
    results = [
        expression.orelse if isinstance(expression, ast.IfExp) else expression
        for block in snippets.read_blocks(page)
        for expression in find_returns(block.code)
    ]
    assert [ast.unparse(one) for one in results if ast.unparse(one) == "None"] == []
