"""Values for people: in one line, without characters that could harm a terminal."""

from __future__ import annotations

import datetime
import json
import unicodedata
from typing import Any

MINUTE, HOUR, DAY = 60, 60 * 60, 24 * 60 * 60


def clean(text: object) -> str:
    """The text in one line, with unprintable characters replaced. Any client can have sent it."""
    line = " ".join(str(text).split())
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in line)


def measure(text: str) -> int:
    """How many columns of a terminal the text takes."""
    return sum(_measure_char(char) for char in text)


def _measure_char(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def cut(text: str, width: int) -> str:
    """The text, or only its beginning if the whole text is wider than the limit."""
    if measure(text) <= width:
        return text
    taken, left = [], width - 1
    for char in text:
        left -= _measure_char(char)
        if left < 0:
            break
        taken.append(char)
    return "".join(taken) + "…"[:width]


def show_duration(seconds: float) -> str:
    """The duration in the biggest unit that fits twice: ``90s``, ``5m``, ``47h``, ``3d``."""
    for size, unit in ((DAY, "d"), (HOUR, "h"), (MINUTE, "m")):
        if seconds >= 2 * size:
            return f"{int(seconds // size)}{unit}"
    return f"{max(0, int(seconds))}s"


def show_moment(moment: datetime.datetime, now: datetime.datetime) -> str:
    """When the moment was, or is going to be: ``5m ago``, ``in 5m``, ``now``."""
    seconds = (moment - now).total_seconds()
    if seconds > 0:
        return f"in {show_duration(seconds + 0.999)}"
    return "now" if seconds > -1 else f"{show_duration(-seconds)} ago"


def show_time(moment: datetime.datetime) -> str:
    """The moment in UTC, as Kubernetes shows it."""
    return moment.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def show_value(value: Any, width: int) -> str:
    """A value of a field, as JSON; not longer than so many columns."""
    return cut(clean(json.dumps(value, ensure_ascii=False, default=str)), width)
