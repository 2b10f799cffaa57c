"""The tables: the same text for people in terminals, and for Markdown files."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from bench.driver import Measurement
from bench.scenarios import Scenario

Figure = Callable[[Measurement], float]


@dataclass(frozen=True, slots=True)
class Results:
    """All runs of all engines; figures are medians over the repetitions."""

    runs: Sequence[Measurement]

    def of(self, scenario: str, engine: str, size: int | None = None) -> list[Measurement]:
        return [
            run
            for run in self.runs
            if (run.scenario, run.engine) == (scenario, engine)
            and (size is None or run.size == size)
        ]

    def median(self, scenario: str, engine: str, size: int, figure: Figure) -> float | None:
        good = [figure(run) for run in self.of(scenario, engine, size) if not run.error]
        return statistics.median(good) if good else None

    def overall(self, engine: str, figure: Figure) -> float | None:
        """Of what does not depend on the scenario."""
        good = [figure(r) for r in self.runs if r.engine == engine and not r.error and r.ready_cpu]
        return statistics.median(good) if good else None

    def sizes(self, scenario: str, engine: str) -> list[int]:
        return sorted({run.size for run in self.of(scenario, engine) if not run.error})

    def growth(self, scenario: str, engine: str) -> float | None:
        """The exponent: 1 when the work is linear, 2 when it is quadratic."""
        points = [
            (math.log(size), math.log(cpu))
            for size in self.sizes(scenario, engine)
            if (cpu := self.median(scenario, engine, size, lambda run: run.cpu))
        ]
        if len(points) < 2:
            return None
        xs, ys = zip(*points, strict=True)
        return statistics.linear_regression(xs, ys).slope

    def sizes_to_show(self, scenario: str) -> list[int]:
        """The biggest size that both generations have run; and the biggest of ours, if bigger."""
        ours, theirs = (set(self.sizes(scenario, e)) for e in ("ours", "predecessor"))
        common = ours & theirs
        shown = {max(common)} if common else set()
        return sorted(shown | {max(sizes) for sizes in (ours, theirs) if sizes})


def text(value: float | None, digits: int = 0) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"


def ratio(above: float | None, below: float | None) -> str:
    return f"{above / below:.1f}x" if above and below else "-"


def goal(above: float | None, below: float | None, *, most: float = 0, least: float = 0) -> str:
    """The ratio, and whether it meets its target."""
    shown, limit = ratio(above, below), most or least
    if not above or not below or not limit:
        return shown
    is_met = above / below <= most if most else above / below >= least
    return f"{shown} ({'≤' if most else '≥'} {limit:g} {'ok' if is_met else 'MISSED'})"


def verdict(value: float | None, budget: float | None) -> str:
    if budget is None:
        return "-"
    mark = "" if value is None else " ok" if value <= budget else " MISSED"
    return f"{budget:,g}{mark}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    cells = [list(head), *map(list, rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    lines = [
        "| " + " | ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) + " |"
        for row in cells
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def cpu_table(results: Results, scenarios: Sequence[Scenario]) -> str:
    head = ["CPU, microseconds per unit", "size", "predecessor", "ours", "faster", "floor (orjson)",
            "ours/floor", "budget", "growth: predecessor, ours"]  # fmt: skip
    rows = []
    for scenario in scenarios:
        for size in results.sizes_to_show(scenario.name):
            p, o, f, fo = (
                results.median(scenario.name, engine, size, lambda run: run.cpu_per_unit)
                for engine in ("predecessor", "ours", "floor", "floor-orjson")
            )
            growth = (text(results.growth(scenario.name, e), 2) for e in ("predecessor", "ours"))
            rows.append([f"{scenario.name}: {scenario.title}", text(size), text(p), text(o),
                         goal(p, o, least=scenario.faster or 0), f"{text(f)} ({text(fo)})",
                         goal(o, fo or f, most=scenario.most or 0),
                         verdict(o, scenario.budget), ", ".join(growth)])  # fmt: skip
    return table(head, rows)


def memory_table(results: Results, scenarios: Sequence[Scenario]) -> str:
    head = ["Memory (RSS), KB per unit; requests per unit", "size", "predecessor", "ours", "less",
            "floor", "budget", "PATCH+events: predecessor", "ours"]  # fmt: skip
    rows = []
    for scenario in scenarios:
        for size in results.sizes_to_show(scenario.name):
            p, o, f = (
                results.median(scenario.name, engine, size, lambda run: run.rss / run.size / 1024)
                for engine in ("predecessor", "ours", "floor")
            )
            sent = [requests(results, scenario, e, size) for e in ("predecessor", "ours")]
            rows.append([scenario.name, text(size), text(p, 1), text(o, 1), ratio(p, o), text(f, 1),
                         verdict(o, scenario.budget_memory), *sent])  # fmt: skip
    return table(head, rows)


def requests(results: Results, scenario: Scenario, engine: str, size: int) -> str:
    def sent(kind: str) -> str:
        each: Figure = lambda run: run.requests.get(kind, 0) / run.size  # noqa: E731
        return text(results.median(scenario.name, engine, size, each), 1)

    return f"{sent('PATCH')}+{sent('events')}"


def special_table(results: Results, scenarios: Sequence[Scenario]) -> str:
    """What is not a cost of a unit: shares of a core, delays, imports."""
    rows = []
    engines = ("predecessor", "ours", "floor")
    for s in scenarios:
        for what, figure, budget in special_figures(s):
            for size in results.sizes_to_show(s.name):
                p, o, f = (results.median(s.name, e, size, figure) for e in engines)
                digits = 1 if budget is None or budget >= 1 else 3
                rows.append([f"{s.name}: {what}", text(size), text(p, digits), text(o, digits),
                             ratio(p, o), text(f, digits), verdict(o, budget)])  # fmt: skip
    for what, figure, limit in (
        ("CPU, ms", lambda run: run.cpu * 1e3, 150.0),
        ("RSS, MB", lambda run: run.rss / 1e6, 32.0),
    ):
        p, o, f = (results.median("import", e, 1, figure) for e in engines)
        rows.append([f"import: {what}", "1", text(p, 1), text(o, 1), ratio(p, o), text(f, 1),
                     verdict(o, limit)])  # fmt: skip
    for what, figure in (
        ("CPU, ms", lambda run: run.ready_cpu * 1e3),
        ("RSS, MB", lambda run: run.ready_rss / 1e6),
    ):
        p, o, f = (results.overall(e, figure) for e in engines)
        rows.append([f"ready to list: {what}", "1", text(p, 1), text(o, 1), ratio(p, o),
                     text(f, 1), "-"])  # fmt: skip
    return table(["", "size", "predecessor", "ours", "better", "floor", "budget"], rows)


def special_figures(scenario: Scenario) -> list[tuple[str, Figure, float | None]]:
    percent, tail = scenario.tail
    figures: list[tuple[str, Figure, float | None]] = []
    if scenario.is_window:
        figures = [("% of a core", lambda run: run.cpu / run.wall * 100, scenario.budget)]
    if scenario.is_ticking:
        figures += [
            ("calls, % of the due", lambda run: run.calls / run.size / run.wall * 100, None),
            (f"lag, p{percent}, microseconds", lambda run: run.latency(percent), tail),
        ]
    if scenario.is_latency:
        figures = [
            ("p50, microseconds", lambda run: run.latency(50), scenario.budget),
            (f"p{percent}, microseconds", lambda run: run.latency(percent), tail),
        ]
    return figures


def instructions_table(results: Results, scenarios: Sequence[Scenario]) -> str:
    engines = ("predecessor", "ours", "floor", "floor-orjson")
    rows = []
    for s in scenarios:
        sizes = {run.size for run in results.runs if run.scenario == s.name}
        for size in sorted(sizes):
            p, o, f, fo = (
                results.median(s.name, e, size, lambda run: run.instructions / run.size / 1e3)
                for e in engines
            )
            rows.append([s.name, text(size), text(p), text(o), ratio(p, o), text(f), text(fo),
                         ratio(o, fo or f)])  # fmt: skip
    head = ["1,000 instructions per unit", "size", "predecessor", "ours", "fewer", "floor",
            "floor, orjson", "ours/floor"]  # fmt: skip
    return table(head, rows)


def render(results: Results, scenarios: Sequence[Scenario]) -> str:
    usual = [s for s in scenarios if not s.is_window and not s.is_latency]
    yardsticks = [run.yardstick for run in results.runs if run.yardstick]
    noise = max(yardsticks) / min(yardsticks) if yardsticks else 1.0
    facts = {
        f"{run.engine}: " + ", ".join(f"{k} {v}" for k, v in run.facts.items())
        for run in results.runs
        if run.facts
    }
    errors = [f"- {r.scenario}, {r.engine}, {r.size}: {r.error}" for r in results.runs if r.error]
    return "\n\n".join(
        [
            cpu_table(results, usual),
            memory_table(results, usual),
            special_table(results, [s for s in scenarios if s not in usual]),
            "\n".join(f"- {fact}" for fact in sorted(facts)),
            f"The machine's own speed varied {noise:.2f}x while this was measured.",
            *(["Failed:\n\n" + "\n".join(errors)] if errors else []),
        ]
    )
