"""Sub-handlers: handlers declared inside of other handlers, as their parts."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar, Unpack

from kopf_core.actions.bases import BaseHandler
from kopf_core.actions.context import current_invocation
from kopf_core.intents.callbacks import ChangingDecorator, ChangingF
from kopf_core.intents.decorators.declaring import make_handler
from kopf_core.intents.decorators.options import RegisterOptions, SubhandlerOptions
from kopf_core.intents.decorators.signatures import spelled_out
from kopf_core.intents.decorators.validation import validate_execution, validate_filters
from kopf_core.intents.handlers import ChangingHandler

F = TypeVar("F", bound=Callable[..., Any])


@spelled_out
def subhandler(**options: Unpack[SubhandlerOptions]) -> ChangingDecorator:
    """Declares a sub-handler of the current handler, which runs after that returns."""
    validate_filters(options)
    validate_execution(options)

    def decorator(fn: F) -> F:
        invocation = current_invocation()
        invocation.subhandlers.append(make_subhandler(fn, invocation.handler, options))
        return fn

    return decorator


@spelled_out
def register(fn: ChangingF, **options: Unpack[RegisterOptions]) -> ChangingF:
    """Declare a function as a sub-handler of the current handler, without a decorator."""
    return subhandler(**options)(fn)


def make_subhandler(
    fn: Callable[..., Any],
    parent: BaseHandler,
    options: Mapping[str, Any],
) -> ChangingHandler:
    """Make a handler that runs as a part of another one, in the same circumstances."""
    is_of_transition = options.get("old") is not None or options.get("new") is not None
    is_of_changes = getattr(parent, "field_needs_change", False)
    return make_handler(
        ChangingHandler,
        fn,
        options,
        prefix=parent.id,
        scope=getattr(parent, "field", None) or getattr(parent, "scope", None),
        field_needs_change=bool(is_of_transition or (options.get("field") and is_of_changes)),
    )
