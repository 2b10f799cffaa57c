"""From the types of Python to structural schemas of OpenAPI v3, as Kubernetes wants them."""

from __future__ import annotations

import collections.abc
import types
import typing
from collections.abc import Iterable
from typing import Any, Final, Literal, Union

from kopf_cogs.structs import markers as known
from kopf_kits.definitions import unions
from kopf_kits.definitions.docstrings import describe_class
from kopf_kits.definitions.errors import SchemaError
from kopf_kits.definitions.expressions import (
    make_choice_rule,
    make_kept_rule,
    make_keys_rule,
)
from kopf_kits.definitions.fields import (
    MISSING,
    VARYING,
    DiscriminatedBy,
    ModelField,
    is_model,
    is_root_model,
    read_structure,
    unwrap,
)
from kopf_kits.definitions.limits import Schema, add_limits, add_rule
from kopf_kits.definitions.places import Place, show
from kopf_kits.definitions.plain import make_plain
from kopf_kits.definitions.scalars import INT_OR_STRING, make_enum, make_scalar

PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
_UNIONS: Final = (Union, types.UnionType)
_EMBEDDED: Final[Schema] = {
    "type": "object",
    "x-kubernetes-embedded-resource": True,
    PRESERVE: True,
}


def make_schema(
    type_: Any, markers: Iterable[Any], place: Place, *, is_optional: bool = False
) -> Schema:
    """The schema of a type with its markers. Raises :class:`SchemaError` if there is none.

    An optional value is that of a field for which no value means ``None``.
    """
    type_, inner = unwrap(type_)
    markers = (*inner, *markers)
    schema = _make_marked(type_, markers, place)
    add_limits(schema, markers, place)
    if schema.get("nullable") and "enum" in schema:
        _allow_null(schema, is_default=is_optional)
    return schema


def _allow_null(schema: Schema, *, is_default: bool) -> None:
    """For the API, ``null`` is never one of a few values, even if it is listed among them.

    The API drops ``null`` where the schema does not allow it. If ``null`` means the same as
    no value, the schema does not need to allow it.
    """
    if is_default:
        del schema["nullable"]
    else:
        add_rule(schema, make_choice_rule(schema.pop("enum")))


def _make_marked(type_: Any, markers: tuple[Any, ...], place: Place) -> Schema:
    """The schema by the markers that say more than the type; or by the type itself."""
    for marker in markers:
        match marker:
            case known.Schemaless():
                return {PRESERVE: True}
            case known.IntOrString():
                return dict(INT_OR_STRING)
            case known.EmbeddedObject():
                return _make_embedded(type_, place)
            case known.Type():
                return {"type": marker.name} | _get_items(marker.name)
    return _make_by_type(type_, markers, place)


def _make_embedded(type_: Any, place: Place) -> Schema:
    """A whole object. If there is a model for it, its fields are known, besides the usual ones."""
    if not is_model(type_):
        return dict(_EMBEDDED)
    schema = make_structure(type_, place)
    return {**schema, "x-kubernetes-embedded-resource": True}


def _get_items(name: str) -> Schema:
    """The keywords that the type needs: without them, the API would remove all the content."""
    preserved: Schema = {PRESERVE: True}
    return {"array": {"items": preserved}, "object": preserved}.get(name, {})


def _make_by_type(type_: Any, markers: tuple[Any, ...], place: Place) -> Schema:
    origin, args = typing.get_origin(type_), typing.get_args(type_)
    if type_ in (Any, object):
        return {PRESERVE: True}
    if origin is Literal:
        return make_enum(args, place)
    if origin in _UNIONS:
        return _make_union(args, markers, place)
    if is_root_model(type_):
        (field,) = read_structure(type_).fields
        return make_schema(field.type, field.markers, place)
    if is_model(origin or type_):
        return make_structure(type_, place)
    schema = make_scalar(type_, markers, place)
    return _make_container(type_, origin or type_, args, place) if schema is None else schema


def _make_union(args: tuple[Any, ...], markers: tuple[Any, ...], place: Place) -> Schema:
    members = [arg for arg in args if arg is not type(None)]
    nullable: Schema = {"nullable": True} if len(members) < len(args) else {}
    if len(members) == 1:
        return make_schema(members[0], (), place) | nullable
    if all(is_model(unwrap(member)[0]) for member in members):
        chosen = next((m.field for m in markers if isinstance(m, DiscriminatedBy)), None)
        variants = [_make_variant(unwrap(member)[0], place) for member in members]
        return unions.merge_variants(variants, chosen, place) | nullable
    schemas = [make_schema(member, (), place) for member in members]
    return unions.merge_scalars(schemas, [show(member) for member in members], place) | nullable


def _make_variant(cls: type, place: Place) -> unions.Variant:
    extra = read_structure(cls).extra
    return unions.Variant(cls.__name__, make_structure(cls, place), strict=extra == "forbid")


def _make_container(type_: Any, origin: Any, args: tuple[Any, ...], place: Place) -> Schema:
    if isinstance(origin, type) and issubclass(origin, collections.abc.Mapping):
        return _make_mapping(args or (str, Any), place)
    if origin is tuple and args and args[-1] is not Ellipsis:
        return _make_tuple(args, place)
    if isinstance(origin, type) and issubclass(origin, collections.abc.Set):
        items = _make_items(args, place)
        if items.get("type") == "object":  # the API compares only whole items of sets
            items["x-kubernetes-map-type"] = "atomic"
        return {"type": "array", "x-kubernetes-list-type": "set", "items": items}
    if isinstance(origin, type) and issubclass(origin, collections.abc.Iterable):
        return {"type": "array", "items": _make_items(args, place)}
    raise place.error(
        f"{show(type_)} cannot be written as a schema; mark the field with kopf.schema.Type() "
        "or kopf.schema.Schemaless()."
    )


def _make_items(args: tuple[Any, ...], place: Place) -> Schema:
    return make_schema(args[0] if args else Any, (), place.items())


def _make_tuple(args: tuple[Any, ...], place: Place) -> Schema:
    if any(arg != args[0] for arg in args):
        raise place.error("items of a tuple must be of one type: the API knows no other lists.")
    size = {"minItems": len(args), "maxItems": len(args)}
    return {"type": "array", "items": _make_items(args, place), **size}


def _make_mapping(args: tuple[Any, ...], place: Place) -> Schema:
    key, value = args
    if unwrap(value)[0] in (Any, object):
        schema: Schema = {"type": "object", PRESERVE: True}
    else:
        values = make_schema(value, (), place.items("[*]"))
        schema = {"type": "object", "additionalProperties": values}
    keys = make_schema(key, (), place.items("[key]"))
    if keys.get("type") != "string":
        raise place.error("keys of mappings are strings in JSON.")
    if "enum" in keys:
        add_rule(schema, make_keys_rule(keys["enum"]))
    return schema


def make_structure(type_: Any, place: Place) -> Schema:
    """The schema of a model, with all its fields. Raises :class:`SchemaError`."""
    cls = typing.get_origin(type_) or type_
    structure = read_structure(type_)
    place = place.inside(type_, structure.dialect)
    schema: Schema = {"type": "object"}
    if text := describe_class(cls):
        schema["description"] = text
    properties = {field.name: _make_property(field, place) for field in structure.fields}
    if properties:
        schema["properties"] = properties
    if required := [field.name for field in structure.fields if field.required]:
        schema["required"] = required
    if structure.extra == "allow":
        schema[PRESERVE] = True
    for field in structure.fields:
        _add_kept_rules(schema, field)
    return schema


def _make_property(field: ModelField, place: Place) -> Schema:
    place = place.field(field.name)
    if field.default is VARYING:
        hint = "Set a constant by kopf.schema.Default(), or require the field"
        raise SchemaError(f"{place}: its default differs each time, the API has constants. {hint}.")
    is_optional = field.default is None
    schema = make_schema(field.type, field.markers, place, is_optional=is_optional)
    if field.description:
        schema = {"description": field.description} | schema
        schema["description"] = field.description
    if field.default is not MISSING and field.default is not None:
        schema["default"] = make_plain(field.default, schema, place)
    return schema


def _add_kept_rules(schema: Schema, field: ModelField) -> None:
    """Forbid to remove immutable fields: only the rules of the parent can see a removal."""
    for marker in field.markers:
        if isinstance(marker, known.Immutable) and not field.required:
            add_rule(schema, make_kept_rule(field.name, marker.message))


def make_root(cls: type, rules: Iterable[known.Rule] = ()) -> Schema:
    """The schema of whole objects: the usual fields replace the same fields of the model."""
    try:
        schema = make_structure(cls, Place(cls.__name__))
    except RecursionError:  # of type aliases that refer to themselves, or of their parameters
        raise SchemaError(
            f"{cls.__name__}: a type in it contains itself, and there are no recursive schemas in "
            "Kubernetes; mark the field with kopf.schema.Schemaless()."
        ) from None
    properties = {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"type": "object"},
    }
    properties |= {
        name: prop
        for name, prop in (schema.get("properties") or {}).items()
        if name not in properties
    }
    schema["properties"] = properties
    required = [name for name in schema.pop("required", ()) if name in [*properties][3:]]
    if required:
        schema["required"] = required
    add_limits(schema, rules, Place(cls.__name__))
    return schema
