"""Descriptions of classes and of their fields in docstrings."""

from __future__ import annotations

import ast
import inspect
import itertools
import textwrap


def describe_class(cls: type) -> str | None:
    """The docstring of the class itself: neither inherited nor made by ``@dataclass``."""
    text = cls.__dict__.get("__doc__")
    if not isinstance(text, str) or not text.strip():
        return None
    is_made = text.startswith(f"{cls.__name__}(") and text.endswith(")")
    return None if is_made or text == dict.__doc__ else inspect.cleandoc(text)


def describe_fields(cls: type) -> dict[str, str]:
    """The strings right below the fields of the class and of its base classes."""
    found: dict[str, str] = {}
    bases = getattr(cls, "__orig_bases__", ()) if issubclass(cls, dict) else ()
    for base in (*(b for b in bases if isinstance(b, type)), *reversed(cls.__mro__)):
        if base.__module__ not in ("builtins", "pydantic.main", "typing"):
            found.update(_read_fields(base))
    return found


def _read_fields(cls: type) -> dict[str, str]:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
    except (OSError, TypeError, SyntaxError):
        return {}  # code has made the class, or its source is absent
    body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
    found = {}
    for field, text in itertools.pairwise(body):
        match field, text:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(value))),
            ):
                found[name] = inspect.cleandoc(value)
    return found
