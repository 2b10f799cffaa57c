"""The sources of owned and related objects, and the reports of their changes."""

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
        """Whether all existing objects are known, in all observed namespaces."""

    @property
    def is_observed(self) -> bool:
        """Whether its objects are known anywhere: not anymore if the kind is not served."""

    def is_synced_in(self, namespace: str | None) -> bool:
        """Whether all existing objects in this namespace are known."""

    def covers(self, namespace: str | None) -> bool:
        """Whether the objects of this namespace are known, too."""

    def knows(self, names: Collection[Name] | None) -> bool:
        """Whether it is known which objects of these names exist; or which objects exist at all."""

    def find(self, namespace: str | None, name: str) -> RawBody | None:
        """The object by its name, if it exists."""

    def values(self) -> Iterable[RawBody]:
        """All objects of the kind."""

    def owned_by(self, uid: str) -> Iterable[RawBody]:
        """All objects of this owner."""

    def put(self, body: RawBody) -> None:
        """Take the state returned for our own request: it is newer than the streamed one."""

    async def wait_for_others(self, namespace: str | None, name: str) -> None:
        """Wait until other parts have written the object: it can belong to another owner then."""

    def writing(self, namespace: str | None, name: str) -> AbstractContextManager[None]:
        """The context in which the object is being written: our own changes are no news."""


class ObservedChange(enum.Enum):
    """The kinds of reported changes, by their authors."""

    OTHERS = enum.auto()
    """The object has appeared, or has been changed."""

    OURS = enum.auto()
    """This operator has changed the object: the reconciler that has done so knows it already."""

    GONE = enum.auto()
    """The object does not exist anymore; possibly, only its identity is left of it."""
