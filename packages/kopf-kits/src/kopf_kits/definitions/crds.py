"""Manifests of custom resource definitions: all the versions of a kind in one manifest."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from kopf_cogs.structs.definitions import Column, Definition, Scale, definition_of
from kopf_kits.definitions.errors import DefinitionError
from kopf_kits.definitions.types import make_root

_SHARED: Final = ("kind", "singular", "short_names", "categories", "scope")
_STAGES: Final = {"alpha": 0, "beta": 1, "": 2}
_VERSION: Final = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")


def make_definitions(models: Iterable[type]) -> list[dict[str, Any]]:
    """The manifests for the models: all models of a kind are in one manifest.

    Raises :class:`DefinitionError` if the models do not fit each other,
    :class:`SchemaError` if some of them cannot be written as schemas.
    """
    kinds: dict[str, dict[type, Definition]] = {}
    for model in models:
        if (definition := definition_of(model)) is not None:
            kinds.setdefault(definition.name, {})[model] = definition
    return [_make_definition(name, versions) for name, versions in sorted(kinds.items())]


def _make_definition(name: str, models: Mapping[type, Definition]) -> dict[str, Any]:
    _check_versions(name, models)
    ordered = sorted(models.items(), key=lambda item: _get_priority(item[1].version), reverse=True)
    first = ordered[0][1]
    names: dict[str, Any] = {
        "kind": first.kind,
        "listKind": f"{first.kind}List",
        "plural": first.plural,
        "singular": first.singular,
    }
    names |= {"shortNames": list(first.short_names)} if first.short_names else {}
    names |= {"categories": list(first.categories)} if first.categories else {}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": _make_metadata(name, models),
        "spec": {
            "group": first.group,
            "names": names,
            "scope": first.scope,
            "versions": [
                _make_version(model, definition, is_only=len(ordered) == 1)
                for model, definition in ordered
            ],
        },
    }


def _check_versions(name: str, models: Mapping[type, Definition]) -> None:
    definitions = list(models.values())
    for field in _SHARED:
        values = {getattr(definition, field): definition for definition in definitions}
        if len(values) > 1:
            said = " and ".join(f"{value!r} in {d.version}" for value, d in values.items())
            raise DefinitionError(f"{name}: {field} must be the same in all versions: {said}.")
    known: dict[str, type] = {}
    for model, definition in models.items():
        if (other := known.setdefault(definition.version, model)) is not model:
            both = f"{_locate(other)} and {_locate(model)}"
            raise DefinitionError(f"{definition}: there are two models of it: {both}.")
    _check_storage(name, definitions)


def _check_storage(name: str, definitions: Sequence[Definition]) -> None:
    stored = [d.version for d in definitions if d.storage]
    if len(definitions) == 1 and definitions[0].storage is not False:
        return
    if len(stored) != 1:
        listed = " and ".join(sorted(stored)) or "none"
        versions = ", ".join(sorted(d.version for d in definitions))
        raise DefinitionError(
            f"{name}: exactly one of its versions ({versions}) must be with storage=True, "
            f"but it is {listed}."
        )


def _locate(model: type) -> str:
    return f"{model.__module__}.{model.__qualname__}"


def _get_priority(version: str) -> tuple[int, int, int, str]:
    """The order of versions in the API: v2, v1, v1beta2, v1beta1, v1alpha1, others."""
    match = _VERSION.fullmatch(version)
    if match is None:
        return (-1, 0, 0, version)
    major, stage, minor = match.groups()
    return (_STAGES[stage or ""], int(major), int(minor or 0), "")


def _make_metadata(name: str, models: Mapping[type, Definition]) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name}
    for field in ("labels", "annotations"):
        merged: dict[str, str] = {}
        for definition in models.values():
            for key, value in getattr(definition, field).items():
                if merged.setdefault(key, value) != value:
                    raise DefinitionError(f"{name}: {field} of its versions differ in {key!r}.")
        if merged:
            metadata[field] = merged
    return metadata


def _make_version(model: type, definition: Definition, *, is_only: bool) -> dict[str, Any]:
    schema = make_root(model, definition.rules)
    has_status = "status" in schema["properties"]
    status = has_status if definition.status is None else definition.status
    if status and has_status:
        schema["properties"]["status"].pop("default", None)  # creators do not set it
    version: dict[str, Any] = {
        "name": definition.version,
        "served": definition.served,
        "storage": bool(definition.storage) or is_only,
    }
    if definition.deprecated:
        version["deprecated"] = True
        if isinstance(definition.deprecated, str):
            version["deprecationWarning"] = definition.deprecated
    version["schema"] = {"openAPIV3Schema": schema}
    subresources: dict[str, Any] = {"status": {}} if status else {}
    subresources |= {"scale": _make_scale(definition.scale)} if definition.scale else {}
    if subresources:
        version["subresources"] = subresources
    if definition.columns:
        version["additionalPrinterColumns"] = [_make_column(c) for c in definition.columns]
    if definition.selectable:
        version["selectableFields"] = [{"jsonPath": path} for path in definition.selectable]
    return version


def _make_scale(scale: Scale) -> dict[str, str]:
    paths = {"specReplicasPath": scale.spec, "statusReplicasPath": scale.status}
    return paths | ({"labelSelectorPath": scale.selector} if scale.selector else {})


def _make_column(column: Column) -> dict[str, Any]:
    made: dict[str, Any] = {"name": column.name, "type": column.type, "jsonPath": column.path}
    made |= {"format": column.format} if column.format else {}
    made |= {"description": column.description} if column.description else {}
    return made | ({"priority": column.priority} if column.priority else {})
