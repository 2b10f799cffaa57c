"""The decorators that declare handlers: ``@kopf.on.create()``, ``@kopf.daemon()``, and others.

There is a module for each kind of handlers. :mod:`.options` has the options of the decorators,
:mod:`.validation` checks them, and :mod:`.declaring` makes the handlers.
"""

from kopf_core.intents.decorators.for_activities import (
    cleanup,
    external,
    following,
    leading,
    login,
    probe,
    startup,
)
from kopf_core.intents.decorators.for_admission import mutate, validate
from kopf_core.intents.decorators.for_background import daemon, timer
from kopf_core.intents.decorators.for_changes import (
    create,
    delete,
    event,
    field,
    index,
    resume,
    update,
)
from kopf_core.intents.decorators.for_conversions import convert
from kopf_core.intents.decorators.for_desired import reconcile
from kopf_core.intents.decorators.subhandlers import register, subhandler

__all__ = [
    "cleanup",
    "convert",
    "create",
    "daemon",
    "delete",
    "event",
    "external",
    "field",
    "following",
    "index",
    "leading",
    "login",
    "mutate",
    "probe",
    "reconcile",
    "register",
    "resume",
    "startup",
    "subhandler",
    "timer",
    "update",
    "validate",
]
