"""The known state of a resource kind, which turns the lists and the streams into events.

There are no requests here: only the bookkeeping between the raw data and the sink of the events.
"""

import enum
import logging
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, TypeAlias, cast

from kopf_cogs.clients import errors, quarantine, streams
from kopf_cogs.structs import bodies, parts, resources
from kopf_cogs.structs.parts import KnownKey as KnownKey

Logger = logging.Logger | logging.LoggerAdapter[Any]

KnownName: TypeAlias = tuple[str | None, str | None]
"""The namespace and the name."""

_END_OF_INITIAL_EVENTS = "k8s.io/initial-events-end"


class EventSink(Protocol):
    """Where the events go. All the methods must be fast: nothing is read while they work."""

    def on_event(self, event: bodies.RawEvent) -> None:
        """Accept an event. It belongs to the sink since then, with its object."""

    def on_listed(self) -> None:
        """All objects that existed initially have been reported. Called after every list."""

    async def drain(self) -> None:
        """Wait until more events can be accepted; called after every batch of them."""


class Phase(enum.Enum):
    """The current step of the stream, or the step that was interrupted."""

    LISTING = enum.auto()
    """Getting all the objects, by pages or as a stream."""

    WATCHING = enum.auto()
    """Getting the changes since the last resource version."""


class VersionsReversed(Exception):
    """The server is in an older state than it was: probably, it was restored from a backup."""


class StreamState:
    """The state of one list-and-watch: it lives longer than its requests."""

    def __init__(
        self,
        resource: resources.Resource,
        sink: EventSink,
        *,
        title: str,
        logger: Logger,
        on_reversed: Callable[[], None] = lambda: None,
        get_filter: Callable[[], parts.Filter | None] = lambda: None,
    ) -> None:
        super().__init__()
        self.phase = Phase.LISTING
        self.resource_version: str | None = None
        self.ahead_version: str | None = None
        """While listing: the version up to which the stream has reported the later changes."""
        self.known: dict[KnownKey, KnownName] = {}
        """All objects that exist, as far as it is known."""
        self._seen: set[KnownKey] = set()  # while listing: the unseen ones are deleted
        self._ahead: set[KnownKey] = set()  # while listing: objects newer than the list
        self._quarantined: set[KnownKey] = set()
        self._warned: set[str] = set()
        self._resource = resource
        self._sink = sink
        self._title = title
        self._logger = logger
        self._on_reversed = on_reversed
        self._get_filter = get_filter
        self._last_version: str | None = None  # the newest version before the current list
        self._feeders: Mapping[str, Callable[[KnownKey, bodies.RawEvent], None]] = {
            "ADDED": self._feed_existing,
            "MODIFIED": self._feed_existing,
            "DELETED": self._feed_deleted,
            "BOOKMARK": lambda _, event: self._feed_bookmark(event["object"]),
        }

    def restart(self) -> None:
        """Begin a new list, either with no resource version or as the version has become bad."""
        self.phase = Phase.LISTING
        self._last_version = self.resource_version or self._last_version
        self.resource_version = None
        self._seen.clear()
        self._ahead.clear()
        self.ahead_version = None

    def forget(self, key: KnownKey) -> None:
        """The object is not of interest anymore: do not report when it is deleted."""
        self.known.pop(key, None)

    def add_page(
        self,
        items: Iterable[bodies.RawBody],
        rejected: Iterable[quarantine.Quarantined],
    ) -> None:
        """Report a part of the list."""
        on_event, known, see, ahead = self._sink.on_event, self.known, self._seen.add, self._ahead
        has = self._get_filter()
        for item in items:
            meta = item["metadata"]
            key = meta.get("uid") or (meta.get("namespace"), meta.get("name"))
            if (ahead and key in ahead) or not (has is None or has(key)):
                continue
            known[key] = _name(meta)
            see(key)
            on_event({"type": None, "object": item})
        for remains in rejected:
            self._isolate(remains)

    def finish_list(self, version: str | None) -> None:
        """Report the deletions that happened unseen, and switch to watching."""
        self.check_version(version)
        for key in [key for key in self.known if key not in self._seen]:
            self._report_deletion(key)
        self._seen = set()
        self._ahead = set()
        self.resource_version = self.ahead_version or version
        self.ahead_version = None
        self.phase = Phase.WATCHING
        self._sink.on_listed()

    def add_batch(self, batch: list[Any]) -> None:
        """Report a part of the stream. It is called rarely, but the loop inside is hot.

        Raises the error for an ERROR event, after everything before it has been reported.
        """
        on_event = self._sink.on_event
        known = self.known
        feeders = self._feeders
        is_sane = quarantine.is_sane
        has = self._get_filter()
        for event in batch:
            try:
                kind = event["type"]
                obj = event["object"]
                feeder = feeders[kind]
            except (TypeError, KeyError, AttributeError):
                self._feed_odd_event(event)
                continue
            if not is_sane(obj):
                if kind == "BOOKMARK":
                    self._feed_bookmark(obj)
                else:
                    self._isolate(quarantine.describe(obj, kind))
                continue
            meta = obj["metadata"]
            key = meta.get("uid") or (meta.get("namespace"), meta.get("name"))
            version = meta.get("resourceVersion")
            if kind == "MODIFIED" and key in known:
                on_event(event)
            elif has is None or kind == "BOOKMARK" or has(key):
                feeder(key, event)
            if (
                version
                and self.phase is Phase.WATCHING
                # Otherwise, the next stream would repeat changes of objects that are deleted.
                and not _is_older(version, self.resource_version or "")
            ):
                self.resource_version = version

    def add_ahead(self, batch: list[Any]) -> None:
        """Report a part of the stream that began with the list, while the list goes on.

        For the objects in this part, the rest of the list is outdated. Raises
        :class:`LookupError` for an unusual event: the usual stream begins with that event.
        """
        for event in batch:
            match event:
                case {
                    "type": "BOOKMARK",
                    "object": {"metadata": {"resourceVersion": str(version)}},
                }:
                    pass
                case {"type": "ADDED" | "MODIFIED" | "DELETED" as kind, "object": obj} if (
                    quarantine.is_sane(obj)
                ):
                    version = obj["metadata"].get("resourceVersion")
                    self._feed_ahead(kind, event)
                case _:
                    raise LookupError("something unusual has come")
            if version and not _is_older(version, self.ahead_version or ""):
                self.ahead_version = version

    def take(self, event: bodies.RawEvent) -> None:
        """Report one event of another stream, which has checked and formed the object already."""
        meta = event["object"]["metadata"]
        key: KnownKey = meta.get("uid") or (meta.get("namespace"), meta.get("name"))
        if event["type"] == "DELETED":
            self.known.pop(key, None)
        else:
            self.known[key] = _name(meta)
            if self.phase is Phase.LISTING:
                self._seen.add(key)
        self._sink.on_event(event)

    def _feed_ahead(self, kind: str, event: bodies.RawEvent) -> None:
        meta = event["object"]["metadata"]
        key: KnownKey = meta.get("uid") or (meta.get("namespace"), meta.get("name"))
        has = self._get_filter()
        if not (has is None or has(key)):
            return
        if kind == "DELETED":
            self.known.pop(key, None)
        else:
            self.known[key] = _name(meta)
        if kind == "MODIFIED" and key not in self._seen:
            event["type"] = None  # the object existed when the list began
        self._seen.add(key)
        self._ahead.add(key)
        self._sink.on_event(event)

    def _feed_existing(self, key: KnownKey, event: bodies.RawEvent) -> None:
        self.known[key] = _name(event["object"]["metadata"])
        if self.phase is Phase.LISTING:
            self._seen.add(key)
            event["type"] = None
        self._sink.on_event(event)

    def _feed_deleted(self, key: KnownKey, event: bodies.RawEvent) -> None:
        self.known.pop(key, None)
        self._seen.discard(key)
        self._sink.on_event(event)

    @property
    def reached(self) -> str | None:
        """The version up to which everything has been reported: of a list, or of the stream."""
        return self.resource_version or self._last_version

    def verify(self, version: str | None) -> None:
        """Raise :class:`VersionsReversed` if the server has a version older than ours."""
        ours = self.resource_version
        if _is_older(version or "", ours or ""):
            raise VersionsReversed(f"{ours} was there before, and now it is {version}")

    def check_version(self, version: str | None) -> bool:
        """Call ``on_reversed`` if this version of a list is older than the version before it."""
        is_reversed = _is_older(version or "", self._last_version or "")
        if is_reversed:
            self._last_version = None
            self._on_reversed()
        return is_reversed

    def _feed_bookmark(self, obj: Any) -> None:
        """Bookmarks are not objects: they have no names, but only the version."""
        match obj:
            case {"metadata": {"resourceVersion": str() as version} as meta}:
                annotations = meta.get("annotations") or {}
            case _:
                self._warn_once(f"Ignoring the bookmarks that make no sense for {self._title}.")
                return
        if self.phase is Phase.WATCHING:
            self.verify(version)
            self.resource_version = version
        elif isinstance(annotations, dict) and annotations.get(_END_OF_INITIAL_EVENTS) == "true":
            if self.check_version(version):  # the sink took the earlier objects for the past
                raise VersionsReversed(f"the list is of {version}")
            self.finish_list(version)

    def _feed_odd_event(self, event: Any) -> None:
        """Process errors, quarantined objects, and the events that make no sense."""
        match event:
            case streams.Unparsed():
                self._isolate(quarantine.identify(event.raw))
            case quarantine.Quarantined():
                self._isolate(event)
            case {"type": "ERROR", "object": payload}:
                raise errors.make_status_error(payload)
            case {"type": kind} if not isinstance(kind, str) or kind not in self._feeders:
                self._warn_once(f"Ignoring the events of type {kind!r} for {self._title}.")
            case _:
                self._warn_once(f"Ignoring the events with no objects in them for {self._title}.")

    def _warn_once(self, text: str) -> None:
        if text not in self._warned:
            self._warned.add(text)
            self._logger.warning(text)

    def report_absence(self) -> None:
        """Report the deletions of all known objects: their namespace is deleted."""
        for key in [*self.known]:
            self._report_deletion(key)

    def _report_deletion(self, key: KnownKey) -> None:
        namespace, name = self.known.pop(key)
        meta = {"name": name, "namespace": namespace, "uid": key if isinstance(key, str) else None}
        body = {
            "apiVersion": self._resource.api_version,
            "kind": self._resource.kind,
            "metadata": {field: value for field, value in meta.items() if value is not None},
        }
        self._sink.on_event({"type": "DELETED", "object": cast(bodies.RawBody, body)})

    def _isolate(self, remains: quarantine.Quarantined) -> None:
        """Keep the quarantined object away; other objects must not suffer from it."""
        key: KnownKey = remains.uid or (remains.namespace, remains.name)
        if remains.type == "DELETED":
            self._quarantined.discard(key)
            if key in self.known:
                self._report_deletion(key)
        else:
            self._seen.add(key)
            self._report_quarantine(key, remains)
        version = remains.resource_version
        is_older = _is_older(version or "", self.resource_version or "")
        if version and self.phase is Phase.WATCHING and not is_older:
            self.resource_version = version

    def _report_quarantine(self, key: KnownKey, remains: quarantine.Quarantined) -> None:
        if key not in self._quarantined:
            self._quarantined.add(key)
            name = "/".join(part for part in (remains.namespace, remains.name) if part)
            self._logger.warning(
                f"Ignoring an object of {self._resource}, as {remains.problem}: "
                f"{name or 'its name is unknown'}."
            )


def _name(meta: Mapping[str, Any]) -> KnownName:
    """The namespace and the name; all objects of a namespace share one string for it."""
    namespace = meta.get("namespace")
    return namespace and sys.intern(namespace), meta.get("name")


def _is_older(version: str, other: str) -> bool:
    """Whether it is older. Versions are numbers in all known API servers, but with no promise."""
    try:
        is_less = int(version) < int(other)
    except ValueError:
        return False
    return is_less and f"{version}{other}".isdecimal()
