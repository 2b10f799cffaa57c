"""The modes of an operator: from usual work to its end."""

import enum
from typing import NamedTuple

from kopf_core.reactor.streams.places import Gate


class Mode(enum.IntEnum):
    """The work of the operator for objects now: the strictest mode of all current reasons.

    The governor brings all parts to the mode by one verb: ``reach()``. It can be repeated, in any
    order of modes.
    """

    RUNNING = enum.auto()
    """Objects are handled."""

    GATED = enum.auto()
    """No turn begins; running turns have time to end. The newest states are kept."""

    COLD = enum.auto()
    """As ``GATED``, but without streams: everything is listed again after the pause."""

    CUT = enum.auto()
    """Others can handle the objects: running turns are cancelled at once, and send nothing."""

    ENDED = enum.auto()
    """The operator exits: no turn begins; running turns have time to end and to be sent."""


class Meaning(NamedTuple):
    """The meaning of a mode for the queues and the streams."""

    gate: Gate
    is_watching: bool = True
    forgets: bool = False
    """Whether the newest states are forgotten, as they will be listed again."""


MEANINGS = {
    Mode.RUNNING: Meaning(Gate.OPEN),
    Mode.GATED: Meaning(Gate.PAUSED),
    Mode.COLD: Meaning(Gate.PAUSED, is_watching=False, forgets=True),
    Mode.CUT: Meaning(Gate.PAUSED, is_watching=False, forgets=True),
    Mode.ENDED: Meaning(Gate.SHUT),
}
