"""Kubernetes events tell people what has happened to objects.

Events are a courtesy. Kopf posts them in the background, in order for each object. They never hold
or fail the handlers: Kopf drops and counts the events that cannot be posted in time.

* :mod:`.recorder`: the queues of events, their posting and aggregation.
* :mod:`.functions`: the functions for handlers.
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
