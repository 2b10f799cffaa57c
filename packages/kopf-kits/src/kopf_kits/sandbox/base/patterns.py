r"""Regular expressions of RE2, the syntax of API servers, as regular expressions of Python.

They look alike, but ``$``, ``\d``, ``\s``, ``\w`` mean different characters, RE2 has ``\pL`` and
``\z``, and refuses what Python accepts: looking around, references back, possessive repetitions.
The translated expressions only decide whether there is a match, not where it is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache

from .charclasses import LAST, PERL, POSIX, Ranges, fold, merge, negate, unicode_class
from .remarks import Unsupported

_MOST_REPEATS = 1000
_REPEAT = re.compile(r"\{(0|[1-9][0-9]*)(,(0|[1-9][0-9]*)?)?\}")
_FLAGS = re.compile(r"\(\?([imsU]*)(-([imsU]+))?([:)])")
_NAMED = re.compile(r"\(\?P?<([^>]*)>")
_ESCAPES = {"a": 7, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}
_ANCHORS = {"A": r"\A", "b": r"(?a:\b)", "B": r"(?:(?a:\B)|\A\Z)", "z": r"\Z"}


class BadPattern(ValueError):
    """An expression that API servers refuse; the text is theirs."""

    def __init__(self, what: str, where: str) -> None:
        super().__init__(f"error parsing regexp: {what}: `{where}`")


@lru_cache(maxsize=1000)
def compile_pattern(text: str) -> re.Pattern[str]:
    """Compile an expression of RE2; raises `BadPattern`, or `Unsupported`."""
    translated = _Translator(text).translate()
    try:
        return re.compile(translated)
    except (re.error, OverflowError) as error:
        raise Unsupported(f"the pattern is not understood: {error}") from None


@dataclass(slots=True)
class _Group:
    """An opened parenthesis: its items so far, and the flags to restore after it."""

    outer: frozenset[str] = frozenset()
    items: list[str] = field(default_factory=list)


class _Translator:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._flags: frozenset[str] = frozenset()
        self._groups = [_Group()]
        self._repeat = -1
        """The position of the latest repetition, if nothing follows it."""

    def translate(self) -> str:
        while self._at < len(self._text):
            began, was = self._at, self._repeat
            self._step(self._text[self._at])
            if self._repeat == was:
                self._repeat = -1
            assert self._at > began
        if len(self._groups) > 1:
            raise BadPattern("missing closing )", self._text)
        return "".join(self._groups[0].items)

    def _step(self, char: str) -> None:
        match char:
            case "(":
                self._open()
            case ")":
                self._close()
            case "|":
                self._groups[-1].items.append(self._take(1))
            case "^":
                self._put("(?m:^)" if "m" in self._flags else r"\A", 1)
            case "$":
                self._put("(?m:$)" if "m" in self._flags else r"\Z", 1)
            case ".":
                self._put("(?s:.)" if "s" in self._flags else r"[^\n]", 1)
            case "[":
                self._put_class(self._class())
            case "*" | "+" | "?":
                self._quantify(char)
            case "{" if found := _REPEAT.match(self._text, self._at):
                self._quantify(found[0])
            case "\\":
                self._escape()
            case _:
                self._put_literal(char, 1)

    def _take(self, length: int) -> str:
        self._at += length
        return self._text[self._at - length : self._at]

    def _put(self, item: str, length: int = 0) -> None:
        self._groups[-1].items.append(item)
        self._at += length

    def _put_class(self, ranges: Ranges, length: int = 0) -> None:
        shown = "".join(f"\\U{low:08x}-\\U{high:08x}" for low, high in ranges)
        self._put(f"[{shown}]" if ranges else "(?!)", length)

    def _put_literal(self, char: str, length: int = 0) -> None:
        if "i" in self._flags:
            self._put_class(fold(((ord(char), ord(char)),)), length)
        else:
            self._put(re.escape(char), length)

    def _folded(self, ranges: Ranges) -> Ranges:
        return fold(ranges) if "i" in self._flags else ranges

    def _open(self) -> None:
        rest = self._text[self._at :]
        outer = self._flags
        if not rest.startswith("(?"):
            self._at += 1
        elif rest.startswith(("(?P<", "(?<")):
            found = _NAMED.match(rest)
            if found is None or not re.fullmatch(r"[A-Za-z0-9_]+", found[1]):
                raise BadPattern("invalid named capture", found[0] if found else rest)
            self._at += found.end()
        else:
            found = _FLAGS.match(rest)
            if found is None:
                known = re.match(r"\(\?[imsU]*(-[imsU]*)?", rest)
                end = known.end() + 1 if known else 0
                raise BadPattern("invalid or unsupported Perl syntax", rest[:end])
            self._flags = (outer | set(found[1])) - set(found[3] or "")
            self._at += found.end()
            if found[4] == ")":
                return
        self._groups.append(_Group(outer))

    def _close(self) -> None:
        if len(self._groups) == 1:
            raise BadPattern("unexpected )", self._text)
        group = self._groups.pop()
        self._flags = group.outer
        self._put(f"(?:{''.join(group.items)})", 1)

    def _quantify(self, operator: str) -> None:
        began = self._at
        self._at += len(operator)
        if self._text[self._at : self._at + 1] == "?":
            self._at += 1  # The laziness does not change whether there is a match.
        sizes = [int(size) for size in re.findall(r"\d+", operator)]
        if any(size > _MOST_REPEATS for size in sizes) or sizes != sorted(sizes):
            raise BadPattern("invalid repeat count", operator)
        if self._repeat >= 0:
            repeated = self._text[self._repeat : self._at]
            raise BadPattern("invalid nested repetition operator", repeated)
        items = self._groups[-1].items
        if not items or items[-1] == "|":
            whole = self._text[began : self._at]
            raise BadPattern("missing argument to repetition operator", whole)
        items[-1] = f"(?:{items[-1]}){operator}"
        self._repeat = began

    def _escape(self) -> None:
        kind = self._text[self._at + 1 : self._at + 2]
        if kind in _ANCHORS:
            self._put(_ANCHORS[kind], 2)
        elif kind == "Q":
            quoted, _, _ = self._text[self._at + 2 :].partition(r"\E")
            for char in quoted:
                self._put_literal(char)
            ended = self._text.startswith(r"\E", self._at + 2 + len(quoted))
            self._at += 2 + len(quoted) + (2 if ended else 0)
        else:
            found = self._named_class()
            if found is None:
                self._put_literal(chr(self._char()))
            else:
                self._put_class(found)

    def _named_class(self) -> Ranges | None:
        r"""A class such as ``\d`` or ``\pL``, if there is one here."""
        kind = self._text[self._at + 1 : self._at + 2]
        if kind and kind in "dswDSW":
            self._at += 2
            found = self._folded(PERL[kind.lower()])
            return found if kind.islower() else negate(found)
        if not kind or kind not in "pP":
            return None
        match = re.compile(r"\\[pP](?:\{(\^?)([^}]*)\}|([^{]))", re.DOTALL).match(
            self._text, self._at
        )
        if match is None:
            raise BadPattern("invalid character class range", self._text[self._at :])
        name = match[2] if match[3] is None else match[3]
        ranges = unicode_class(name)
        if ranges is None and (len(name) < 3 or not name.replace("_", "").isalpha()):
            raise BadPattern("invalid character class range", match[0])
        if ranges is None:
            raise Unsupported(f"unknown class of characters {match[0]}")
        self._at = match.end()
        ranges = self._folded(ranges)
        return negate(ranges) if (kind == "P") is not bool(match[1]) else ranges

    def _char(self) -> int:
        """One character, escaped or not."""
        if self._text[self._at] != "\\":
            return ord(self._take(1))
        found = re.compile(
            r"\\(?:x\{([0-9A-Fa-f]+)\}|x([0-9A-Fa-f]{2})|(0[0-7]{0,2}|[1-7][0-7]{1,2})|([afnrtv])"
            r"|([\x00-/:-@\[-`{-\x7f]))"
        ).match(self._text, self._at)
        if found is None:
            rest = self._text[self._at :]
            if rest == "\\":
                raise BadPattern("trailing backslash at end of expression", "")
            shown = re.match(r"\\x\{?[0-9A-Fa-f]*.?|\\.", rest, re.DOTALL)
            raise BadPattern("invalid escape sequence", shown[0] if shown else rest)
        self._at = found.end()
        wide, short, octal, letter, literal = found.groups()
        if letter:
            return _ESCAPES[letter]
        code = ord(literal) if literal else int(octal, 8) if octal else int(wide or short, 16)
        if code > LAST:
            raise BadPattern("invalid escape sequence", found[0].rstrip("}"))
        return code

    def _class(self) -> Ranges:
        whole, ranges = self._text[self._at :], list[tuple[int, int]]()
        self._at += 1
        negated = self._text[self._at : self._at + 1] == "^"
        self._at += negated
        first = self._at
        while not self._text.startswith("]", self._at) or self._at == first:
            if self._at >= len(self._text):
                raise BadPattern("missing closing ]", whole)
            ranges.extend(self._class_item(whole))
        self._at += 1
        return negate(ranges) if negated else merge(ranges)

    def _class_item(self, whole: str) -> Ranges:
        posix = re.compile(r"\[:(\^?)([^:]*):\]").match(self._text, self._at)
        if posix is not None:
            if posix[2] not in POSIX:
                raise BadPattern("invalid character class range", posix[0])
            self._at = posix.end()
            named = self._folded(POSIX[posix[2]])
            return negate(named) if posix[1] else named
        if self._text[self._at] == "\\" and (found := self._named_class()) is not None:
            return found
        began = self._at
        low = high = self._char()
        if re.compile(r"-[^\]]", re.DOTALL).match(self._text, self._at):
            self._at += 1
            high = self._char()
            if high < low:
                raise BadPattern("invalid character class range", self._text[began : self._at])
        elif self._at + 1 == len(self._text) and self._text[self._at] == "-":
            raise BadPattern("missing closing ]", whole)
        return self._folded(((low, high),))
