"""The modes of an operator: what it does for objects now."""

import enum
from typing import NamedTuple

from kopf_core.reactor.streams.places import Gate


class Mode(enum.IntEnum):
    """The mode that is wanted follows from the reasons that hold now: the strictest of them wins.

    The parts are brought to it by one verb: ``reach()``. It can be repeated, in any order of modes.
    """

    RUNNING = enum.auto()
    """Objects are handled."""

    GATED = enum.auto()
    """Nothing begins; what works has its time to end. The newest states are kept."""

    COLD = enum.auto()
    """The same, with no streams: everything is listed anew when they return."""

    CUT = enum.auto()
    """The objects are not ours anymore: what works is cancelled at once, and sends nothing."""

    ENDED = enum.auto()
    """The operator exits: nothing begins anymore; what works ends in its time, and sends that."""


class Meaning(NamedTuple):
    """What a mode means for the queues and the streams."""

    gate: Gate
    is_watching: bool = True
    forgets: bool = False
    """Whether the newest states are forgotten: they will be listed anew."""


MEANINGS = {
    Mode.RUNNING: Meaning(Gate.OPEN),
    Mode.GATED: Meaning(Gate.PAUSED),
    Mode.COLD: Meaning(Gate.PAUSED, is_watching=False, forgets=True),
    Mode.CUT: Meaning(Gate.PAUSED, is_watching=False, forgets=True),
    Mode.ENDED: Meaning(Gate.SHUT),
}
