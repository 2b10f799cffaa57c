"""Admission policies of models: by them, the API server checks and sets fields without webhooks."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Iterable, Iterator
from typing import Any, Final

from kopf_cogs.structs.definitions import Definition, Policy, definition_of
from kopf_cogs.structs.markers import DefaultFrom
from kopf_kits.definitions.errors import SchemaError
from kopf_kits.definitions.expressions import escape, quote
from kopf_kits.definitions.fields import is_model, read_structure, unwrap

Obj = dict[str, Any]

API_VERSION: Final = "admissionregistration.k8s.io/v1"
PLURALS: Final = {
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
    "MutatingAdmissionPolicy": "mutatingadmissionpolicies",
    "MutatingAdmissionPolicyBinding": "mutatingadmissionpolicybindings",
}
_OPERATIONS: Final = ("CREATE", "UPDATE", "DELETE")
_ITEMS: Final = "[]"
_UNIONS: Final = (typing.Union, types.UnionType)


@dataclasses.dataclass(frozen=True, slots=True)
class FieldDefault:
    """A field with a default that an expression makes of the object."""

    path: tuple[str, ...]
    expression: str

    @property
    def condition(self) -> str:
        """The condition that the field is absent, but all its parents are present."""
        names = ["object", *(escape(name) for name in self.path)]
        parents = [f"has({'.'.join(names[:size])})" for size in range(2, len(names))]
        return " && ".join([*parents, f"!has({'.'.join(names)})"])


def make_policies(models: Iterable[type]) -> dict[str, list[Obj]]:
    """The manifests of the policies and of their bindings, by the names of the definitions.

    Raises :class:`SchemaError` if a default is where policies cannot set it.
    """
    found: dict[str, list[Obj]] = {}
    for model in models:
        if (definition := definition_of(model)) is not None:
            manifests = [*_make_mutating(model, definition), *_make_validating(definition)]
            found.setdefault(definition.name, []).extend(manifests)
    return found


def find_defaults(model: type) -> list[FieldDefault]:
    """The fields of the model and of its inner models with defaults made of the object."""
    return list(_walk(model, model, (), ()))


def _make_mutating(model: type, definition: Definition) -> Iterator[Obj]:
    mutations = [
        {"patchType": "JSONPatch", "jsonPatch": {"expression": _make_patch(default)}}
        for default in find_defaults(model)
    ]
    if mutations:
        yield _make(
            "MutatingAdmissionPolicy",
            definition,
            matchConstraints=_match(definition, ("CREATE", "UPDATE")),
            failurePolicy="Fail",
            reinvocationPolicy="IfNeeded",
            mutations=mutations,
        )
        yield _make("MutatingAdmissionPolicyBinding", definition, policyName=_name(definition))


def _make_patch(default: FieldDefault) -> str:
    pointer = "".join(f"/{name.replace('~', '~0').replace('/', '~1')}" for name in default.path)
    patch = f'JSONPatch{{op: "add", path: {quote(pointer)}, value: {default.expression}}}'
    return f"{default.condition} ? [{patch}] : []"


def _make_validating(definition: Definition) -> Iterator[Obj]:
    policies = definition.policies
    operations = [name for name in _OPERATIONS if any(name in p.operations for p in policies)]
    if policies:
        yield _make(
            "ValidatingAdmissionPolicy",
            definition,
            matchConstraints=_match(definition, operations),
            failurePolicy="Fail",
            validations=[_make_validation(policy, operations) for policy in policies],
        )
        yield _make(
            "ValidatingAdmissionPolicyBinding",
            definition,
            policyName=_name(definition),
            validationActions=["Deny"],
        )


def _make_validation(policy: Policy, operations: Iterable[str]) -> Obj:
    expression = policy.expression
    own = [name for name in operations if name in policy.operations]
    if own != list(operations):
        listed = ", ".join(quote(name) for name in own)
        expression = f"!(request.operation in [{listed}]) || ({expression})"
    texts = {
        "expression": expression,
        "message": policy.message,
        "messageExpression": policy.message_expression,
        "reason": policy.reason,
    }
    return {name: text for name, text in texts.items() if text is not None}


def _make(kind: str, definition: Definition, **spec: Any) -> Obj:
    metadata = {"name": _name(definition)}
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}


def _name(definition: Definition) -> str:
    return f"{definition.version}.{definition.name}"


def _match(definition: Definition, operations: Iterable[str]) -> Obj:
    """The objects of the policy, with all defaults of API servers.

    These fields are one value for server-side apply. Without the defaults, the value would differ
    from the stored one, and two appliers of the same policy would be in conflict.
    """
    rule = {
        "apiGroups": [definition.group],
        "apiVersions": [definition.version],
        "operations": list(operations),
        "resources": [definition.plural],
        "scope": "*",
    }
    return {
        "matchPolicy": "Equivalent",
        "namespaceSelector": {},
        "objectSelector": {},
        "resourceRules": [rule],
    }


def _walk(
    root: type, type_: Any, path: tuple[str, ...], parents: tuple[type, ...]
) -> Iterator[FieldDefault]:
    """Go through the nested types; into a type that contains itself, only once."""
    type_, _ = unwrap(type_)
    origin = typing.get_origin(type_)
    if is_model(origin or type_):
        if type_ not in parents:
            for field in read_structure(type_).fields:
                inner = (*path, field.name)
                for marker in field.markers:
                    if isinstance(marker, DefaultFrom):
                        yield _make_default(root, inner, marker)
                yield from _walk(root, field.type, inner, (*parents, type_))
    elif origin is not typing.Literal:
        inner = path if origin in _UNIONS else (*path, _ITEMS)
        for arg in typing.get_args(type_):
            yield from _walk(root, arg, inner, parents)


def _make_default(root: type, path: tuple[str, ...], marker: DefaultFrom) -> FieldDefault:
    if _ITEMS in path:
        where = ".".join(path).replace(f".{_ITEMS}", _ITEMS)
        raise SchemaError(
            f"{root.__name__}.{where}: DefaultFrom() cannot be inside of lists and mappings."
        )
    return FieldDefault(path, marker.expression)
