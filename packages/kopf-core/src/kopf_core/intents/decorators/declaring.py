"""Declarations: the decorators make handlers of functions and options, and register them."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

from kopf_cogs.structs.dicts import FieldPath, parse_field
from kopf_cogs.structs.ids import HandlerId
from kopf_cogs.structs.selectors import Selector
from kopf_core.actions.bases import name_of_fn
from kopf_core.intents.causes import Activity
from kopf_core.intents.decorators.options import SelectorArg, SelectorOptions
from kopf_core.intents.decorators.validation import (
    validate_execution,
    validate_filters,
    validate_selector,
)
from kopf_core.intents.handlers import ActivityHandler, IndexingHandler, ResourceHandler
from kopf_core.intents.metadata import validate_metadata_only
from kopf_core.intents.registries import get_default_registry
from kopf_core.intents.views import find_views, with_views

F = TypeVar("F", bound=Callable[..., Any])
H = TypeVar("H", bound=ResourceHandler)
SelectorArgs = tuple[SelectorArg, SelectorArg, SelectorArg]

_SELECTING = SelectorOptions.__annotations__.keys()
_NOT_OF_HANDLERS = _SELECTING | {"id", "field", "registry"}
_CALLBACKS = ("when", "value", "old", "new", "initial_delay", "labels", "annotations")


class Decorator(Protocol):
    """Registers a function as a handler, and returns it unchanged."""

    def __call__(self, fn: F, /) -> F: ...


def declare_for_activity(
    activity: Activity,
    options: Mapping[str, Any],
    cls: type[ActivityHandler] = ActivityHandler,
) -> Decorator:
    """Declare a handler of the operator's own life."""
    validate_execution(options)

    def decorator(fn: F) -> F:
        id = make_handler_id(fn, options.get("id"))
        registry = options.get("registry") or get_default_registry()
        registry.append(cls(fn=fn, id=id, activity=activity, **_get_own(options)))
        return fn

    return decorator


def declare_for_resource(
    cls: type[ResourceHandler],
    args: SelectorArgs,
    options: Mapping[str, Any],
    **specifics: Any,
) -> Decorator:
    """Declare a handler of objects: of that class, with some more attributes than the options."""
    validate_selector(args[0])
    validate_filters(options)
    validate_execution(options)
    names = {name: value for name, value in options.items() if name in _SELECTING}
    selector = Selector.of(*args, **names)

    def decorator(fn: F) -> F:
        validate_metadata_only(fn, options)
        registry = options.get("registry") or get_default_registry()
        registry.append(make_handler(cls, fn, options, selector=selector, **specifics))
        return fn

    return decorator


def make_handler(
    cls: type[H],
    fn: Callable[..., Any],
    options: Mapping[str, Any],
    prefix: str | None = None,
    **specifics: Any,
) -> H:
    """Make a handler of objects. The ``prefix`` is the id of its parent, if it has one."""
    field = parse_field(options.get("field")) or None
    # The ids of indices are the names of keyword arguments, so they stay as they are.
    # The ids of sub-handlers have the field of their parents, if it has one.
    suffix = None if cls is IndexingHandler or prefix else field
    id = make_handler_id(fn, options.get("id"), field=suffix, prefix=prefix)
    own = _get_own(options)
    own |= {name: with_views(own[name]) for name in _CALLBACKS if own.get(name) is not None}
    views = find_views(fn, field or specifics.get("scope") or ())
    return cls(**own | {"fn": fn, "id": id, "field": field, "views": views} | specifics)


def make_handler_id(
    fn: Callable[..., Any],
    id: str | None = None,
    *,
    field: FieldPath | None = None,
    prefix: str | None = None,
) -> HandlerId:
    """Make the id of a handler: ``parent/name/field``."""
    parts = [prefix, id if id is not None else name_of_fn(fn), ".".join(field or ())]
    return HandlerId("/".join(part for part in parts if part))


def _get_own(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that are attributes of handlers as they are."""
    return {name: value for name, value in options.items() if name not in _NOT_OF_HANDLERS}
