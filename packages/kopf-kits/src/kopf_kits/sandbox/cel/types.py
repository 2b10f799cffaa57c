"""Types of values in expressions: ``type(self) == string``; and the parts of times."""

from __future__ import annotations

import datetime
import zoneinfo
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kopf_kits.sandbox.base.remarks import Unsupported


@dataclass(frozen=True, slots=True)
class Type:
    """The type of a value, as expressions name it."""

    name: str


TYPES = {
    name: Type(name)
    for name in ("bool", "int", "double", "string", "list", "map", "null_type", "bytes")
}
_NAMES: dict[type, str] = {
    bool: "bool", int: "int", float: "double", str: "string", list: "list", dict: "map",
    type(None): "null_type", bytes: "bytes",
}  # fmt: skip


def get_type(value: Any) -> Type:
    """The type of the value; raises `Unsupported` for values that are not of JSON."""
    name = _NAMES.get(type(value))
    if name is None:
        raise Unsupported(f"type() of a {type(value).__name__}")
    return TYPES[name]


def _part(
    of_time: Callable[[datetime.datetime], int], of_duration: float | None = None
) -> Callable[..., int]:
    def get(value: Any, zone: str = "UTC") -> int:
        if isinstance(value, datetime.timedelta):
            if of_duration is None:
                raise TypeError("durations have no dates")
            return int(value.total_seconds() / of_duration)
        return of_time(value.astimezone(zoneinfo.ZoneInfo(zone)))

    return get


METHODS: dict[str, Callable[..., Any]] = {
    "getFullYear": _part(lambda time: time.year),
    "getMonth": _part(lambda time: time.month - 1),
    "getDate": _part(lambda time: time.day),
    "getDayOfMonth": _part(lambda time: time.day - 1),
    "getDayOfWeek": _part(lambda time: time.isoweekday() % 7),
    "getDayOfYear": _part(lambda time: time.timetuple().tm_yday - 1),
    "getHours": _part(lambda time: time.hour, 3600),
    "getMinutes": _part(lambda time: time.minute, 60),
    "getSeconds": _part(lambda time: time.second, 1),
}
