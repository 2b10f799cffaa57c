"""Quantities of Kubernetes, such as ``1.5Gi``, in expressions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

_TEXT = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))([eE][+-]?[0-9]+|[A-Za-z]*)")
_SUFFIXES = {
    **{name: Fraction(1000) ** power for power, name in enumerate(["n", "u", "m", ""], -3)},
    **{name: Fraction(1000) ** power for power, name in enumerate("kMGTPE", 1)},
    **{f"{name}i": Fraction(1024) ** power for power, name in enumerate("KMGTPE", 1)},
}
_LARGEST = 2**63


@dataclass(frozen=True, slots=True, order=True)
class Quantity:
    """An exact number; it is compared with other quantities, not with numbers."""

    number: Fraction

    @classmethod
    def parse(cls, text: str) -> Quantity:
        """The quantity of the text; raises ``ValueError`` if it is not a quantity."""
        found = _TEXT.fullmatch(text)
        if not found:
            raise ValueError(
                "quantities must match the regular expression "
                "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
            )
        number, suffix = found.groups()
        if suffix[:1] in ("e", "E") and len(suffix) > 1:
            return cls(Fraction(number) * Fraction(10) ** int(suffix[1:]))
        if suffix not in _SUFFIXES:
            raise ValueError("unable to parse quantity's suffix")
        return cls(Fraction(number) * _SUFFIXES[suffix])

    def add(self, other: Quantity | int) -> Quantity:
        return Quantity(self.number + _number(other))

    def sub(self, other: Quantity | int) -> Quantity:
        return Quantity(self.number - _number(other))

    def compare(self, other: Quantity) -> int:
        return (self > other) - (self < other)

    def is_integer(self) -> bool:
        return self.number.denominator == 1 and -_LARGEST <= self.number < _LARGEST

    def as_integer(self) -> int:
        """The integer; raises ``ValueError`` if it is not a whole number, or too large."""
        if not self.is_integer():
            raise ValueError("cannot convert value to integer")
        return int(self.number)

    def __float__(self) -> float:
        return float(self.number)


def is_quantity(text: str) -> bool:
    try:
        Quantity.parse(text)
    except ValueError:
        return False
    return True


def _number(value: Quantity | int) -> Fraction:
    return value.number if isinstance(value, Quantity) else Fraction(value)
