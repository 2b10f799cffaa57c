"""Optional values: of fields that can be absent, and of old states that may not exist."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from .errors import EvaluationError


@dataclass(frozen=True, slots=True)
class Optional:
    """A value, or nothing: ``object.?spec``, ``optional.of(x)``, ``optional.none()``."""

    values: tuple[Any, ...] = ()

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values)

    def get(self, key: Any) -> Optional:
        """The item or the field of the value, if there is one."""
        for value in self.values:
            if isinstance(value, dict) and key in value:
                return Optional((value[key],))
            if isinstance(value, list) and isinstance(key, int) and 0 <= key < len(value):
                return Optional((value[key],))
        return Optional()

    def value(self) -> Any:
        """The value; raises `EvaluationError` if there is none."""
        for value in self.values:
            return value
        raise EvaluationError("optional.none() dereference")

    def has_value(self) -> bool:
        return bool(self.values)

    def or_value(self, default: Any) -> Any:
        return self.values[0] if self.values else default

    def or_other(self, other: Optional) -> Optional:
        return self if self.values else other


def make_nonzero(value: Any) -> Optional:
    """The value, unless it is zero, false, or empty."""
    return Optional((value,)) if value else Optional()
