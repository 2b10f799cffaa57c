"""Find the docstrings that users read: those of the public names, of their methods and attributes.

They are read from the sources: of a class with its public members, also of the attributes
which have a string below them. The options of decorators are read, too.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
OPTIONS = "kopf_core.intents.decorators.options"
DESCRIPTION = re.compile(r"^(?:Whether|How (?:long|many|often|to)) ")
FIELD = re.compile(r"^:(?:param|return|returns|raises|type)\b[^:]*:\s*", re.MULTILINE)
BLOCK = re.compile(r"::\n\n(?:[ ]+.*\n?|\n)+")
ROLE = re.compile(r":[\w:]+:(?=`)")


Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


class Docstring(NamedTuple):
    """A docstring, and where it is."""

    place: str
    line: int
    text: str


def list_sources() -> dict[Path, set[str]]:
    """The public names by the files that define them."""
    facade: Any = importlib.import_module("kopf")
    modules = ["kopf", *(f"kopf.{n}" for n in (*facade._SUBMODULES, *facade._OTHER_SUBMODULES))]
    found: dict[Path, set[str]] = {}
    for module in map(importlib.import_module, modules):
        for name in getattr(module, "__all__", ()):
            value = inspect.unwrap(getattr(module, name))
            if inspect.isclass(value) or inspect.isfunction(value):
                path = Path(inspect.getsourcefile(value) or "")
                if path.is_relative_to(ROOT):
                    found.setdefault(path, set()).add(value.__qualname__)
    options = importlib.import_module(OPTIONS)
    found[Path(options.__file__ or "")] = {name for name, _ in inspect.getmembers(options)}
    return found


def find_docstrings() -> Iterator[Docstring]:
    """All docstrings of the public names."""
    for path, names in sorted(list_sources().items()):
        place = path.relative_to(ROOT).as_posix()
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, Definition):
                yield from _read(place, node) if node.name in names else ()


def find_modules() -> Iterator[Docstring]:
    """The docstrings of all modules of the packages: those who read the code begin with them."""
    for path in sorted(ROOT.glob("packages/*/src/**/*.py")):
        text = ast.get_docstring(ast.parse(path.read_text("utf-8")))
        if text:
            yield Docstring(path.relative_to(ROOT).as_posix(), 1, text)


def _read(place: str, node: Definition) -> Iterator[Docstring]:
    text = ast.get_docstring(node)
    if text:
        yield Docstring(place, node.body[0].lineno, text)
    if not isinstance(node, ast.ClassDef):
        return
    for before, after in zip(node.body, node.body[1:], strict=False):
        if isinstance(before, ast.Assign | ast.AnnAssign) and (text := _get_text(after)):
            yield Docstring(place, after.lineno, text)
    for member in node.body:
        if isinstance(member, Definition):
            yield from _read(place, member) if not member.name.startswith("_") else ()


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
