"""Find the texts in the sources: docstrings, texts below attributes, and comments."""

from __future__ import annotations

import ast
import inspect
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
DESCRIPTION = re.compile(r"^(?:Whether|How \w+) ")
PRAGMA = re.compile(r"(?:type:|noqa|fmt:|pragma|ruff|mypy)")
FIELD = re.compile(r"^:(?:param|return|returns|raises|type)\b[^:]*:\s*", re.MULTILINE)
BLOCK = re.compile(r"::\n\n(?:[ ]+.*\n?|\n)+")
ROLE = re.compile(r":[\w:]+:(?=`)")


class Docstring(NamedTuple):
    """A docstring or a comment, and where it is."""

    place: str
    line: int
    text: str


def find_texts(path: Path) -> Iterator[Docstring]:
    """All docstrings and comments of a file: readers of the code have nothing else."""
    source = path.read_text("utf-8")
    place = path.relative_to(ROOT).as_posix()
    for node in ast.walk(ast.parse(source)):
        for statement in _list_statements(node):
            if text := _get_text(statement):
                yield Docstring(place, statement.lineno, text)
    for line, text in _find_comments(source):
        yield Docstring(place, line, text)


def _list_statements(node: ast.AST) -> list[ast.stmt]:
    body = getattr(node, "body", None)
    return body if isinstance(body, list) else []


def _find_comments(source: str) -> Iterator[tuple[int, str]]:
    """Find the comments, and join the comments on adjacent lines."""
    block: list[str] = []
    first = last = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        text = token.string.removeprefix("#").strip()
        if token.type != tokenize.COMMENT or PRAGMA.match(text):
            continue
        line = token.start[0]
        if block and (line > last + 1 or not token.line.lstrip().startswith("#")):
            yield first, " ".join(block)
            block = []
        first, last = (first if block else line), line
        block.append(text)
    if block:
        yield first, " ".join(block)


def _get_text(node: ast.stmt) -> str | None:
    value = node.value if isinstance(node, ast.Expr) else None
    text = value.value if isinstance(value, ast.Constant) else None
    return inspect.cleandoc(text) if isinstance(text, str) else None


def list_paragraphs(text: str) -> list[str]:
    """Split a docstring into texts as Markdown has them: no blocks of code, no names of fields."""
    text = ROLE.sub("", BLOCK.sub(":\n\n", f"{text}\n"))
    text = FIELD.sub("\n\n", text)
    text = re.sub(r"^\s*(?:[-*]|\d+\.)\s+", "\n\n", text, flags=re.MULTILINE)
    return [" ".join(part.split()) for part in re.split(r"\n\s*\n", text) if part.strip()]
