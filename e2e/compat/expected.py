"""The intended differences from the previous generation, each with the reason for it."""

from __future__ import annotations

from .comparing import Expected

EXPECTED: tuple[Expected, ...] = ()
