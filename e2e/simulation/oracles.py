"""The oracles: what must hold after any life. Their names are those of the specification."""

from __future__ import annotations

import collections
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from e2e.simulation.clusters import Restore, is_write
from e2e.simulation.programs import FINALIZING, Note

DAEMONS = frozenset({"daemon", "sleeper", "lingerer"})
EXACT = frozenset({"first", "sync", "retried", "patching"})
"""The handlers of creations and updates of which each change is to be followed."""

FOLLOWING = {
    "first": "first",
    "sync": "sync",
    "retried": "retried",
    "parent": "parent/y",
    "patching": "patching",
    "stamping": "stamping",
    "field": "field",
}
"""The handlers that must succeed for the last state of each object, by the features."""

IN_WORK = 5.0
"""How long (in virtual seconds) something can be on its way after a handler."""

TOUCHED = 1000
"""What is added to the values of all objects in the end: the operator must be alive still."""

MAX_RATE = 100
"""How many requests of one method for one path there can be in any (virtual) second."""

PREFIX = "sim.kopf.dev/"

ORACLES = ("O1", "O2", "O3", "O5", "O6", "O7", "O8", "O9", "O11", "O12", "O13", "O14", "O15", "O16")
SETTLED = ("O1", "O7", "O8", "O13")
"""What must hold as soon as the world has settled: later changes could hide what was lost."""


@dataclass(frozen=True)
class Memory:
    """What one operator remembers."""

    run: str
    known: Collection[object]
    """The keys of the objects that it has records of."""

    waiting: Collection[object]
    """The keys of the objects in its queues."""

    index: Mapping[str, Sequence[Any]]
    """The values in its index, by the names of objects."""


@dataclass(frozen=True)
class Evidence:
    """All that is known of a life in its end."""

    features: Collection[str]
    notes: Sequence[Note]
    objects: Sequence[dict[str, Any]]
    children: Sequence[dict[str, Any]]
    requests: Sequence[tuple[str, str, float]]
    kills: int
    """How many times something could be repeated, as its success could not be recorded."""

    is_undone: bool
    """Whether the past was restored, or people have removed the marks of operators."""

    restores: Sequence[Restore]
    """The backups that were restored."""

    strips: Sequence[tuple[float, str]]
    """When people have removed all marks, and from which objects."""

    has_stale_lists: bool
    """Whether lists could be from the past."""

    orphans: Mapping[str, float]
    """The objects to which patches came after their senders had cancelled them, and since when."""

    replicas: int
    runs: Collection[str]
    """The names of the operators that are there in the end."""

    memories: Sequence[Memory]
    """What the operators remember in the end."""

    pauses: Sequence[tuple[float, float]]
    """When the operator was paused, with all its work surely over, and until when."""

    cut: Sequence[str]
    """The patches that an operator has cut on their way, though the API was quick to answer."""

    is_settled: bool
    now: float
    late_writes: Sequence[str]
    log: Sequence[str]
    complaints: Sequence[str]

    @property
    def settled(self) -> Iterator[dict[str, Any]]:
        """The objects without those whose marks were changed by others while they were in work.

        They are right only after their next change. The client repeats what has failed: so, what
        was done for the states that are lost with a backup, is sent to the restored states. One
        request of a patch can be lost with a backup while the next one is sent to the restored
        state. Progress comes back to objects right after people have removed all marks. A cancelled
        patch can come after a later one, and is executed, too.
        """
        for obj in self.objects:
            meta = obj["metadata"]
            is_disturbed = meta["name"] in self.orphans or self._was_disturbed(meta["uid"])
            if obj["spec"]["x"] >= TOUCHED or not is_disturbed:
                yield obj

    def is_taken_back(self, note: Note) -> bool:
        """Whether a late patch can have taken back what was stored before this call."""
        return note.at > self.orphans.get(note.name, float("inf"))

    def _was_disturbed(self, uid: str) -> bool:
        notes = [note for note in self.notes if note.uid == uid and note.version.isdigit()]
        return any(
            note.at >= restore.time - IN_WORK and int(note.version) <= restore.last
            for restore in self.restores
            for note in notes
        ) or any(
            stripped == uid and at - IN_WORK <= note.at <= at
            for at, stripped in self.strips
            for note in notes
        )


def judge(evidence: Evidence, names: Collection[str] = ORACLES) -> list[str]:
    """What is wrong with the life, by these oracles."""
    oracles = {
        "O1": _find_lost,
        "O2": _find_doubled,
        "O3": _find_bursts,
        "O5": _find_usurpers,
        "O6": _find_noise,
        "O7": _find_differences,
        "O8": _find_leftovers,
        "O9": _find_restlessness,
        "O11": _find_gaps,
        "O12": _find_unattended,
        "O13": _find_unseen,
        "O14": _find_unforgotten,
        "O15": _find_intrusions,
        "O16": _find_cut,
    }
    return [f"{name}: {text}" for name in names for text in oracles[name](evidence)]


def _find_lost(evidence: Evidence) -> Iterator[str]:
    for obj in evidence.settled:
        meta, annotations = obj["metadata"], obj["metadata"].get("annotations") or {}
        handled = annotations.get(f"{PREFIX}last-handled-configuration")
        state = json.loads(handled) if handled else {}
        is_handled = "first" in evidence.features
        if is_handled and state.get("spec") != obj["spec"]:
            yield f"{meta['name']} is not handled: {obj['spec']} {annotations}"
        if is_handled and (state.get("metadata") or {}).get("labels") != meta.get("labels"):
            yield f"the labels of {meta['name']} are not handled: {meta.get('labels')}"
        own = {name for name in annotations if name.startswith(PREFIX)}
        left = own - {f"{PREFIX}last-handled-configuration", f"{PREFIX}kopf-managed"}
        if left:
            yield f"{meta['name']} has progress left: {annotations}"
        if "deletionTimestamp" in meta:
            yield f"{meta['name']} is never released: {meta}"
        yield from _find_uncalled(evidence, obj)


def _find_uncalled(evidence: Evidence, obj: dict[str, Any]) -> Iterator[str]:
    """Each handler of changes has succeeded for the last state."""
    uid, x = obj["metadata"]["uid"], obj["spec"]["x"]
    labels = str(obj["metadata"].get("labels") or {})
    for name in [FOLLOWING[one] for one in evidence.features if one in FOLLOWING]:
        if not any(
            note.handler == name and note.uid == uid and note.x == x and note.outcome == "success"
            and (name == "field" or note.labels == labels)
            for note in evidence.notes
        ):  # fmt: skip
            yield f"{name} was never called for x={x}, {labels} of {obj['metadata']['name']}"


def _find_doubled(evidence: Evidence) -> Iterator[str]:
    notes = [
        note for note in evidence.notes
        if note.point == "end" and note.outcome == "success" and note.handler not in DAEMONS
        and note.reason in ("create", "update", "delete") and is_led(note, evidence)
        and not evidence.is_taken_back(note)
    ]  # fmt: skip
    counts = collections.Counter(
        (note.name, note.uid, note.handler, note.reason, note.diff) for note in notes
    )
    for (name, _, handler, reason, diff), count in counts.items():
        if count > 1 + evidence.kills:
            yield f"{handler} has succeeded {count} times for the {reason} of {name} {diff}"
    if not evidence.is_undone and evidence.replicas == 1:
        runs = collections.Counter(
            (note.run, note.name, note.uid, note.handler, note.reason, note.diff) for note in notes
        )
        for (run, name, _, handler, reason, diff), count in runs.items():
            if count > 1:
                yield f"{handler} has succeeded {count} times in {run}: {reason} of {name} {diff}"


def is_led(note: Note, evidence: Evidence) -> bool:
    """Whether it could be recorded. A leader can lose its lease while it is suspended."""
    return evidence.replicas == 1 or note.holder == note.run


def _find_bursts(evidence: Evidence) -> Iterator[str]:
    times = collections.defaultdict(list)
    for method, path, at in evidence.requests:
        times[method, path].append(at)
    for what, moments in times.items():
        pairs = zip(moments, moments[MAX_RATE:], strict=False)
        if any(last - first < 1 for first, last in pairs):
            yield f"more than {MAX_RATE} requests in a second: {what}"


def _find_usurpers(evidence: Evidence) -> Iterator[str]:
    """Nothing begins in an operator that does not hold the lease; or the lease itself is lost."""
    for note in evidence.notes if evidence.replicas > 1 and not evidence.restores else ():
        if note.point in ("begin", "tick", "pass") and note.holder != note.run:
            yield f"{note.handler} begins in {note.run} at {note.at:.4f} under {note.holder!r}"


def _find_noise(evidence: Evidence) -> Iterator[str]:
    for line in evidence.log:
        if "Traceback" in line:
            yield f"there are tracebacks in the log: {line}"
    for text in evidence.complaints:
        if "Unclosed" not in text:
            yield f"the loop complains: {text}"


def _find_differences(evidence: Evidence) -> Iterator[str]:
    """The end must be as if nothing had gone wrong."""
    for obj in evidence.settled:
        status, x = obj.get("status") or {}, obj["spec"]["x"]
        expected = {**status, "seen": x, "patching": {"x": x}}
        if "stamping" in evidence.features and obj["spec"].get("y") != x:
            yield f"the spec of {obj['metadata']['name']} is not stamped: {obj['spec']}"
        if "patching" in evidence.features and status != expected:
            yield f"the status of {obj['metadata']['name']} is not of x={x}: {status}"
        if "reconciler" in evidence.features and status.get("children") != 1 + x % 3:
            yield f"the status of {obj['metadata']['name']} is not of its passes: {status}"
        finalizers = obj["metadata"].get("finalizers") or []
        if bool(finalizers) != bool(FINALIZING & set(evidence.features)):
            yield f"the finalizers of {obj['metadata']['name']} are {finalizers}"
    if "reconciler" in evidence.features:
        yield from _find_wrong_children(evidence)


def _find_wrong_children(evidence: Evidence) -> Iterator[str]:
    wanted = {
        f"{obj['metadata']['name']}-{number}": str(obj["spec"]["x"])
        for obj in evidence.objects
        for number in range(1 + obj["spec"]["x"] % 3)
    }
    actual = {
        child["metadata"]["name"]: (child.get("data") or {}).get("x") for child in evidence.children
        if child["metadata"]["name"].startswith("obj")
    }  # fmt: skip
    if wanted != actual:
        yield f"the children are {actual} instead of {wanted}"


def _find_leftovers(evidence: Evidence) -> Iterator[str]:
    """Daemons and timers are there exactly for the objects that are."""
    alive = {obj["metadata"]["uid"] for obj in evidence.objects}
    for name in DAEMONS & {*evidence.features}:
        running = collections.Counter(dict.fromkeys(alive, 0))
        for note in evidence.notes:
            if note.handler == name and note.run in evidence.runs:
                running[note.uid] += 1 if note.point == "begin" else -1
        for uid, count in running.items():
            if count != (uid in alive):
                yield f"{count} daemons {name} run for the object {uid}"
    if "timer" in evidence.features:
        ticking = {
            note.uid
            for note in evidence.notes
            if note.handler == "timer" and note.run in evidence.runs and note.at > evidence.now - 30
        }
        if ticking != alive:
            yield f"timers tick for {ticking} instead of {alive}"


def _find_restlessness(evidence: Evidence) -> Iterator[str]:
    if not evidence.is_settled:
        yield "the world has never settled"
    for write in evidence.late_writes[:3]:
        yield f"something is written in the settled world: {write}"


def _find_gaps(evidence: Evidence) -> Iterator[str]:
    """Each handler follows all changes: a diff begins where its previous one has ended."""
    if evidence.kills or evidence.is_undone or evidence.replicas > 1:
        return  # it can be repeated then
    known: dict[tuple[str, str], Any] = {}
    for note in evidence.notes:
        if note.handler not in EXACT or note.outcome != "success" or evidence.is_taken_back(note):
            continue
        key = note.uid, note.handler
        if note.reason == "update" and note.old is not None and known.get(key) != note.old:
            yield (
                f"{note.handler} gets a change of {note.name} from x={note.old} to x={note.x}, "
                f"but it has seen x={known.get(key)} the last time"
            )
        known[key] = note.x


def _find_unattended(evidence: Evidence) -> Iterator[str]:
    """No object goes while something is to be done for it."""
    if evidence.kills or evidence.is_undone or evidence.replicas > 1:
        return
    alive = {obj["metadata"]["uid"] for obj in evidence.objects}
    handled = {note.uid: note.name for note in evidence.notes if note.handler == "first"}
    ended = {
        note.uid
        for note in evidence.notes
        if note.handler == "deleted" and note.outcome == "success"
    }
    if "deleted" in evidence.features:
        for uid in handled.keys() - alive - ended:
            yield f"{handled[uid]} is deleted, but its deletion was not handled"
    begun: dict[tuple[str, str, str], Note] = {}
    for note in evidence.notes:
        # Nothing else is handled before there is the finalizer; but daemons can be started. A list
        # from the past can bring an object that is gone already: its daemon holds nothing.
        if note.handler in ("daemon", "lingerer") and note.uid in handled:
            key = note.run, note.handler, note.uid
            if note.point == "begin":
                begun[key] = note
            elif note.is_gone and not (evidence.has_stale_lists and begun[key].is_gone):
                yield f"{note.name} was let go while {note.handler} was running"


def _find_unseen(evidence: Evidence) -> Iterator[str]:
    """The handlers of events have seen the newest states."""
    versions = {
        obj["metadata"]["uid"]: obj["metadata"]["resourceVersion"] for obj in evidence.objects
    }
    if "event" in evidence.features and evidence.replicas == 1:
        seen = {note.uid: note.version for note in evidence.notes
                if note.point == "event" and note.run in evidence.runs}  # fmt: skip
        for uid, version in versions.items():
            if seen.get(uid) != version:
                yield f"the version {version} was not seen by on.event: {seen.get(uid)} was"


def _find_unforgotten(evidence: Evidence) -> Iterator[str]:
    """Operators remember nothing of what is gone; their indices are of what is there."""
    alive = {obj["metadata"]["uid"] for obj in evidence.objects}
    index = {obj["metadata"]["name"]: [obj["spec"]["x"]] for obj in evidence.objects}
    for memory in evidence.memories:
        for what, keys in {"remembers": memory.known, "waits for": memory.waiting}.items():
            if gone := {*keys} - alive:
                yield f"{memory.run} {what} objects that are gone: {gone}"
        if "index" in evidence.features and memory.index != index:
            yield f"the index of {memory.run} is {memory.index} instead of {index}"


def _find_intrusions(evidence: Evidence) -> Iterator[str]:
    """A paused operator writes nothing: others are at work."""
    for since, until in evidence.pauses if evidence.replicas == 1 else ():
        for method, path, at in evidence.requests:
            if is_write(method, path) and since <= at < until:
                yield f"{method} {path} at {at:.3f} in the pause from {since:.3f} to {until:.3f}"


def _find_cut(evidence: Evidence) -> Iterator[str]:
    """What an exit cuts on its way is executed, but the operator sends it again."""
    for name in evidence.cut:
        yield f"a patch of {name} was cut on its way"
