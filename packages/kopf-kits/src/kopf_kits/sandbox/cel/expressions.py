"""Expressions of CEL, as far as they are used in schemas and webhooks: the syntax.

An expression is compiled into a function of the variables. What is not supported here raises
`Unsupported`: the callers let such things pass, and say so.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from kopf_kits.sandbox.base.remarks import Unsupported

from . import functions
from .functions import EvaluationError

Scope = dict[str, Any]
Evaluate = Callable[[Scope], Any]

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<number>\d+\.\d+(?:[eE][+-]?\d+)?|0x[0-9a-fA-F]+u?|\d+u?)
    | (?P<raw>[rR](?:"[^"]*"|'[^']*'))
    | (?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    | (?P<name>[A-Za-z_]\w*)
    | (?P<operator>\|\||&&|==|!=|<=|>=|[-+*/%!<>?:.,()\[\]{}])
    )""",
    re.VERBOSE,
)
_BINARY = [("||",), ("&&",), ("==", "!=", "<", "<=", ">", ">=", "in"), ("+", "-"), ("*", "/", "%")]
_MACROS = frozenset(("all", "exists", "exists_one", "map", "filter"))
_CONSTANTS = {"true": True, "false": False, "null": None}
_ESCAPE = re.compile(
    r"\\(?:[xX]([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|([0-3][0-7]{2})|(.))", re.DOTALL
)
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


@lru_cache(maxsize=1000)
def compile_expression(text: str) -> Evaluate:
    """Compile an expression; raises `Unsupported` if it cannot be understood."""
    parser = _Parser(_tokenize(text))
    result = parser.ternary()
    if parser.peek():
        raise Unsupported(f"unexpected {parser.peek()!r}")
    return _guarded(result)


def _guarded(inner: Evaluate) -> Evaluate:
    """The types are not checked ahead, so wrong ones are found when it is too late."""

    def evaluate(scope: Scope) -> Any:
        try:
            return inner(scope)
        except (TypeError, AttributeError) as error:
            raise EvaluationError(f"no such overload: {error}") from None

    return evaluate


def _tokenize(text: str) -> list[tuple[str, str]]:
    tokens, position = [], 0
    text = text.rstrip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise Unsupported(f"unexpected {text[position : position + 10]!r}")
        kind = match.lastgroup or ""
        tokens.append((kind, match[kind]))
        position = match.end()
    return tokens


class _Parser:
    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self._tokens = tokens
        self._position = 0

    def peek(self) -> str:
        """The next token as it is written; strings are never equal to operators."""
        if self._position >= len(self._tokens):
            return ""
        return self._tokens[self._position][1]

    def _next(self) -> tuple[str, str]:
        if self._position >= len(self._tokens):
            raise Unsupported("unexpected end")
        self._position += 1
        return self._tokens[self._position - 1]

    def _accept(self, *wanted: str) -> str:
        if self.peek() in wanted:
            return self._next()[1]
        return ""

    def _expect(self, wanted: str) -> None:
        if not self._accept(wanted):
            raise Unsupported(f"{wanted!r} is expected, not {self.peek()!r}")

    def ternary(self) -> Evaluate:
        condition = self._binary(0)
        if not self._accept("?"):
            return condition
        yes = self._binary(0)
        self._expect(":")
        no = self.ternary()
        return lambda scope: yes(scope) if condition(scope) else no(scope)

    def _binary(self, level: int) -> Evaluate:
        if level == len(_BINARY):
            return self._unary()
        left = self._binary(level + 1)
        while operator := self._accept(*_BINARY[level]):
            left = _combine(operator, left, self._binary(level + 1))
        return left

    def _unary(self) -> Evaluate:
        if self._accept("!"):
            inner = self._unary()
            return lambda scope: not inner(scope)
        if self._accept("-"):
            inner = self._unary()
            return lambda scope: -inner(scope)
        return self._member()

    def _member(self) -> Evaluate:
        result = self._primary()
        while True:
            if self._accept("."):
                result = self._select(result)
            elif self._accept("["):
                key = self.ternary()
                self._expect("]")
                result = _index(result, key)
            else:
                return result

    def _select(self, target: Evaluate) -> Evaluate:
        _, name = self._next()
        if not self._accept("("):
            return _field(target, name)
        if name in _MACROS:
            return self._macro(target, name)
        arguments = self._arguments(")")
        return lambda scope: functions.call_method(
            name, target(scope), [argument(scope) for argument in arguments]
        )

    def _macro(self, target: Evaluate, name: str) -> Evaluate:
        _, variable = self._next()
        self._expect(",")
        bodies = self._arguments(")")

        def evaluate(scope: Scope) -> Any:
            items = target(scope)
            scopes = [{**scope, variable: item} for item in items]
            return functions.call_macro(name, items, scopes, bodies)

        return evaluate

    def _arguments(self, end: str) -> list[Evaluate]:
        arguments: list[Evaluate] = []
        while not self._accept(end):
            arguments.append(self.ternary())
            if not self._accept(","):
                self._expect(end)
                break
        return arguments

    def _primary(self) -> Evaluate:
        kind, text = self._next()
        if kind == "number":
            return _constant(_number(text))
        if kind == "raw":
            return _constant(text[2:-1])
        if kind == "string":
            return _constant(_unescape(text[1:-1]))
        if text == "(":
            inner = self.ternary()
            self._expect(")")
            return inner
        if text == "[":
            items = self._arguments("]")
            return lambda scope: [item(scope) for item in items]
        if text == "{":
            return self._mapping()
        if kind != "name":
            raise Unsupported(f"unexpected {text!r}")
        return self._named(text)

    def _mapping(self) -> Evaluate:
        pairs: list[tuple[Evaluate, Evaluate]] = []
        while not self._accept("}"):
            key = self.ternary()
            self._expect(":")
            pairs.append((key, self.ternary()))
            if not self._accept(","):
                self._expect("}")
                break
        return lambda scope: {key(scope): value(scope) for key, value in pairs}

    def _message(self) -> Evaluate:
        """A structure with named fields: ``JSONPatch{op: "add"}``."""
        fields: dict[str, Evaluate] = {}
        while not self._accept("}"):
            _, name = self._next()
            self._expect(":")
            fields[name] = self.ternary()
            if not self._accept(","):
                self._expect("}")
                break
        return lambda scope: {name: value(scope) for name, value in fields.items()}

    def _named(self, name: str) -> Evaluate:
        if name in _CONSTANTS:
            return _constant(_CONSTANTS[name])
        if name == "JSONPatch" and self._accept("{"):
            return self._message()
        if not self._accept("("):
            return _variable(name)
        arguments = self._arguments(")")
        if name == "has" and len(arguments) == 1:
            return _has(arguments[0])
        return lambda scope: functions.call_function(
            name, [argument(scope) for argument in arguments]
        )


def _number(text: str) -> int | float:
    if "." in text or ("e" in text.lower() and not text.startswith("0x")):
        return float(text)
    return int(text.rstrip("u"), 0)


def _unescape(text: str) -> str:
    return _ESCAPE.sub(_unescape_one, text)


def _unescape_one(match: re.Match[str]) -> str:
    short, wide, long, octal, letter = match.groups()
    if letter:
        return _ESCAPES.get(letter, letter)
    return chr(int(octal, 8) if octal else int(short or wide or long, 16))


def _constant(value: Any) -> Evaluate:
    return lambda scope: value


def _variable(name: str) -> Evaluate:
    def evaluate(scope: Scope) -> Any:
        if name not in scope:
            raise Unsupported(f"unknown variable {name}")
        return scope[name]

    return evaluate


def _field(target: Evaluate, name: str) -> Evaluate:
    name = functions.unescape_name(name)

    def evaluate(scope: Scope) -> Any:
        value = target(scope)
        if not isinstance(value, dict) or name not in value:
            raise EvaluationError(f"no such key: {name}")
        return value[name]

    return evaluate


def _has(argument: Evaluate) -> Evaluate:
    def evaluate(scope: Scope) -> bool:
        try:
            return argument(scope) is not None
        except EvaluationError:
            return False

    return evaluate


def _index(target: Evaluate, key: Evaluate) -> Evaluate:
    def evaluate(scope: Scope) -> Any:
        try:
            return target(scope)[key(scope)]
        except (KeyError, IndexError, TypeError):
            raise EvaluationError(f"no such key: {key(scope)}") from None

    return evaluate


def _combine(operator: str, left: Evaluate, right: Evaluate) -> Evaluate:
    if operator in ("||", "&&"):
        return _shortcut(left, right, decisive=operator == "||")
    apply = functions.BINARY[operator]

    def evaluate(scope: Scope) -> Any:
        try:
            return apply(left(scope), right(scope))
        except (TypeError, ZeroDivisionError) as error:
            raise EvaluationError(f"no such overload: {error}") from None

    return evaluate


def _shortcut(left: Evaluate, right: Evaluate, *, decisive: bool) -> Evaluate:
    """Either side can decide, even if the other one fails."""

    def evaluate(scope: Scope) -> bool:
        try:
            if bool(left(scope)) is decisive:
                return decisive
        except EvaluationError:
            if bool(right(scope)) is decisive:
                return decisive
            raise
        return bool(right(scope))

    return evaluate
