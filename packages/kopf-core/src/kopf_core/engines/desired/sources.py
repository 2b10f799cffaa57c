"""Where the states of owned and related objects are taken from, and what becomes of them."""

import enum
from collections.abc import Collection, Iterable
from contextlib import AbstractContextManager
from typing import Protocol

from kopf_cogs.structs.bodies import RawBody
from kopf_cogs.structs.resources import Resource

Name = tuple[str | None, str]
"""The namespace and the name."""


class Source(Protocol):
    """The newest states of all objects of one kind."""

    @property
    def resource(self) -> Resource: ...

    @property
    def is_synced(self) -> bool:
        """Whether all objects that exist are known, wherever they are observed."""

    @property
    def is_observed(self) -> bool:
        """Whether its objects are known anywhere: not anymore if the kind is not served."""

    def is_synced_in(self, namespace: str | None) -> bool:
        """Whether all objects that exist in this namespace are known."""

    def covers(self, namespace: str | None) -> bool:
        """Whether the objects of this namespace are known, too."""

    def knows(self, names: Collection[Name] | None) -> bool:
        """Whether it is known which objects of these names exist; or all objects there are."""

    def find(self, namespace: str | None, name: str) -> RawBody | None:
        """The object by its name, if it exists."""

    def values(self) -> Iterable[RawBody]:
        """All objects of the kind."""

    def owned_by(self, uid: str) -> Iterable[RawBody]:
        """All objects of this owner."""

    def put(self, body: RawBody) -> None:
        """Take the state returned by our own request: it is newer than what was streamed."""

    async def wait_for_others(self, namespace: str | None, name: str) -> None:
        """Wait until nobody else is writing the object: it can be theirs since then."""

    def writing(self, namespace: str | None, name: str) -> AbstractContextManager[None]:
        """What to hold while the object is being written: our own changes are no news to us."""


class ObservedChange(enum.Enum):
    """What is told of the object, and by whom it was done."""

    OTHERS = enum.auto()
    """It has appeared, or is changed."""

    OURS = enum.auto()
    """The same, but it was us: the reconciler which has done it knows it already."""

    GONE = enum.auto()
    """It does not exist anymore; of what it was, maybe only its identity is left."""
