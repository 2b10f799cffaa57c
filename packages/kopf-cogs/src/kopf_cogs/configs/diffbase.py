"""Storages of the last handled state of objects, from which changes are detected."""

import abc
import hashlib
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, cast

from kopf_cogs.configs.conventions import (
    StorageKeyFormingConvention,
    StorageKeyMarkingConvention,
    StorageStanzaCleaner,
    is_kopf_prefix,
)
from kopf_cogs.configs.healing import Place, decode_json, encode_json
from kopf_cogs.configs.packing import (
    COMPRESSED,
    DIGESTS,
    Digests,
    compress,
    decompress,
)
from kopf_cogs.configs.progress import parse_named_field
from kopf_cogs.structs.bodies import ANNOTATIONS, Body, BodyEssence, get_annotations
from kopf_cogs.structs.dicts import (
    FieldPath,
    FieldSpec,
    ensure,
    is_mapping,
    json_copy,
    parse_field,
    remove,
    resolve,
)
from kopf_cogs.structs.patches import Patch

_SYSTEM_STANZAS: Final = frozenset({"apiVersion", "kind", "metadata", "status"})
_SYSTEM_METADATA: Final = frozenset({"uid", "name", "namespace", "ownerReferences"})
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_SEEN_STATES: Final = "seen-states"

LARGE: Final = 240 * 1024
"""In bytes: the states beyond that do not fit into annotations (256 KiB for all of them), or leave
no room for anything else. Earlier releases could not store them, so their form can be another one.
"""


class DiffBaseStorage(StorageKeyMarkingConvention, StorageStanzaCleaner, metaclass=abc.ABCMeta):
    """The base class for all storages of the essence, i.e. of the last handled state.

    The essence is what people change in the object intentionally: everything except for
    the status, system fields of the metadata, and annotations put by tools.
    ``ignored_fields`` are the fields whose changes are also not essential.
    """

    def __init__(self, ignored_fields: Iterable[FieldSpec] | None = None) -> None:
        super().__init__()
        self.ignored_fields = [parse_field(field) for field in ignored_fields or ()]

    def build(self, *, body: Body, extra_fields: Iterable[FieldSpec] | None = None) -> BodyEssence:
        """Take only the essential fields of the object.

        The extra fields are taken even if they are not essential: e.g., when there are
        handlers for a specific field in the status.

        The essence shares nothing with the body. Handlers sometimes modify the body, and
        the storage must keep the state from before the handlers started.
        """
        essence: Any = {k: json_copy(v) for k, v in body.items() if k not in _SYSTEM_STANZAS}
        metadata = self._build_metadata(body)
        if metadata:
            essence["metadata"] = metadata
        for field in extra_fields or ():
            self._restore(essence, body, parse_field(field))
        for path in self.ignored_fields:
            remove(essence, path)
        built: BodyEssence = essence
        return built

    @abc.abstractmethod
    def fetch(self, *, body: Body) -> BodyEssence | None:
        """Get the last handled state; ``None`` if never handled, or if the state is broken."""
        raise NotImplementedError

    @abc.abstractmethod
    def store(self, *, body: Body, patch: Patch, essence: BodyEssence) -> None:
        """Keep the essence as the last handled state."""
        raise NotImplementedError

    def fetch_seen(self, *, body: Body) -> str | None:
        """Get what the finished handlers have seen, while other handlers of the cycle go on.

        The text has no meaning for the storages. Any other value in its place is returned, too.
        The storages that do not keep it lose it only when the operator is restarted.
        """
        return None

    def store_seen(self, *, body: Body, patch: Patch, seen: str | None) -> None:
        """Keep what the finished handlers have seen; ``None`` forgets it."""

    def erase(self, *, body: Body, patch: Patch) -> None:
        """Forget everything that was ever stored on the object, as if it was never handled."""

    def _build_metadata(self, body: Body) -> dict[str, Any]:
        metadata: dict[str, Any] = {}
        source = body.get("metadata")
        labels = source.get("labels") if is_mapping(source) else None
        if labels:
            metadata["labels"] = dict(labels)
        annotations = get_annotations(body)
        if annotations:
            essential = self._build_annotations(annotations)
            if essential:
                metadata["annotations"] = essential
        return metadata

    def _build_annotations(self, annotations: Mapping[str, str]) -> dict[str, str]:
        marked = self._detect_marked_prefixes(annotations)
        essential = {}
        for key, val in annotations.items():
            prefix, slash, _ = key.partition("/")
            if slash and (prefix in marked or is_kopf_prefix(prefix) or key == _LAST_APPLIED):
                continue
            essential[key] = val
        return essential

    def _restore(self, essence: dict[str, Any], body: Body, path: FieldPath) -> None:
        absent = object()
        value = resolve(body, path, absent)
        if path and value is not absent and resolve(essence, path, absent) != value:
            ensure(essence, path, json_copy(value))


class AnnotationsDiffBaseStorage(StorageKeyFormingConvention, DiffBaseStorage):
    """The storage in an annotation, in JSON; the default one.

    States of more than ``compress_above`` bytes are compressed if this makes them smaller;
    ``None`` compresses nothing. The storage reads all forms with any options.
    """

    def __init__(
        self,
        *,
        prefix: str = "kopf.zalando.org",
        key: str = "last-handled-configuration",
        ignored_fields: Iterable[FieldSpec] | None = None,
        v1: bool = True,
        compress_above: int | None = LARGE,
    ) -> None:
        super().__init__(prefix=prefix, v1=v1, ignored_fields=ignored_fields)
        self.key = key
        self.compress_above = compress_above

    def build(self, *, body: Body, extra_fields: Iterable[FieldSpec] | None = None) -> BodyEssence:
        essence = super().build(body=body, extra_fields=extra_fields)
        # The base class has dropped Kopf's own annotations, except in the extra fields.
        if "metadata" in essence and (extra_fields or not is_kopf_prefix(self.prefix)):
            for key in (self.key, _SEEN_STATES):
                self.remove_annotations(essence, list(self.make_keys(key, body=body)))
        self.remove_empty_stanzas(essence)
        return essence

    def fetch(self, *, body: Body) -> BodyEssence | None:
        annotations = get_annotations(body)
        if not annotations:
            return None
        for full_key in self.make_keys(self.key, body=body):
            encoded = annotations.get(full_key)
            if encoded is not None:
                return _decode(encoded, ("annotation", full_key), body)
        return None

    def store(self, *, body: Body, patch: Patch, essence: BodyEssence) -> None:
        # The newline makes it nicer in YAML as printed by kubectl.
        encoded = self.encode(body, essence) + "\n"
        for full_key in self.make_keys(self.key, body=body):
            ensure(patch, (*ANNOTATIONS, full_key), encoded)
        self._store_marker(prefix=self.prefix, patch=patch, body=body)

    def encode(self, body: Body, essence: BodyEssence) -> str:
        """The text to be stored in the annotation."""
        encoded = encode_json(essence)
        if self.compress_above is None or len(encoded) <= self.compress_above:
            return encoded
        return compress(encoded) or encoded

    def fetch_seen(self, *, body: Body) -> str | None:
        annotations = get_annotations(body)
        for full_key in self.make_keys(_SEEN_STATES, body=body) if annotations else ():
            seen = annotations.get(full_key)
            if seen is not None:
                return seen
        return None

    def store_seen(self, *, body: Body, patch: Patch, seen: str | None) -> None:
        annotations = get_annotations(body)
        if seen is None and not annotations:
            return
        for full_key in self.make_keys(_SEEN_STATES, body=body):
            if annotations.get(full_key) != seen:
                ensure(patch, (*ANNOTATIONS, full_key), seen)

    def erase(self, *, body: Body, patch: Patch) -> None:
        for key in (self.key, _SEEN_STATES):
            for full_key in self.make_keys(key, body=body):
                if full_key in body.metadata.annotations:
                    ensure(patch, (*ANNOTATIONS, full_key), None)
        self._purge_marker(prefix=self.prefix, patch=patch, body=body)


class HashingDiffBaseStorage(AnnotationsDiffBaseStorage):
    """The storage in an annotation, where hashes are kept instead of values of some fields.

    It is for Secrets and alike: their data must not get into annotations, which are shown
    by ``kubectl describe``. The changes are detected as usual, but the handlers get the hashes
    in ``old``, ``new``, ``diff``, and only in the fields mentioned. All else has the values.

    The hashes are different for different objects. Still, short values can be guessed by trying.
    """

    def __init__(
        self,
        *,
        hashed_fields: Iterable[FieldSpec] = ("data", "stringData"),
        prefix: str = "kopf.zalando.org",
        key: str = "last-handled-configuration",
        ignored_fields: Iterable[FieldSpec] | None = None,
        v1: bool = True,
    ) -> None:
        super().__init__(prefix=prefix, key=key, ignored_fields=ignored_fields, v1=v1)
        self.hashed_fields = [parse_field(field) for field in hashed_fields]

    def build(self, *, body: Body, extra_fields: Iterable[FieldSpec] | None = None) -> BodyEssence:
        essence = super().build(body=body, extra_fields=extra_fields)
        stanzas = cast("dict[str, Any]", essence)
        salt = (body.metadata.uid or "").encode()[: hashlib.blake2b.MAX_KEY_SIZE]
        for path in self.hashed_fields:
            value = resolve(stanzas, path, None)
            if value is not None:
                ensure(stanzas, path, _hash_values(value, salt))
        return essence


class StatusDiffBaseStorage(DiffBaseStorage):
    """The storage in the status, or in any other field, as a string with JSON."""

    def __init__(
        self,
        *,
        name: str = "kopf",
        field: FieldSpec = "status.{name}.last-handled-configuration",
        ignored_fields: Iterable[FieldSpec] | None = None,
    ) -> None:
        super().__init__(ignored_fields=ignored_fields)
        self._name = name
        self.field = field

    @property
    def field(self) -> FieldPath:
        """Where the state is stored."""
        return self._field

    @field.setter
    def field(self, spec: FieldSpec) -> None:
        self._field = parse_named_field(spec, name=self._name)

    def build(self, *, body: Body, extra_fields: Iterable[FieldSpec] | None = None) -> BodyEssence:
        essence = super().build(body=body, extra_fields=extra_fields)
        remove(cast("dict[str, Any]", essence), self._field)
        remove(cast("dict[str, Any]", essence), self._seen_field)
        self.remove_empty_stanzas(essence)
        return essence

    def fetch(self, *, body: Body) -> BodyEssence | None:
        encoded = resolve(body, self._field, None)
        if encoded is None:
            return None
        return _decode(encoded, ("field", *self._field), body)

    def store(self, *, body: Body, patch: Patch, essence: BodyEssence) -> None:
        ensure(patch, self._field, encode_json(essence))

    @property
    def _seen_field(self) -> FieldPath:
        return (*self._field[:-1], _SEEN_STATES)

    def fetch_seen(self, *, body: Body) -> str | None:
        return cast("str | None", resolve(body, self._seen_field, None))

    def store_seen(self, *, body: Body, patch: Patch, seen: str | None) -> None:
        if resolve(body, self._seen_field, None) != seen:
            ensure(patch, self._seen_field, seen)

    def erase(self, *, body: Body, patch: Patch) -> None:
        for field in (self._field, self._seen_field):
            if resolve(body, field, None) is not None:
                ensure(patch, field, None)


class MultiDiffBaseStorage(DiffBaseStorage):
    """Several storages at once: written to all, read from the first one that has the state.

    It is used for transition from one storage to another.
    """

    def __init__(self, storages: Collection[DiffBaseStorage]) -> None:
        super().__init__()
        self.storages = storages

    def build(self, *, body: Body, extra_fields: Iterable[FieldSpec] | None = None) -> BodyEssence:
        essence = super().build(body=body, extra_fields=extra_fields)
        for storage in self.storages:
            remaining = Body(with_system_fields(essence, body))
            essence = storage.build(body=remaining, extra_fields=extra_fields)
        return essence

    def fetch(self, *, body: Body) -> BodyEssence | None:
        for storage in self.storages:
            essence = storage.fetch(body=body)
            if essence is not None:
                return essence
        return None

    def store(self, *, body: Body, patch: Patch, essence: BodyEssence) -> None:
        for storage in self.storages:
            storage.store(body=body, patch=patch, essence=essence)

    def fetch_seen(self, *, body: Body) -> str | None:
        found = (storage.fetch_seen(body=body) for storage in self.storages)
        return next((seen for seen in found if seen is not None), None)

    def store_seen(self, *, body: Body, patch: Patch, seen: str | None) -> None:
        for storage in self.storages:
            storage.store_seen(body=body, patch=patch, seen=seen)

    def erase(self, *, body: Body, patch: Patch) -> None:
        for storage in self.storages:
            storage.erase(body=body, patch=patch)


def keeps_essence_as_is(storage: DiffBaseStorage) -> bool:
    """Whether the essence is always the same for the same object, and is JSON, nothing more.

    Storages of users can do anything: e.g. look at the time, or at other objects.
    """
    return type(storage) is AnnotationsDiffBaseStorage


def with_system_fields(part: Mapping[str, Any], body: Body) -> dict[str, Any]:
    """Make a part of the body look like a body of its kind: some storages depend on the kind."""
    known = body.get("metadata") or {}
    metadata: Mapping[str, Any] = {
        **{key: known[key] for key in _SYSTEM_METADATA if key in known},
        **part.get("metadata", {}),
    }
    system = {key: body[key] for key in ("apiVersion", "kind") if key in body}
    return {**system, **part, "metadata": metadata}


def _decode(encoded: object, where: Place, body: Body) -> BodyEssence | None:
    """Read the state in any of its forms."""
    decoded = decode_json(encoded, where, body)
    if decoded is not None and len(decoded) == 1:
        if COMPRESSED in decoded:
            return _decode(decompress(decoded), where, body)
        if isinstance(decoded.get(DIGESTS), list):
            return cast("BodyEssence", Digests(body, decoded[DIGESTS]))
    return cast("BodyEssence | None", decoded)


def _hash_values(value: Any, salt: bytes) -> Any:
    if isinstance(value, Mapping):
        return {key: _hash_values(val, salt) for key, val in value.items()}
    digest = hashlib.blake2b(encode_json(value).encode(), key=salt, digest_size=16)
    return f"blake2b:{digest.hexdigest()}"
