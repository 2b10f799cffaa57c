"""The decorators that declare handlers: ``@kopf.on.create()``, ``@kopf.daemon()``, and others.

All resource-related decorators share the same options, and differ only in what they make
of them; so, each one passes its arguments on as a whole. The options in common:

* ``arg1, arg2, arg3, group, version, kind, plural, singular, shortcut, category``
  -- which resources are meant; see :class:`kopf_cogs.structs.selectors.Selector`.
* ``id`` -- the identity of the handler on the object; by default, the name of the function.
* ``param`` -- an arbitrary value passed to the function as is.
* ``errors, timeout, retries, backoff`` -- what to do about failures; times are in seconds.
  The backoff can also be a function, e.g. :class:`kopf.ExponentialBackoff`.
* ``labels, annotations, when, field, value`` -- which objects are meant; all must match.
* ``registry`` -- where to put the handler; the default registry if not specified.
"""

from collections.abc import Callable, Collection
from typing import Any, Protocol, TypeVar

from kopf_cogs.structs.dicts import FieldPath, FieldSpec, parse_field
from kopf_cogs.structs.ids import HandlerId
from kopf_cogs.structs.selectors import Marker, Selector
from kopf_core.actions.bases import AnyBackoff, name_of_fn
from kopf_core.actions.context import current_invocation
from kopf_core.actions.errors import ErrorsMode
from kopf_core.intents.causes import Activity, Reason
from kopf_core.intents.filters import MetaFilter, ValueFilter, WhenFn
from kopf_core.intents.handlers import (
    ActivityHandler,
    ChangingHandler,
    DaemonHandler,
    IndexingHandler,
    ResourceHandler,
    TimerHandler,
    WatchingHandler,
)
from kopf_core.intents.options import validate_execution, validate_filters, validate_selector
from kopf_core.intents.registries import OperatorRegistry, get_default_registry

F = TypeVar("F", bound=Callable[..., Any])
SelectorArg = str | Marker | Callable[..., bool] | None

_SELECTOR_ARGS = (
    "group",
    "version",
    "kind",
    "plural",
    "singular",
    "shortcut",
    "category",
)


class Decorator(Protocol):
    """Registers a function as a handler, and gives it back unchanged."""

    def __call__(self, fn: F, /) -> F: ...


def startup(
    *,
    id: str | None = None,
    param: Any = None,
    errors: ErrorsMode | None = None,
    timeout: float | None = None,
    retries: int | None = None,
    backoff: AnyBackoff | None = None,
    registry: OperatorRegistry | None = None,
) -> Decorator:
    """Called when the operator starts, before it talks to the API.

    If such a handler fails, so does the operator.
    """
    return _on_activity(Activity.STARTUP, locals())


def cleanup(
    *,
    id: str | None = None,
    param: Any = None,
    errors: ErrorsMode | None = None,
    timeout: float | None = None,
    retries: int | None = None,
    backoff: AnyBackoff | None = None,
    registry: OperatorRegistry | None = None,
) -> Decorator:
    """Called when the operator exits, for whatever reason it does."""
    return _on_activity(Activity.CLEANUP, locals())


def login(
    *,
    id: str | None = None,
    param: Any = None,
    errors: ErrorsMode | None = None,
    timeout: float | None = None,
    retries: int | None = None,
    backoff: AnyBackoff | None = None,
    registry: OperatorRegistry | None = None,
) -> Decorator:
    """Called when credentials for the API are needed.

    Returns :class:`kopf.ConnectionInfo`, or ``None`` if it has nothing to offer.
    """
    return _on_activity(Activity.AUTHENTICATION, locals())


def probe(
    *,
    id: str | None = None,
    param: Any = None,
    errors: ErrorsMode | None = None,
    timeout: float | None = None,
    retries: int | None = None,
    backoff: AnyBackoff | None = None,
    registry: OperatorRegistry | None = None,
) -> Decorator:
    """Called when the operator's health is asked for; the results are reported under the id."""
    return _on_activity(Activity.PROBE, locals())


def resume(
    arg1: SelectorArg = None,
    arg2: SelectorArg = None,
    arg3: SelectorArg = None,
    /,
    *,
    group: str | None = None,
    version: str | None = None,
    kind: str | None = None,
    plural: str | None = None,
    singular: str | None = None,
    shortcut: str | None = None,
    category: str | None = None,
    id: str | None = None,
    param: Any = None,
    errors: ErrorsMode | None = None,
    timeout: float | None = None,
    retries: int | None = None,
    backoff: AnyBackoff | None = None,
    deleted: bool | None = None,
    labels: MetaFilter | None = None,
    annotations: MetaFilter | None = None,
    when: WhenFn | None = None,
    field: FieldSpec = None,
    value: ValueFilter = None,
    registry: OperatorRegistry | None = None,
) -> Decorator:
    """Called once for every object that existed before the operator's start.

    Objects that are being deleted are skipped, unless ``deleted=True``.
    """
    return _on_resource(ChangingHandler, locals(), initial=True, deleted=bool(deleted))


def create(
    arg1: SelectorArg = None,
    arg2: SelectorArg = None,
    arg3: SelectorArg = None,
    /,
    *,
    group: str | None = None,
    version: str | None = None,
    kind: str | None = None,
    plural: str | None = None,
    singular: str | None = None,
    shortcut: str | None = None,
    category: str | None = None,
    id: str | None = None,
    param: Any = None,
    errors: ErrorsMode | None = None,
    timeout: float | None = None,
    retries: int | None = None,
    backoff: AnyBackoff | None = None,
    labels: MetaFilter | None = None,
    annotations: MetaFilter | None = None,
    when: WhenFn | None = None,
    field: FieldSpec = None,
    value: ValueFilter = None,
    registry: OperatorRegistry | None = None,
) -> Decorator:
    """Called when an object is created."""
    return _on_resource(ChangingHandler, locals(), reason=Reason.CREATE)


def update(
    arg1: SelectorArg = None,
    arg2: SelectorArg = None,
    arg3: SelectorArg = None,
    /,
    *,
    group: str | None = None,
    version: str | None = None,
    kind: str | None = None,
    plural: str | None = None,
    singular: str | None = None,
    shortcut: str | None = None,
    category: str | None = None,
    id: str | None = None,
    param: Any = None,
    errors: ErrorsMode | None = None,
    timeout: float | None = None,
    retries: int | None = None,
    backoff: AnyBackoff | None = None,
    labels: MetaFilter | None = None,
    annotations: MetaFilter | None = None,
    when: WhenFn | None = None,
    field: FieldSpec = None,
    value: ValueFilter = None,
    old: ValueFilter = None,
    new: ValueFilter = None,
    registry: OperatorRegistry | None = None,
) -> Decorator:
    """Called when an object is changed essentially.

    With ``field``, called only if that field is affected; ``old`` and ``new`` check its values
    before and after the change, ``value`` checks any of them.
    """
    return _on_resource(ChangingHandler, locals(), reason=Reason.UPDATE, field_needs_change=True)


def delete(
    arg1: SelectorArg = None,
    arg2: SelectorArg = None,
    arg3: SelectorArg = None,
    /,
    *,
    group: str | None = None,
    version: str | None = None,
    kind: str | None = None,
    plural: str | None = None,
    singular: str | None = None,
    shortcut: str | None = None,
    category: str | None = None,
    id: str | None = None,
    param: Any = None,
    errors: ErrorsMode | None = None,
    timeout: float | None = None,
    retries: int | None = None,
    backoff: AnyBackoff | None = None,
    optional: bool | None = None,
    labels: MetaFilter | None = None,
    annotations: MetaFilter | None = None,
    when: WhenFn | None = None,
    field: FieldSpec = None,
    value: ValueFilter = None,
    registry: OperatorRegistry | None = None,
) -> Decorator:
    """Called when an object is marked for deletion.

    The object is kept by a finalizer until it is handled, unless ``optional=True``.
    """
    return _on_resource(
        ChangingHandler, locals(), reason=Reason.DELETE, requires_finalizer=not optional
    )


def field(
    arg1: SelectorArg = None,
    arg2: SelectorArg = None,
    arg3: SelectorArg = None,
    /,
    *,
    group: str | None = None,
    version: str | None = None,
    kind: str | None = None,
    plural: str | None = None,
    singular: str | None = None,
    shortcut: str | None = None,
    category: str | None = None,
    id: str | None = None,
    param: Any = None,
    errors: ErrorsMode | None = None,
    timeout: float | None = None,
    retries: int | None = None,
    backoff: AnyBackoff | None = None,
    labels: MetaFilter | None = None,
    annotations: MetaFilter | None = None,
    when: WhenFn | None = None,
    field: FieldSpec,
    value: ValueFilter = None,
    old: ValueFilter = None,
    new: ValueFilter = None,
    registry: OperatorRegistry | None = None,
) -> Decorator:
    """Called when the field of an object is changed, added, or removed."""
    return _on_resource(ChangingHandler, locals(), field_needs_change=True)


def event(
    arg1: SelectorArg = None,
    arg2: SelectorArg = None,
    arg3: SelectorArg = None,
    /,
    *,
    group: str | None = None,
    version: str | None = None,
    kind: str | None = None,
    plural: str | None = None,
    singular: str | None = None,
    shortcut: str | None = None,
    category: str | None = None,
    id: str | None = None,
    param: Any = None,
    labels: MetaFilter | None = None,
    annotations: MetaFilter | None = None,
    when: WhenFn | None = None,
    field: FieldSpec = None,
    value: ValueFilter = None,
    registry: OperatorRegistry | None = None,
) -> Decorator:
    """Called for every event of an object, silently: with no retries and no marks on the object."""
    return _on_resource(WatchingHandler, locals())


def index(
    arg1: SelectorArg = None,
    arg2: SelectorArg = None,
    arg3: SelectorArg = None,
    /,
    *,
    group: str | None = None,
    version: str | None = None,
    kind: str | None = None,
    plural: str | None = None,
    singular: str | None = None,
    shortcut: str | None = None,
    category: str | None = None,
    id: str | None = None,
    param: Any = None,
    errors: ErrorsMode | None = None,
    timeout: float | None = None,
    retries: int | None = None,
    backoff: AnyBackoff | None = None,
    labels: MetaFilter | None = None,
    annotations: MetaFilter | None = None,
    when: WhenFn | None = None,
    field: FieldSpec = None,
    value: ValueFilter = None,
    registry: OperatorRegistry | None = None,
) -> Decorator:
    """Computes what is put for an object into the in-memory index of that name."""
    return _on_resource(IndexingHandler, locals())


def daemon(
    arg1: SelectorArg = None,
    arg2: SelectorArg = None,
    arg3: SelectorArg = None,
    /,
    *,
    group: str | None = None,
    version: str | None = None,
    kind: str | None = None,
    plural: str | None = None,
    singular: str | None = None,
    shortcut: str | None = None,
    category: str | None = None,
    id: str | None = None,
    param: Any = None,
    errors: ErrorsMode | None = None,
    timeout: float | None = None,
    retries: int | None = None,
    backoff: AnyBackoff | None = None,
    initial_delay: float | Callable[..., float] | None = None,
    cancellation_backoff: float | None = None,
    cancellation_timeout: float | None = None,
    cancellation_polling: float | None = None,
    labels: MetaFilter | None = None,
    annotations: MetaFilter | None = None,
    when: WhenFn | None = None,
    field: FieldSpec = None,
    value: ValueFilter = None,
    registry: OperatorRegistry | None = None,
) -> Decorator:
    """Runs in background for every object, for as long as it exists and matches.

    ``initial_delay`` is in seconds, or a function of the handler's keyword arguments.
    When the daemon is to exit: it is signalled, then cancelled after ``cancellation_backoff``,
    then abandoned after ``cancellation_timeout``; if there is no timeout, it is waited for,
    with a reminder in the log every ``cancellation_polling`` seconds.
    """
    return _on_resource(DaemonHandler, locals())


def timer(
    arg1: SelectorArg = None,
    arg2: SelectorArg = None,
    arg3: SelectorArg = None,
    /,
    *,
    group: str | None = None,
    version: str | None = None,
    kind: str | None = None,
    plural: str | None = None,
    singular: str | None = None,
    shortcut: str | None = None,
    category: str | None = None,
    id: str | None = None,
    param: Any = None,
    errors: ErrorsMode | None = None,
    timeout: float | None = None,
    retries: int | None = None,
    backoff: AnyBackoff | None = None,
    interval: float | None = None,
    initial_delay: float | Callable[..., float] | None = None,
    sharp: bool | None = None,
    idle: float | None = None,
    labels: MetaFilter | None = None,
    annotations: MetaFilter | None = None,
    when: WhenFn | None = None,
    field: FieldSpec = None,
    value: ValueFilter = None,
    registry: OperatorRegistry | None = None,
) -> Decorator:
    """Called for every object by schedule, for as long as it exists and matches.

    ``interval`` seconds pass between calls: from the end of one to the start of the next one,
    or from start to start if ``sharp``. With ``idle``, the object must stay unchanged for so long.
    """
    return _on_resource(TimerHandler, locals())


def subhandler(
    *,
    id: str | None = None,
    param: Any = None,
    errors: ErrorsMode | None = None,
    timeout: float | None = None,
    retries: int | None = None,
    backoff: AnyBackoff | None = None,
    labels: MetaFilter | None = None,
    annotations: MetaFilter | None = None,
    when: WhenFn | None = None,
    field: FieldSpec = None,
    value: ValueFilter = None,
    old: ValueFilter = None,
    new: ValueFilter = None,
) -> Decorator:
    """Declares a sub-handler of the current handler, to be run after it returns."""
    return _on_subhandler(locals())


def register(
    fn: Callable[..., Any],
    *,
    id: str | None = None,
    param: Any = None,
    errors: ErrorsMode | None = None,
    timeout: float | None = None,
    retries: int | None = None,
    backoff: AnyBackoff | None = None,
    labels: MetaFilter | None = None,
    annotations: MetaFilter | None = None,
    when: WhenFn | None = None,
) -> Callable[..., Any]:
    """Declare a function as a sub-handler of the current handler, with no decorator."""
    return subhandler(
        id=id,
        param=param,
        errors=errors,
        timeout=timeout,
        retries=retries,
        backoff=backoff,
        labels=labels,
        annotations=annotations,
        when=when,
    )(fn)


def make_handler_id(
    fn: Callable[..., Any],
    id: str | None = None,
    *,
    field: FieldPath | None = None,
    prefix: str | None = None,
) -> HandlerId:
    """The identity of a handler: ``parent/name/field``."""
    parts = [prefix, id if id is not None else name_of_fn(fn), ".".join(field or ())]
    return HandlerId("/".join(part for part in parts if part))


def _on_activity(activity: Activity, options: dict[str, Any]) -> Decorator:
    validate_execution(options)

    def decorator(fn: F) -> F:
        registry = options["registry"] or get_default_registry()
        registry.append(
            ActivityHandler(
                fn=fn,
                activity=activity,
                **_pick(options, ActivityHandler) | {"id": make_handler_id(fn, options["id"])},
            )
        )
        return fn

    return decorator


def _on_resource(
    cls: type[ResourceHandler],
    options: dict[str, Any],
    **specifics: Any,
) -> Decorator:
    validate_selector(options)
    validate_filters(options)
    validate_execution(options)
    names = {name: options[name] for name in _SELECTOR_ARGS}
    selector = Selector.of(options["arg1"], options["arg2"], options["arg3"], **names)

    def decorator(fn: F) -> F:
        registry = options["registry"] or get_default_registry()
        registry.append(_make_handler(cls, fn, options, selector=selector, **specifics))
        return fn

    return decorator


def _on_subhandler(options: dict[str, Any]) -> Decorator:
    validate_filters(options)
    validate_execution(options)

    def decorator(fn: F) -> F:
        invocation = current_invocation()
        invocation.subhandlers.append(make_subhandler(fn, invocation.handler, options))
        return fn

    return decorator


def make_subhandler(
    fn: Callable[..., Any],
    parent: Any,
    options: dict[str, Any],
) -> ChangingHandler:
    """Make a handler that is run as a part of another one, in the same circumstances."""
    handler = _make_handler(
        ChangingHandler,
        fn,
        options,
        prefix=parent.id,
        scope=getattr(parent, "field", None) or getattr(parent, "scope", None),
        field_needs_change=bool(
            options.get("old") is not None
            or options.get("new") is not None
            or (options.get("field") and getattr(parent, "field_needs_change", False))
        ),
    )
    assert isinstance(handler, ChangingHandler)
    return handler


def _make_handler(
    cls: type[ResourceHandler],
    fn: Callable[..., Any],
    options: dict[str, Any],
    prefix: str | None = None,
    **specifics: Any,
) -> ResourceHandler:
    field = parse_field(options.get("field")) or None
    # The ids of indices are the names of keyword arguments, so they are taken as they are.
    # The ids of sub-handlers have the field of their parents, if there is any.
    suffix = None if cls is IndexingHandler or prefix else field
    id = make_handler_id(fn, options.get("id"), field=suffix, prefix=prefix)
    return cls(**_pick(options, cls) | {"fn": fn, "id": id, "field": field} | specifics)


def _pick(options: dict[str, Any], cls: type[Any]) -> dict[str, Any]:
    known: Collection[str] = cls.__dataclass_fields__.keys()
    return {name: value for name, value in options.items() if name in known}
