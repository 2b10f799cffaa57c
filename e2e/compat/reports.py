"""How the results are shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .comparing import Difference, Expected

MAX_LINES = 40
MAX_WIDTH = 1000


def format_row(case: str, differences: Sequence[Difference], seconds: float) -> str:
    """One line on one case."""
    bad = [f"{d.pair}:{d.aspect}" for d in differences if d.lines]
    excused = sum(sum(d.excused.values()) for d in differences)
    status = "DIFFERS" if bad else "same*" if excused else "same"
    details = ", ".join(bad) or (f"{excused} lines are expected to differ" if excused else "")
    return f"{status:8} {case:32} {seconds:5.1f}s  {details}".rstrip()


def format_differences(differences: Sequence[Difference]) -> str:
    """All lines that differ: ``-`` is how it was in the predecessor, ``+`` is how it is now."""
    chunks = []
    for difference in differences:
        if not difference.lines:
            continue
        chunks.append(f"\n{difference.case} ({difference.pair}): {difference.aspect}")
        chunks += [f"    {line[:MAX_WIDTH]}" for line in difference.lines[:MAX_LINES]]
        if len(difference.lines) > MAX_LINES:
            chunks.append(f"    ... and {len(difference.lines) - MAX_LINES} more lines")
    return "".join(f"{chunk}\n" for chunk in chunks)


def format_reasons(results: Mapping[str, Sequence[Difference]]) -> str:
    """The table of intended differences: how many lines, in which cases, and why."""
    reasons: dict[str, tuple[int, set[str]]] = {}
    for case, differences in results.items():
        for difference in differences:
            for reason, count in difference.excused.items():
                total, cases = reasons.get(reason, (0, set()))
                reasons[reason] = (total + count, cases | {case})
    return "\n".join(
        f"{total:5} lines in {len(cases):2} cases: {reason}"
        for reason, (total, cases) in sorted(reasons.items(), key=lambda item: -item[1][0])
    )


def format_unused(expected: Sequence[Expected], results: Mapping[str, Sequence[Difference]]) -> str:
    """The intended differences that were not seen: what they excuse could be lost unnoticed."""
    used = {
        reason
        for differences in results.values()
        for difference in differences
        for reason in difference.excused
    }
    return "\n".join(f"{item.cases}: {item.reason}" for item in expected if item.reason not in used)
