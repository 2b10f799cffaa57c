"""How an object is to be written, whatever the verb is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Obj = dict[str, Any]


@dataclass(slots=True)
class WriteOptions:
    """How to write; ``warnings`` are collected for the response.

    ``validation`` is what to do with unknown fields: ``Ignore``, ``Warn``, or ``Strict``.
    ``named`` is whether the field manager was named explicitly.
    """

    dry_run: bool = False
    manager: str = "sandbox"
    named: bool = True
    validation: str = "Warn"
    force: bool = False
    applied: Obj | None = None
    replaced: bool = False
    warnings: list[str] = field(default_factory=list)
