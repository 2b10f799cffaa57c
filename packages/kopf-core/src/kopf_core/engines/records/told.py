"""The told: what people were told of an object already, so that nothing is repeated."""

from typing import NamedTuple


class Told(NamedTuple):
    """What was logged or posted about one object."""

    topics: frozenset[str] = frozenset()
    """What was warned about once for all."""

    complaint: str | None = None
    """Why the object is invalid for the models of handlers, if people were told of that."""


SILENCE = Told()
"""Nothing was told yet. One for all: they are many."""
