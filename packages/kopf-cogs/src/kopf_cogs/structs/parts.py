"""Parts of the objects of a kind, to be selected by servers."""

from typing import NamedTuple


class Part(NamedTuple):
    """A part of the objects, as servers can select it; all objects by default."""

    shards: str = ""
    """The ``shardSelector``, unless the settings have one: most servers ignore it."""

    labels: str = ""
    """One more selector of labels."""


ALL_OBJECTS = Part()
