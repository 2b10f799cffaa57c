"""Sizes and costs of values in expressions: they are counted up to the largest number of Go."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from .shapes import Shape

MOST = 2**64 - 1
SCALARS = ("bool", "int", "double", "timestamp", "duration")


def limit(number: int) -> int:
    return min(number, MOST)


def scale(number: int, factor: float) -> int:
    """The product, rounded up."""
    return limit(math.ceil(float(number) * factor)) if number < MOST else MOST if factor else 0


LOST = Shape("lost")
"""The shape of a value whose path is in the object, but not in its schema: it has no size."""


class Size(NamedTuple):
    """How many items or characters there are, at least and at most."""

    least: int
    most: int

    def __add__(self, other: Size) -> Size:  # type: ignore[override]
        return Size(limit(self.least + other.least), limit(self.most + other.most))

    def __or__(self, other: Size) -> Size:
        return Size(min(self.least, other.least), max(self.most, other.most))


@dataclass(frozen=True, slots=True)
class Value:
    """The estimate of the value of an expression: its type, cost, and size."""

    kind: str
    cost: int
    path: Shape | None = None
    """The shape of the value, if it is a part of the object: servers know its size from this."""

    type: Shape | None = None
    """The shape of the value, which tells only its type."""

    size: Size | None = None
    item: Value | None = None
    key: Value | None = None

    def measure(self) -> Size:
        """The size of the value; if it is unknown, it can be any."""
        if self.size is not None:
            return self.size
        if self.path is not None and self.path is not LOST:
            return Size(0, self.path.size)
        is_scalar = self.kind in SCALARS
        if self.kind == "optional" and self.item is not None:
            is_scalar = self.item.kind in SCALARS
        return Size(1, 1) if is_scalar else Size(0, MOST)
