"""The decorator for low-level events: ``@kopf.on.event``."""

from typing import Unpack

from kopf_core.intents.callbacks import WatchingDecorator
from kopf_core.intents.decorators.declaring import declare_for_resource
from kopf_core.intents.decorators.options import EventOptions, SelectorArg
from kopf_core.intents.decorators.signatures import spelled_out
from kopf_core.intents.handlers import WatchingHandler


@spelled_out
def event(
    arg1: SelectorArg = None,
    arg2: SelectorArg = None,
    arg3: SelectorArg = None,
    /,
    **options: Unpack[EventOptions],
) -> WatchingDecorator:
    """Called for every event of an object, silently: with no retries and no marks on the object."""
    return declare_for_resource(WatchingHandler, (arg1, arg2, arg3), options)
