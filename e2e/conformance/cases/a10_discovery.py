"""What the cluster tells about its resources."""

from __future__ import annotations

import json
from typing import Any

from e2e.conformance.api import Api
from e2e.conformance.normal import ABSENT, pick
from e2e.conformance.objects import GROUP, make_crd, make_version
from e2e.conformance.registry import Area

area = Area("discovery")

AGGREGATED = (
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
)
ENTRY = ("name", "singularName", "namespaced", "kind", "group", "version", "verbs", "shortNames")


def entry(listing: Any, name: str) -> dict[str, Any]:
    found = [item for item in listing["resources"] if item["name"] == name]
    shown = {key: item.get(key, ABSENT) for item in found for key in (*ENTRY, "categories")}
    return shown | {"verbs": sorted(shown["verbs"])} if shown else {}


@area.behaviour("/api names the only version of the core group")
async def core_versions(api: Api) -> Any:
    return (await api.get("/api")).show("kind", "versions")


@area.behaviour("/apis names the versions of a group, and the preferred one")
async def group_versions(api: Api) -> Any:
    groups = (await api.get("/apis"))["groups"]
    return [group for group in groups if group["name"] in ("apps", GROUP)]


@area.behaviour("/apis/GROUP is the same as the group's item in /apis")
async def single_group(api: Api) -> Any:
    return (await api.get(f"/apis/{GROUP}")).show("kind", "name", "versions", "preferredVersion")


@area.behaviour("Pods are described with their verbs, short names, and categories")
async def pods(api: Api) -> Any:
    listing = (await api.get("/api/v1")).body
    return [listing["groupVersion"], entry(listing, "pods"), entry(listing, "pods/status")]


@area.behaviour("Namespaces, events, secrets, and config maps are described")
async def core_kinds(api: Api) -> Any:
    listing = (await api.get("/api/v1")).body
    return [entry(listing, name) for name in ("namespaces", "events", "secrets", "configmaps")]


@area.behaviour("Deployments with their scale are described")
async def deployments(api: Api) -> Any:
    listing = (await api.get("/apis/apps/v1")).body
    return [entry(listing, name) for name in ("deployments", "deployments/scale")]


@area.behaviour("Custom resources are described as they are defined")
async def custom_resources(api: Api) -> Any:
    listing = (await api.get(f"/apis/{GROUP}/v1")).body
    names = ("plains", "stricts", "stricts/status", "stricts/scale", "plains/status")
    return [listing["kind"], *(entry(listing, name) for name in names)]


@area.behaviour("The aggregated discovery gives everything at once, when asked for")
async def aggregated(api: Api) -> Any:
    reply = await api.request("GET", "/apis", headers={"Accept": AGGREGATED})
    found = [item for item in reply["items"] if item["metadata"]["name"] == GROUP]
    versions = found[0]["versions"]
    for resource in pick(versions, "0.resources"):
        subresources = pick(resource, "subresources.*.subresource")
        resource["verbs"].sort()
        resource["subresources"] = sorted(subresources) if subresources != ABSENT else []
    return [reply.headers["Content-Type"], reply["apiVersion"], reply["kind"], versions]


@area.behaviour("The aggregated discovery of the core group is at /api")
async def aggregated_core(api: Api) -> Any:
    reply = await api.request("GET", "/api", headers={"Accept": AGGREGATED})
    [version] = reply["items.0.versions"]
    found = [item for item in version["resources"] if item["resource"] == "pods"]
    keys = ("resource", "responseKind", "scope", "singularResource", "verbs", "shortNames")
    shown = {key: found[0].get(key, ABSENT) for key in keys} | {"verbs": sorted(found[0]["verbs"])}
    return [reply["items.0.metadata.name"], version["version"], version["freshness"], shown]


@area.behaviour(
    "Unknown groups, versions, resources, and paths are not found: by a Status or a text"
)
async def unknown_paths(api: Api) -> Any:
    paths = [
        "/apis/unknown.dev",
        "/apis/unknown.dev/v1",
        "/apis/unknown.dev/v1/things",
        f"/apis/{GROUP}/v99",
        f"/apis/{GROUP}/v1/unknowns",
        "/apis/apps/v1/unknowns",
        "/api/v1/unknowns",
        "/unknown",
    ]
    return {path: (await api.get(path)).show() for path in paths}


@area.behaviour("The health endpoints tell ok by a text")
async def health(api: Api) -> Any:
    return [(await api.get(path)).show() for path in ("/healthz", "/livez", "/readyz")]


@area.behaviour("/version tells the version in known fields")
async def version(api: Api) -> Any:
    reply = await api.get("/version")
    return [reply.code, sorted(reply.body), reply["gitVersion"].startswith("v1.")]


@area.behaviour("A new definition appears in discovery, and disappears when deleted")
async def appearance(api: Api) -> Any:
    group = f"{api.namespace}.dev"
    crd = make_crd(group, "Thing", make_version("v1beta1"))
    await api.make("customresourcedefinitions", crd, name=f"things.{group}")
    listed = await api.settle(f"/apis/{group}/v1beta1", "resources.0.name", "things")
    grouped = await api.settle(f"/apis/{group}", "kind", "APIGroup")
    await api.delete(f"customresourcedefinitions/things.{group}")
    gone = await api.settle(f"/apis/{group}", "", ABSENT)
    return [
        listed.show("groupVersion", "resources.0.kind", "resources.0.singularName"),
        grouped.show("preferredVersion.version"),
        gone.show(),
    ]


@area.behaviour("The preferred version is the most stable and the newest one")
async def preferred_version(api: Api) -> Any:
    group = f"{api.namespace}.dev"
    names = ["v1alpha1", "v1beta2", "v2", "v1", "other", "v10beta1"]
    versions = [make_version(name, storage=name == "v1") for name in names]
    await api.make("customresourcedefinitions", make_crd(group, "Thing", *versions))
    expected = ["v2", "v1", "v10beta1", "v1beta2", "v1alpha1", "other"]
    reply = await api.settle(f"/apis/{group}", "versions.*.version", expected)
    await api.delete(f"customresourcedefinitions/things.{group}")
    return reply.show("preferredVersion.version", "versions.*.version")


@area.behaviour("The OpenAPI documents are there, as kubectl needs them")
async def openapi(api: Api) -> Any:
    v2 = await api.get("/openapi/v2")
    v3 = await api.get("/openapi/v3")
    paths = (json.loads(v3.body) if isinstance(v3.body, str) else v3.body)["paths"]
    return [v3.code, "apis/apps/v1" in paths, v2.code, v2["swagger"]]
