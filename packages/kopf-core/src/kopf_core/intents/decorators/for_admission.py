"""The decorators for admission webhooks: ``@kopf.on.validate``, ``@kopf.on.mutate``."""

from collections.abc import Iterable, Mapping
from typing import Any, Literal, Unpack, cast, get_args

from kopf_cogs.structs.reviews import Operation
from kopf_core.intents.callbacks import AdmissionDecorator
from kopf_core.intents.decorators.declaring import Decorator, SelectorArgs, declare_for_resource
from kopf_core.intents.decorators.options import (
    FieldOptions,
    HandlerOptions,
    MetaOptions,
    RegistryOptions,
    SelectorArg,
    SelectorOptions,
)
from kopf_core.intents.decorators.signatures import spelled_out
from kopf_core.intents.filters import MetaFilterToken
from kopf_core.intents.webhooks import WebhookHandler, WebhookType, make_label_selector

LabelSelector = Mapping[str, str | MetaFilterToken] | Mapping[str, Any]
"""Labels as in ``labels=`` but without functions, or a label selector as in the API."""

MatchConditions = Mapping[str, str] | Iterable[Mapping[str, str]]
"""CEL expressions by their names, or a list of conditions as in the API."""

MatchPolicy = Literal["Exact", "Equivalent"]
ReinvocationPolicy = Literal["Never", "IfNeeded"]

OPERATIONS: tuple[Operation, ...] = get_args(Operation)
MAX_TIMEOUT = 30
"""In seconds: the API does not permit more."""


class ValidateOptions(
    SelectorOptions, HandlerOptions, MetaOptions, FieldOptions, RegistryOptions, total=False
):
    """The options of ``@kopf.on.validate``: webhooks are never retried."""

    operation: Operation | None
    """The only operation of its calls; by default, all of them."""

    operations: Iterable[Operation] | None
    """The only operations of its calls; by default, all of them."""

    subresource: str | None
    """The only subresource to be called for; ``"*"`` for all of them and for the main body.
    By default, only the main body is checked."""

    persistent: bool | None
    """Whether the webhook remains in the managed configuration when the operator exits:
    then, the requests are refused until the operator is back. By default, it does not."""

    side_effects: bool | None
    """Whether the handler affects anything but the request (it never does in a dry run)."""

    ignore_failures: bool | None
    """Whether the requests are allowed when the operator cannot be reached."""

    namespace_selector: LabelSelector | None
    """The handler gets only the requests for objects in namespaces with such labels."""

    match_conditions: MatchConditions | None
    """The handler gets only the requests for which all these CEL expressions are true:
    ``{'name-of-condition': 'expression'}``.
    """

    timeout_seconds: int | None
    """How long the API waits for the handler, 1..30 seconds; by default, 30."""

    match_policy: MatchPolicy | None
    """Whether requests via other versions of the resource are sent to the operator, too,
    converted to its version (``"Equivalent"``, by default), or not (``"Exact"``).
    """


class MutateOptions(ValidateOptions, total=False):
    """The options of ``@kopf.on.mutate``."""

    reinvocation_policy: ReinvocationPolicy | None
    """Whether to call it again if other webhooks have changed the object after it:
    ``"Never"`` (by default) or ``"IfNeeded"``.
    """


@spelled_out
def validate(
    arg1: SelectorArg = None,
    arg2: SelectorArg = None,
    arg3: SelectorArg = None,
    /,
    **options: Unpack[ValidateOptions],
) -> AdmissionDecorator:
    """Called before a change is accepted: the change is denied if the handler raises an error.

    :class:`kopf.AdmissionError` has the message and the code. The handler can also add to
    ``warnings``.
    """
    return _declare(WebhookType.VALIDATING, (arg1, arg2, arg3), options)


@spelled_out
def mutate(
    arg1: SelectorArg = None,
    arg2: SelectorArg = None,
    arg3: SelectorArg = None,
    /,
    **options: Unpack[MutateOptions],
) -> AdmissionDecorator:
    """Called before a change is accepted: the handler can amend it with ``patch``, or deny it.

    Kopf calls it for deletions only if ``operation`` or ``operations`` name them. A deletion cannot
    be amended.
    """
    return _declare(WebhookType.MUTATING, (arg1, arg2, arg3), options)


def _declare(type: WebhookType, args: SelectorArgs, options: Mapping[str, Any]) -> Decorator:
    own = {name: value for name, value in options.items() if name not in _PARSED}
    own |= {name: bool(options.get(name)) for name in _FLAGS}
    timeout = options.get("timeout_seconds")
    if timeout is not None and not (isinstance(timeout, int) and 1 <= timeout <= MAX_TIMEOUT):
        raise ValueError(f"timeout_seconds= must be from 1 to {MAX_TIMEOUT}, not {timeout!r}.")
    for name, known in _CHOICES.items():
        if options.get(name) not in (None, *known):
            raise ValueError(f"{name}= must be one of {known}, not {options[name]!r}.")
    return declare_for_resource(
        WebhookHandler,
        args,
        own,
        type=type,
        operations=_parse_operations(options.get("operation"), options.get("operations")),
        namespace_selector=_parse_selector(options.get("namespace_selector")),
        match_conditions=_parse_conditions(options.get("match_conditions")),
    )


_FLAGS = ("persistent", "side_effects", "ignore_failures")
_PARSED = ("operation", "operations", "namespace_selector", "match_conditions")
_CHOICES = {
    "match_policy": get_args(MatchPolicy),
    "reinvocation_policy": get_args(ReinvocationPolicy),
}


def _parse_operations(one: Any, many: Any) -> tuple[Operation, ...]:
    if one is not None and many is not None:
        raise TypeError("Either operation= or operations= can be defined, not both.")
    given = one if many is None else many
    items = () if given is None else (given,) if isinstance(given, str) else tuple(given)
    if "*" in items:
        return ()
    if given is not None and not items:
        raise ValueError("operations= must not be empty; use None for all of them.")
    for item in items:
        if item not in OPERATIONS:
            raise ValueError(f"Operations must be some of {OPERATIONS}, not {item!r}.")
    return cast("tuple[Operation, ...]", items)


def _parse_selector(selector: LabelSelector | None) -> Mapping[str, Any] | None:
    if selector is None or not selector.keys().isdisjoint({"matchLabels", "matchExpressions"}):
        return selector
    if any(callable(value) for value in selector.values()):
        raise TypeError("namespace_selector= is checked by the API: functions are not possible.")
    return make_label_selector(selector)


def _parse_conditions(given: MatchConditions | None) -> tuple[Mapping[str, str], ...]:
    if isinstance(given, Mapping):
        return tuple({"name": name, "expression": text} for name, text in given.items())
    conditions = tuple(given or ())
    for item in conditions:
        if not isinstance(item, Mapping) or item.keys() != {"name", "expression"}:
            raise TypeError(f"match_conditions= need a name and an expression, not {item!r}.")
    return conditions
