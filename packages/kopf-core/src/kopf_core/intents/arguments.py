"""Arguments: their names for handlers of each kind, and the check of signatures."""

import functools
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
"""The protocols of functions, as declared for type checkers."""


def get_arguments(kind: type[BaseHandler]) -> frozenset[str]:
    """The names of the arguments of such handlers, without indices; empty if they are not known."""
    protocol = PROTOCOLS.get(kind)
    return frozenset() if protocol is None else _get_keywords(protocol)


@functools.cache
def _get_keywords(protocol: Any) -> frozenset[str]:
    parameters = inspect.signature(protocol.__call__).parameters.values()
    kind = inspect.Parameter.KEYWORD_ONLY
    return frozenset(param.name for param in parameters if param.kind is kind)


def find_missing(fn: Fn, given: Collection[str]) -> list[str]:
    """Find the required arguments of the function that no handler of this kind gets."""
    return [
        param.name
        for param in _get_parameters(fn)
        if param.default is inspect.Parameter.empty
        if param.kind is inspect.Parameter.POSITIONAL_ONLY
        or (param.kind in _NAMED and param.name not in given)
    ]


def accepts_anything(fn: Fn) -> bool:
    """Whether the function has ``**kwargs``, or no known signature, as built-in functions have."""
    return any(param.kind is inspect.Parameter.VAR_KEYWORD for param in _get_parameters(fn))


_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_UNKNOWN = (inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD),)


def _get_parameters(fn: Fn) -> Collection[inspect.Parameter]:
    try:
        # Wrappers call the wrapped functions in any way: their own signatures matter.
        signature = inspect.signature(fn, follow_wrapped=False)
    except (TypeError, ValueError):
        return _UNKNOWN
    return signature.parameters.values()
