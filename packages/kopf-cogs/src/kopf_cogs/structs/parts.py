"""Parts of the objects of a kind, to be selected by servers."""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from kopf_cogs.structs.keys import ObjectKey

KnownKey: TypeAlias = str | tuple[str | None, str | None]
"""The uid; or the namespace and the name, for those few kinds that have no uids."""

Filter: TypeAlias = Callable[[KnownKey | ObjectKey], bool]
"""Tells whether the object with this key is in the part now."""


class Part(NamedTuple):
    """A part of the objects, as servers can select it; all objects by default."""

    shards: str = ""
    """The ``shardSelector``, unless the settings have one: most servers ignore it."""

    labels: str = ""
    """One more selector of labels."""

    has: Filter | None = None
    """The same selection, for servers that ignore it; ``None`` to take whatever comes."""


ALL_OBJECTS = Part()
