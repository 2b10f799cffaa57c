"""Formats of strings in schemas. Unknown formats are accepted, as API servers do."""

from __future__ import annotations

import binascii
import ipaddress
import re
from collections.abc import Callable
from typing import Any

from kopf_kits.sandbox.base.patterns import compile_pattern
from kopf_kits.sandbox.base.remarks import Unsupported
from kopf_kits.sandbox.base.times import parse_date, parse_duration, parse_time

_HEX = "[0-9A-Fa-f]"
_COLOR = r"\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*"
_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_CHAR = r"[a-zA-Z0-9\p{S}\p{L}]"
_HOSTNAME = (
    rf"^({_CHAR}((-?{_CHAR}{{0,62}})?)|({_CHAR}(([a-zA-Z0-9-\p{{S}}\p{{L}}]{{0,61}}{_CHAR})?)(\.))"
    r"{1,}([a-zA-Z\p{L}]){2,63})$"
)
_AUTHORITY = (
    r"([\w.~!$&'()*+,;=:%@-]*@)?"
    r"(\[[0-9A-Fa-f:.]+(%25[^\]]*)?\]|([]\w.~!$&'()*+,;=\x80-\U0010ffff-]|%[89A-Fa-f][0-9A-Fa-f])*)"
    r"(:[0-9]*)?"
)
_UNITS = ["nano", "micro", "milli", "sec", "min", "hour", "day", "week"]
_SHORT = ["ns", "us", "µs", "ms", "s", "m", "h", "hr", "d", "w", "wk"]
_UNKNOWN = frozenset(("isbn", "isbn10", "isbn13", "creditcard"))


def _parses(parse: Callable[[str], Any]) -> Callable[[str], bool]:
    def check(value: str) -> bool:
        try:
            parse(value)
        except (ValueError, binascii.Error):
            return False
        return True

    return check


def _fits(pattern: str, longest: int | None = None) -> Callable[[str], bool]:
    def check(value: str) -> bool:
        return (longest is None or len(value) <= longest) and bool(
            compile_pattern(f"^(?:{pattern})$").search(value)
        )

    return check


def _uuid(version: str, variant: str) -> Callable[[str], bool]:
    tail = f"-?{version}{_HEX}{{3}}-?{variant}{_HEX}{{3}}-?{_HEX}{{12}}"
    return _fits(f"{_HEX}{{8}}-?{_HEX}{{4}}{tail}")


def _is_duration(value: str) -> bool:
    """Whether it is a duration of Go, or a duration of Scala: ``1 day``, ``2 weeks``."""
    if _parses(parse_duration)(value):
        return True
    words = [unit.lower() for unit in re.findall(r"[0-9]+\s*([A-Za-zµ]+)", value)]
    return any(word in _SHORT or word.startswith(tuple(_UNITS)) for word in words)


def _is_hostname(value: str) -> bool:
    short = all(len(part.encode()) <= 63 for part in value.split("."))
    return short and len(value.encode()) <= 255 and bool(compile_pattern(_HOSTNAME).search(value))


def _is_uri(value: str) -> bool:
    if re.search(r"[\x00-\x1f\x7f]|%(?![0-9A-Fa-f]{2})", value):
        return False
    match = re.match(r"\*$|/|[A-Za-z][A-Za-z0-9+.-]*:(//(?P<authority>[^/?]*))?", value)
    if match is None:
        return False
    return re.fullmatch(_AUTHORITY, match["authority"] or "", re.ASCII) is not None


_FORMATS: dict[str, Callable[[str], bool]] = {
    "bsonobjectid": _fits(f"{_HEX}{{24}}"),
    "byte": _fits("(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})"),
    "cidr": lambda value: "/" in value and _parses(ipaddress.ip_interface)(value),
    "date": _parses(parse_date),
    "datetime": _parses(parse_time),
    "duration": _is_duration,
    "email": _fits(r"[^@\s<>]+@[^@\s<>]+|[^@<>]*<[^@\s<>]+@[^@\s<>]+>"),
    "hexcolor": _fits(f"#?({_HEX}{{3}}|{_HEX}{{6}})"),
    "hostname": _is_hostname,
    "ipv4": lambda value: _parses(ipaddress.IPv4Address)(re.sub(r"\b0+(?=[0-9])", "", value)),
    "ipv6": lambda value: "%" not in value and _parses(ipaddress.IPv6Address)(value),
    "k8slongname": _fits(rf"{_LABEL}(\.{_LABEL})*", 253),
    "k8sshortname": _fits(_LABEL, 63),
    "mac": _fits(
        "|".join(f"{_HEX}{{2}}({by}{_HEX}{{2}}){{{n}}}" for by in ":-" for n in (5, 7, 19))
    ),
    "rgbcolor": _fits(rf"rgb\({_COLOR},{_COLOR},{_COLOR}\)"),
    "ssn": _fits(r"\d{3}[- ]\d{2}[- ]\d{4}"),
    "uri": _is_uri,
    "uuid": _uuid(_HEX, _HEX),
    "uuid3": _uuid("3", _HEX),
    "uuid4": _uuid("4", "[89abAB]"),
    "uuid5": _uuid("5", "[89abAB]"),
}


def is_format(name: str, value: str) -> bool:
    """Whether the string is of that format. Raises `Unsupported` if it is not clear."""
    name = name.replace("-", "")
    if name in _UNKNOWN:
        raise Unsupported("it is not known here")
    check = _FORMATS.get(name)
    return check is None or check(value)
