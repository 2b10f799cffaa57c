"""Peering: operators see each other, so that one of them works, and the others wait.

From the pure parts to the thin ones:

- :mod:`.peers`: the records of operators in the peering objects. Pure.
- :mod:`.roster`: which operators are alive. Pure.
- :mod:`.membership`: which operator works. Pure.
- :mod:`.member`: the watch of one peering object, and the keep-alives there.
- :mod:`.peering_engine`: all peering objects of one operator.
"""
