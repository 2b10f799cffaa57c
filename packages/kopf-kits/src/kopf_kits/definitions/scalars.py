"""Types that are one value in JSON: texts, numbers, times, and alike."""

from __future__ import annotations

import datetime
import decimal
import enum
import ipaddress
import pathlib
import re
import uuid
from collections.abc import Iterable
from typing import Any, Final

from kopf_cogs.structs.quantities import (
    DURATION_PATTERN,
    QUANTITY_PATTERN,
    DurationMarker,
    Quantity,
)
from kopf_kits.definitions.limits import Schema
from kopf_kits.definitions.places import Place

INT_OR_STRING: Final[Schema] = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "x-kubernetes-int-or-string": True,
}
ISO_DURATION: Final = r"^[+-]?P([0-9]+W|([0-9]+D)?(T([0-9]+H)?([0-9]+M)?([0-9]+(\.[0-9]+)?S)?)?)$"
DECIMAL_PATTERN: Final = r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)$"

_TYPES: Final[dict[type, Schema]] = {
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    str: {"type": "string"},
    bytes: {"type": "string", "format": "byte"},
    datetime.datetime: {"type": "string", "format": "date-time"},
    datetime.date: {"type": "string", "format": "date"},
    datetime.time: {"type": "string"},
    datetime.timedelta: {"type": "string", "pattern": ISO_DURATION},
    decimal.Decimal: {**INT_OR_STRING, "pattern": DECIMAL_PATTERN},
    uuid.UUID: {"type": "string", "format": "uuid"},
    ipaddress.IPv4Address: {"type": "string", "format": "ipv4"},
    ipaddress.IPv6Address: {"type": "string", "format": "ipv6"},
    ipaddress.IPv4Network: {"type": "string", "format": "cidr"},
    ipaddress.IPv6Network: {"type": "string", "format": "cidr"},
    pathlib.PurePath: {"type": "string"},
    re.Pattern: {"type": "string"},
    Quantity: {**INT_OR_STRING, "pattern": QUANTITY_PATTERN},
}
_PYDANTIC: Final[dict[str, Schema]] = {
    "AnyUrl": {"type": "string", "format": "uri"},
    "_BaseUrl": {"type": "string", "format": "uri"},
    "_BaseMultiHostUrl": {"type": "string", "format": "uri"},
    "EmailStr": {"type": "string", "format": "email"},
    "NameEmail": {"type": "string", "format": "email"},
    "IPvAnyAddress": {"type": "string"},
    "IPvAnyNetwork": {"type": "string"},
    "SecretStr": {"type": "string", "format": "password"},
    "ByteSize": INT_OR_STRING,
    "AwareDatetime": {"type": "string", "format": "date-time"},
    "NaiveDatetime": {"type": "string", "format": "date-time"},
    "PastDatetime": {"type": "string", "format": "date-time"},
    "FutureDatetime": {"type": "string", "format": "date-time"},
    "PastDate": {"type": "string", "format": "date"},
    "FutureDate": {"type": "string", "format": "date"},
}


def make_scalar(type_: Any, markers: Iterable[Any], place: Place) -> Schema | None:
    """The schema of a type, or of its base type; ``None`` if the type is not that simple."""
    if not isinstance(type_, type):
        return None
    if issubclass(type_, enum.Enum):
        return make_enum(type_, place)
    if issubclass(type_, datetime.timedelta) and has_go_notation(markers, place):
        return {"type": "string", "format": "duration", "pattern": DURATION_PATTERN}
    if type_ is bytes and place.dialect.utf8:
        return {"type": "string"}
    for base in type_.__mro__:
        if base in _TYPES:
            return dict(_TYPES[base])
        if base.__module__.startswith("pydantic.") and base.__name__ in _PYDANTIC:
            return dict(_PYDANTIC[base.__name__])
    return None


def has_go_notation(markers: Iterable[Any], place: Place) -> bool:
    """Whether a duration is written as in Go: always, except in pydantic without a marker."""
    return not place.dialect.pydantic or any(
        isinstance(marker, DurationMarker) for marker in markers
    )


def make_enum(values: Iterable[Any], place: Place) -> Schema:
    """The schema of a few values, all of the same type, except ``null``."""
    plain = [value.value if isinstance(value, enum.Enum) else value for value in values]
    listed = list(dict.fromkeys(plain))
    types = {type(value) for value in listed if value is not None}
    schemas = {bool: "boolean", int: "integer", float: "number", str: "string"}
    schema: Schema
    if types == {int, str}:
        schema = dict(INT_OR_STRING)
    elif len(types) == 1 and next(iter(types)) in schemas:
        schema = {"type": schemas[next(iter(types))]}
    else:
        names = ", ".join(sorted(type_.__name__ for type_ in types)) or "nothing"
        raise place.error(f"the values of an enumeration must be of one type, not of {names}.")
    schema["enum"] = [value for value in listed if value is not None]
    return schema | ({"nullable": True} if None in listed else {})
