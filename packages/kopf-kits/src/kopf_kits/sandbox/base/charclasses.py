"""Sets of characters as sorted ranges of code points, by the names that RE2 has for them."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from functools import cache

Ranges = tuple[tuple[int, int], ...]
LAST = 0x10FFFF


def merge(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """The same set with its ranges sorted, and none of them next to another."""
    result: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if result and low <= result[-1][1] + 1:
            result[-1] = (result[-1][0], max(high, result[-1][1]))
        else:
            result.append((low, high))
    return tuple(result)


def negate(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """All the characters that are not in the set."""
    result, start = [], 0
    for low, high in merge(ranges):
        if start < low:
            result.append((start, low - 1))
        start = high + 1
    if start <= LAST:
        result.append((start, LAST))
    return tuple(result)


def _of(*pairs: str) -> Ranges:
    return merge((ord(pair[0]), ord(pair[-1])) for pair in pairs)


_DIGIT, _LOWER, _UPPER = "09", "az", "AZ"
PERL: dict[str, Ranges] = {
    "d": _of(_DIGIT),
    "s": _of("\t", "\n", "\f", "\r", " "),
    "w": _of(_DIGIT, _UPPER, "_", _LOWER),
}
POSIX: dict[str, Ranges] = {
    "alnum": _of(_DIGIT, _UPPER, _LOWER),
    "alpha": _of(_UPPER, _LOWER),
    "ascii": _of("\x00\x7f"),
    "blank": _of("\t", " "),
    "cntrl": _of("\x00\x1f", "\x7f"),
    "digit": _of(_DIGIT),
    "graph": _of("!~"),
    "lower": _of(_LOWER),
    "print": _of(" ~"),
    "punct": _of("!/", ":@", "[`", "{~"),
    "space": _of("\t\r", " "),
    "upper": _of(_UPPER),
    "word": _of(_DIGIT, _UPPER, _LOWER, "_"),
    "xdigit": _of(_DIGIT, "AF", "af"),
}


@cache
def unicode_class(name: str) -> Ranges | None:
    """The characters of a general category, such as ``L`` or ``Lu``; none if it is not one.

    The scripts, such as ``Greek``, are not known to Python.
    """
    if name == "Any":
        return ((0, LAST),)
    size = len(name)
    codes = (i for i in range(LAST + 1) if unicodedata.category(chr(i))[:size] == name)
    return merge((code, code) for code in codes) or None if size in (1, 2) else None


@cache
def _orbits() -> dict[int, frozenset[int]]:
    """For each character that has a case: all that are equal to it if the case is ignored."""
    found: dict[str, set[int]] = {}
    for code in range(LAST + 1):
        char = chr(code)
        key = char.upper().lower()
        if len(key) == 1 and char not in "\u0131\u0130":
            found.setdefault(key, set()).add(code)
    orbits = [frozenset(codes) for codes in found.values() if len(codes) > 1]
    return {code: orbit for orbit in orbits for code in orbit}


def fold(ranges: Ranges) -> Ranges:
    """The set with all the characters that differ from its own by their case only."""
    more: set[int] = set()
    for code, orbit in _orbits().items():
        if any(low <= code <= high for low, high in ranges):
            more |= orbit
    return merge([*ranges, *((code, code) for code in more)])
