"""Options of writes, for any verb."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Obj = dict[str, Any]


@dataclass(slots=True)
class WriteOptions:
    """The options of a write; ``warnings`` go to the response, ``doubts`` to the log, too.

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
    doubts: list[str] = field(default_factory=list)

    def doubt(self, text: str) -> None:
        """Tell of something that API servers check, and the sandbox cannot."""
        if text not in self.doubts:
            self.doubts.append(text)
            self.warnings.append(f"The sandbox cannot check this: {text}")
