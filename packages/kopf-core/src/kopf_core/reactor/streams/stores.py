"""The object store: the newest state of every object of one kind, to be read with no requests.

A store exists only for kinds that other parts read. Its states come from a watch-stream, and from
the replies to our own requests: a read state is never older than our own last write.
"""

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping

from kopf_cogs.structs.bodies import RawBody, RawEvent
from kopf_cogs.structs.keys import ObjectKey, object_key
from kopf_cogs.structs.parts import ALL_OBJECTS
from kopf_cogs.structs.resources import Resource
from kopf_cogs.structs.versions import is_as_old, is_newer, is_same
from kopf_core.engines.desired.ownership import get_owners, is_leaving

Transform = Callable[[RawBody], RawBody]

REMEMBERED_DELETIONS = 1000
"""The number of remembered deletions: a late reply must not revive a deleted object."""


def without_managed_fields(body: RawBody) -> RawBody:
    """Drop the managed fields: usually the biggest part of the metadata, and rarely read."""
    if "managedFields" not in body["metadata"]:
        return body
    meta = {key: value for key, value in body["metadata"].items() if key != "managedFields"}
    return {**body, "metadata": meta}  # type: ignore[typeddict-item]


class ObjectStore(Mapping[ObjectKey, RawBody]):
    """The newest states of objects: by their keys, by names, and by uids of their owners.

    The states belong to the store: readers must not modify them. ``transform`` reduces an object to
    the part that is kept; it must keep the identity, the version, and the owners.
    """

    def __init__(self, resource: Resource, *, transform: Transform | None = None) -> None:
        self.resource = resource
        self._transform = transform
        self._get_version: Callable[[], str | None] = lambda: None
        self.former: RawBody | None = None
        """The state of the latest event's object before the event, if the object was known."""

        self._bodies: dict[ObjectKey, RawBody] = {}
        self._by_name: dict[tuple[str | None, str | None], ObjectKey] = {}
        self._by_owner: dict[str, dict[ObjectKey, None]] = {}
        self._unconfirmed: set[ObjectKey] = set()  # written by us, but not in the stream yet
        self._expected: dict[ObjectKey, RawBody] = {}  # known before, not listed yet
        self._vanished: list[RawBody] = []
        self._deleted: dict[ObjectKey, str | None] = {}  # with the versions of the vanished ones
        self._synced = asyncio.Event()

    def __getitem__(self, key: ObjectKey) -> RawBody:
        return self._bodies[key]

    def __iter__(self) -> Iterator[ObjectKey]:
        return iter(self._bodies)

    def __len__(self) -> int:
        return len(self._bodies)

    @property
    def is_synced(self) -> bool:
        """Whether all initially existing objects are in the store."""
        return self._synced.is_set()

    def follow(self, get_version: Callable[[], str | None]) -> None:
        """Set the function that returns the version which the stream has reached, once it is
        listed.

        If we have written an object before that version, and the stream has never brought it, it
        was deleted unseen, while no stream was watching.
        """
        self._get_version = get_version

    async def wait_synced(self) -> None:
        await self._synced.wait()

    def find(self, namespace: str | None, name: str) -> RawBody | None:
        """The object with that name; cluster-scoped objects are in no namespace."""
        key = self._by_name.get((namespace, name))
        return None if key is None else self._bodies[key]

    def owned_by(self, uid: str) -> Collection[RawBody]:
        """The objects of that owner: by their owner references, or by our annotation."""
        return [self._bodies[key] for key in self._by_owner.get(uid, ())]

    def owns(self, uid: str) -> bool:
        """Whether the owner has any objects."""
        return uid in self._by_owner

    def put(self, body: RawBody) -> bool:
        """Take the reply to our own request; return whether it is news.

        The stream can be late: older states that it brings later do not replace this one.
        """
        key = object_key(self.resource, body)
        known = self._bodies.get(key)
        if known is not None and is_same(known, body) and is_leaving(known) == is_leaving(body):
            return False  # the stream has brought it already
        if (known is None and self._is_gone(key, body)) or not self._set(key, body):
            return False
        self._unconfirmed.add(key)
        return True

    def take_vanished(self) -> Collection[RawBody]:
        """The objects that have vanished since the last call, without events of their deletion."""
        vanished, self._vanished = self._vanished, []
        return vanished

    def expect(self, bodies: Mapping[ObjectKey, RawBody]) -> None:
        """Expect these objects in the list: the unlisted ones have vanished unseen."""
        self._expected = {key: body for key, body in bodies.items() if key not in self._bodies}
        if self.is_synced:
            self._lose_expected()

    def succeed(self, former: "ObjectStore") -> None:
        """Expect the objects of another store, as this one takes its place."""
        self.expect(former._expected | former._bodies)

    def discard(self, key: ObjectKey) -> None:
        """Forget the object: it does not exist anymore."""
        body = self._bodies.pop(key, None)
        self._unconfirmed.discard(key)
        if body is not None:
            self._unlink(key, body)

    def clear(self) -> None:
        """Forget all objects."""
        for key in list(self._bodies):
            self.discard(key)

    # The events of the stream.

    part = ALL_OBJECTS

    def on_event(self, key: ObjectKey, event: RawEvent) -> None:
        body = event["object"]
        known = self.former = self._bodies.get(key)
        if self._expected:
            self.former = self._expected.pop(key, known)
        if event["type"] == "DELETED":
            self.discard(key)
            self._remember_deletion(key, None)
        else:
            self._deleted.pop(key, None)  # objects without uids can be created again
            # Streams bring states in order, even if versions are not; but they can be late.
            is_next = event["type"] is not None and key not in self._unconfirmed
            is_known = known is not None and is_same(known, body)
            is_taken = is_known or self._set(key, body, is_next=is_next)
            if is_taken or event["type"] is None:
                self._unconfirmed.discard(key)

    def on_listed(self) -> None:
        self._lose_expected()
        for key in list(self._unconfirmed):  # created by us, and deleted before the list
            if self._is_passed(body := self._bodies[key]):
                self._lose(key, body)
        self._synced.set()

    async def drain(self) -> None:
        """Return at once: stores take all events immediately."""

    def on_reversed(self) -> None:
        """The cluster was restored from a backup: the states that come next are newer."""
        self._synced.clear()
        expected = self._expected | self._bodies
        self.clear()
        self.expect(expected)

    def _is_gone(self, key: ObjectKey, body: RawBody) -> bool:
        """Whether the reply is late: the object was deleted after it.

        If the API returns a vanished object again, it exists nevertheless: some objects do not come
        in the stream, e.g. because of its selectors. These are reported once after each list.
        """
        if key not in self._deleted:
            if self.is_synced and self._is_passed(body):
                self._lose(key, body)
                return True
            return False
        version = self._deleted[key]
        is_same_again = version is not None and version == body["metadata"].get("resourceVersion")
        if is_same_again or (version is not None and not self._is_passed(body)):
            del self._deleted[key]
            return False
        return True

    def _is_passed(self, body: RawBody) -> bool:
        """Whether the stream is surely past this state: it has brought the object, unless that is
        gone.
        """
        return is_as_old(body, self._get_version())

    def _lose_expected(self) -> None:
        self._vanished += self._expected.values()
        self._expected = {}

    def _lose(self, key: ObjectKey, body: RawBody) -> None:
        self.discard(key)
        self._remember_deletion(key, body["metadata"].get("resourceVersion"))
        self._vanished.append(body)

    def _remember_deletion(self, key: ObjectKey, version: str | None) -> None:
        self._deleted[key] = version
        if len(self._deleted) > REMEMBERED_DELETIONS:
            del self._deleted[next(iter(self._deleted))]

    def _set(self, key: ObjectKey, body: RawBody, *, is_next: bool = False) -> bool:
        old = self._bodies.get(key)
        if old is not None and is_newer(old, body) and not is_next:
            return False
        if self._transform is not None:
            body = self._transform(body)
        self._bodies[key] = body
        if old is None or not _is_linked_alike(old, body):
            if old is not None:
                self._unlink(key, old)
            self._link(key, body)
        return True

    def _link(self, key: ObjectKey, body: RawBody) -> None:
        name = _get_name(body)
        namesake = self._bodies.get(self._by_name.get(name, key))
        if namesake is None or not is_newer(namesake, body):  # the stream can be late
            self._by_name[name] = key
        for uid in get_owners(body):
            self._by_owner.setdefault(uid, {})[key] = None

    def _unlink(self, key: ObjectKey, body: RawBody) -> None:
        name = _get_name(body)
        if self._by_name.get(name) == key:  # not if a newer object has the same name
            del self._by_name[name]
        for uid in get_owners(body):
            owned = self._by_owner.get(uid, {})
            owned.pop(key, None)
            if not owned:
                self._by_owner.pop(uid, None)


def _is_linked_alike(one: RawBody, other: RawBody) -> bool:
    return _get_name(one) == _get_name(other) and get_owners(one) == get_owners(other)


def _get_name(body: RawBody) -> tuple[str | None, str | None]:
    return body["metadata"].get("namespace"), body["metadata"].get("name")
