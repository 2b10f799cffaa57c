"""
The decorators for handlers: ``@kopf.on.create('kopfexamples')`` and the like.
"""

from kopf_core.intents.callbacks import (
    ActivityDecorator,
    ChangingDecorator,
    DaemonDecorator,
    IndexingDecorator,
    TimerDecorator,
    WatchingDecorator,
)
from kopf_core.intents.decorators import (
    cleanup,
    create,
    daemon,
    delete,
    event,
    field,
    following,
    index,
    leading,
    login,
    mutate,
    probe,
    register,
    resume,
    startup,
    subhandler,
    timer,
    update,
    validate,
)
from kopf_core.intents.decorators.declaring import Decorator as WebhookDecorator

__all__ = [
    "ActivityDecorator",
    "ChangingDecorator",
    "DaemonDecorator",
    "IndexingDecorator",
    "TimerDecorator",
    "WatchingDecorator",
    "WebhookDecorator",
    "cleanup",
    "create",
    "daemon",
    "delete",
    "event",
    "field",
    "following",
    "index",
    "leading",
    "login",
    "mutate",
    "probe",
    "register",
    "resume",
    "startup",
    "subhandler",
    "timer",
    "update",
    "validate",
]
