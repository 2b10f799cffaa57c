"""The cases: small operators and the scripts for them."""

from __future__ import annotations

from .cases import Case
from .tables import CASES

__all__ = ["CASES", "Case"]
