"""Tables: as wide as the terminal; without a terminal, as wide as necessary."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import click

from kopf_kits.cli.duty.words import clean, cut, measure

GAP = "  "
LEAST_WIDTH = 40
"""In columns: what is narrower is not a terminal for people."""

UNLIMITED = 0


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table."""

    title: str
    least: int | None = None
    """How narrow (in characters) it can become; ``None`` if it is never cut."""

    is_key: bool = False
    """Whether it is cut only if nothing else can be: people copy it."""


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
    """The lines of the table; no one is wider than the width, if all that can be cut is cut."""
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
    """Narrow the widest of the columns (the keys are the last) until everything fits, or cannot."""
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
