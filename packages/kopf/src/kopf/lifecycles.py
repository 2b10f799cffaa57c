"""The orders in which several handlers of one object are called.

To be passed as ``kopf.run(lifecycle=...)``, or set with ``kopf.set_default_lifecycle()``.
"""

from kopf_core.actions.lifecycles import (
    all_at_once,
    asap,
    get_default_lifecycle,
    one_by_one,
    randomized,
    set_default_lifecycle,
    shuffled,
)

__all__ = [
    "all_at_once",
    "asap",
    "get_default_lifecycle",
    "one_by_one",
    "randomized",
    "set_default_lifecycle",
    "shuffled",
]
