"""Similar names: the probable meanings of a misspelt name."""

import itertools
from collections.abc import Iterable

SIMILARITY = 0.6
"""How similar the names must be to suggest one for another, from 0 to 1."""


def find_similar(name: str, known: Iterable[str], *, similarity: float = SIMILARITY) -> str | None:
    """The known name that is the nearest to this one; none if they are all too different.

    Of the nearest names, it is the one with the longest common beginning: people rarely misspell
    the beginning of a word.
    """
    import difflib  # only for mistakes

    close = difflib.get_close_matches(name, [*known], cutoff=similarity)
    return max(close, key=lambda other: _count_common(name, other), default=None)


def _count_common(one: str, other: str) -> int:
    """How many letters at the beginning are the same."""
    pairs = zip(one, other, strict=False)
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
