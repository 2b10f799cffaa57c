"""All the checks of a new state of an object, before it is stored."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from kopf_kits.sandbox.base.remarks import Doubt, Remark
from kopf_kits.sandbox.base.statuses import Cause, invalid
from kopf_kits.sandbox.kinds.builtins import find_missing
from kopf_kits.sandbox.schemas.schemarules import block_rules, check_rules
from kopf_kits.sandbox.schemas.schemas import Node
from kopf_kits.sandbox.schemas.validation import validate_changed
from kopf_kits.sandbox.store.decoding import unchecked_rules
from kopf_kits.sandbox.store.metadata import check_metadata
from kopf_kits.sandbox.store.resources import Endpoint
from kopf_kits.sandbox.store.writeoptions import WriteOptions

Obj = dict[str, Any]
Found = Cause | Doubt | Remark


def check(
    endpoint: Endpoint, obj: Obj, old: Obj | None, options: WriteOptions, sub: str = ""
) -> None:
    """Check the new state of an object; 422 if something is wrong with it.

    The warnings, and the checks that the sandbox cannot make, go into the options.
    """
    found = list(_find(endpoint, obj, old, sub))
    options.warnings.extend(str(one) for one in found if isinstance(one, Remark))
    for one in found:
        if isinstance(one, Doubt):
            options.doubt(f"{endpoint.resource.qualified}: {one}")
    causes = [one for one in found if isinstance(one, Cause)]
    if causes:
        name = obj["metadata"].get("name") or ""
        raise invalid(endpoint.resource.group, endpoint.resource.kind, name, causes)


def _find(endpoint: Endpoint, obj: Obj, old: Obj | None, sub: str) -> Iterator[Found]:
    schema, resource = endpoint.served.schema, endpoint.resource
    yield from check_metadata(endpoint, obj, old)
    if schema is not None and resource.custom:
        yield from _check_custom(endpoint, schema, obj, old, sub)
    missing: list[Cause] = []
    if schema is not None and not resource.custom and "spec" in schema.properties and not sub:
        missing = list(find_missing(schema.properties["spec"], obj.get("spec"), "spec"))
    yield from (cause for cause in missing if cause.field.count(".") == 1)
    if resource.rules.check is not None:
        yield from resource.rules.check(obj, old)
    yield from (cause for cause in missing if cause.field.count(".") > 1)


def _check_custom(
    endpoint: Endpoint, schema: Node, obj: Obj, old: Obj | None, sub: str
) -> Iterator[Found]:
    part = schema.properties.get("status") if sub == "status" else None
    if part is not None:
        was = old.get("status") if old is not None else None
        found = validate_changed(part, obj["status"], was) if "status" in obj else []
        found = [replace(one, field=f"status.{one.field}".rstrip(".")) for one in found]
    else:
        found = validate_changed(schema, obj, old)
    yield from found
    if endpoint.served.scale is not None and sub != "status":
        yield from _check_scale(endpoint.served.scale.spec_path, obj)
    if not schema.ruled:
        return
    if block_rules([one for one in found if isinstance(one, Cause)]):
        yield unchecked_rules()
    elif old is None:
        yield from check_rules(schema, obj)
    else:
        yield from check_rules(schema, obj, old)


def _check_scale(path: str, obj: Obj) -> Iterator[Cause]:
    value: Any = obj
    for name in path.strip(".").split("."):
        if not isinstance(value, dict):
            found = "[]interface {}" if isinstance(value, list) else type(value).__name__
            found = {"str": "string", "int": "int64", "float": "float64"}.get(found, found)
            shown = "[]" if value == [] else value
            why = f"{shown} is of the type {found}, expected map[string]interface{{}}"
            yield Cause(
                "FieldValueInvalid", path, f"Invalid value: 0: {path} accessor error: {why}"
            )
            return
        value = value.get(name)
        if value is None:
            return
