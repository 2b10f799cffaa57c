"""Reading of stored data, which people could edit or cut, or other versions could write."""

import datetime
import functools
import json
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from kopf_cogs.structs.bodies import Body
from kopf_cogs.structs.dicts import is_mapping

# Parsing is on the hot path: for every event. The faster parser is used if installed.
_loads: Callable[[str], Any]
_dumps: Callable[[Any], bytes] | None
try:
    import orjson
except ImportError:
    _loads, _dumps = json.loads, None
else:
    _loads = orjson.loads
    _dumps = functools.partial(
        orjson.dumps, option=orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME
    )

Place: TypeAlias = tuple[str, ...]
"""The kind of a place and its path, for the logs: e.g. ``("field", "status", "kopf")``."""

_encode: Final = json.JSONEncoder(separators=(",", ":")).encode

_DIGITS_TO_ZEROS: Final = bytes.maketrans(b"123456789", b"000000000")

logger = logging.getLogger(__name__)


def encode_json(value: Any) -> str:
    """Encode compactly, with the non-ASCII characters escaped.

    The result does not depend on the installed libraries: people and tools compare it.
    """
    if _dumps is not None:
        try:
            encoded = _dumps(value)
        except TypeError:
            pass  # the standard library accepts more, and explains better
        else:
            if encoded.isascii():
                text = encoded.decode("ascii")
                if _is_undisputed(text) and not _has_exponents(encoded):
                    return text
    return _encode(value)


def _is_undisputed(text: str) -> bool:
    """Whether all encoders write the same: no NaNs (as nulls), no tiny numbers, no escapes."""
    return "\x7f" not in text and "null" not in text and "0.0000" not in text


def _has_exponents(encoded: bytes) -> bool:
    """Whether there can be exponents; translations are quicker in bytes, searches in strings."""
    return encoded.translate(_DIGITS_TO_ZEROS).find(b"0e") >= 0


def decode_json(encoded: object, where: Place, body: Body) -> dict[str, Any] | None:
    """Decode a JSON dictionary; if it is none, log a warning and return nothing.

    The content is never logged: it can contain secrets.
    """
    if not isinstance(encoded, str):
        _warn(where, body, "not a string")
        return None
    try:
        decoded = _loads(encoded)
    except ValueError:
        _warn(where, body, "not a valid JSON")
    except RecursionError:
        _warn(where, body, "too deeply nested")
    else:
        if isinstance(decoded, dict):
            return decoded
        if decoded is not None:
            _warn(where, body, "not a JSON object")
    return None


def heal_record(record: object, where: Place, body: Body) -> dict[str, Any] | None:
    """Drop the values of wrong types from a record of progress, with one warning for all.

    The timestamps stay as they are written. If nothing remains, there is no record.
    """
    if record is None:
        return None
    if not is_mapping(record):
        _warn(where, body, "not an object")
        return None
    wrong = {
        key
        for key, val in record.items()
        if val is not None
        and type(val) is not _TYPES.get(key)
        and key in _CHECKS
        and not _CHECKS[key](val)
    }
    if not wrong:
        return dict(record)
    _warn(where, body, f"wrong values of: {', '.join(sorted(wrong))}")
    return {key: val for key, val in record.items() if key not in wrong} or None


def parse_record(encoded: object) -> dict[str, Any] | None:
    """The record of progress if it looks like one; ``None`` for anything else, with no warnings."""
    try:
        return clean_record(_loads(encoded)) if isinstance(encoded, str) else None
    except (ValueError, RecursionError):
        return None


def clean_record(record: object) -> dict[str, Any] | None:
    """The valid values of a record of progress, if it looks like one; with no warnings."""
    if not isinstance(record, Mapping) or "started" not in record:
        return None
    return {key: val for key, val in record.items() if key in _CHECKS and _CHECKS[key](val)}


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_flag(value: object) -> bool:
    return isinstance(value, bool)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_list(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _is_time(value: object) -> bool:
    try:
        return isinstance(value, str) and datetime.datetime.fromisoformat(value) is not None
    except ValueError:
        return False


_CHECKS: Final[Mapping[str, Callable[[object], bool]]] = {
    "started": _is_time,
    "stopped": _is_time,
    "delayed": _is_time,
    "purpose": _is_text,
    "retries": _is_count,
    "success": _is_flag,
    "failure": _is_flag,
    "message": _is_text,
    "subrefs": _is_list,
    "seen": _is_text,
}


_TYPES: Final[Mapping[str, type]] = {
    "purpose": str,
    "message": str,
    "success": bool,
    "failure": bool,
}
"""The usual types of values: a value of its usual type needs no other checks."""


def _warn(where: Place, body: Body, reason: str) -> None:
    meta = body.metadata
    name = f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name
    what, *path = where
    place = f"{what} {'.'.join(path)!r}" if path else what
    logger.warning("Ignoring the corrupted %s of %s %s: %s.", place, body.get("kind"), name, reason)
