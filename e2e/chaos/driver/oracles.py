"""The oracles: what must hold after any run, whatever has happened in it.

O1 nothing is lost; O2 nothing runs twice; O3 failures are retried at bounded rates; O4 no zombies;
O5 the healthy are not delayed by the poisoned; O6 errors are clear and have no secrets;
O7 the end is as that of an undisturbed run; O8 nothing leaks.
"""

from __future__ import annotations

import collections
import dataclasses
import signal
import statistics
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from e2e.chaos.driver.marks import get_handled, get_progress, is_handled, strip
from e2e.chaos.driver.notes import Note
from e2e.chaos.driver.processes import Process
from e2e.chaos.fake.journal import Entry

TOKEN = "canary-0b5e7a-token"
"""The secret by which the operators log in."""

MAX_RATE = 100
"""How many requests of one verb for one object or kind there can be in any second."""

MAX_DELAY = 1.0
"""By how many seconds poisoned objects and kinds can delay the others."""

TOLERANCES = {"tasks": 0, "threads": 1, "descriptors": 15, "objects": 150, "memory": 5000}
"""By how much there can be more of what is counted: some of it is in caches.

The memory is in KB; the objects are those of Python; connections are kept for a while, too.
"""


@dataclasses.dataclass(frozen=True)
class Evidence:
    """All that is known of a run when it is over."""

    notes: Sequence[Note]
    processes: Sequence[Process]
    requests: Sequence[Entry]
    objects: Sequence[dict[str, Any]]
    """What has remained of the objects that the operator serves."""

    blind: Collection[str] = ()
    """The kinds that were not watched in the end, while the operator was alive."""

    undisturbed: Sequence[dict[str, Any]] | None = None
    """The objects in the end of an undisturbed run, if there was one."""

    delays: Sequence[float] = ()
    """How long (in seconds) healthy objects had to wait for their handlers beside poisoned ones."""

    peaceful_delays: Sequence[float] = ()
    """The same at the same time for an operator that has only healthy objects."""

    censuses: Sequence[Mapping[str, int]] = ()
    """What the operator consists of: in the beginning of the run, and in the end."""


def judge(evidence: Evidence, *, tolerated: Collection[str] = ()) -> list[str]:
    """What is wrong with the run, by all oracles but the tolerated ones."""
    oracles = {
        "O1": _find_lost,
        "O2": _find_doubled,
        "O3": _find_bursts,
        "O4": _find_zombies,
        "O5": _find_delayed,
        "O6": _find_noise,
        "O7": _find_differences,
        "O8": _find_leaks,
    }
    return [
        f"{name}: {problem}"
        for name, find in oracles.items()
        if name not in tolerated
        for problem in find(evidence)
    ]


def _find_lost(evidence: Evidence) -> Iterator[str]:
    for obj in evidence.objects:
        if not is_handled(obj):
            progress = get_progress(obj)
            yield (
                f"{obj['metadata']['name']} is not handled: "
                f"spec={obj.get('spec')}, handled={get_handled(obj)}, progress={progress}"
            )


def _find_doubled(evidence: Evidence) -> Iterator[str]:
    """Each kill can cost one repetition; a graceful exit costs nothing."""
    kills = sum(signal.SIGKILL in process.signals for process in evidence.processes)
    counts: Mapping[Any, int] = collections.Counter(
        (
            str(note.name),  # it can be anything, if the object was poisoned
            str(note.uid),
            note.handler,
            note.reason,
            note.pid if note.reason == "resume" else None,
            str(note.diff) if note.reason == "update" else None,
        )
        for note in evidence.notes
        if note.point == "end" and note.is_success and note.reason is not None
    )
    for (name, _, handler, reason, *_), count in counts.items():
        if count > 1 + kills:
            yield f"{handler} has succeeded {count} times for the {reason} of {name}"


def _find_bursts(evidence: Evidence) -> Iterator[str]:
    times = collections.defaultdict(list)
    for entry in evidence.requests:
        times[entry.verb, entry.target.plural, entry.target.name].append(entry.time)
    for what, moments in times.items():
        for first, last in zip(moments, moments[MAX_RATE:], strict=False):
            if last - first < 1:
                yield f"more than {MAX_RATE} requests in a second: {what}"
                break


def _find_zombies(evidence: Evidence) -> Iterator[str]:
    for kind in evidence.blind:
        yield f"{kind} are not watched, though the operator is alive"
    for process in evidence.processes:
        if process.code == 0 and not process.signals:
            yield f"the operator has exited on its own, and with no error:\n{process.tail}"


def _find_delayed(evidence: Evidence) -> Iterator[str]:
    """The machine can be slow at any moment, so both operators are measured side by side."""
    if evidence.delays:
        delay = statistics.median(evidence.delays)
        peaceful = statistics.median(evidence.peaceful_delays)
        if delay - peaceful >= MAX_DELAY:
            yield f"healthy objects wait for {delay:.3f} s, and {peaceful:.3f} s if left in peace"


def _find_noise(evidence: Evidence) -> Iterator[str]:
    for process in evidence.processes:
        for line in process.log:
            if TOKEN in line:
                yield f"the token is in the log: {line[:200]}"
            if "Traceback (most recent call last)" in line:
                yield f"there are tracebacks in the log:\n{process.tail}"
                break
    for obj in evidence.objects:
        if TOKEN in str(obj):
            yield f"the token is on the object: {obj}"


def _find_differences(evidence: Evidence) -> Iterator[str]:
    if evidence.undisturbed is not None:
        ours = [strip(obj) for obj in evidence.objects]
        theirs = [strip(obj) for obj in evidence.undisturbed]
        if ours != theirs:
            yield f"the end differs:\n{ours}\nand undisturbed:\n{theirs}"


def _find_leaks(evidence: Evidence) -> Iterator[str]:
    if evidence.censuses:
        first, last = evidence.censuses[0], evidence.censuses[-1]
        for what, tolerance in TOLERANCES.items():
            if last[what] > first[what] + tolerance:
                yield f"there were {first[what]} {what}, and in the end there are {last[what]}"
