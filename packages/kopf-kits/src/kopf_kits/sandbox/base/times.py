"""Durations and times in texts, as Go writes them."""

from __future__ import annotations

import datetime
import re
from fractions import Fraction

_UNITS = {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": 10**9,
          "m": 60 * 10**9, "h": 3600 * 10**9}  # fmt: skip
_PART = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIME = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]+))?([Zz]|[+-][0-9]{2}:[0-9]{2})")


def parse_duration(text: str) -> datetime.timedelta:
    """A duration such as ``1h30m``; raises ``ValueError`` if it is not one."""
    unsigned = text[1:] if text[:1] in ("-", "+") else text
    if unsigned == "0":
        return datetime.timedelta()
    if not unsigned or _PART.sub("", unsigned):
        raise ValueError(f'time: invalid duration "{text}"')
    parts = _PART.findall(unsigned)
    total = sum(Fraction(f"0{number.rstrip('.')}") * _UNITS[unit] for number, unit in parts)
    found = datetime.timedelta(microseconds=float(total / 1000))
    return -found if text.startswith("-") else found


def parse_date(text: str) -> datetime.datetime:
    """A date such as ``2020-01-31``; raises ``ValueError`` if it is not one."""
    if not _DATE.fullmatch(text):
        raise ValueError(f"not a date: {text}")
    return datetime.datetime.fromisoformat(text).replace(tzinfo=datetime.UTC)


def parse_time(text: str) -> datetime.datetime:
    """A time of RFC 3339, with its zone; raises ``ValueError`` if it is not one."""
    date, _, time = text.upper().partition("T")
    found = _TIME.fullmatch(time)
    if not found:
        raise ValueError(f"not a time: {text}")
    hours, minutes, seconds, fraction, zone = found.groups()
    micros = int(f"{fraction or ''}000000"[:6])
    moment = parse_date(date).replace(hour=int(hours), minute=int(minutes), second=int(seconds))
    offset = datetime.timedelta()
    if zone != "Z":
        offset = datetime.timedelta(hours=int(zone[1:3]), minutes=int(zone[4:]))
    return moment.replace(microsecond=micros) - (-offset if zone[0] == "-" else offset)
