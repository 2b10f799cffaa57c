"""The syntax of label selectors, with the messages that API servers give for mistakes in it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kopf_kits.sandbox.base.statuses import bad_request

from .names import check_qualified

Labels = Mapping[str, str]
_TOKEN = re.compile(r"\s*(==|!=|[=!<>,()]|[^\s=!<>,()]+)")
_OPERATORS = ("=", "==", "!=", "in", "notin", ">", "<")
_SPECIAL = ("=", "==", "!=", "!", ">", "<", ",", "(", ")")


@dataclass(frozen=True, slots=True)
class Requirement:
    """One requirement to the labels: a key, an operator, and values."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def matches(self, labels: Labels) -> bool:
        """Whether the labels are as required."""
        present = self.key in labels
        match self.operator:
            case "exists":
                return present
            case "absent":
                return not present
            case "in":
                return present and labels[self.key] in self.values
            case "notin":
                return not present or labels[self.key] not in self.values
        try:
            sign = 1 if self.operator == ">" else -1
            return sign * (int(labels[self.key]) - int(next(iter(self.values)))) > 0
        except (KeyError, ValueError):
            return False


def parse_requirements(text: str) -> list[Requirement]:
    """Parse a label selector; 400 if it cannot be understood."""
    parser = _Parser(_TOKEN.findall(text))
    requirements = []
    if not parser.peek():
        return []
    while True:
        token = parser.peek()
        if token != "!" and token in (*_SPECIAL, ""):
            raise bad_request(f"found '{token}', expected: !, identifier, or 'end of string'")
        requirements.append(parser.requirement())
        token = parser.next()
        if not token:
            return requirements
        if token != ",":
            raise bad_request(f"found '{token}', expected: ',' or 'end of string'")
        if parser.peek() != "!" and parser.peek() in (*_SPECIAL, ""):
            raise bad_request(f"found '{parser.peek()}', expected: identifier after ','")


def _failed(text: str) -> Exception:
    return bad_request(f"unable to parse requirement: {text}")


class _Parser:
    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._position = 0

    def peek(self) -> str:
        return self._tokens[self._position] if self._position < len(self._tokens) else ""

    def next(self) -> str:
        token = self.peek()
        self._position += 1
        return token

    def requirement(self) -> Requirement:
        absent = self.peek() == "!"
        if absent:
            self.next()
        key = self._key()
        if absent:
            return Requirement(key, "absent")
        if self.peek() in ("", ","):
            return Requirement(key, "exists")
        operator = self.next()
        if operator not in _OPERATORS:
            wanted = "in, notin, =, ==, !=, gt, lt"
            raise _failed(f"found '{operator}', expected: {wanted}")
        if operator in ("in", "notin"):
            return Requirement(key, operator, self._values())
        return self._binary(key, operator)

    def _key(self) -> str:
        key = self.next()
        if key in (*_SPECIAL, ""):
            raise _failed(f"found '{key}', expected: identifier")
        for cause in check_qualified(key, "<nil>"):
            raise _failed(str(cause))
        return key

    def _binary(self, key: str, operator: str) -> Requirement:
        value = "" if self.peek() in ("", ",") else self.next()
        if operator in (">", "<"):
            if not re.fullmatch(r"[-+]?\d+", value):
                raise _failed(
                    f"values[0]: Invalid value: \"{value}\": for 'Gt', 'Lt' operators, the "
                    "value must be an integer"
                )
            return Requirement(key, operator, frozenset({value}))
        return Requirement(key, "notin" if operator == "!=" else "in", frozenset({value}))

    def _values(self) -> frozenset[str]:
        token = self.next()
        if token != "(":
            raise _failed(f"found '{token}' expected: '('")
        values: set[str] = set()
        while True:
            values.add("" if self.peek() in (",", ")") else self.next())
            token = self.next()
            if token == ")":
                return frozenset(values)
            if token != ",":
                raise _failed(f"found '{token}', expected: ',' or ')'")


def compile_labels(text: str) -> Callable[[Labels], bool] | None:
    """A predicate of labels for the selector; none if it selects everything."""
    requirements = parse_requirements(text)
    if not requirements:
        return None
    return lambda labels: all(requirement.matches(labels) for requirement in requirements)
