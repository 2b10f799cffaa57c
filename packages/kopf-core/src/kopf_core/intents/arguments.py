"""Arguments: by what names the handlers of each kind are given what, and who asks for others."""

import inspect
from collections.abc import Collection, Mapping
from typing import Any

from kopf_core.actions.bases import BaseHandler, Fn
from kopf_core.intents.callbacks import (
    ActivityFn,
    AdmissionFn,
    ChangingFn,
    DaemonFn,
    IndexingFn,
    ReconcilingFn,
    SourceFn,
    TimerFn,
    WatchingFn,
)
from kopf_core.intents.handlers import (
    ActivityHandler,
    ChangingHandler,
    DaemonHandler,
    IndexingHandler,
    ReconcilingHandler,
    SourceHandler,
    TimerHandler,
    WatchingHandler,
)
from kopf_core.intents.webhooks import WebhookHandler

PROTOCOLS: Mapping[type[BaseHandler], Any] = {
    ActivityHandler: ActivityFn,
    ChangingHandler: ChangingFn,
    DaemonHandler: DaemonFn,
    IndexingHandler: IndexingFn,
    ReconcilingHandler: ReconcilingFn,
    SourceHandler: SourceFn,
    TimerHandler: TimerFn,
    WatchingHandler: WatchingFn,
    WebhookHandler: AdmissionFn,
}
"""What the functions look like, as it is declared for type checkers."""


def get_arguments(kind: type[BaseHandler]) -> frozenset[str]:
    """The names of the arguments of such handlers, the indices aside; empty if it is not known."""
    protocol = PROTOCOLS.get(kind)
    if protocol is None:
        return frozenset()
    parameters = inspect.signature(protocol.__call__).parameters.values()
    names = {param.name for param in parameters if param.kind is inspect.Parameter.KEYWORD_ONLY}
    return frozenset(names)


def find_missing(fn: Fn, given: Collection[str]) -> list[str]:
    """What the function cannot be called without, but nobody gives that."""
    return [
        param.name
        for param in _get_parameters(fn)
        if param.default is inspect.Parameter.empty
        if param.kind is inspect.Parameter.POSITIONAL_ONLY
        or (param.kind in _NAMED and param.name not in given)
    ]


def accepts_anything(fn: Fn) -> bool:
    """Whether it has ``**kwargs``; or it is not known what it has, e.g. for built-in functions."""
    return any(param.kind is inspect.Parameter.VAR_KEYWORD for param in _get_parameters(fn))


_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_UNKNOWN = (inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD),)


def _get_parameters(fn: Fn) -> Collection[inspect.Parameter]:
    try:
        # Wrappers call the wrapped functions as they like: their own signatures matter.
        signature = inspect.signature(fn, follow_wrapped=False)
    except (TypeError, ValueError):
        return _UNKNOWN
    return signature.parameters.values()
