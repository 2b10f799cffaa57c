#!/usr/bin/env python3
"""Write the table of decisions into docs/reference/turns.md, from the code that decides."""

from __future__ import annotations

import pathlib
import sys

from kopf_core.reactor.object.deciding import ROWS

PAGE = pathlib.Path(__file__).resolve().parents[1] / "docs" / "reference" / "turns.md"
HEAD = ["| # | if | then | because |", "|---|---|---|---|"]


def render(text: str) -> str:
    """The page with its table replaced, and with all the rest as it is."""
    kept = [line for line in text.splitlines() if not line.startswith("|")]
    rows = [
        f"| {number} | {row.name} | `{row.act.name}`: {row.act.value} | {row.why} |"
        for number, row in enumerate(ROWS, start=1)
    ]
    return "\n".join([*kept, *HEAD, *rows]) + "\n"


def main() -> int:
    text = PAGE.read_text("utf-8")
    if "--check" in sys.argv[1:]:
        return int(render(text) != text)
    PAGE.write_text(render(text), "utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
