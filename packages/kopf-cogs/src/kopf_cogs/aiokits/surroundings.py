"""The surroundings of a process: where its time, its threads, and its random numbers come from.

All these are facts of the process rather than of any part of it, so the parts take them from
the context, and nothing is passed through all the layers. Operators put their own ones there;
so do tests and simulations. Nothing else reads clocks, draws numbers, or starts threads.
"""

import random
from contextvars import ContextVar
from dataclasses import dataclass, field

from kopf_cogs.aiokits.clocks import Clock, SystemClock
from kopf_cogs.aiokits.threads import SystemThreads, Threads


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The clock, the threads, and the random numbers; by default, of this machine."""

    clock: Clock = field(default_factory=SystemClock)
    threads: Threads = field(default_factory=SystemThreads)
    chance: random.Random = field(default_factory=random.SystemRandom)


surroundings_var: ContextVar[Surroundings | None] = ContextVar("kopf_surroundings", default=None)
"""The surroundings of the code that runs in this context; the real ones by default."""

_REAL = Surroundings()


def get_surroundings() -> Surroundings:
    """The sources of the time, the threads, and the random numbers in this context."""
    return surroundings_var.get() or _REAL


def get_chance() -> random.Random:
    """The source of the random numbers in this context."""
    return get_surroundings().chance


def get_clock() -> Clock:
    """The clock of this context, for functions that get no clock as an argument."""
    return get_surroundings().clock


def get_threads() -> Threads:
    """The source of the threads in this context."""
    return get_surroundings().threads
