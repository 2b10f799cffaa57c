"""Smaller forms of the last handled state: digests of its parts, and compressed JSON.

Both are dictionaries in JSON, as the usual form is. So, another version of
Kopf reads a state that differs from the object: at worst, it calls the handlers of updates again.
"""

import base64
import binascii
import hashlib
import json
import zlib
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final, cast

from kopf_cogs.configs.healing import encode_json
from kopf_cogs.structs.bodies import Body, BodyEssence
from kopf_cogs.structs.dicts import FieldPath, ensure, json_copy, remove, resolve

DIGESTS: Final = "kopf.zalando.org/digests"
COMPRESSED: Final = "kopf.zalando.org/zlib"

MAX_UNPACKED: Final = 16 * 1024 * 1024
"""In bytes: nothing that Kubernetes stores is larger. It protects from bombs."""

_PREFIX: Final = "blake2b:"
_SIZE: Final = 12  # in bytes: a few collisions in 2**48 states of one object


class Digests(dict[str, Any]):
    """A last handled state of which only the digests are known."""

    def __init__(self, body: Body, items: Collection[Any]) -> None:
        super().__init__({DIGESTS: items})
        self._salt = _salt(body)
        self._items = sorted(_parse_items(items), key=lambda item: len(item[0]))

    def reveal(self, new: Mapping[str, Any]) -> BodyEssence:
        """The earlier state: unchanged fields have their current values, changed ones are digests.

        A field with its own digest is compared separately from its parent.
        """
        old: dict[str, Any] = {}
        known: set[FieldPath] = set()
        for path, stored in self._items:
            if any(path[:depth] in known for depth in range(len(path))):
                continue
            current = resolve(new, path, None)
            if _digest(current, self._salt) == stored:
                known.add(path)
                if current is not None:
                    ensure(old, path, json_copy(current))
                else:
                    remove(old, path)
            elif stored is not None:
                has_parts = any(
                    len(p) > len(path) and p[: len(path)] == path for p, _ in self._items
                )
                ensure(old, path, {DIGESTS: stored} if has_parts else f"{_PREFIX}{stored}")
        return cast("BodyEssence", old)


def make_digests(body: Body, essence: BodyEssence, fields: Collection[FieldPath]) -> dict[str, Any]:
    """Summarise the state: each stanza, and each of these fields."""
    salt = _salt(body)
    paths = {*_list_stanzas(essence), *fields}
    items = [[list(p), _digest(resolve(essence, p, None), salt)] for p in sorted(paths)]
    return {DIGESTS: items}


def compress(encoded: str) -> str | None:
    """Compress the text in JSON; ``None`` if it would not be smaller."""
    packed = base64.b64encode(zlib.compress(encoded.encode(), 6)).decode("ascii")
    text = encode_json({COMPRESSED: packed})
    return text if len(text) < len(encoded) else None


def decompress(decoded: Mapping[str, Any]) -> str | None:
    """The text that was compressed; ``None`` if there is none, empty if it is broken."""
    packed = decoded.get(COMPRESSED)
    if not isinstance(packed, str):
        return None
    try:
        unzip = zlib.decompressobj()
        text = unzip.decompress(base64.b64decode(packed, validate=True), MAX_UNPACKED)
        return text.decode() if unzip.eof else ""
    except (binascii.Error, zlib.error, UnicodeDecodeError):
        return ""


def _list_stanzas(essence: BodyEssence) -> Iterator[FieldPath]:
    for name, value in cast("Mapping[str, Any]", essence).items():
        if name == "metadata" and isinstance(value, Mapping):
            yield from ((name, key) for key in value)
        elif name != "status":  # only the fields with handlers are there
            yield (name,)


def _parse_items(items: Collection[Any]) -> Iterator[tuple[FieldPath, str | None]]:
    for item in items:
        match item:
            case [[*path], None | str() as stored] if path and all(
                isinstance(k, str) for k in path
            ):
                yield tuple(path), stored


def _digest(value: Any, salt: bytes) -> str | None:
    if value is None:
        return None
    encoded = json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
    return hashlib.blake2b(encoded, key=salt, digest_size=_SIZE).hexdigest()


def _salt(body: Body) -> bytes:
    """The digests are different for different objects, so that equal secrets are not seen."""
    return (body.metadata.uid or "").encode()[: hashlib.blake2b.MAX_KEY_SIZE]
