"""Discovery: which groups, versions, and resources are served."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

from kopf_kits.sandbox.store.resources import Endpoint, Registry

Obj = dict[str, Any]
_RESOURCE_VERBS = ("get", "patch", "update")
_EXTRA_KINDS = {
    "eviction": ("Eviction", ("create",)),
    "binding": ("Binding", ("create",)),
    "log": ("", ("get",)),
    "token": ("TokenRequest", ("create",)),
    "finalize": ("", ("update",)),
    "approval": ("", ("get", "patch", "update")),
    "ephemeralcontainers": ("", ("get", "patch", "update")),
}


def api_versions(address: str) -> Obj:
    """The document of ``/api``."""
    clients = [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": clients}


def _group(name: str, versions: list[str]) -> Obj:
    listed = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


def group_list(registry: Registry) -> Obj:
    """The document of ``/apis``."""
    groups = [_group(name, versions) for name, versions in registry.groups().items() if name]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def one_group(registry: Registry, name: str) -> Obj | None:
    """The document of ``/apis/GROUP``; none if there is no such group."""
    versions = registry.groups().get(name)
    if not versions:
        return None
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(name, versions)}


def resource_list(registry: Registry, group: str, version: str) -> Obj | None:
    """The document of a group and version; none if it is not served."""
    found = _endpoints(registry, group, version)
    if not found:
        return None
    name = f"{group}/{version}" if group else version
    resources = [item for endpoint in found for item in _describe(endpoint)]
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": name,
        "resources": resources,
    }


def _endpoints(registry: Registry, group: str, version: str) -> list[Endpoint]:
    found = [e for e in registry.endpoints() if (e.group, e.served.name) == (group, version)]
    return sorted(found, key=lambda endpoint: endpoint.resource.plural)


def _describe(endpoint: Endpoint) -> list[Obj]:
    resource = endpoint.resource
    main: Obj = {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(resource.offered_verbs),
    }
    if resource.short_names:
        main["shortNames"] = list(resource.short_names)
    if resource.categories:
        main["categories"] = list(resource.categories)
    if "list" in resource.verbs:
        seed = f"{resource.group}/{resource.storage_version}/{resource.kind}".encode()
        main["storageVersionHash"] = base64.b64encode(hashlib.sha256(seed).digest()[:8]).decode()
    return [main, *(_describe_sub(endpoint, *sub) for sub in _subresources(endpoint))]


def _subresources(endpoint: Endpoint) -> list[tuple[str, Obj, tuple[str, ...]]]:
    served = endpoint.served
    own = {"group": "", "version": "", "kind": endpoint.resource.kind}
    found: list[tuple[str, Obj, tuple[str, ...]]] = []
    if served.status:
        found.append(("status", own, _RESOURCE_VERBS))
    if served.scale:
        scale = {"group": "autoscaling", "version": "v1", "kind": "Scale"}
        found.append(("scale", scale, _RESOURCE_VERBS))
    for extra in served.extras:
        kind, verbs = _EXTRA_KINDS.get(extra, ("", ("create", "get")))
        found.append((extra, {**own, "kind": kind or endpoint.resource.kind}, verbs))
    return found


def _describe_sub(endpoint: Endpoint, name: str, kind: Obj, verbs: tuple[str, ...]) -> Obj:
    return {
        "name": f"{endpoint.resource.plural}/{name}",
        "singularName": "",
        "namespaced": endpoint.resource.namespaced,
        **{key: value for key, value in kind.items() if value},
        "verbs": list(verbs),
    }


def aggregated(registry: Registry, *, core: bool, api_version: str) -> Obj:
    """All groups with all their resources in one document, for ``/api`` and for ``/apis``."""
    groups = [
        {
            "metadata": {"name": name} if name else {},
            "versions": [_aggregated_version(registry, name, version) for version in versions],
        }
        for name, versions in registry.groups().items()
        if bool(name) is not core
    ]  # fmt: skip
    kind = "APIGroupDiscoveryList"
    return {"kind": kind, "apiVersion": api_version, "metadata": {}, "items": groups}


def _aggregated_version(registry: Registry, group: str, version: str) -> Obj:
    resources = [_aggregated_resource(e) for e in _endpoints(registry, group, version)]
    return {"version": version, "resources": resources, "freshness": "Current"}


def _aggregated_resource(endpoint: Endpoint) -> Obj:
    resource = endpoint.resource
    main: Obj = {
        "resource": resource.plural,
        "responseKind": _response_kind(endpoint, {}),
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": list(resource.offered_verbs),
    }
    if resource.short_names:
        main["shortNames"] = list(resource.short_names)
    if resource.categories:
        main["categories"] = list(resource.categories)
    subs = [
        {"subresource": name, "responseKind": _response_kind(endpoint, kind), "verbs": list(verbs)}
        for name, kind, verbs in _subresources(endpoint)
    ]
    if subs:
        main["subresources"] = subs
    return main


def _response_kind(endpoint: Endpoint, kind: Obj) -> Obj:
    own = endpoint.resource.custom  # For built-in kinds, the same group and version are implied.
    return {
        "group": kind.get("group") or (endpoint.group if own else ""),
        "version": kind.get("version") or (endpoint.served.name if own else ""),
        "kind": kind.get("kind") or endpoint.resource.kind,
    }
