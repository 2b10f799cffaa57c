"""
The decorators for handlers: ``@kopf.on.create('kopfexamples')`` and the like.
"""

from kopf_core.intents.decorators import (
    Decorator,
    cleanup,
    create,
    daemon,
    delete,
    event,
    field,
    index,
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

# All kinds of decorators are alike: they register a function and return it as it is.
ActivityDecorator = Decorator
ChangingDecorator = Decorator
DaemonDecorator = Decorator
IndexingDecorator = Decorator
TimerDecorator = Decorator
WatchingDecorator = Decorator
WebhookDecorator = Decorator

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
    "index",
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
