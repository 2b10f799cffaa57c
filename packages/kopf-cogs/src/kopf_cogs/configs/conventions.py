"""Naming and cleaning conventions shared by the storages."""

import base64
import hashlib
import re
import warnings
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from kopf_cogs.structs.bodies import Body, BodyEssence
from kopf_cogs.structs.patches import Patch

_MAX_NAME: Final = 63
_MAX_PREFIX: Final = 253 - len("/") - _MAX_NAME
_MARKER: Final = "kopf-managed"
_MAX_CACHED: Final = 1000

# The prefixes that belong to Kopf-based operators even with no marker annotations.
_UNMARKED_PREFIXES: Final = frozenset({"kopf.zalando.org", "kopf.dev"})
_KOPF_DOMAIN: Final = "kopf.zalando.org"

# The part after the slash in names of annotations, as verified by Kubernetes.
_VALID_NAME: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_INVALID_CHARS: Final = re.compile(r"[^-A-Za-z0-9_.]")


class CollisionEvadingConvention:
    """A workaround for annotations which Kubernetes itself copies to other objects.

    Annotations of Deployments are copied to their ReplicaSets. If handlers of both
    have the same ids, then Kopf would take the progress of one for the other's.
    """

    def mark_key(self, key: str, *, body: Body) -> str:
        """Add a suffix to the keys on the objects that inherit annotations of their owners."""
        if body.get("kind") != "ReplicaSet":
            return key
        owners = body.metadata.get("ownerReferences")
        kinds = {owner.get("kind") for owner in owners or () if isinstance(owner, Mapping)}
        return f"{key}-ofDRS" if "Deployment" in kinds else key


class StorageKeyFormingConvention(CollisionEvadingConvention):
    """Names of annotations made of handlers' ids or other keys.

    Kubernetes limits the name to 63 characters, not counting the prefix. Longer names are cut
    and get a hash of the whole. There are two schemes, both are written and read by default:

    * V2 limits the name without the prefix, as Kubernetes does.
    * V1 limits the name with the prefix; it was used in Kopf before 1.29.

    ``/`` becomes ``.``. Where the name is still not acceptable for Kubernetes (e.g. has spaces,
    begins with a dot), these characters are replaced, and the hash keeps the names unique.
    """

    prefix: str
    v1: bool

    def __init__(self, *args: Any, prefix: str, v1: bool, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not prefix:
            raise ValueError("The storages in annotations must have a prefix of their own.")
        if len(prefix) > _MAX_PREFIX:
            warnings.warn(
                f"The annotations prefix is too long: {len(prefix)} characters, of which "
                f"{_MAX_PREFIX} are allowed. The API can refuse such annotations.",
                stacklevel=3,
            )
        self.prefix = prefix
        self.v1 = v1
        self._known_keys: dict[str, list[str]] = {}

    def make_keys(self, key: str, *, body: Body | None = None) -> Iterable[str]:
        """Make full names of annotations: all are written; on reading, the first found wins."""
        marked = key if body is None else self.mark_key(key, body=body)
        names = self._known_keys.get(marked)
        if names is None:
            if len(self._known_keys) >= _MAX_CACHED:
                self._known_keys.clear()
            names = self._known_keys[marked] = self._make_names(marked)
        return names

    def make_v1_key(self, key: str, max_length: int = _MAX_NAME) -> str:
        """Make the name by the old scheme: together with the prefix within the limit."""
        safe_key = self.make_safe_key(key)
        room = max_length - len(self.prefix) - 1
        if len(safe_key) > room:
            suffix = self.make_suffix(safe_key)
            safe_key = f"{safe_key[: room - len(suffix)]}{suffix}"
        return f"{self.prefix}/{safe_key}"

    def make_v2_key(self, key: str, max_length: int = _MAX_NAME) -> str:
        """Make the name by the new scheme: within the limit without the prefix."""
        safe_key = self.make_safe_key(key)
        if len(safe_key) > max_length:
            suffix = self.make_suffix(key)
            safe_key = f"{safe_key[: max_length - len(suffix)]}{suffix}"
        return f"{self.prefix}/{safe_key}"

    @staticmethod
    def make_safe_key(key: str) -> str:
        """Replace the characters that are usual for the handlers' ids but not for Kubernetes."""
        return key.replace("/", ".").replace("<", "_").replace(">", "_")

    def make_suffix(self, key: str) -> str:
        """Make a short hash of the key; it is safe for names and ends with a letter."""
        digest = hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=4).digest()
        return "-" + base64.b64encode(digest, altchars=b"-.").decode("ascii").rstrip("=")

    def _make_names(self, key: str) -> list[str]:
        names = (
            [self.make_v2_key(key), self.make_v1_key(key)] if self.v1 else [self.make_v2_key(key)]
        )
        valid = [name for name in names if self._is_valid(name)]
        if names[0] not in valid:
            return [self._make_replacement(key)]
        return list(dict.fromkeys(valid))

    def _is_valid(self, full_name: str) -> bool:
        name = full_name.removeprefix(f"{self.prefix}/")
        return len(name) <= _MAX_NAME and _VALID_NAME.fullmatch(name) is not None

    def _make_replacement(self, key: str) -> str:
        suffix = self.make_suffix(key)
        name = _INVALID_CHARS.sub("_", self.make_safe_key(key)).strip("-_.") or "id"
        return f"{self.prefix}/{name[: _MAX_NAME - len(suffix)]}{suffix}"


class StorageKeyMarkingConvention:
    """Marker annotations, by which operators recognise the annotations of each other.

    The annotations of all Kopf-based operators must be excluded from the essence of the object.
    Otherwise, the operators would endlessly react to the changes of each other's states.
    """

    def _detect_marked_prefixes(self, keys: Iterable[str]) -> Collection[str]:
        """Get the prefixes which are used by other operators on this object."""
        return _detect_marked_prefixes(keys)

    def _store_marker(self, prefix: str, patch: Patch, body: Body) -> None:
        """Mark the prefix as used by an operator unless it is already marked or well-known."""
        marker = f"{prefix}/{_MARKER}"
        if prefix not in _UNMARKED_PREFIXES and marker not in body.metadata.annotations:
            patch.metadata.annotations[marker] = "yes"

    def _purge_marker(self, prefix: str, patch: Patch, body: Body) -> None:
        """Remove the mark of the prefix when the patch leaves nothing else with this prefix."""
        marker = f"{prefix}/{_MARKER}"
        annotations = body.metadata.annotations
        removed = {key for key, value in patch.metadata.annotations.items() if value is None}
        own = {key for key in annotations if key.startswith(f"{prefix}/")}
        if marker in annotations and own - removed == {marker}:
            patch.metadata.annotations[marker] = None


class StorageStanzaCleaner:
    """Removal of fields that are not essential."""

    @staticmethod
    def remove_annotations(essence: BodyEssence, keys_to_remove: Collection[str]) -> None:
        """Remove the listed annotations in place."""
        metadata = essence.get("metadata") or {}
        annotations = metadata.get("annotations") or {}
        for key in keys_to_remove:
            annotations.pop(key, None)

    @staticmethod
    def remove_empty_stanzas(essence: BodyEssence) -> None:
        """Remove the empty metadata and status in place; all other stanzas can be empty."""
        stanzas: Any = essence
        metadata = stanzas.get("metadata")
        if isinstance(metadata, dict):
            for key in ("annotations", "labels"):
                if key in metadata and not metadata[key]:
                    del metadata[key]
        for key in ("metadata", "status"):
            if key in stanzas and not stanzas[key]:
                del stanzas[key]


def is_kopf_prefix(prefix: str) -> bool:
    """Check if the annotations with this prefix belong to Kopf-based operators, even unmarked."""
    return prefix.endswith(_KOPF_DOMAIN) and f".{prefix}".endswith(f".{_KOPF_DOMAIN}")


def select_marks(annotations: Mapping[str, str]) -> dict[str, str]:
    """The annotations in which Kopf-based operators keep their data."""
    known = {*_UNMARKED_PREFIXES, *_detect_marked_prefixes(annotations)}
    pairs = [(key, key.partition("/")[0]) for key in annotations if "/" in key]
    return {key: annotations[key] for key, pre in pairs if pre in known or is_kopf_prefix(pre)}


def _detect_marked_prefixes(keys: Iterable[str]) -> Collection[str]:
    markers = [key for key in keys if key.endswith(_MARKER)]
    pairs = [key.partition("/") for key in markers]
    return {prefix for prefix, _, name in pairs if name == _MARKER}
