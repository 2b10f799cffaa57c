"""Find the messages that users read: the whole sentences among the texts in the sources."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from docstrings import ROOT, Docstring

SENTENCE = re.compile(r"[A-Z].*(?:\s\S+){4}", re.DOTALL)
"""At least five words. The rest are names, titles of columns, and the like."""

VALUE = "VALUE"
"""In place of the values in a text."""

FOREIGN = ("kopf_kits/sandbox/",)
"""Messages of the Kubernetes API, as it has them."""

KEPT = ("left to the moment.",)
"""The ends of messages that kopf 1.45 has, too: people search for them in the logs."""


def find_messages() -> Iterator[Docstring]:
    """All messages in the sources of the packages."""
    for path in sorted(ROOT.glob("packages/*/src/**/*.py")):
        place = path.relative_to(ROOT).as_posix()
        if not any(part in place for part in FOREIGN):
            for line, text in read_texts(ast.parse(path.read_text("utf-8"))):
                if SENTENCE.match(text) and not text.endswith(KEPT):
                    yield Docstring(place, line, text)


def read_texts(node: ast.AST) -> Iterator[tuple[int, str]]:
    """All texts in the code, with their lines; docstrings are not texts."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
            continue
        if isinstance(child, ast.JoinedStr):
            parts = (_read_part(part) for part in child.values)
            yield child.lineno, "".join(parts)
        elif isinstance(child, ast.Constant) and isinstance(child.value, str):
            yield child.lineno, child.value
        else:
            yield from read_texts(child)


def _read_part(part: ast.expr) -> str:
    return str(part.value) if isinstance(part, ast.Constant) else VALUE
