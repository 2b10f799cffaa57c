#!/usr/bin/env python3
"""Write the table of all metrics into docs/reference/metrics.md, from where they are declared."""

from __future__ import annotations

import pathlib
import sys

from kopf_core.engines.serving.metrics import METRICS

PAGE = pathlib.Path(__file__).resolve().parents[1] / "docs" / "reference" / "metrics.md"
HEAD = ["| metric | type | labels | meaning |", "|---|---|---|---|"]


def render(text: str) -> str:
    """The page with its table replaced, and with all the rest as it is."""
    kept = [line for line in text.splitlines() if not line.startswith("|")]
    rows = [f"| `{m.name}` | {m.kind} | {', '.join(m.labels)} | {m.help} |" for m in METRICS]
    return "\n".join([*kept, *HEAD, *rows]) + "\n"


def main() -> int:
    text = PAGE.read_text("utf-8")
    if "--check" in sys.argv[1:]:
        return int(render(text) != text)
    PAGE.write_text(render(text), "utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
