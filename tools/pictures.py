"""Draw the pictures of the documentation from texts: `python tools/pictures.py`.

`docs/_diagrams/*.txt` become diagrams, in two files, for light and dark pages. A line is:
`title TEXT`, `row NAME: TEXT | DETAIL; ...` for boxes beside each other, `arrow FROM TO: LABEL`,
`back FROM TO: LABEL` for an arrow around the boxes. `docs/_casts/*.txt` become terminals: lines
with `$` are commands. With `--check`, nothing is written: the exit code tells if they are current.
"""

from __future__ import annotations

import html
import sys
from dataclasses import dataclass, field
from pathlib import Path

DOCS = Path(__file__).resolve().parent.parent / "docs"
TARGET = DOCS / "_static" / "pictures"

WIDTH, HEIGHT, MARGIN = 250, 58, 16
BESIDE, BELOW = 96, 46  # the spaces between boxes: there is a label in the first one
GLYPH = 0.56  # how wide a character is on average, in sizes of its font
FONT = "system-ui, -apple-system, 'Segoe UI', sans-serif"
MONO = "ui-monospace, 'SF Mono', Menlo, Consolas, monospace"


@dataclass(frozen=True)
class Colors:
    """The colours of one theme."""

    box: str
    border: str
    text: str
    detail: str
    line: str


THEMES = {
    "light": Colors("#eef4ff", "#2f6fde", "#14213d", "#4a5876", "#6b7a99"),
    "dark": Colors("#1b2740", "#6ea0ff", "#e8eefc", "#a9b7d3", "#8494b5"),
}


@dataclass
class Diagram:
    """Rows of boxes, and arrows between them."""

    title: str = ""
    rows: list[list[tuple[str, str, str]]] = field(default_factory=list)
    arrows: list[tuple[str, str, str]] = field(default_factory=list)
    backs: list[tuple[str, str, str]] = field(default_factory=list)

    @property
    def width(self) -> int:
        """The width of all boxes in pixels."""
        most = max(len(row) for row in self.rows)
        return most * WIDTH + (most - 1) * BESIDE

    @property
    def sides(self) -> tuple[float, float]:
        """How far the arrows around the boxes and the labels go, to the left and to the right."""
        places = self.place()
        lefts, rights = [0.0], [float(self.width)]
        for source, target, label in self.arrows:
            (x1, y1), (x2, y2) = places[source], places[target]
            rights += [(x1 + x2) / 2 + 8 + len(label) * GLYPH * 12] if y1 != y2 else []
        for source, target, label in self.backs:
            between = [x for x, y in places.values() if places[target][1] <= y <= places[source][1]]
            longest = max(map(len, label.split(": ")))
            lefts += [min(between) - WIDTH / 2 - 40 - longest * GLYPH * 12]
        return min(lefts) - MARGIN, max(rights) + MARGIN

    @property
    def height(self) -> int:
        """The height in pixels."""
        return len(self.rows) * (HEIGHT + BELOW) - BELOW + 2 * MARGIN

    def place(self) -> dict[str, tuple[float, float]]:
        """The centres of the boxes."""
        found = {}
        for number, row in enumerate(self.rows):
            left = (self.width - len(row) * WIDTH - (len(row) - 1) * BESIDE) / 2
            for index, (name, _, _) in enumerate(row):
                x = left + index * (WIDTH + BESIDE) + WIDTH / 2
                found[name] = (x, MARGIN + number * (HEIGHT + BELOW) + HEIGHT / 2)
        return found


def parse(text: str) -> Diagram:
    """Read a diagram from its text."""
    diagram = Diagram()
    for line in text.splitlines():
        word, _, rest = line.partition(" ")
        if word == "title":
            diagram.title = rest
        elif word == "row":
            diagram.rows.append([_parse_box(box) for box in rest.split(";")])
        elif word in ("arrow", "back"):
            ends, _, label = rest.partition(":")
            source, target = ends.split()
            arrows = diagram.arrows if word == "arrow" else diagram.backs
            arrows.append((source, target, label.strip()))
    return diagram


def _parse_box(text: str) -> tuple[str, str, str]:
    name, _, rest = text.partition(":")
    title, _, detail = rest.partition("|")
    return name.strip(), title.strip(), detail.strip()


def draw(diagram: Diagram, colors: Colors) -> str:
    """Draw a diagram as SVG."""
    places = diagram.place()
    left, right = diagram.sides
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{right - left:.0f}" '
        f'height="{diagram.height}" viewBox="{left:.0f} 0 {right - left:.0f} {diagram.height}" '
        f'font-family="{FONT}" role="img" aria-label="{html.escape(diagram.title)}">',
        '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        f'markerHeight="7" orient="auto"><path d="M0 0 8 4 0 8z" fill="{colors.line}"/>'
        "</marker></defs>",
    ]
    for row in diagram.rows:
        parts += [_draw_box(places[name], title, detail, colors) for name, title, detail in row]
    parts += [_draw_arrow(places[a], places[b], label, colors) for a, b, label in diagram.arrows]
    for a, b, label in diagram.backs:
        between = [x for x, y in places.values() if places[b][1] <= y <= places[a][1]]
        parts.append(_draw_back(places[a], places[b], min(between), label, colors))
    return "\n".join([*parts, "</svg>", ""])


def _draw_box(place: tuple[float, float], title: str, detail: str, colors: Colors) -> str:
    x, y = place
    return (
        f'<rect x="{x - WIDTH / 2:g}" y="{y - HEIGHT / 2:g}" width="{WIDTH}" height="{HEIGHT}" '
        f'rx="9" fill="{colors.box}" stroke="{colors.border}" stroke-width="1.5"/>'
        + _draw_text(x, y - 4, title, colors.text, size=16, weight=600)
        + _draw_text(x, y + 16, detail, colors.detail, size=12.5)
    )


def _draw_text(
    x: float, y: float, text: str, color: str, *, size: float, weight: int = 400, at: str = "middle"
) -> str:
    return (
        f'<text x="{x:g}" y="{y:g}" text-anchor="{at}" font-size="{size:g}" font-weight="{weight}" '
        f'fill="{color}">{html.escape(text)}</text>'
    )


def _draw_arrow(
    source: tuple[float, float], target: tuple[float, float], label: str, colors: Colors
) -> str:
    (x1, y1), (x2, y2) = source, target
    if y1 == y2:
        x1, x2 = x1 + WIDTH / 2, x2 - WIDTH / 2 - 2
        line = _draw_line(f"M{x1:g} {y1:g}H{x2:g}", colors)
        text = _draw_text((x1 + x2) / 2, y1 - 7, label, colors.detail, size=12)
        return line + (text if label else "")
    y1, y2 = y1 + HEIGHT / 2, y2 - HEIGHT / 2 - 2
    middle = (y1 + y2) / 2
    path = f"M{x1:g} {y1:g}C{x1:g} {middle:g} {x2:g} {middle:g} {x2:g} {y2:g}"
    aside = 4 if x1 == x2 else 16 if x1 > x2 else -8  # on that side of the curve which is free
    text = _draw_text((x1 + x2) / 2 + 8, middle + aside, label, colors.detail, size=12, at="start")
    return _draw_line(path, colors) + (text if label else "")


def _draw_back(
    source: tuple[float, float],
    target: tuple[float, float],
    leftmost: float,
    label: str,
    colors: Colors,
) -> str:
    """Draw an arrow around everything that is between the boxes; "leftmost" is a centre."""
    (x1, y1), (x2, y2) = source, target
    x1, x2 = x1 - WIDTH / 2, x2 - WIDTH / 2 - 2
    if source == target:
        y1, y2 = y1 + 14, y2 - 14
    far = leftmost - WIDTH / 2 - 34
    path = f"M{x1:g} {y1:g}H{far + 14:g}Q{far:g} {y1:g} {far:g} {y1 - 14:g}"
    path += f"V{y2 + 14:g}Q{far:g} {y2:g} {far + 14:g} {y2:g}H{x2:g}"
    words = label.split(": ") if ": " in label else [label]
    texts = [
        _draw_text(far - 6, (y1 + y2) / 2 + 15 * i, word, colors.detail, size=12, at="end")
        for i, word in enumerate(words)
    ]
    return _draw_line(path, colors) + "".join(texts)


def _draw_line(path: str, colors: Colors) -> str:
    return (
        f'<path d="{path}" fill="none" stroke="{colors.line}" stroke-width="1.6" '
        'marker-end="url(#head)"/>'
    )


def draw_terminal(text: str) -> str:
    """Draw what a terminal shows; it is dark on all pages."""
    lines = text.rstrip("\n").split("\n")
    columns = max(map(len, lines))
    width, height = columns * 8.45 + 36, len(lines) * 19 + 54
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
        f'font-family="{MONO}" font-size="14" role="img" aria-label="A terminal">',
        f'<rect width="{width:g}" height="{height:g}" rx="10" fill="#111827"/>',
        *(
            f'<circle cx="{20 + 18 * i}" cy="18" r="5.5" fill="{color}"/>'
            for i, color in enumerate(("#ff5f57", "#febc2e", "#28c840"))
        ),
    ]
    for number, line in enumerate(lines):
        parts.append(
            f'<text x="18" y="{50 + 19 * number}" fill="{_get_color(line)}" '
            f'xml:space="preserve">{html.escape(line)}</text>'
        )
    return "\n".join([*parts, "</svg>", ""])


def _get_color(line: str) -> str:
    if line.startswith("$"):
        return "#7dd3fc"
    if line.startswith("==="):
        return "#ffd166"
    if "[DEBUG" in line:
        return "#94a3b8"
    return "#a7f3a0" if "succeeded" in line else "#e5e7eb"


def draw_all() -> dict[Path, str]:
    """All the pictures by their paths."""
    pictures = {}
    for path in sorted(DOCS.glob("_diagrams/*.txt")):
        diagram = parse(path.read_text("utf-8"))
        for theme, colors in THEMES.items():
            pictures[TARGET / f"{path.stem}-{theme}.svg"] = draw(diagram, colors)
    for path in sorted(DOCS.glob("_casts/*.txt")):
        pictures[TARGET / f"{path.stem}.svg"] = draw_terminal(path.read_text("utf-8"))
    return pictures


def main(args: list[str]) -> int:
    """Run as a command; returns the exit code."""
    outdated = [
        path
        for path, text in draw_all().items()
        if not path.exists() or path.read_text("utf-8") != text
    ]
    if "--check" in args:
        for path in outdated:
            print(f"{path} is outdated: run `python tools/pictures.py`.", file=sys.stderr)
        return 1 if outdated else 0
    TARGET.mkdir(parents=True, exist_ok=True)
    for path, text in draw_all().items():
        path.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
