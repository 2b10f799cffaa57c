"""Identities of the states of the model: equal for states from which the same can happen.

The names of versions and moments mean nothing: the order of versions matters, the order of past
moments, and how far the future ones are.
"""

from __future__ import annotations

import datetime
import hashlib
import re
from typing import Any

from e2e.simulation.worlds import UID, World
from kopf_cogs.aiokits.clocks import FakeClock
from kopf_cogs.structs.patches import Patch, PatchFn
from kopf_core.engines.records.holds import Holds
from kopf_core.engines.records.owed import NOTHING_OWED, Owed
from kopf_core.engines.records.writes import AwaitChange, LastWrite
from kopf_core.reactor.streams.work import Requeue, TurnResult

BEGINNING = FakeClock().now()
VERSION = re.compile(r"'resourceVersion': '(\d+)'")
MOMENT = re.compile(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|\+00:00)")


def identify(world: World) -> bytes:
    """A digest of everything that the operator or the world can depend on."""
    text = repr(_describe(world))
    versions = sorted({*VERSION.findall(text)}, key=int)
    ranks = {version: f"v{rank}" for rank, version in enumerate(versions)}
    names = _name_moments({*MOMENT.findall(text)}, world.time)
    text = VERSION.sub(lambda match: ranks[match[1]], text)
    text = MOMENT.sub(lambda match: names[match[0]], text)
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def _name_moments(texts: set[str], time: float) -> dict[str, str]:
    """Past moments by their order, and future ones by how far they are."""
    now = BEGINNING + datetime.timedelta(seconds=time)
    moments = {text: datetime.datetime.fromisoformat(text) for text in texts}
    past = sorted({moment for moment in moments.values() if moment <= now})
    ranks = {moment: f"t{rank}" for rank, moment in enumerate(past)}
    return {text: ranks.get(at) or f"+{at - now}" for text, at in moments.items()}


def _describe(world: World) -> list[Any]:
    """The parts of the state. All versions are in fields of the same name, as in bodies."""
    now, memory, item = world.time, world.memories.get(UID), world.item
    parts: list[Any] = [world.body, world.stream, world.budget, world.seen, sorted(world.excuses)]
    if memory is None:
        parts.append(None)
    else:
        parts += [_describe_write(memory.write, now), _describe_holds(memory.holds, now)]
        parts += [_describe_owed(memory.owed), repr(memory.cycle), memory.is_listed, memory.idle]
    if item is not None:
        news = item.generation != item.seen_generation
        parts += [_describe_rest(item.rest, now), [*item.events], item.latest, item.type]
        parts += [news, item.is_contradicted, item.is_listed]
    return parts


def _describe_write(write: LastWrite, now: float) -> list[Any]:
    awaited = None if write.awaited is None else _describe_rest(write.awaited, now)
    flags = [write.kind, write.state is None, write.is_final, write.is_doubted]
    return [_wrap(write.floor), _wrap(write.version), awaited, *flags]


def _describe_rest(rest: TurnResult, now: float) -> list[Any]:
    match rest:
        case AwaitChange(version, until):
            return [_wrap(version), _get_left(until, now)]
        case Requeue(at, is_held):
            return [_get_left(at, now), is_held]
    return []


def _describe_holds(holds: Holds, now: float) -> list[Any]:
    """How many rounds a loop has made, and when, matters only when it is endless."""
    loops = [
        [[*loop, round(loop.until - now, 3)] if loop.is_endless else loop.rounds > 0, loop.fields]
        for loop in (holds.changes, holds.events)
    ]
    finalizer = holds.finalizer
    quarrel = [finalizer.done, finalizer.undone, finalizer.undone and finalizer.until - now]
    until = _get_left(holds.until, now)
    return [holds.is_paused, holds.throttling, until, holds.losses, quarrel, loops]


def _describe_owed(owed: Owed) -> list[Any]:
    if owed is NOTHING_OWED:
        return []
    marks, patch = _describe_patch(owed.marks), _describe_patch(owed.patch)
    return [marks, patch, owed.base, [_name(fn) for fn in owed.carried], owed.conflicts]


def _describe_patch(patch: Patch | None) -> list[Any] | None:
    return None if patch is None else [dict(patch), [_name(fn) for fn in patch.fns]]


def _name(fn: PatchFn) -> str:
    """What the function does; all others are the same but for that."""
    fn_itself: Any = getattr(fn, "func", fn)
    return f"{fn_itself.__qualname__} {getattr(fn, 'keywords', {})}"


def _wrap(version: int | str | None) -> dict[str, str] | None:
    return None if version is None else {"resourceVersion": str(version)}


def _get_left(until: float, now: float) -> float:
    return max(0.0, round(until - now, 3))
