"""The syntax of CEL: from texts to trees. Unsupported texts raise `Unsupported`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

from kopf_kits.sandbox.base.remarks import Unsupported

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
_MACROS = {"all": 1, "exists": 1, "exists_one": 1, "existsOne": 1, "map": 1, "filter": 1,
           "optMap": 1, "optFlatMap": 1}  # fmt: skip
_NAMESPACES = frozenset(("optional", "sets", "ip", "format", "jsonpatch"))
_CONSTANTS = {"true": True, "false": False, "null": None}
_ESCAPED = {"__dash__": "-", "__dot__": ".", "__slash__": "/", "__underscores__": "__"}
_ESCAPE = re.compile(
    r"\\(?:[xX]([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|([0-3][0-7]{2})|(.))", re.DOTALL
)
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant."""

    value: Any


@dataclass(frozen=True, slots=True)
class Name:
    """A variable."""

    name: str


@dataclass(frozen=True, slots=True)
class Select:
    """A field: ``target.name``, or ``target.?name`` if it can be absent."""

    target: Node
    name: str
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Has:
    """The test of a field: ``has(target.name)``."""

    field: Select


@dataclass(frozen=True, slots=True)
class Index:
    """An item: ``target[key]``, or ``target[?key]`` if it can be absent."""

    target: Node
    key: Node
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Unary:
    """``!item`` or ``-item``."""

    operator: str
    item: Node


@dataclass(frozen=True, slots=True)
class Binary:
    """``left operator right``."""

    operator: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Choice:
    """``condition ? yes : no``."""

    condition: Node
    yes: Node
    no: Node


@dataclass(frozen=True, slots=True)
class ListOf:
    """``[a, b]``."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class MapOf:
    """``{a: b}``."""

    pairs: tuple[tuple[Node, Node], ...]


@dataclass(frozen=True, slots=True)
class Message:
    """``Name{field: value}``."""

    name: str
    fields: tuple[tuple[str, Node], ...]


@dataclass(frozen=True, slots=True)
class Call:
    """``name(a)``, or ``target.name(a)``."""

    name: str
    target: Node | None
    arguments: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Macro:
    """``target.name(variable, body, ...)``: the bodies are evaluated for each of the items."""

    name: str
    target: Node
    variable: str
    bodies: tuple[Node, ...]


Node: TypeAlias = (
    Literal | Name | Select | Has | Index | Unary | Binary | Choice | ListOf | MapOf | Message
    | Call | Macro
)  # fmt: skip


@lru_cache(maxsize=1000)
def parse(text: str) -> Node:
    """Parse an expression; raises `Unsupported` if it cannot be understood."""
    parser = _Parser(_tokenize(text))
    result = parser.ternary()
    if parser.peek():
        raise Unsupported(f"unexpected {parser.peek()!r}")
    return result


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

    def _name(self) -> str:
        kind, text = self._next()
        if kind != "name":
            raise Unsupported(f"a name is expected, not {text!r}")
        return text

    def ternary(self) -> Node:
        condition = self._binary(0)
        if not self._accept("?"):
            return condition
        yes = self._binary(0)
        self._expect(":")
        return Choice(condition, yes, self.ternary())

    def _binary(self, level: int) -> Node:
        if level == len(_BINARY):
            return self._unary()
        left = self._binary(level + 1)
        while operator := self._accept(*_BINARY[level]):
            left = Binary(operator, left, self._binary(level + 1))
        return left

    def _unary(self) -> Node:
        operator = self._accept("!", "-")
        return Unary(operator, self._unary()) if operator else self._member()

    def _member(self) -> Node:
        result = self._primary()
        while True:
            if self._accept("."):
                result = self._select(result)
            elif self._accept("["):
                optional = bool(self._accept("?"))
                key = self.ternary()
                self._expect("]")
                result = Index(result, key, optional)
            else:
                return result

    def _select(self, target: Node) -> Node:
        if self._accept("?"):
            return Select(target, unescape_name(self._name()), optional=True)
        name = self._name()
        if not self._accept("("):
            return Select(target, unescape_name(name))
        if isinstance(target, Name) and target.name in _NAMESPACES:
            return Call(f"{target.name}.{name}", None, self._list(")"))
        if name in _MACROS:
            variable = self._name()
            self._expect(",")
            return self._macro(name, target, variable, self._list(")"))
        return Call(name, target, self._list(")"))

    def _macro(self, name: str, target: Node, variable: str, bodies: tuple[Node, ...]) -> Node:
        if len(bodies) != _MACROS[name] and not (name == "map" and len(bodies) == 2):
            raise Unsupported(f"{name}() with {len(bodies) + 1} arguments")
        return Macro("exists_one" if name == "existsOne" else name, target, variable, bodies)

    def _primary(self) -> Node:
        kind, text = self._next()
        if kind == "number":
            return Literal(_number(text))
        if kind == "raw":
            return Literal(text[2:-1])
        if kind == "string":
            return Literal(_unescape(text[1:-1]))
        if text == "(":
            inner = self.ternary()
            self._expect(")")
            return inner
        if text == "[":
            return ListOf(self._list("]"))
        if text == "{":
            return MapOf(tuple(self._pairs(self.ternary)))
        if kind != "name":
            raise Unsupported(f"unexpected {text!r}")
        return self._named(text)

    def _named(self, name: str) -> Node:
        if name in _CONSTANTS:
            return Literal(_CONSTANTS[name])
        if name[:1].isupper() and self._accept("{"):
            return Message(name, tuple(self._pairs(self._name)))
        if not self._accept("("):
            return Name(name)
        arguments = self._list(")")
        if name == "has" and len(arguments) == 1 and isinstance(arguments[0], Select):
            return Has(arguments[0])
        return Call(name, None, arguments)

    def _list(self, end: str) -> tuple[Node, ...]:
        items: list[Node] = []
        while not self._accept(end):
            items.append(self.ternary())
            if not self._accept(","):
                self._expect(end)
                break
        return tuple(items)

    def _pairs(self, read_key: Callable[[], Any]) -> list[tuple[Any, Node]]:
        pairs: list[tuple[Any, Node]] = []
        while not self._accept("}"):
            key = read_key()
            self._expect(":")
            pairs.append((key, self.ternary()))
            if not self._accept(","):
                self._expect("}")
                break
        return pairs


def unescape_name(name: str) -> str:
    """The real name of a field: some of them cannot be written as they are."""
    if name.startswith("__") and name.endswith("__") and name not in _ESCAPED:
        return name.strip("_")  # a reserved word
    for escaped, text in _ESCAPED.items():
        name = name.replace(escaped, text)
    return name


def _number(text: str) -> int | float:
    if "." in text or ("e" in text.lower() and not text.startswith("0x")):
        return float(text)
    return int(text.rstrip("u"), 16 if "x" in text.lower() else 10)  # zeros can lead


def _unescape(text: str) -> str:
    return _ESCAPE.sub(_unescape_one, text)


def _unescape_one(match: re.Match[str]) -> str:
    short, wide, long, octal, letter = match.groups()
    if letter:
        return _ESCAPES.get(letter, letter)
    return chr(int(octal, 8) if octal else int(short or wide or long, 16))
