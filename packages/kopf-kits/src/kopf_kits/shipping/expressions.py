"""Expressions of Helm's templates, with only the functions that our own chart uses."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

_TOKEN = re.compile(r'\s*(?:("(?:[^"\\]|\\.)*")|(\()|(\))|(\|)|([^\s()|"]+))')


class RenderingError(Exception):
    """The chart refuses the values, or has an expression that is unknown here."""

    expected = True


@dataclass(frozen=True)
class Scope:
    """The names that an expression sees: the dot, the root, and the variables."""

    dot: Any
    root: Any
    variables: Mapping[str, Any] = field(default_factory=dict)
    include: Callable[[str, Any], str] = lambda name, dot: ""

    def focus(self, dot: Any, **variables: Any) -> Scope:
        return Scope(dot, self.root, {**self.variables, **variables}, self.include)


def evaluate(text: str, scope: Scope) -> Any:
    """Calculate the value of an expression: functions with arguments, maybe piped."""
    tokens = [found.group(found.lastindex or 0) for found in _TOKEN.finditer(text)]
    value, rest = _parse_pipeline(tokens, scope)
    if rest:
        raise RenderingError(f"The expression {text!r} is not understood.")
    return value


def _parse_pipeline(tokens: Sequence[str], scope: Scope) -> tuple[Any, Sequence[str]]:
    value, tokens = _parse_call(tokens, scope, ())
    while tokens and tokens[0] == "|":
        value, tokens = _parse_call(tokens[1:], scope, (value,))
    return value, tokens


def _parse_call(
    tokens: Sequence[str], scope: Scope, piped: tuple[Any, ...]
) -> tuple[Any, Sequence[str]]:
    name = tokens[0]
    if name not in FUNCTIONS and name != "include":
        return _parse_operand(tokens, scope)
    args, tokens = [], tokens[1:]
    while tokens and tokens[0] not in ("|", ")"):
        value, tokens = _parse_operand(tokens, scope)
        args.append(value)
    fn = scope.include if name == "include" else FUNCTIONS[name]
    return fn(*args, *piped), tokens


def _parse_operand(tokens: Sequence[str], scope: Scope) -> tuple[Any, Sequence[str]]:
    token, rest = tokens[0], tokens[1:]
    if token == "(":
        value, rest = _parse_pipeline(rest, scope)
        return value, rest[1:]
    if token.startswith('"'):
        return json.loads(token), rest
    if token.lstrip("-").isdigit():
        return int(token), rest
    head, *path = token.split(".")
    if head == "":
        value = scope.dot
    elif head == "$":
        value = scope.root
    elif head.startswith("$"):
        value = scope.variables[head]
    else:
        raise RenderingError(f"The function {token!r} of templates is not known.")
    for key in filter(None, path):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value, rest


def to_yaml(value: Any) -> str:
    return yaml.safe_dump(value, sort_keys=False).removesuffix("...\n").rstrip("\n")


def show(value: Any) -> str:
    """The value as the template puts it into the text."""
    return "" if value is None else json.dumps(value) if isinstance(value, bool) else str(value)


def _indent(count: int, text: str) -> str:
    return "\n" + "\n".join(" " * count + line for line in text.split("\n"))


def _fail(text: str) -> str:
    raise RenderingError(text)


def _printf(form: str, *args: Any) -> str:
    return form.replace("%v", "%s") % args


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "and": lambda *args: next((arg for arg in args if not arg), args[-1]),
    "or": lambda *args: next((arg for arg in args if arg), args[-1]),
    "not": lambda arg: not arg,
    "gt": lambda one, other: one > other,
    "int": int,
    "mul": lambda one, other: one * other,
    "default": lambda other, value=None: value or other,
    "trunc": lambda length, text: text[:length],
    "quote": lambda arg: json.dumps(show(arg)),
    "printf": _printf,
    "toYaml": to_yaml,
    "toJson": lambda arg: json.dumps(arg, separators=(",", ":")),
    "nindent": _indent,
    "sha256sum": lambda arg: hashlib.sha256(arg.encode()).hexdigest(),
    "fail": _fail,
}
