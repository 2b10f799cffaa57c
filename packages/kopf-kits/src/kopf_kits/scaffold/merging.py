"""Three-way merging of texts, by lines: as git does, with the same marks of conflicts."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

Lines = Sequence[str]


class Merged(NamedTuple):
    """The common text, and whether there are conflicts in it."""

    text: str
    has_conflicts: bool


class _Stretch(NamedTuple):
    """The lines that are the same in all three texts, with their positions in each of them."""

    base: int
    ours: int
    theirs: int
    size: int


def merge_texts(base: str, ours: str, theirs: str) -> Merged:
    """Merge the changes of the base by both sides: ``ours`` is the project, ``theirs`` is new."""
    if ours == theirs or theirs == base:
        return Merged(ours, False)
    if ours == base:
        return Merged(theirs, False)
    lines = tuple(text.splitlines(keepends=True) for text in (base, ours, theirs))
    result: list[str] = []
    has_conflicts = False
    at = (0, 0, 0)
    for stretch in _find_common(*lines):
        ends = (stretch.base, stretch.ours, stretch.theirs)
        parts = [text[start:end] for text, start, end in zip(lines, at, ends, strict=True)]
        chosen = _choose(*parts)
        has_conflicts |= chosen is None
        result += _mark(parts[1], parts[2]) if chosen is None else chosen
        result += lines[0][stretch.base : stretch.base + stretch.size]
        at = (ends[0] + stretch.size, ends[1] + stretch.size, ends[2] + stretch.size)
    return Merged("".join(result), has_conflicts)


def _choose(base: Lines, ours: Lines, theirs: Lines) -> Lines | None:
    """The lines of the side that has changed them; ``None`` if both have, and differently."""
    if ours == theirs or base == theirs:
        return ours
    return theirs if base == ours else None


def _mark(ours: Lines, theirs: Lines) -> list[str]:
    return [
        "<<<<<<< this project\n",
        *_end(ours),
        "=======\n",
        *_end(theirs),
        ">>>>>>> the new scaffold\n",
    ]


def _end(lines: Lines) -> list[str]:
    return [line if line.endswith("\n") else f"{line}\n" for line in lines]


def _find_common(base: Lines, ours: Lines, theirs: Lines) -> Iterator[_Stretch]:
    """The common stretches in their order, with an empty one at the end of the texts."""
    in_ours, in_theirs = _match(base, ours), _match(base, theirs)
    index = 0
    while index < len(base):
        size = 0
        while (
            index + size < len(base)
            and in_ours.get(index + size) == _shift(in_ours.get(index), size)
            and in_theirs.get(index + size) == _shift(in_theirs.get(index), size)
        ):
            size += 1
        if size and index in in_ours and index in in_theirs:
            yield _Stretch(index, in_ours[index], in_theirs[index], size)
        index += max(size, 1)
    yield _Stretch(len(base), len(ours), len(theirs), 0)


def _shift(index: int | None, size: int) -> int | None:
    return None if index is None else index + size


def _match(base: Lines, other: Lines) -> dict[int, int]:
    """The line numbers of the base, with the numbers of the same lines in the other text."""
    blocks = difflib.SequenceMatcher(None, base, other, autojunk=False).get_matching_blocks()
    return {block.a + n: block.b + n for block in blocks for n in range(block.size)}
