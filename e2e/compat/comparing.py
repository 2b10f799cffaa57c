"""The differences between two runs of a case, and which of them are intended."""

from __future__ import annotations

import dataclasses
import difflib
import fnmatch
import re
from collections.abc import Mapping, Sequence

from .normalising import ASPECTS

UNORDERED = ("daemon-", "timer-", "handover-daemons")
"""The cases where several functions work on one object at once, and so do their patches come."""


@dataclasses.dataclass(frozen=True)
class Expected:
    """An intended difference: the lines to be excused, and one line on why."""

    cases: str
    """A pattern of the names of cases."""
    aspect: str
    """A pattern of the aspects."""
    line: str
    """A regular expression for the lines with the leading ``+`` (ours) or ``-`` (predecessor)."""
    reason: str

    def covers(self, case: str, aspect: str, line: str) -> bool:
        return (
            fnmatch.fnmatch(case, self.cases)
            and fnmatch.fnmatch(aspect, self.aspect)
            and re.search(self.line, line) is not None
        )


@dataclasses.dataclass
class Difference:
    """All the differences of one case in one aspect."""

    case: str
    pair: str
    aspect: str
    lines: list[str]
    """What is not excused."""
    excused: dict[str, int]
    """How many lines are excused, by the reasons."""


def is_unexpected(differences: Sequence[Difference]) -> bool:
    """Whether anything differs that is not excused."""
    return any(difference.lines for difference in differences)


def compare(
    case: str,
    pair: str,
    theirs: Mapping[str, Sequence[str]],
    ours: Mapping[str, Sequence[str]],
    expected: Sequence[Expected],
) -> list[Difference]:
    """Compare the lines of all the aspects; there is a difference for an aspect if not equal."""
    differences = []
    for aspect in ASPECTS:
        is_ordered = aspect != "requests" or not case.startswith(UNORDERED)
        lines = _diff(
            *(seen[aspect] if is_ordered else sorted(seen[aspect]) for seen in (theirs, ours))
        )
        if not lines:
            continue
        difference = Difference(case, pair, aspect, [], {})
        for line in lines:
            matching = [item for item in expected if item.covers(case, aspect, line)]
            if matching:
                reason = matching[0].reason
                difference.excused[reason] = difference.excused.get(reason, 0) + 1
            else:
                difference.lines.append(line)
        differences.append(difference)
    return differences


def check(case: str, pair: str, calls: Sequence[str], required: Sequence[str]) -> list[Difference]:
    """Check that the required calls are made; what is missing cannot be excused."""
    missing = [item for item in required if not any(re.search(item, call) for call in calls)]
    lines = [f"-a required call is missing: {item}" for item in missing]
    return [Difference(case, pair, "calls", lines, {})] if lines else []


def _diff(theirs: Sequence[str], ours: Sequence[str]) -> list[str]:
    matcher = difflib.SequenceMatcher(None, theirs, ours, autojunk=False)
    lines: list[str] = []
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag != "equal":
            lines += [f"-{line}" for line in theirs[i1:i2]]
            lines += [f"+{line}" for line in ours[j1:j2]]
    return lines
