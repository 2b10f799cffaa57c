"""The told: the messages that people have got about an object, so that none is repeated."""

from typing import NamedTuple


class Told(NamedTuple):
    """The messages about one object that were logged or posted."""

    topics: frozenset[str] = frozenset()
    """The topics of warnings that are given once."""

    complaint: str | None = None
    """The latest complaint about the object being invalid for the models of handlers, if any."""

    loss: str | None = None
    """The latest message about dropped changes of handlers: the API will never accept them."""


SILENCE = Told()
"""Nothing was told yet. Most objects share this value."""
