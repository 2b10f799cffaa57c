"""Background work of objects: daemons and timers.

* :mod:`.background_engine`: starts, adjusts, and stops the daemons and timers of all objects.
* :mod:`.live_objects`: one object as its daemons and timers see it, and the list of them.
* :mod:`.spawned`: one daemon or timer: a task while it works, a handle while it waits.
* :mod:`.attempts`: the calls of its function, and their outcomes.
* :mod:`.schedules`: the time of the next attempt. Pure.
* :mod:`.relevance`: the changes that matter for idling. Pure.
* :mod:`.termination`: the stages of stopping a running function.
* :mod:`.starting`: the starts of attempts, in portions.
* :mod:`.daemon_threads`: the threads of synchronous daemons.
"""

from kopf_core.engines.background.background_engine import BackgroundEngine

__all__ = ["BackgroundEngine"]
