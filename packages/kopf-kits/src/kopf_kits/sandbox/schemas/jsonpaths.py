"""JSON paths of printed columns: the small part of the syntax that is used there."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

from kopf_kits.sandbox.base import jsons

_STEP = re.compile(
    r"""\.?(?:
      (?P<all>\*|\[\*\])
    | \[(?P<index>-?\d+)\]
    | \['(?P<quoted>(?:[^'\\]|\\.)*)'\]
    | \[\?\(@\.(?P<field>[\w./\\-]+)\s*(?P<operator>==|!=)\s*(?P<value>"[^"]*"|'[^']*'|[^)]+)\)\]
    | (?P<name>(?:[^.\[\\]|\\.)+)
    )""",
    re.VERBOSE,
)
_ODD = re.compile(r"""(?<!\\)[\s{}()\]'"*?,:@]""")
"""The characters that no names of fields have: of an unsupported syntax, or of a typo."""

Step = Callable[[Any], Iterator[Any]]


@lru_cache(maxsize=1000)
def compile_path(text: str) -> Callable[[Any], list[Any]]:
    """A function that finds all the values at the path, e.g. ``.status.conditions[0].type``."""
    steps = [_make_step(match) for match in _STEP.finditer(text.strip("{}").lstrip("$"))]

    def find(value: Any) -> list[Any]:
        values = [value]
        for step in steps:
            values = [found for one in values for found in step(one)]
        return values

    return find


def check_path(text: str) -> None:
    """Raise ``ValueError`` if the path is broken, or if its syntax is not supported."""
    path = text[1:-1] if text[:1] == "{" and text[-1:] == "}" else text
    path = path.removeprefix("$")
    names = [match["name"] or "" for match in _STEP.finditer(path)]
    if not names or _STEP.sub("", path) or any(map(_ODD.search, names)):
        raise ValueError(
            f"The path {text!r} is not supported. These are: {{.a.b}}, {{.a['b.c']}}, "
            f"{{.a.b\\.c}}, {{.a[0]}}, {{.a[*]}}, {{.a[?(@.b=='c')]}}, "
            "and the same without the braces."
        )


def _make_step(match: re.Match[str]) -> Step:
    if match["all"]:
        return _each
    if match["index"]:
        return _at(int(match["index"]))
    if match["field"]:
        return _filter(match["field"], match["operator"], match["value"])
    return _field((match["quoted"] or match["name"] or "").replace("\\", ""))


def _each(value: Any) -> Iterator[Any]:
    yield from value.values() if isinstance(value, dict) else value or ()


def _at(index: int) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, list) and -len(value) <= index < len(value):
            yield value[index]

    return step


def _field(name: str) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, dict) and value.get(name) is not None:
            yield value[name]

    return step


def _filter(field: str, operator: str, text: str) -> Step:
    quoted = text[:1] in "\"'"
    wanted = text[1:-1] if quoted else _literal(text.strip())
    find = compile_path(f".{field}")

    def step(value: Any) -> Iterator[Any]:
        for item in value if isinstance(value, list) else ():
            found = find(item)
            if (bool(found) and found[0] == wanted) is (operator == "=="):
                yield item

    return step


def _literal(text: str) -> Any:
    try:
        return jsons.loads(text)
    except ValueError:
        return text
