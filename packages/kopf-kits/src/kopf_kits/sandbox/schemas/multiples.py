"""Whether a number is a multiple of another, by the arithmetic of API servers."""

from __future__ import annotations

import math

_EPSILON = 1e-9
_LARGEST = 2.0**53 - 1  # The largest integer that is exact in JSON.


def is_multiple(value: float, factor: float) -> bool:
    """Decimals are not exact: the result is compared to an integer with a small tolerance."""
    if isinstance(value, int):
        return value % int(factor) == 0
    quotient = 1 / factor * value if factor < 1 else value / factor
    if not math.isfinite(quotient) or abs(quotient) > _LARGEST:
        return False
    whole = float(int(quotient))
    if quotient == whole:
        return True
    if whole == 0:
        return False
    return abs(quotient - whole) / (abs(quotient) + abs(whole)) < _EPSILON
