"""Formats of strings in schemas; those that are not known are accepted, as API servers do."""

from __future__ import annotations

import base64
import binascii
import datetime
import ipaddress
import re
import uuid
from collections.abc import Callable
from typing import Any

_DATE_TIME = re.compile(
    r"^\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(\.\d+)?([Zz]|[+-]\d{2}:\d{2})$", re.ASCII
)
_DURATION = re.compile(r"^[+-]?(0|(\d+(\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h))+$", re.ASCII)
_EMAIL = re.compile(r"^[^@\s]+@[^@\s]+$")
_HOSTNAME = re.compile(r"^[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?(\.[A-Za-z0-9-]+)*$", re.ASCII)


def _parses(parse: Callable[[str], Any]) -> Callable[[str], bool]:
    def check(value: str) -> bool:
        try:
            parse(value)
        except (ValueError, binascii.Error):
            return False
        return True

    return check


def _is_date_time(value: str) -> bool:
    return bool(_DATE_TIME.match(value)) and _parses(datetime.date.fromisoformat)(value[:10])


_FORMATS: dict[str, Callable[[str], bool]] = {
    "date-time": _is_date_time,
    "datetime": _is_date_time,
    "date": _parses(datetime.date.fromisoformat),
    "duration": lambda value: bool(_DURATION.match(value)),
    "email": lambda value: bool(_EMAIL.match(value)),
    "hostname": lambda value: bool(_HOSTNAME.match(value)),
    "ipv4": _parses(ipaddress.IPv4Address),
    "ipv6": _parses(ipaddress.IPv6Address),
    "cidr": lambda value: "/" in value and _parses(ipaddress.ip_interface)(value),
    "uuid": _parses(uuid.UUID),
    "byte": _parses(lambda value: base64.b64decode(value, validate=True)),
}


def is_format(name: str, value: str) -> bool:
    """Whether the string is of that format."""
    check = _FORMATS.get(name)
    return check is None or check(value)
