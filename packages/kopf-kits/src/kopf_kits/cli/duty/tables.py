"""Tables: as wide as the terminal; without a terminal, as wide as necessary."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import click

from kopf_kits.cli.duty.words import clean, cut, measure

GAP = "  "
LEAST_WIDTH = 40
"""In columns: people do not read narrower terminals."""

UNLIMITED = 0


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table."""

    title: str
    least: int | None = None
    """How narrow (in characters) it can become; ``None`` if it is never cut."""

    is_key: bool = False
    """Whether it is cut only if no other column can be cut: people copy the keys."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A value in a table, maybe coloured."""

    text: str
    colour: str | None = None


def get_width() -> int:
    """How wide the output can be, in columns; zero if there is no limit, e.g. in pipes."""
    width = shutil.get_terminal_size(fallback=(UNLIMITED, 0)).columns
    return UNLIMITED if width == UNLIMITED else max(width, LEAST_WIDTH)


def render(columns: Sequence[Column], rows: Sequence[Sequence[Cell]], width: int) -> Iterator[str]:
    """The lines of the table: they fit in the width, unless the columns cannot be so narrow."""
    cells = [[Cell(clean(cell.text), cell.colour) for cell in row] for row in rows]
    widths = [
        max([measure(column.title), *(measure(row[number].text) for row in cells)])
        for number, column in enumerate(columns)
    ]
    widths = _fit(columns, widths, width)
    yield _join([Cell(column.title) for column in columns], widths)
    for row in cells:
        yield _join(row, widths)


def _fit(columns: Sequence[Column], widths: list[int], width: int) -> list[int]:
    """Narrow the widest columns (the keys last) until the table fits, or no column can be cut."""
    widths = list(widths)
    while width != UNLIMITED and sum(widths) + len(GAP) * (len(widths) - 1) > width:
        able = [n for n, c in enumerate(columns) if c.least is not None and widths[n] > c.least]
        if not able:
            break
        widths[max(able, key=lambda n: (not columns[n].is_key, widths[n]))] -= 1
    return widths


def _join(row: Sequence[Cell], widths: Sequence[int]) -> str:
    parts = []
    for cell, width in zip(row, widths, strict=True):
        text = cut(cell.text, width)
        padding = " " * (width - measure(text))
        parts.append((click.style(text, fg=cell.colour) if cell.colour else text) + padding)
    return GAP.join(parts).rstrip()
