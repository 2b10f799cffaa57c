"""Remarks about a write, apart from its errors."""

from __future__ import annotations

from dataclasses import dataclass


class Unsupported(Exception):
    """The sandbox does not understand an expression or a format, so it cannot judge by it."""


@dataclass(frozen=True, slots=True)
class Remark:
    """A warning for the client, as API servers give it."""

    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Doubt:
    """A check that this sandbox cannot make, but API servers do."""

    field: str
    what: str
    why: str

    def __str__(self) -> str:
        return f"{self.field or 'the object'} is not checked for {self.what}: {self.why}"
