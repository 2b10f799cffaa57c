"""JSON in its one canonical form: compact, keys sorted, as an API server stores custom objects.

``orjson`` is used when it is installed: it is several times faster, and the output is the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
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


_ATOMS = frozenset({str, int, bool, type(None)})
"""The types of most of the values: they are neither copied nor replaced."""


def clone(value: Any) -> Any:
    """A deep copy of plain JSON data; several times faster than `copy.deepcopy`."""
    if isinstance(value, dict):
        return {
            key: item if item.__class__ in _ATOMS else clone(item) for key, item in value.items()
        }
    if isinstance(value, list):
        return [clone(item) for item in value]
    return value


LARGEST = 2**53 - 1
"""The largest fraction that is taken for an integer."""


def make_whole(value: Any) -> Any:
    """The data with integers in place of whole fractions, as API servers write and read them.

    A part with nothing to replace stays the same object.
    """
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) <= LARGEST else value
    if isinstance(value, dict):
        new = {
            name: made
            for name, item in value.items()
            if item.__class__ not in _ATOMS and (made := make_whole(item)) is not item
        }
        return {**value, **new} if new else value
    if isinstance(value, list):
        items = [make_whole(item) for item in value]
        return items if any(a is not b for a, b in zip(items, value, strict=True)) else value
    return value


class _Repeating(dict[str, Any]):
    """An object with repeated fields."""

    repeated: tuple[str, ...] = ()


def find_duplicates(data: bytes) -> list[str]:
    """The paths of the fields that are repeated in the same object."""
    found = False

    def collect(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal found
        result = _Repeating(pairs)
        if len(result) != len(pairs):
            found = True
            names = [name for name, _ in pairs]
            result.repeated = tuple(sorted({name for name in names if names.count(name) > 1}))
        return result

    value = json.loads(data, object_pairs_hook=collect)
    return list(_list_duplicates(value, "")) if found else []


def _list_duplicates(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, _Repeating):
        prefix = f"{path}." if path else ""
        yield from (f"{prefix}{name}" for name in value.repeated)
        for name, item in value.items():
            yield from _list_duplicates(item, f"{prefix}{name}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _list_duplicates(item, f"{path}[{index}]")
