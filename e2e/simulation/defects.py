# ruff: noqa: E501
"""The defects that mutants have: one change of the code each, which is wrong by its meaning."""

from __future__ import annotations

from typing import NamedTuple


class Mutant(NamedTuple):
    """One defect: this text in this file is replaced by that one."""

    part: str
    name: str
    file: str
    old: str
    new: str


R, D = "kopf_core/reactor/", "kopf_core/engines/desired/"
B, L, P = "kopf_core/engines/background/", "kopf_core/engines/leasing/", "kopf_cogs/clients/"
WRITES = "kopf_core/engines/records/writes.py"
STORES, QUEUE = f"{R}streams/stores.py", f"{R}streams/queueing.py"
CYCLES = f"{R}object/cycles.py"
SPINE, DELIVERY = f"{R}object/reconciliation.py", f"{R}object/delivery.py"
TABLE, GOVERNOR = f"{R}object/deciding.py", f"{R}life/governing.py"
SEEN, MISSED = f"{R}object/seen_states.py", f"{R}object/missed_changes.py"
FINALIZERS = "kopf_cogs/structs/finalizers.py"

ECHOES = (
    ("any later state is settled", WRITES,
     'and self.version == body["metadata"].get("resourceVersion")', "and True"),
    ("settled though not finished", DELIVERY, "if turn.is_finished:", "if True:"),
    ("settled whatever was changed", DELIVERY,
     "elif is_only_marked(source, applied.body, turn):", "elif turn.is_changing or True:"),
    ("the step is known for no state", WRITES, "return self.state\n", "return None\n"),
    ("the step is known for any state", WRITES,
     "if self.state is None or body is None or not self._has_made(body):", "if self.state is None:"),
    ("outdated states are trusted", WRITES,
     "return version is not None and version < self.floor", "return False"),
    ("nothing is awaited after patches", DELIVERY,
     "turn.memory.write.answered(patched, self._clock.monotonic() + timeout)",
     "turn.memory.write.answered(patched, self._clock.monotonic())"),
    ("awaited whatever comes", WRITES,
     "return version == self.version or is_as_new(body, self.version)", "return True"),
    ("never met", WRITES,
     "return version == self.version or is_as_new(body, self.version)", "return False"),
    ("replies do not count as known states", WRITES,
     "return LastWrite(parse_version(body), version, kind, state, is_final, awaited)",
     "return LastWrite(self.floor, version, kind, state, is_final, awaited)"),
    ("older states replace our own", DELIVERY,
     "elif item.latest is not None and is_newer(item.latest, event[\"object\"]):", "elif False:"),
    ("the reply is not the newest state", DELIVERY,
     'turn.item.latest, turn.item.type = patched, "MODIFIED"\n', "pass\n"),
    ("the last known step is never lost", DELIVERY,
     "memory.write = memory.write.unknown()", "pass"),
    ("own echoes are handled", TABLE,
     "lambda turn, rules: rules.echoes.is_own(turn),", "lambda turn, rules: False,"),
    ("absorbed echoes are awaited still", f"{R}object/echoes.py",
     "            memory.write = memory.write.streamed(event[\"object\"])\n", "            pass\n"),
)  # fmt: skip

GATES = (
    ("cancelled turns are done", QUEUE,
     "        item.generation += 1  # the work of the turn is not done\n"
     '        item.reasons |= {"interrupted"}\n', ""),
    ("nothing is lined up when opened", QUEUE,
     "case Gate.OPEN if item.position is Position.QUEUED:", "case Gate.OPEN if False:"),
    ("news amid a turn are forgotten", QUEUE,
     "item.interruptions = item.interruptions + 1 if has_news else 0",
     "item.interruptions = 0"),
    ("dropped in spite of news", QUEUE,
     "item.rest is DONE and item.wanted_at is None and not has_news",
     "item.rest is DONE and item.wanted_at is None"),
    ("no timers for delays", QUEUE, "                times.append(at)\n", "                pass\n"),
    ("no deadline for what is awaited", QUEUE,
     "                times.append(until)\n", "                times.append(until + 1e6)\n"),
    ("pauses do not shut the queues", QUEUE,
     "        self._gate = gate\n        if gate is not Gate.OPEN:",
     "        self._gate = Gate.OPEN if gate is Gate.PAUSED else gate\n        if gate is not Gate.OPEN:"),
    ("the door is always open", "kopf_core/actions/threads.py",
     "        if self.is_shut:\n            return False\n", "        return True\n"),
    ("the mode is never lifted", GOVERNOR,
     "if self._reasons.pop(reason, None) is not None:", "if False:"),
    ("the mildest reason wins", GOVERNOR, "mode = max(self._reasons", "mode = min(self._reasons"),
    ("daemons are not resumed", GOVERNOR,
     'self._orchestrator.enqueue(key, "resumed", resource=resource, body=raw)', "pass"),
    ("what is not sent is forgotten", SPINE,
     "memory.owed = memory.owed.unsent(turn.marks, turn.patch)", "memory.owed = NOTHING_OWED"),
    ("what is owed is never sent", TABLE,
     "lambda turn, _: turn.memory.owed.marks is not None,", "lambda turn, _: False,"),
    ("held objects are handled", TABLE,
     "lambda turn, _: turn.item.held is not None,", "lambda turn, _: False,"),
    ("interrupted turns send nothing", SPINE,
     "            await self._delivery.save(turn)\n            raise", "            raise"),
    ("deletions are held, too", QUEUE,
     "item.rest = DONE  # a deletion is never held", "pass"),
)  # fmt: skip

FENCES = (
    ("the fence is always open", f"{L}fences.py",
     "return self._clock.monotonic() < self._until", "return True"),
    ("requests are never fenced", f"{L}fences.py", "        if left <= 0:", "        if False:"),
    ("a lapsed fence can be extended", f"{L}fences.py",
     "if self.is_open or not self._until:", "if True:"),
    ("the fence is not closed on a loss", f"{L}fences.py", 'given up."""\n        self._until = 0.0\n', 'given up."""\n'),
    ("a lost lease pauses nothing", f"{L}elector.py",
     "            await self._on_following()\n", ""),
    ("takeovers look at nothing", TABLE,
     "given=lambda rules: rules.takeovers is not None,", "given=lambda rules: False,"),
    ("what works goes on without the lease", GOVERNOR,
     "self._is_cut and not was_cut", "False"),
    ("others' leases are ignored", f"{L}elector.py",
     "if self._observed.is_held_by_other(self._identity, self._clock.monotonic()):", "if False:"),
)  # fmt: skip

SEEN_STATES = (
    ("missed changes are not found", MISSED,
     "if len(seen.items) <= 1 or cause.reason is Reason.DELETE:", "if True:"),
    ("nobody is named as over", SEEN,
     "past[-1] = past[-1]._replace(by=frozenset(finished) - known)",
     "past[-1] = past[-1]._replace(by=frozenset())"),
    ("the newest state is the handled one", MISSED,
     "essence = seen.items[earliest].essence\n    kept", "essence = seen.items[-1].essence\n    kept"),
    ("nobody is kept", MISSED, "if position > earliest and id in interests", "if False"),
    ("sub-handlers are not kept", MISSED, "    if ahead:\n", "    if False:\n"),
    ("our own changes are foreign ones", CYCLES,
     "return seen.change(self.build_essence(Body(turn.patch.transform(cause.body))))",
     "return seen"),
    ("the states are stored only in memory", CYCLES,
     "storage.store_seen(body=cause.body, patch=planned, seen=encoded)", "pass"),
    ("the essence is of the newest state", CYCLES,
     "turn.essence = self._plan_essence(cause, seen.items[-1].essence)",
     "turn.essence = self._plan_essence(cause, seen.items[0].essence)"),
    ("the progress is not purged", CYCLES,
     "state.purge(self._handlers.changing, body=cause.body, patch=marks, storage=storage)", "pass"),
    ("the progress is not stored", CYCLES,
     "state.store(body=cause.body, patch=turn.marks, storage=storage)", "pass"),
)  # fmt: skip

PRUNING = (
    ("nothing is pruned", f"{D}passes.py", "            if self.prune:", "            if False:"),
    ("everything is pruned", f"{D}passes.py",
     "            if applier.is_wanted(resource, body):\n                continue\n", ""),
    ("foreign changes of children are ours", f"{D}desired_states.py",
     "is_ours = change is ObservedChange.OURS\n        handlers = self._find", "is_ours = True\n        handlers = self._find"),
    ("replies are not put into stores", STORES, "        self._unconfirmed.add(key)\n        return True", "        return True"),
    ("late events replace replies", STORES,
     'if is_taken or event["type"] is None:', "if True:"),
    ("deletions are not remembered", STORES,
     "            self._remember_deletion(key, None)\n", ""),
    ("what is relisted is not compared", STORES,
     "if key not in self._bodies}\n        if self.is_synced", "if False}\n        if self.is_synced"),
)  # fmt: skip

FINALIZING = (
    ("the finalizer is never added", FINALIZERS,
     "    meta[\"finalizers\"] = [*(meta.get(\"finalizers\") or ()), finalizer]", "    pass"),
    ("others' finalizers are removed", FINALIZERS,
     'remaining = [name for name in meta["finalizers"] if name != finalizer]', "remaining = []"),
    ("the finalizer stays", FINALIZERS,
     'remaining = [name for name in meta["finalizers"] if name != finalizer]',
     'remaining = [*meta["finalizers"]]'),
    ("let go while daemons run", SPINE,
     "is_kept = is_deleting and self._background.is_running(key)", "is_kept = False"),
    ("marks remain with a released object", f"{R}object/releases.py",
     "    fields.apply_fields(body)\n", ""),
    ("marks are removed before the release", f"{R}object/releases.py",
     "    for field in fields:\n        del marks[field]\n    marks.fns.append(partial(release, finalizer=finalizer, fields=fields))",
     "    marks.fns.append(partial(allow_deletion, finalizer=finalizer))"),
    ("released objects are handled again", DELIVERY,
     "memory.cycle = memory.cycle.at(Stage.FREED)", "pass"),
    ("deleted objects are not forgotten", SPINE,
     "        self._memories.forget(turn.item.key)\n        self._forget_work", "        self._forget_work"),
    ("followers keep deleted objects", f"{R}streams/queueing.py",
     "        if (not is_working and self._forget(item.key)) if item.is_deleted else forget:",
     "        if not item.is_deleted and forget:"),
    ("lost objects are kept", DELIVERY, "            turn.memory.lose(source)\n", ""),
    ("daemons outlive objects", SPINE,
     "            self._background.stop_deleted(key, body)\n", "            pass\n"),
)  # fmt: skip

FORMER = (
    ("K1: lists wait for the gate", QUEUE,
     "        while self.backlog.is_large and self._gate is Gate.OPEN:",
     "        while self.backlog.is_large and self._gate is not Gate.OPEN:\n"
     "            await self.backlog.wait(PATIENCE)\n        while self.backlog.is_large:"),
    ("K2: what was deleted under others is resumed", GOVERNOR,
     "self._is_listed_anew |= mode in (Mode.COLD, Mode.CUT)",
     "self._is_listed_anew |= mode is Mode.COLD"),
    ("K3: lingering daemons hold up the handlers", SPINE,
     "        if is_ours and turn.memory.cycle.stage is not Stage.RELEASED:\n",
     "        if self._background.is_stopping(key):\n            delay = 1e6\n"
     "        elif is_ours and turn.memory.cycle.stage is not Stage.RELEASED:\n"),
    ("K5: what was absent once never comes back", DELIVERY,
     "is_back = stage is Stage.ABSENT and _is_present(turn, event)", "is_back = False"),
    ("K6: a pause shuts the door after its end", GOVERNOR,
     "        self._door.is_shut = self.is_paused\n", "        self._door.is_shut = True\n"),
    ("K14: pauses never shut the door", GOVERNOR,
     "        self._door.is_shut = self.is_paused\n", "        pass\n"),
    ("K15: patches on their way are cut at once", f"{R}streams/work.py",
     "        if not self.is_sending:\n", "        if True:\n"),
)  # fmt: skip
"""The defects of former versions, put back into the newest code. Some of the mutants above are
former defects, too: of K7, K8, and K12.
"""

PARTS = {
    "echoes": ECHOES,
    "gates": GATES,
    "fences": FENCES,
    "seen states": SEEN_STATES,
    "pruning": PRUNING,
    "finalizers": FINALIZING,
    "former": FORMER,
}
MUTANTS = [Mutant(part, *fields) for part, mutants in PARTS.items() for fields in mutants]
