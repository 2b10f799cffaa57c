"""Breaking changes of a definition: for stored objects, and for their users."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

Schema = Mapping[str, Any]

PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
_INT_OR_STRING: Final = "x-kubernetes-int-or-string"
_LOWER: Final = ("minimum", "minLength", "minItems", "minProperties")
_UPPER: Final = ("maximum", "maxLength", "maxItems", "maxProperties")
_EXACT: Final = ("pattern", "format", "multipleOf", "oneOf", "anyOf", "allOf", "not")
_FLAGS: Final = ("exclusiveMinimum", "exclusiveMaximum", "uniqueItems")
_MERGING: Final = ("x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type")
_STANDARD: Final = {"x-kubernetes-list-type": "atomic", "x-kubernetes-map-type": "granular"}
_EMBEDDED: Final = "x-kubernetes-embedded-resource"
_ABSENT: Final[Any] = object()
_REMOVED: Final = "the field is removed"
_CLOSED: Final = "other keys are not kept anymore"


@dataclasses.dataclass(frozen=True, slots=True)
class Change:
    """A breaking change, and its place."""

    place: str
    text: str

    def __str__(self) -> str:
        return f"{self.place}: {self.text}"


def compare(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Change]:
    """The changes in the new definition that break objects and clients of the old one."""
    name = new["metadata"]["name"]
    found = (*_compare_kinds(old, new), *_compare_versions(old, new), *_find_unconverted(old, new))
    return [Change(f"{name} {place}".rstrip(), text) for place, text in found]


def is_converted(*definitions: Mapping[str, Any]) -> bool:
    """Whether a webhook converts the objects: by the last definition with a conversion.

    Otherwise, the API server only replaces the ``apiVersion``, and drops the unknown fields.
    """
    said = [d["spec"]["conversion"] for d in definitions if d["spec"].get("conversion")]
    return bool(said and said[-1].get("strategy") == "Webhook")


def find_lost_fields(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """The fields of one version that another version does not have, as ``.spec.replicas``.

    The API server drops them when it stores an object in the other version, unless a webhook
    converts the objects.
    """
    before = (old.get("schema") or {}).get("openAPIV3Schema") or {}
    after = (new.get("schema") or {}).get("openAPIV3Schema") or {}
    marks = {_REMOVED: "", _CLOSED: "[*]"}
    found = _compare_schemas("", before, after)
    return [place + marks[text] for place, text in found if text in marks]


def _compare_kinds(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    was, now = old["spec"], new["spec"]
    if was["scope"] != now["scope"]:
        yield "", f"the scope is changed from {was['scope']} to {now['scope']}"
    if was["names"]["kind"] != now["names"]["kind"]:
        kinds = f"{was['names']['kind']} to {now['names']['kind']}"
        yield "", f"the kind is renamed from {kinds}"
    for field, title in (("shortNames", "short name"), ("categories", "category")):
        kept = now["names"].get(field) or ()
        for name in was["names"].get(field) or ():
            if name not in kept:
                yield "", f"the {title} {name!r} is removed"


def _compare_versions(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    known = {version["name"]: version for version in new["spec"]["versions"]}
    stored = (old.get("status") or {}).get("storedVersions") or [
        version["name"] for version in old["spec"]["versions"] if version.get("storage")
    ]
    for was in old["spec"]["versions"]:
        name = was["name"]
        now = known.get(name)
        if now is None and name in stored:
            yield name, "the version is removed, and there can be objects stored in it"
        elif now is None and was.get("served"):
            yield name, "the version is removed"
        elif now is not None:
            if was.get("served") and not now.get("served"):
                yield name, "the version is not served anymore"
            yield from _compare_version(name, was, now)


def _find_unconverted(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The fields which objects lose when they are read in the added versions, and written back."""
    if is_converted(old, new):
        return
    known = {version["name"] for version in old["spec"]["versions"]}
    [stored] = [version for version in old["spec"]["versions"] if version.get("storage")]
    for version in new["spec"]["versions"]:
        if version["name"] not in known:
            for place in find_lost_fields(stored, version):
                reason = "as no webhook converts the objects"
                text = f"the field of {stored['name']} would be lost, {reason}"
                yield f"{version['name']} {place}", text


def _compare_version(
    name: str, was: Mapping[str, Any], now: Mapping[str, Any]
) -> Iterator[tuple[str, str]]:
    before, after = was.get("subresources") or {}, now.get("subresources") or {}
    for subresource in ("status", "scale"):
        if (subresource in before) != (subresource in after):
            verb = "added" if subresource in after else "removed"
            if subresource == "status" or verb == "removed":
                yield name, f"the subresource {subresource!r} is {verb}"
    paths = [field["jsonPath"] for field in now.get("selectableFields") or ()]
    for field in was.get("selectableFields") or ():
        if field["jsonPath"] not in paths:
            yield name, f"the field {field['jsonPath']} is not selectable anymore"
    yield from _compare_schemas(
        f"{name} ",
        (was.get("schema") or {}).get("openAPIV3Schema") or {},
        (now.get("schema") or {}).get("openAPIV3Schema") or {},
    )


def _compare_schemas(place: str, old: Schema, new: Schema) -> Iterator[tuple[str, str]]:
    for text in _find_differences(old, new):
        yield place.rstrip(), text
    if _get_type(old) != _get_type(new) and _get_type(new) is not None:
        return
    yield from _compare_properties(place, old, new)
    for keyword, mark in (("items", "[]"), ("additionalProperties", "[*]")):
        was, now = old.get(keyword), new.get(keyword)
        if isinstance(was, Mapping) and isinstance(now, Mapping):
            yield from _compare_schemas(f"{place}{mark}", was, now)
        elif was and not now and not new.get(PRESERVE):
            yield place.rstrip(), _CLOSED


def _compare_properties(place: str, old: Schema, new: Schema) -> Iterator[tuple[str, str]]:
    known, properties = old.get("properties") or {}, new.get("properties") or {}
    is_kept = new.get(PRESERVE) or new.get("additionalProperties")
    for name, was in known.items():
        if name in properties:
            yield from _compare_schemas(f"{place}.{name}", was, properties[name])
        elif not is_kept:
            yield f"{place}.{name}", _REMOVED
    required = old.get("required") or ()
    for name in new.get("required") or ():
        if name not in required and "default" not in properties.get(name, {}):
            yield f"{place}.{name}", "the field is required now"


def _find_differences(old: Schema, new: Schema) -> Iterator[str]:
    was, now = _get_type(old), _get_type(new)
    if was != now and now is not None and {was, now} != {"integer", "number"}:
        yield f"the type is changed from {was or 'any'} to {now}"
    elif (was, now) == ("number", "integer"):
        yield "the type is narrowed from number to integer"
    if old.get("nullable") and not new.get("nullable"):
        yield "it cannot be null anymore"
    if old.get(PRESERVE) and not new.get(PRESERVE):
        yield "unknown fields are not kept anymore"
    if not old.get(_EMBEDDED) and new.get(_EMBEDDED):
        yield "it must be a whole object now"
    yield from _compare_limits(old, new)
    yield from _compare_defaults(old, new)
    for keyword in _MERGING:
        standard = _STANDARD.get(keyword)
        if (before := old.get(keyword, standard)) != (after := new.get(keyword, standard)):
            title = keyword.removeprefix("x-kubernetes-")
            yield f"the {title} is changed from {_show(before)} to {_show(after)}"
    rules = [rule.get("rule") for rule in old.get("x-kubernetes-validations") or ()]
    for rule in new.get("x-kubernetes-validations") or ():
        if rule.get("rule") not in rules:
            yield f"there is a new rule: {rule.get('rule')}"


def _compare_limits(old: Schema, new: Schema) -> Iterator[str]:
    is_narrower: Callable[[Any, Any], bool]
    for keywords, is_narrower in ((_LOWER, lambda a, b: a < b), (_UPPER, lambda a, b: a > b)):
        for keyword in keywords:
            was, now = old.get(keyword), new.get(keyword)
            if now is not None and (was is None or is_narrower(was, now)):
                yield f"{keyword} is narrowed from {_show(was)} to {_show(now)}"
    for keyword in _FLAGS:
        if new.get(keyword) and not old.get(keyword):
            yield f"there is {keyword} now"
    for keyword in _EXACT:
        if keyword in new and new[keyword] != old.get(keyword):
            yield f"{keyword} is changed from {_show(old.get(keyword))} to {_show(new[keyword])}"
    if new.get("enum") is not None:
        if old.get("enum") is None:
            yield f"only these values are allowed now: {_show(new['enum'])}"
        else:
            for value in old["enum"]:
                if value not in new["enum"]:
                    yield f"the value {_show(value)} is not allowed anymore"


def _compare_defaults(old: Schema, new: Schema) -> Iterator[str]:
    was, now = old.get("default", _ABSENT), new.get("default", _ABSENT)
    if was is _ABSENT and now is not _ABSENT:
        yield f"there is a default now: {_show(now)}"
    elif was is not _ABSENT and now is _ABSENT:
        yield f"there is no default anymore, it was {_show(was)}"
    elif was != now:
        yield f"the default is changed from {_show(was)} to {_show(now)}"


def _get_type(schema: Schema) -> str | None:
    return "integer or string" if schema.get(_INT_OR_STRING) else schema.get("type")


def _show(value: Any) -> str:
    return "none" if value is None else repr(value)
