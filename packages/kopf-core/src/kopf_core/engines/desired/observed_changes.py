"""Changes: what has become of an object of an owned or related kind. Pure."""

import enum


class ObservedChange(enum.Enum):
    """What is told of the object, and by whom it was done."""

    OTHERS = enum.auto()
    """It has appeared, or is changed."""

    OURS = enum.auto()
    """The same, but it was us: the reconciler which has done it knows it already."""

    GONE = enum.auto()
    """It does not exist anymore; of what it was, maybe only its identity is left."""
