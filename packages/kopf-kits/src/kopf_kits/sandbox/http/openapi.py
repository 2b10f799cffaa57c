"""The OpenAPI v3 documents: kubectl needs them to validate, to merge, and to explain."""

from __future__ import annotations

import gzip
import hashlib
from functools import cache
from importlib.resources import files
from typing import Any

from kopf_kits.sandbox.base import jsons
from kopf_kits.sandbox.kinds.builtins import builtin_schemas
from kopf_kits.sandbox.store.resources import Endpoint, Registry

Obj = dict[str, Any]
_PREFIX = "#/components/schemas/"
_PARAMETERS = [
    {"name": name, "in": "query", "schema": {"type": kind, "uniqueItems": True}}
    for name, kind in (("dryRun", "string"), ("fieldManager", "string"),
                       ("fieldValidation", "string"), ("force", "boolean"))
]  # fmt: skip


def index(registry: Registry) -> Obj:
    """The document of ``/openapi/v3``: the paths of the other documents."""
    paths = {}
    for group, versions in registry.groups().items():
        for version in versions:
            path = f"apis/{group}/{version}" if group else f"api/{version}"
            seed = f"{registry.revision}/{path}".encode()
            digest = hashlib.sha256(seed).hexdigest().upper()
            paths[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={digest}"}
    return {"paths": paths}


def describe(registry: Registry, group: str, version: str) -> Obj | None:
    """The document of one group and version; none if it is not served."""
    endpoints = [e for e in registry.endpoints() if (e.group, e.served.name) == (group, version)]
    if not endpoints:
        return None
    paths: Obj = {}
    schemas: Obj = {}
    for endpoint in endpoints:
        name = _add_schemas(schemas, endpoint)
        paths.update(_paths(endpoint, name))
    info = {"title": "Kubernetes", "version": "sandbox"}
    _add_descriptions(schemas)
    return {
        "openapi": "3.0.0",
        "info": info,
        "paths": paths,
        "components": {"schemas": schemas},
    }


def _add_descriptions(schemas: Obj) -> None:
    """Add the descriptions of kinds and fields, in place: the schemas are of this document only."""
    for name, texts in _read_descriptions().items():
        schema = schemas.get(name, {})
        fields = schema.get("properties", {})
        for field, text in texts.items():
            target = fields.get(field) if field else schema
            if target is not None:
                target["description"] = text


@cache
def _read_descriptions() -> dict[str, dict[str, str]]:
    """The texts of Kubernetes by the definitions and their fields, "" is for the definition."""
    packed = files(__package__).joinpath("descriptions.json.gz").read_bytes()
    texts: dict[str, dict[str, str]] = jsons.loads(gzip.decompress(packed))
    return texts


def _gvk(endpoint: Endpoint) -> Obj:
    kind = endpoint.resource.kind
    return {"group": endpoint.group, "version": endpoint.served.name, "kind": kind}


def _paths(endpoint: Endpoint, schema: str) -> Obj:
    resource = endpoint.resource
    root = f"/apis/{endpoint.api_version}" if endpoint.group else "/api/v1"
    space = "/namespaces/{namespace}" if resource.namespaced else ""
    content = {"application/json": {"schema": {"$ref": _PREFIX + schema}}}
    responses = {"200": {"description": "OK", "content": content}}

    def operation(verb: str, action: str) -> Obj:
        return {
            "operationId": f"{verb}{endpoint.group}{endpoint.served.name}{resource.kind}",
            "responses": responses,
            "parameters": _PARAMETERS,
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": _gvk(endpoint),
        }

    collection = f"{root}{space}/{resource.plural}"
    return {
        collection: {"get": operation("list", "list"), "post": operation("create", "post")},
        f"{collection}/{{name}}": {
            "get": operation("read", "get"),
            "put": operation("replace", "put"),
            "patch": operation("patch", "patch"),
            "delete": operation("delete", "delete"),
        },
    }


def _add_schemas(schemas: Obj, endpoint: Endpoint) -> str:
    resource = endpoint.resource
    builtins = builtin_schemas()
    meta = builtins.meta_name
    builtins.export(meta, schemas, _PREFIX)
    known = builtins.definition(endpoint.api_version, resource.kind)
    if known is not None and not resource.custom:
        builtins.export(known, schemas, _PREFIX)
        schemas[known] = {**schemas[known], "x-kubernetes-group-version-kind": [_gvk(endpoint)]}
        return known
    reverse = ".".join(reversed(endpoint.group.split(".")))
    name = f"{reverse}.{endpoint.served.name}.{resource.kind}"
    schema = endpoint.served.schema
    spec: Obj = dict(schema.spec) if schema is not None else {"type": "object"}
    properties: Obj = {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        **(spec.get("properties") or {}),
        "metadata": {"allOf": [{"$ref": _PREFIX + meta}], "default": {}},
    }
    schemas[name] = {
        **spec,
        "properties": properties,
        "x-kubernetes-group-version-kind": [_gvk(endpoint)],
    }
    return name
