"""Background work of objects: daemons and timers.

* :mod:`.engine`: what exists for every object, and how it is started, adjusted, and stopped.
* :mod:`.backgrounds`: all that works for one object.
* :mod:`.objects`: the object as it is seen by them, always in its newest state.
* :mod:`.spawned`: one daemon or timer: a task while it works, a handle while it waits.
* :mod:`.attempts`: the calls of its function, and what comes of them.
* :mod:`.schedules`: when the next attempt is. Pure.
* :mod:`.changes`: which changes matter for idling. Pure.
* :mod:`.termination`: the stages of how a running function is stopped.
* :mod:`.starting`: the starts of attempts, in portions.
* :mod:`.threads`: where synchronous daemons run.
"""

from kopf_core.engines.background.engine import BackgroundEngine

__all__ = ["BackgroundEngine"]
