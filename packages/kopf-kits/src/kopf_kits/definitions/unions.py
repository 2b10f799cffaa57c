"""Unions: of a few simple types, or of models with a field that tells them from each other."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

from kopf_kits.definitions.expressions import escape
from kopf_kits.definitions.limits import RULES, Schema
from kopf_kits.definitions.places import Place
from kopf_kits.definitions.scalars import INT_OR_STRING

INT: Final = "x-kubernetes-int-or-string"
_VALIDATIONS: Final = frozenset(
    {
        "enum", "pattern", "format", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
        "multipleOf", "minLength", "maxLength", "minItems", "maxItems", "minProperties",
        "maxProperties",
    }
)  # fmt: skip
_TEXTS: Final = frozenset({"description", "title", "example", "default"})


@dataclasses.dataclass(frozen=True, slots=True)
class Variant:
    """One of the models of a union. A strict one does not accept the fields of others."""

    name: str
    schema: Schema
    strict: bool

    @property
    def properties(self) -> dict[str, Schema]:
        found: dict[str, Schema] = self.schema.get("properties") or {}
        return found


def merge_scalars(schemas: Sequence[Schema], names: Sequence[str], place: Place) -> Schema:
    """The schema of several simple types. Raises :class:`SchemaError` if there is none."""
    types = {schema.get("type", INT if schema.get(INT) else None) for schema in schemas}
    merged: Schema = {}
    for schema in schemas:
        merged.update({key: value for key, value in schema.items() if key != "enum"})
    if len(types) == 1 and all("enum" in schema for schema in schemas):
        merged["enum"] = list(dict.fromkeys(v for schema in schemas for v in schema["enum"]))
        return merged
    is_limited = any(_VALIDATIONS & schema.keys() for schema in schemas)
    if types == {"integer", "number"} and not is_limited:
        return {"type": "number"}
    if len(types) == 2 and types <= {"integer", "string", INT} and not _has_enum(schemas):
        merged.pop("type", None)
        return {**INT_OR_STRING, **merged}
    if len(types) == 1 and types <= {"string", "integer"} and {} in map(_get_limits, schemas):
        return {"type": schemas[0]["type"]}  # e.g. known words, or any others
    raise place.error(
        f"{' | '.join(names)} cannot be written as a schema: the API knows only unions of int and "
        "str, and of models with a discriminator. Mark the field with kopf.schema.Schemaless()."
    )


def _has_enum(schemas: Sequence[Schema]) -> bool:
    return any("enum" in schema for schema in schemas)


def _get_limits(schema: Schema) -> Schema:
    return {key: value for key, value in schema.items() if key in _VALIDATIONS}


def merge_variants(variants: Sequence[Variant], chosen: Any, place: Place) -> Schema:
    """The schema of several models: all their fields, and the requirements of each model.

    Raises :class:`SchemaError` if no field tells the models from each other.
    """
    key = chosen if isinstance(chosen, str) else _find_discriminator(variants)
    tags = [v.properties.get(key or "", {}).get("enum") or () for v in variants]
    if key is None or not all(tags) or (chosen is not None and not isinstance(chosen, str)):
        shown = " | ".join(variant.name for variant in variants)
        raise place.error(
            f"there is no field that tells {shown} from each other: "
            "a Literal field of the same name is needed in each."
        )
    names = list(dict.fromkeys(name for variant in variants for name in variant.properties))
    properties = {
        name: _merge_property(name, variants, place.field(name)) for name in names if name != key
    }
    merged_tags = list(dict.fromkeys(value for values in tags for value in values))
    tag: Schema = {**_get_structure(variants[0].properties[key]), "enum": merged_tags}
    rules = [rule for variant in variants for rule in _make_rules(variant, key)]
    return {
        "type": "object",
        "properties": {key: tag, **properties},
        "required": [key],
        "oneOf": [_make_branch(variant, key, names, properties) for variant in variants],
        **({RULES: rules} if rules else {}),
    }


def _find_discriminator(variants: Sequence[Variant]) -> str | None:
    """The field of all the variants which has different values in each of them."""
    for name in variants[0].properties:
        values = [v.properties.get(name, {}).get("enum") or () for v in variants]
        listed = [value for some in values for value in some]
        if all(values) and len(listed) == len(set(listed)):
            return name
    return None


def _merge_property(name: str, variants: Sequence[Variant], place: Place) -> Schema:
    """The keywords that all variants agree on: other ones are not for objects of all variants."""
    found = [variant.properties[name] for variant in variants if name in variant.properties]
    structures = [_get_structure(schema) for schema in found]
    if any(structure != structures[0] for structure in structures):
        raise place.error("the variants of a union have different types for this field.")
    skipped = () if len(found) == len(variants) else (*_VALIDATIONS, "default")
    agreed = {
        key: value
        for key, value in found[0].items()
        if key not in skipped and all(schema.get(key) == value for schema in found)
    }
    return {**structures[0], **agreed}


def _get_structure(schema: Schema) -> Schema:
    skipped = _VALIDATIONS | _TEXTS
    return {key: value for key, value in schema.items() if key not in skipped}


def _make_branch(
    variant: Variant, key: str, names: Sequence[str], merged: dict[str, Schema]
) -> Schema:
    """The keywords of this variant only; the API allows neither types nor texts here."""
    own: dict[str, Schema] = {key: {"enum": variant.properties[key]["enum"]}}
    for name, schema in variant.properties.items():
        limits = _get_limits(schema)
        if name != key and limits != _get_limits(merged[name]):
            own[name] = limits
    required = list(dict.fromkeys([key, *(variant.schema.get("required") or ())]))
    branch: Schema = {"properties": own, "required": required}
    others = [name for name in names if name not in variant.properties]
    if variant.strict and others:
        branch["not"] = {"anyOf": [{"required": [name]} for name in others]}
    return branch


def _make_rules(variant: Variant, key: str) -> Iterator[Schema]:
    """The rules of the variant, applied only to its objects."""
    tags = ", ".join(json.dumps(value) for value in variant.properties[key]["enum"])
    for rule in variant.schema.get(RULES) or ():
        yield {**rule, "rule": f"!(self.{escape(key)} in [{tags}]) || ({rule['rule']})"}
