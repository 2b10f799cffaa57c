"""Kubernetes events: what has happened to objects, told to those who look at these objects.

Events are a courtesy. They are posted in the background, in order for each object,
and never hold or fail the handlers: what cannot be posted in time is dropped and counted.

* :mod:`.recorder`: the queues of events, their posting and aggregation.
* :mod:`.functions`: what handlers call.
* :mod:`.logs`: events made of log messages.
"""

from kopf_core.engines.posting.functions import event, exception, info, warn
from kopf_core.engines.posting.logs import EventPostingHandler, post_log_messages
from kopf_core.engines.posting.recorder import EventRecorder

__all__ = [
    "EventPostingHandler",
    "EventRecorder",
    "event",
    "exception",
    "info",
    "post_log_messages",
    "warn",
]
