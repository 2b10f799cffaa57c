"""Similar names: the probable meanings of a misspelt name."""

from collections.abc import Iterable

SIMILARITY = 0.6
"""How similar the names must be to suggest one for another, from 0 to 1."""


def find_similar(name: str, known: Iterable[str], *, similarity: float = SIMILARITY) -> str | None:
    """The known name that is the nearest to this one; none if they are all too different."""
    import difflib  # only for mistakes

    close = difflib.get_close_matches(name, [*known], n=1, cutoff=similarity)
    return close[0] if close else None
