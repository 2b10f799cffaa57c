"""JSON in its one canonical form: compact, keys sorted, as an API server stores custom objects.

``orjson`` is used when it is installed: it is several times faster, and the output is the same.
"""

from __future__ import annotations

import json
from typing import Any

try:
    import orjson
except ImportError:  # pragma: no cover  (PyPy, free-threaded builds, minimal installations)

    def dumps(value: Any) -> bytes:
        return json.dumps(
            value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
        ).encode()

    def loads(data: bytes | str) -> Any:
        return json.loads(data)

else:

    def dumps(value: Any) -> bytes:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)

    def loads(data: bytes | str) -> Any:
        return orjson.loads(data)


def clone(value: Any) -> Any:
    """A deep copy of plain JSON data; several times faster than `copy.deepcopy`."""
    if isinstance(value, dict):
        return {key: clone(item) for key, item in value.items()}
    if isinstance(value, list):
        return [clone(item) for item in value]
    return value
