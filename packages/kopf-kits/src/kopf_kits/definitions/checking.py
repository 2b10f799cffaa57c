"""What the API server would say of objects of a model: for unit tests, with no server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kopf_cogs.structs.definitions import definition_of
from kopf_kits.definitions.errors import DefinitionError
from kopf_kits.definitions.types import make_root
from kopf_kits.sandbox.base.remarks import Doubt, Remark
from kopf_kits.sandbox.schemas.schemarules import check_rules
from kopf_kits.sandbox.schemas.schemas import Node, apply_defaults, compile_schema, prune
from kopf_kits.sandbox.schemas.validation import validate


class UncheckableError(DefinitionError):
    """Something cannot be checked without a server; it is never silently taken for valid."""


def check_object(
    model: type, body: Mapping[str, Any], old: Mapping[str, Any] | None = None
) -> list[str]:
    """List what the API server would have against an object of the model; nothing if it is valid.

    The schema, the limits, and the rules in CEL are checked after unknown fields are removed, and
    defaults are set. With the ``old`` state of the object, the rules on changes are checked, too.

    Raises :class:`UncheckableError` if a rule, a format, or a pattern cannot be evaluated here.
    """
    definition = definition_of(model)
    node = compile_schema(make_root(model, definition.rules if definition else ()))
    new, was = _complete(node, body), None if old is None else _complete(node, old)
    found = list(validate(node, new))
    if not found:
        rules = check_rules(node, new) if was is None else check_rules(node, new, was)
        found = [one for one in rules if not isinstance(one, Remark)]
    for one in found:
        if isinstance(one, Doubt):
            raise UncheckableError(f"{model.__name__}: {one}")
    return [str(one) for one in found]


def _complete(node: Node, body: Mapping[str, Any]) -> Any:
    return apply_defaults(node, prune(node, dict(body), []))
