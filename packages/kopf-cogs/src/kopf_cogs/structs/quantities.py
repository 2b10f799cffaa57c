"""Quantities and durations as they are written in Kubernetes: ``1.5Gi``, ``1h30m``."""

from __future__ import annotations

import datetime
import re
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Any, Final

from kopf_cogs.structs.markers import Marker

QUANTITY_PATTERN: Final = (
    r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?$"
)
DURATION_PATTERN: Final = r"^-?(0|([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+)$"

_SUFFIXES: Final = {
    **{name: Fraction(1000) ** power for power, name in enumerate(["n", "u", "m", ""], -3)},
    **{name: Fraction(1000) ** power for power, name in enumerate("kMGTPE", 1)},
    **{f"{name}i": Fraction(1024) ** power for power, name in enumerate("KMGTPE", 1)},
}
_UNITS: Final = {
    "h": Fraction(3600),
    "m": Fraction(60),
    "s": Fraction(1),
    "ms": Fraction(1, 1000),
    "us": Fraction(1, 1000**2),
    "µs": Fraction(1, 1000**2),
    "ns": Fraction(1, 1000**3),
}


class Quantity:
    """An amount of something, such as ``500m`` of a processor or ``1.5Gi`` of memory.

    It keeps the text as it is written, and is compared by its value: ``1Gi`` is ``1024Mi``.
    Raises :class:`ValueError` for other texts.
    """

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        super().__init__()
        if not re.match(QUANTITY_PATTERN, text) or text.endswith("\n"):
            raise ValueError(f"{text!r} is not a quantity, such as '500m' or '1.5Gi'")
        self.text = text

    def __repr__(self) -> str:
        return f"Quantity({self.text!r})"

    @property
    def exact(self) -> Fraction:
        """The exact value."""
        number, suffix = _split(self.text)
        if suffix[:1] in ("e", "E") and len(suffix) > 1:
            return number * Fraction(10) ** int(suffix[1:])
        return number * _SUFFIXES[suffix]

    @property
    def value(self) -> Decimal:
        """The value as a number."""
        return Decimal(self.exact.numerator) / Decimal(self.exact.denominator)

    def __str__(self) -> str:
        return self.text

    def __hash__(self) -> int:
        return hash(self.exact)

    def __eq__(self, other: object) -> bool:
        return self.exact == other.exact if isinstance(other, Quantity) else NotImplemented

    def __lt__(self, other: Quantity) -> bool:
        return self.exact < other.exact

    def __le__(self, other: Quantity) -> bool:
        return self.exact <= other.exact

    @classmethod
    def parse(cls, value: object) -> Quantity:
        """Take what is in an object: a text or an integer. Raises :class:`ValueError`."""
        if isinstance(value, Quantity):
            return value
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise ValueError("a quantity is a string or an integer")
        return cls(str(value))

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: Any, _handler: Any) -> Any:
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(
            cls.parse, serialization=core_schema.to_string_ser_schema()
        )


class DurationMarker(Marker):
    """Makes a ``timedelta`` be written as in Kubernetes; see :data:`Duration`."""

    __slots__ = ()

    def __get_pydantic_core_schema__(self, _source: Any, _handler: Any) -> Any:
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(
            parse_duration,
            serialization=core_schema.plain_serializer_function_ser_schema(format_duration),
        )


Duration = Annotated[datetime.timedelta, DurationMarker()]
"""A ``timedelta`` that is written as ``1h30m`` in objects, as everywhere in Kubernetes."""


def parse_duration(value: object) -> datetime.timedelta:
    """Parse a duration of an object, such as ``1h30m``. Raises :class:`ValueError`."""
    if isinstance(value, datetime.timedelta):
        return value
    if not isinstance(value, str) or not re.match(DURATION_PATTERN, value) or value[-1:] == "\n":
        raise ValueError(f"{value!r} is not a duration, such as '1h30m' or '10s'")
    parts = re.findall(r"([0-9.]+)(ns|us|µs|ms|s|m|h)", value)
    total = sum((Fraction(number) * _UNITS[unit] for number, unit in parts), Fraction())
    try:
        delta = datetime.timedelta(microseconds=float(total * 1000**2))
    except OverflowError:
        raise ValueError(f"{value!r} is too long") from None
    return -delta if value.startswith("-") else delta


def format_duration(value: datetime.timedelta) -> str:
    """Write the duration as in objects, such as ``1h30m0s``."""
    total = abs(value) // datetime.timedelta(microseconds=1)
    minutes, micros = divmod(total, 60 * 1000**2)
    hours, minutes = divmod(minutes, 60)
    seconds = f"{micros // 1000**2}.{micros % 1000**2:06}".rstrip("0").rstrip(".")
    head = f"{hours}h" if hours else ""
    head += f"{minutes}m" if hours or minutes else ""
    return f"{'-' if value < datetime.timedelta() else ''}{head}{seconds}s"


def _split(text: str) -> tuple[Fraction, str]:
    match = re.match(r"([+-]?[0-9.]+)(.*)", text)
    assert match is not None
    return Fraction(match[1].rstrip(".")), match[2]
