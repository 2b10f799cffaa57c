"""Storages of the handlers' progress: attempts, delays, outcomes; strictly per handler."""

import abc
from collections.abc import Collection, Iterator, Mapping
from typing import Any, TypedDict, cast

from kopf_cogs.configs.conventions import (
    StorageKeyFormingConvention,
    StorageKeyMarkingConvention,
    StorageStanzaCleaner,
)
from kopf_cogs.configs.healing import (
    clean_record,
    decode_json,
    encode_json,
    heal_record,
    parse_record,
)
from kopf_cogs.structs.bodies import ANNOTATIONS, Body, BodyEssence, get_annotations
from kopf_cogs.structs.dicts import FieldPath, FieldSpec, ensure, parse_field, remove, resolve
from kopf_cogs.structs.ids import HandlerId
from kopf_cogs.structs.patches import Patch


class ProgressRecord(TypedDict, total=False):
    """The state of one handler. Times are ISO-8601 strings in UTC with an offset.

    The handler is finished if it either succeeded or failed. Otherwise, Kopf retries it,
    not earlier than the ``delayed`` time. ``subrefs`` are ids of all its sub-handlers.
    """

    started: str | None
    stopped: str | None
    delayed: str | None
    purpose: str | None
    retries: int | None
    success: bool | None
    failure: bool | None
    message: str | None
    subrefs: Collection[HandlerId] | None
    seen: str | None
    """Of reconcilers only: the digest of the object at the latest attempt."""


class ProgressStorage(StorageStanzaCleaner, metaclass=abc.ABCMeta):
    """The base class for all storages of progress.

    Nothing is sent to the cluster by the storages: they put the changes to the patch.
    The storages outside of the objects can do it in ``flush()`` or at once.
    """

    @abc.abstractmethod
    def fetch(self, *, key: HandlerId, body: Body) -> ProgressRecord | None:
        """Get the state of the handler; ``None`` if it has not started, or if it is broken."""
        raise NotImplementedError

    @abc.abstractmethod
    def store(self, *, key: HandlerId, record: ProgressRecord, body: Body, patch: Patch) -> None:
        """Keep the state of the handler."""
        raise NotImplementedError

    @abc.abstractmethod
    def purge(self, *, key: HandlerId, body: Body, patch: Patch) -> None:
        """Forget the state of the handler, both in the object and not yet patched."""
        raise NotImplementedError

    @abc.abstractmethod
    def touch(self, *, body: Body, patch: Patch, value: str | None) -> None:
        """Make a meaningless change in order to get a new watch-event; ``None`` reverts it."""
        raise NotImplementedError

    @abc.abstractmethod
    def clear(self, *, essence: BodyEssence) -> BodyEssence:
        """Remove everything that belongs to the storage from the essence (in place)."""
        raise NotImplementedError

    def flush(self) -> None:
        """Save the changes if they were postponed; called once the handlers are done."""

    def sweep(self, *, body: Body, patch: Patch, purpose: str) -> None:
        """Forget the states of handlers that do not exist anymore, if it is possible to find them.

        Such are left when an operator is upgraded in the middle of handling. It is called when
        the handling for this purpose is over; the states for other purposes are kept.
        """

    def find(self, *, body: Body) -> Mapping[str, ProgressRecord]:
        """All states on the object by their names in the storage, whosever handlers they are of.

        The names are not the ids: these can be cut or changed to be stored. Broken records
        are skipped, with no warnings. The storages that cannot tell find nothing.
        """
        return {}

    def rewrite(self, name: str, record: ProgressRecord, *, body: Body, patch: Patch) -> None:
        """Replace what is found by that name."""

    def erase(self, *, body: Body, patch: Patch) -> None:
        """Forget everything that was ever stored on the object, whosever handlers it is of."""


class AnnotationsProgressStorage(
    StorageKeyFormingConvention, StorageKeyMarkingConvention, ProgressStorage
):
    """The storage in annotations, one for each handler, in JSON.

    With ``verbose``, the empty values are written too. See the key-forming convention
    for the names of annotations, and for ``v1``.
    """

    def __init__(
        self,
        *,
        prefix: str = "kopf.zalando.org",
        verbose: bool = False,
        touch_key: str = "touch-dummy",
        v1: bool = True,
    ) -> None:
        super().__init__(prefix=prefix, v1=v1)
        self.verbose = verbose
        self.touch_key = touch_key

    def fetch(self, *, key: HandlerId, body: Body) -> ProgressRecord | None:
        annotations = get_annotations(body)
        for full_key in self.make_keys(key, body=body):
            encoded = annotations.get(full_key)
            if encoded is not None:
                where = ("annotation", full_key)
                record = heal_record(decode_json(encoded, where, body), where, body)
                return cast("ProgressRecord | None", record)
        return None

    def store(self, *, key: HandlerId, record: ProgressRecord, body: Body, patch: Patch) -> None:
        decoded = {k: v for k, v in record.items() if self.verbose or v is not None}
        encoded = encode_json(decoded)
        for full_key in self.make_keys(key, body=body):
            ensure(patch, (*ANNOTATIONS, full_key), encoded)
        self._store_marker(prefix=self.prefix, patch=patch, body=body)

    def purge(self, *, key: HandlerId, body: Body, patch: Patch) -> None:
        stored = get_annotations(body)
        planned = get_annotations(patch)
        for full_key in self.make_keys(key, body=body) if stored or planned else ():
            if full_key in stored or full_key in planned:
                _purge(body, patch, (*ANNOTATIONS, full_key))

    def sweep(self, *, body: Body, patch: Patch, purpose: str) -> None:
        own = f"{self.prefix}/"
        marker = f'"purpose":"{purpose}"'
        for full_key, encoded in get_annotations(body).items():
            if full_key.startswith(own) and marker in encoded and '"started":' in encoded:
                patch.metadata.annotations.setdefault(full_key, None)

    def find(self, *, body: Body) -> Mapping[str, ProgressRecord]:
        own = f"{self.prefix}/"
        annotations = get_annotations(body)
        found = {
            full_key.removeprefix(own): parse_record(encoded)
            for full_key, encoded in annotations.items()
            if full_key.startswith(own)
        }
        return {
            name: cast("ProgressRecord", record)
            for name, record in found.items()
            if record is not None
        }

    def rewrite(self, name: str, record: ProgressRecord, *, body: Body, patch: Patch) -> None:
        if name in self.find(body=body):
            decoded = {k: v for k, v in record.items() if self.verbose or v is not None}
            ensure(patch, (*ANNOTATIONS, f"{self.prefix}/{name}"), encode_json(decoded))

    def erase(self, *, body: Body, patch: Patch) -> None:
        for name in self.find(body=body):
            ensure(patch, (*ANNOTATIONS, f"{self.prefix}/{name}"), None)
        self.touch(body=body, patch=patch, value=None)
        self._purge_marker(prefix=self.prefix, patch=patch, body=body)

    def touch(self, *, body: Body, patch: Patch, value: str | None) -> None:
        annotations = get_annotations(body)
        for full_key in self.make_keys(self.touch_key, body=body):
            if annotations.get(full_key) != value:
                ensure(patch, (*ANNOTATIONS, full_key), value)
                if value is not None:
                    self._store_marker(prefix=self.prefix, patch=patch, body=body)

    def clear(self, *, essence: BodyEssence) -> BodyEssence:
        annotations = get_annotations(essence)
        if annotations:
            own_keys = [key for key in annotations if key.startswith(f"{self.prefix}/")]
            self.remove_annotations(essence, own_keys)
        self.remove_empty_stanzas(essence)
        return essence


class StatusProgressStorage(ProgressStorage):
    """The storage in the status, or in any other field, as a dictionary by handlers' ids.

    Resources with strict schemas must be declared with such a field, or preserve unknown fields.
    """

    def __init__(
        self,
        *,
        name: str = "kopf",
        field: FieldSpec = "status.{name}.progress",
        touch_field: FieldSpec = "status.{name}.dummy",
    ) -> None:
        super().__init__()
        self._name = name
        self.field = field
        self.touch_field = touch_field

    @property
    def field(self) -> FieldPath:
        """Where the progress is stored."""
        return self._field

    @field.setter
    def field(self, spec: FieldSpec) -> None:
        self._field = parse_named_field(spec, name=self._name)

    @property
    def touch_field(self) -> FieldPath:
        """The field that Kopf changes to get a new watch-event."""
        return self._touch_field

    @touch_field.setter
    def touch_field(self, spec: FieldSpec) -> None:
        self._touch_field = parse_named_field(spec, name=self._name)

    def fetch(self, *, key: HandlerId, body: Body) -> ProgressRecord | None:
        if self._field[0] not in body:
            return None
        record = resolve(body, (*self._field, key), None)
        if record is None:
            return None
        where = ("field", *self._field)
        return cast("ProgressRecord | None", heal_record(record, where, body))

    def store(self, *, key: HandlerId, record: ProgressRecord, body: Body, patch: Patch) -> None:
        # Nulls are needed to remove the values of the previous attempts when merging.
        ensure(patch, (*self._field, key), dict(record))

    def purge(self, *, key: HandlerId, body: Body, patch: Patch) -> None:
        stored, planned = resolve(body, self._field, None), resolve(patch, self._field, None)
        if stored or planned:
            _purge(body, patch, (*self._field, key))

    def find(self, *, body: Body) -> Mapping[str, ProgressRecord]:
        stored = resolve(body, self._field, None)
        records = stored.items() if isinstance(stored, Mapping) else ()
        found = {str(name): clean_record(record) for name, record in records}
        return {
            name: cast("ProgressRecord", record)
            for name, record in found.items()
            if record is not None
        }

    def rewrite(self, name: str, record: ProgressRecord, *, body: Body, patch: Patch) -> None:
        if name in self.find(body=body):
            ensure(patch, (*self._field, name), dict(record))

    def erase(self, *, body: Body, patch: Patch) -> None:
        for field in (self._field, self._touch_field):
            _purge(body, patch, field)

    def touch(self, *, body: Body, patch: Patch, value: str | None) -> None:
        if resolve(body, self._touch_field, None) != value:
            ensure(patch, self._touch_field, value)

    def clear(self, *, essence: BodyEssence) -> BodyEssence:
        remove(cast("dict[str, Any]", essence), self._field)
        return essence


class MultiProgressStorage(ProgressStorage):
    """Several storages at once: written to all, read from the first one that has the state.

    It is used for transition from one storage to another.
    """

    def __init__(self, storages: Collection[ProgressStorage]) -> None:
        super().__init__()
        self.storages = storages

    def fetch(self, *, key: HandlerId, body: Body) -> ProgressRecord | None:
        for storage in self.storages:
            record = storage.fetch(key=key, body=body)
            if record is not None:
                return record
        return None

    def store(self, *, key: HandlerId, record: ProgressRecord, body: Body, patch: Patch) -> None:
        for storage in self.storages:
            storage.store(key=key, record=record, body=body, patch=patch)

    def purge(self, *, key: HandlerId, body: Body, patch: Patch) -> None:
        for storage in self.storages:
            storage.purge(key=key, body=body, patch=patch)

    def sweep(self, *, body: Body, patch: Patch, purpose: str) -> None:
        for storage in self.storages:
            storage.sweep(body=body, patch=patch, purpose=purpose)

    def find(self, *, body: Body) -> Mapping[str, ProgressRecord]:
        found: dict[str, ProgressRecord] = {}
        for storage in self.storages:
            found = {**storage.find(body=body), **found}
        return found

    def rewrite(self, name: str, record: ProgressRecord, *, body: Body, patch: Patch) -> None:
        for storage in self.storages:
            storage.rewrite(name, record, body=body, patch=patch)

    def erase(self, *, body: Body, patch: Patch) -> None:
        for storage in self.storages:
            storage.erase(body=body, patch=patch)

    def touch(self, *, body: Body, patch: Patch, value: str | None) -> None:
        for storage in self.storages:
            storage.touch(body=body, patch=patch, value=value)

    def clear(self, *, essence: BodyEssence) -> BodyEssence:
        for storage in self.storages:
            essence = storage.clear(essence=essence)
        return essence

    def flush(self) -> None:
        for storage in self.storages:
            storage.flush()


class SmartProgressStorage(MultiProgressStorage):
    """The default storage: in annotations, but also read from the status if left there.

    The operators that kept their progress in the status (Kopf before 1.45) carry on
    from where they stopped. The status is not written to, except for the finished handlers.
    """

    def __init__(
        self,
        *,
        name: str = "kopf",
        field: FieldSpec = "status.{name}.progress",
        touch_key: str = "touch-dummy",
        touch_field: FieldSpec = "status.{name}.dummy",
        prefix: str = "kopf.zalando.org",
        v1: bool = True,
        verbose: bool = False,
    ) -> None:
        super().__init__(
            [
                AnnotationsProgressStorage(
                    prefix=prefix, v1=v1, verbose=verbose, touch_key=touch_key
                ),
                _LegacyStatusProgressStorage(name=name, field=field, touch_field=touch_field),
            ]
        )


class _LegacyStatusProgressStorage(StatusProgressStorage):
    """The storage that is only read from and purged, never written to."""

    def store(self, *, key: HandlerId, record: ProgressRecord, body: Body, patch: Patch) -> None:
        pass

    def touch(self, *, body: Body, patch: Patch, value: str | None) -> None:
        pass


def is_unused(storage: ProgressStorage, body: Body) -> bool:
    """Whether the object surely has no progress, which is so for most objects at most times.

    Storages of users can keep the progress anywhere, so they are never sure.
    """
    if type(storage) is SmartProgressStorage:
        return all(is_unused(one, body) for one in storage.storages)
    if type(storage) is AnnotationsProgressStorage:
        annotations = get_annotations(body)
        return not annotations or not any(_find_suspects(storage.prefix, annotations))
    if type(storage) is _LegacyStatusProgressStorage:
        return resolve(body, storage.field, None) is None
    return False


def _find_suspects(prefix: str, annotations: Mapping[str, str]) -> Iterator[str]:
    """The annotations that can be progress: not the last handled state, and not the marker."""
    own, state = f"{prefix}/", f"{prefix}/last-handled-configuration"
    for name, value in annotations.items():
        if name.startswith(own) and name != state and value != "yes":
            yield name


def keeps_progress_as_is(storage: ProgressStorage) -> bool:
    """Whether records are fetched as they were stored, if no client has changed the object.

    Storages of users can do anything: cut the records, keep them elsewhere, change them there.
    """
    return type(storage) in (AnnotationsProgressStorage, SmartProgressStorage)


def parse_named_field(spec: FieldSpec, *, name: str) -> FieldPath:
    """Parse the field in a string with the placeholder for the operator's name."""
    path = parse_field(spec.format(name=name) if isinstance(spec, str) else spec)
    if not path:
        raise ValueError("The storages in fields must have a field, not the whole object.")
    return path


def _purge(body: Body, patch: Patch, path: FieldPath) -> None:
    absent = object()
    if resolve(body, path, absent) is not absent:
        ensure(patch, path, None)
    elif resolve(patch, path, absent) is not absent:
        remove(patch, path)
