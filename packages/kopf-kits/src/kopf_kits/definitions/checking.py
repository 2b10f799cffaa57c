"""The verdicts of the API server on objects of a model: for unit tests, without a server."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kopf_cogs.structs.definitions import Policy, definition_of
from kopf_kits.definitions.errors import DefinitionError
from kopf_kits.definitions.policies import FieldDefault, find_defaults
from kopf_kits.definitions.types import make_root
from kopf_kits.sandbox.base.remarks import Doubt, Remark, Unsupported
from kopf_kits.sandbox.cel.errors import EvaluationError
from kopf_kits.sandbox.cel.expressions import compile_expression
from kopf_kits.sandbox.schemas.schemarules import check_rules
from kopf_kits.sandbox.schemas.schemas import Node, apply_defaults, compile_schema, prune
from kopf_kits.sandbox.schemas.validation import validate


class UncheckableError(DefinitionError):
    """Something cannot be checked without a server; it is never silently taken for valid."""


def check_object(
    model: type,
    body: Mapping[str, Any] | None,
    old: Mapping[str, Any] | None = None,
    *,
    request: Mapping[str, Any] | None = None,
    namespace: Mapping[str, Any] | None = None,
) -> list[str]:
    """List what the API server would have against an object of the model; nothing if it is valid.

    First, unknown fields are removed, and defaults are set. Then come the schema, the limits, and
    the rules in CEL. With the ``old`` state of the object, the rules on changes are checked, too.
    The policies come last. If there is no ``old`` state, the object is created. If there is no
    ``body``, the ``old`` object is deleted. Otherwise, the object is updated. The policies see this
    operation and the name of the object in the ``request``, with all that is given as the
    ``request`` here. The policies also see the ``namespace`` of the object.

    Raises :class:`UncheckableError` if a rule, a format, or a pattern cannot be evaluated here.
    """
    definition = definition_of(model)
    node = compile_schema(make_root(model, definition.rules if definition else ()))
    new, was = (None if one is None else _complete(node, one) for one in (body, old))
    scope = _make_scope(new, was, request, namespace)
    found: list[Any] = []
    try:
        if new is not None:
            for default in find_defaults(model):
                _set_default(default, scope)
            new = scope["object"] = _complete(node, new)
            found = _check_schema(node, new, was)
        denials = [] if found else _check_policies(definition.policies if definition else (), scope)
    except Unsupported as error:
        hint = ": pass namespace=" if namespace is None and "namespaceObject" in str(error) else ""
        raise UncheckableError(f"{model.__name__}: {error}{hint}") from None
    for one in found:
        if isinstance(one, Doubt):
            raise UncheckableError(f"{model.__name__}: {one}")
    return [*map(str, found), *denials]


def _check_schema(node: Node, new: Any, was: Any) -> list[Any]:
    found = list(validate(node, new))
    if not found:
        rules = check_rules(node, new) if was is None else check_rules(node, new, was)
        found = [one for one in rules if not isinstance(one, Remark)]
    return found


def _complete(node: Node, body: Mapping[str, Any]) -> Any:
    return apply_defaults(node, prune(node, dict(body), []))


def _make_scope(
    new: Any, old: Any, request: Mapping[str, Any] | None, namespace: Mapping[str, Any] | None
) -> dict[str, Any]:
    """The variables for expressions of policies. Unknown variables raise errors by themselves."""
    operation = "DELETE" if new is None else "CREATE" if old is None else "UPDATE"
    metadata = ((old if new is None else new) or {}).get("metadata") or {}
    known = {name: metadata.get(name) or "" for name in ("name", "namespace")}
    scope = {"object": new, "oldObject": old}
    scope["request"] = {"operation": operation, **known, **(request or {})}
    return scope if namespace is None else {**scope, "namespaceObject": dict(namespace)}


def _set_default(default: FieldDefault, scope: dict[str, Any]) -> None:
    if not compile_expression(default.condition)(scope):
        return
    try:
        value = compile_expression(default.expression)(scope)
    except EvaluationError as error:
        raise Unsupported(f"{default.expression}: {error}") from None
    inner = scope["object"]
    for name in default.path[:-1]:
        inner = inner[name]
    inner[default.path[-1]] = value


def _check_policies(policies: Iterable[Policy], scope: dict[str, Any]) -> list[str]:
    found: list[str] = []
    for policy in policies:
        if scope["request"]["operation"] not in policy.operations:
            continue
        try:
            if not compile_expression(policy.expression)(scope):
                found.append(_explain(policy, scope))
        except EvaluationError as error:
            found.append(f"{policy.expression}: {error}")
    return found


def _explain(policy: Policy, scope: dict[str, Any]) -> str:
    if policy.message_expression:
        try:
            return str(compile_expression(policy.message_expression)(scope))
        except EvaluationError:
            pass  # the server takes the message then, too
    return policy.message or f"failed expression: {policy.expression}"
