"""JSON parsing and serialisation: with orjson if it is installed, with the same results if not.

``orjson`` is several times faster, but stricter than the standard library. The standard library
tries the documents that ``orjson`` refuses, so the outcome does not depend on what is installed.
(Integers over 64 bits are the exception: orjson reads them as floats. Kubernetes API servers do so
too, and never send them.)
"""

import copy
import json
import math
import re
from collections.abc import Mapping
from typing import Any

try:
    import orjson
except ImportError:  # pragma: no cover
    orjson = None  # type: ignore[assignment]

MAX_DEPTH = 256
"""How many levels of lists and objects can be in each other: more than anyone needs.

The limit is not for parsing. To compare, copy, or print a document takes several frames of the
stack for each level, and users' functions need some frames above that.
"""

SMALL = 2 * MAX_DEPTH
"""In bytes: smaller documents cannot be nested too deep, as each level takes two bytes."""

BIG = 32 * 1024
"""In bytes: objects of Kubernetes are usually smaller, and lists of them are bigger."""

_NOT_BRACKETS = bytes(set(range(256)) - set(b'{}[]"'))
_ALIKE = bytes.maketrans(b"[]", b"{}")
_STRINGS = re.compile(rb'"[^"]*"')

_NOT_YAML = re.compile(rb"\x7f|\xc2[\x80-\x9f]|\xe2\x80[\xa8\xa9]|\xef\xbb\xbf|\xef\xbf[\xbe\xbf]")
"""In UTF-8: the control characters, the line breaks, and others that YAML treats differently."""


_HARMLESS = frozenset({str, int, bool, type(None)})
_ABSENT: Any = object()


class TooDeepError(ValueError):
    """The document is nested deeper than :const:`MAX_DEPTH`."""


def loads(data: bytes | str) -> Any:
    """Parse a document, preferably from bytes.

    Raises :class:`TooDeepError` for "depth bombs": they exhaust the stack later,
    if not here. Raises :class:`ValueError` if this is not JSON or not UTF-8.
    """
    raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    obj: Any = _ABSENT
    if orjson is not None:
        try:
            obj = orjson.loads(raw)
        except ValueError:
            pass  # incl. too deep documents
    if (
        len(raw) > SMALL
        and _has_many_brackets(raw)
        and not _is_surely_shallow(obj)
        and _is_deep(raw)
    ):
        raise TooDeepError(f"JSON is nested deeper than {MAX_DEPTH} levels.")
    return _loads_slowly(raw) if obj is _ABSENT else obj


def _loads_slowly(raw: bytes) -> Any:
    try:
        return json.loads(raw.decode("utf-8", "surrogatepass"))
    except RecursionError:
        raise TooDeepError("JSON is nested too deep.") from None


def _has_many_brackets(raw: bytes) -> bool:
    """Whether the document has enough brackets to be too deep.

    Big documents usually have many brackets: it is not worth the time to count them.
    """
    if len(raw) > BIG:
        return True
    # It is as ``count()``, but by leaps: this is done for each event.
    left = len(raw.replace(b"{", b"")) + len(raw.replace(b"[", b""))
    return 2 * len(raw) - left > MAX_DEPTH


def _is_surely_shallow(obj: Any) -> bool:
    """Whether orjson can serialise it back: orjson refuses objects deeper than 254 levels.

    For big lists, this is several times faster than looking for the brackets.
    """
    if obj is _ABSENT or not _REFUSES_DEPTH:
        return False
    try:
        orjson.dumps(obj)
    except (TypeError, ValueError):
        return False
    return True


def _is_deep(raw: bytes) -> bool:
    """Whether the brackets are nested deeper than allowed. All loops are in C."""
    unescaped = raw.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in raw else raw
    # Most strings have no brackets in them, and vanish at once; others are cut out more slowly.
    brackets = unescaped.translate(_ALIKE, _NOT_BRACKETS).replace(b'""', b"")
    if b'"' in brackets:
        brackets = _STRINGS.sub(b"", brackets).replace(b'"', b"")
    for _ in range(MAX_DEPTH):  # the innermost pairs go first, so each round is one level less
        if not brackets:
            return False
        size = len(brackets)
        brackets = brackets.replace(b"{}", b"")
        if len(brackets) == size:
            return False  # it is not JSON at all: let the parser say that
    return bool(brackets)


def dumps(obj: Any, *, sort_keys: bool = False) -> bytes:
    """Serialise to compact JSON in UTF-8. Mappings of all kinds are accepted.

    With the keys sorted, the same content is the same text, in any original order of keys.

    Raises :class:`TypeError` or :class:`ValueError` for values that JSON lacks: sets, bytes,
    dates, NaNs, circular structures, too deep structures.
    """
    data = _dumps_quickly(obj, sort_keys)
    return _dumps_slowly(obj, sort_keys) if data is None else data


def as_yaml(data: bytes) -> bytes:
    """Make the serialised JSON mean the same when it is parsed as YAML.

    Nearly all JSON is YAML; but YAML refuses some characters, and takes others for line breaks.
    """
    return _NOT_YAML.sub(_escape, data)


def _escape(found: re.Match[bytes]) -> bytes:
    return b"\\u%04x" % ord(found.group().decode())


def clone(obj: Any) -> Any:
    """A copy that shares nothing with the original, much faster than ``copy.deepcopy()``.

    It is fast for values that have come from JSON; all other values are copied slowly.
    """
    try:
        return dumps_and_loads(obj)[1]
    except (TypeError, ValueError):
        return copy.deepcopy(obj)


def dumps_and_loads(obj: Any, *, sort_keys: bool = False) -> tuple[bytes, Any]:
    """Serialise the object, and parse it back: into dictionaries, lists, and scalars only.

    Raises the same errors as :func:`dumps` and :func:`loads` do.
    """
    data = _dumps_quickly(obj, sort_keys)
    if data is not None and _REFUSES_DEPTH:  # orjson has refused too deep objects
        return data, orjson.loads(data)
    data = _dumps_slowly(obj, sort_keys) if data is None else data
    return data, loads(data)


def _dumps_quickly(obj: Any, sort_keys: bool) -> bytes | None:
    if orjson is None:
        return None
    try:
        data = orjson.dumps(obj, _default, _ORJSON_SORTED if sort_keys else _ORJSON_OPTIONS)
    except TypeError:
        return None  # incl. orjson's own errors; the standard library tells the details
    # Orjson turns NaNs to nulls, and nulls delete fields when used in patches.
    if b"null" in data and _has_nans(obj):
        return None
    # The data takes several times more memory than it needs, and requests can wait for long.
    return bytes(memoryview(data))


def _dumps_slowly(obj: Any, sort_keys: bool) -> bytes:
    options: dict[str, Any] = {
        "separators": (",", ":"),
        "allow_nan": False,
        "default": _default,
        "sort_keys": sort_keys,
    }
    try:
        return json.dumps(obj, ensure_ascii=False, **options).encode("utf-8")
    except UnicodeEncodeError:  # lone surrogates: only the escaped form can express them
        return json.dumps(obj, **options).encode("ascii")
    except RecursionError:
        raise ValueError("The structure is nested too deep for JSON.") from None


def _default(obj: Any) -> Any:
    if isinstance(obj, Mapping):
        return dict(obj)
    raise TypeError(f"Object of type {type(obj).__name__} is not JSON serializable")


def _has_nans(obj: Any) -> bool:
    if type(obj) in _HARMLESS:  # most of the values
        return False
    if isinstance(obj, float):
        return not math.isfinite(obj)
    if isinstance(obj, Mapping):
        return any(_has_nans(value) for value in obj.values())
    if isinstance(obj, list | tuple):
        return any(_has_nans(value) for value in obj)
    return False


# Dates and dataclasses are beyond JSON; orjson guesses the formats, the standard library refuses.
_ORJSON_OPTIONS = (
    0 if orjson is None else orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME
)
_ORJSON_SORTED = 0 if orjson is None else _ORJSON_OPTIONS | orjson.OPT_SORT_KEYS


def _refuses_depth() -> bool:
    """Whether this version of orjson has the limit of depth that this module relies on."""
    if orjson is None:
        return False
    deep: list[Any] = []
    for _ in range(MAX_DEPTH):
        deep = [deep]
    try:
        orjson.dumps(deep)
    except (TypeError, ValueError):
        return True
    return False


_REFUSES_DEPTH = _refuses_depth()
