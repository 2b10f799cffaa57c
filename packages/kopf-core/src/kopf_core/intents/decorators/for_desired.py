"""The decorator for desired state: ``@kopf.reconcile``."""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Unpack

from kopf_cogs.structs.dicts import FieldPath, parse_field
from kopf_cogs.structs.selectors import Selector
from kopf_core.intents.callbacks import ReconcilingDecorator
from kopf_core.intents.decorators.declaring import declare_for_resource
from kopf_core.intents.decorators.options import KindArg, ReconcileOptions, SelectorArg
from kopf_core.intents.decorators.signatures import spelled_out
from kopf_core.intents.handlers import ReconcilingHandler


@spelled_out
def reconcile(
    arg1: SelectorArg = None,
    arg2: SelectorArg = None,
    arg3: SelectorArg = None,
    /,
    **options: Unpack[ReconcileOptions],
) -> ReconcilingDecorator:
    """Called to learn which objects must exist for the primary object.

    The function is a generator, sync or async. It yields the objects that must exist, and gets each
    of them back as it is in the cluster. Or the function returns a list of objects. Sync generators
    can do both: the returned objects come last. Kopf makes the primary object their owner, and
    applies the objects that differ. Kopf deletes the objects that the function wanted earlier and
    does not want anymore.

    Kopf calls the function when the primary object appears or changes, when an owned or a related
    object changes or vanishes, after each ``every`` seconds, and on retries.
    """
    settled: dict[str, Any] = {**options}
    for name in ("every", "limit", "cooldown"):
        _check_positive(name, options.get(name))
    settled["owns"] = _parse_kinds(options.get("owns") or ())
    settled["related"] = _parse_relations(options.get("related") or {})
    return declare_for_resource(ReconcilingHandler, (arg1, arg2, arg3), settled)


def _parse_kinds(kinds: Any) -> tuple[Selector, ...]:
    if isinstance(kinds, str | Selector | Mapping) or not isinstance(kinds, Iterable):
        raise TypeError(f"owns= must be a list of kinds, e.g. ['configmaps'], not {kinds!r}.")
    return tuple(_parse_kind("owns", kind) for kind in kinds)


def _parse_relations(relations: Any) -> dict[Selector, FieldPath | str | Callable[..., Any]]:
    if not isinstance(relations, Mapping):
        raise TypeError(
            f"related= must be a dictionary of kinds and of how their objects are found, "
            f"e.g. {{'secrets': 'spec.secretName'}}, not {relations!r}."
        )
    return {
        _parse_kind("related", kind): _parse_relation(source) for kind, source in relations.items()
    }


def _parse_kind(option: str, kind: KindArg) -> Selector:
    selector = kind if isinstance(kind, Selector) else Selector.of(kind)
    if not selector.is_specific:
        raise TypeError(f"{option}= must name the kinds one by one, not as {kind!r}.")
    return selector


def _parse_relation(source: Any) -> FieldPath | str | Callable[..., Any]:
    if callable(source):
        return source  # type: ignore[no-any-return]
    if isinstance(source, str) and "." not in source:
        return source  # an index, or a top-level field: that is settled when the operator starts
    path = parse_field(source)
    if not path or isinstance(source, Mapping):
        raise TypeError(f"related= must have a field, an index, or a function, not {source!r}.")
    return path


def _check_positive(name: str, value: Any) -> None:
    if value is None:
        return
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 < value < math.inf:
        raise TypeError(f"{name}= must be a positive number, not {value!r}.")
