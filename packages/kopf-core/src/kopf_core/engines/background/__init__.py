"""Background work of objects: daemons and timers.

* :mod:`.background_engine`: starts, adjusts, and stops the daemons and timers of all objects.
* :mod:`.live_objects`: one object as it is seen by them, and all that works for it.
* :mod:`.spawned`: one daemon or timer: a task while it works, a handle while it waits.
* :mod:`.attempts`: the calls of its function, and what comes of them.
* :mod:`.schedules`: when the next attempt is. Pure.
* :mod:`.relevance`: which changes matter for idling. Pure.
* :mod:`.termination`: the stages of how a running function is stopped.
* :mod:`.starting`: the starts of attempts, in portions.
* :mod:`.daemon_threads`: where synchronous daemons run.
"""

from kopf_core.engines.background.background_engine import BackgroundEngine

__all__ = ["BackgroundEngine"]
