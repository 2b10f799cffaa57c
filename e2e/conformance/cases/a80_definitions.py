"""Definitions of custom resources: conditions, names, versions, subresources, removal."""

from __future__ import annotations

from typing import Any

from e2e.conformance.api import Api, Reply
from e2e.conformance.normal import ABSENT
from e2e.conformance.objects import GROUP, LOOSE, make_crd, make_version, strict
from e2e.conformance.registry import Area

area = Area("definitions")


class Defined:
    """A definition in a group of its own, and its instances."""

    def __init__(self, api: Api, *versions: dict[str, Any], **options: Any) -> None:
        super().__init__()
        self.api = api
        self.group = f"{api.namespace}.dev"
        self.crd = make_crd(self.group, "Thing", *versions, **options)
        self.path = f"customresourcedefinitions/things.{self.group}"

    async def __aenter__(self) -> Defined:
        await self.api.make("customresourcedefinitions", self.crd)
        for version in self.crd["spec"]["versions"]:
            if version["served"]:
                await self.api.settle(self.things(version["name"]), "kind", "ThingList")
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.api.delete(self.path)

    def things(self, version: str = "v1") -> str:
        root = f"/apis/{self.group}/{version}"
        if self.crd["spec"]["scope"] == "Cluster":
            return f"{root}/things"
        return f"{root}/namespaces/{self.api.namespace}/things"

    async def create(self, name: str = "x", version: str = "v1", **fields: Any) -> Reply:
        base = {"apiVersion": f"{self.group}/{version}", "kind": "Thing"}
        body = {**base, "metadata": {"name": name, **fields.pop("metadata", {})}, **fields}
        return await self.api.create(self.things(version), body)


@area.behaviour("A new definition gets its conditions, accepted names, and stored versions")
async def conditions(api: Api) -> Any:
    async with Defined(api) as defined:
        reply = await api.settle(defined.path, "status.conditions.*.status", ["True", "True"])
    conditions = sorted([c["type"], c["status"], c["reason"]] for c in reply["status.conditions"])
    return [conditions, reply.show("status.acceptedNames", "status.storedVersions")]


@area.behaviour("A definition has nothing in its status when it is created")
async def initial_status(api: Api) -> Any:
    crd = make_crd(f"{api.namespace}.dev", "Thing")
    reply = await api.create("customresourcedefinitions", crd)
    await api.delete(f"customresourcedefinitions/{crd['metadata']['name']}")
    return reply.show("status.storedVersions", "status.acceptedNames", "metadata.generation")


@area.behaviour("The defaults of a definition are filled in")
async def defaults(api: Api) -> Any:
    async with Defined(api) as defined:
        reply = await api.get(defined.path)
    return reply.show("spec.names", "spec.conversion", "spec.preserveUnknownFields", "spec.scope")


@area.behaviour("Objects can be created as soon as their definition is established")
async def established(api: Api) -> Any:
    group = f"{api.namespace}.dev"
    path = f"customresourcedefinitions/things.{group}"
    await api.make("customresourcedefinitions", make_crd(group, "Thing"))
    await api.settle(path, "status.conditions.*.status", ["True", "True"])
    body = {"apiVersion": f"{group}/v1", "kind": "Thing", "metadata": {"name": "x"}}
    things = f"/apis/{group}/v1/namespaces/{api.namespace}/things"
    await api.settle(things, "kind", "ThingList")
    reply = await api.create(things, body)
    await api.delete(path)
    return reply.show("kind")


@area.behaviour("Wrong definitions are refused")
async def wrong(api: Api) -> Any:
    group = f"{api.namespace}.dev"
    good = make_crd(group, "Thing")
    crds = [
        {**good, "metadata": {"name": f"other.{group}"}},
        make_crd(group, "Thing", {"name": "v1", "served": True, "storage": True}),
        make_crd(group, "Thing", make_version(storage=False)),
        make_crd(group, "Thing", make_version("v1"), make_version("v2")),
        make_crd(group, "Thing", scope="Odd"),
        make_crd("nodots", "Thing"),
        make_crd("some.k8s.io", "Thing"),
        make_crd(group, "Thing", make_version("V1")),
    ]
    replies = [await api.create("customresourcedefinitions", crd) for crd in crds]
    return [
        [r.code, r["reason"], [[c["field"], c["reason"]] for c in r["details"]["causes"]]]
        for r in replies
    ]


@area.behaviour("Schemas that are not structural are refused")
async def unstructural(api: Api) -> Any:
    schemas: list[dict[str, Any]] = [
        {"type": "object", "properties": {"spec": {"properties": {}}}},
        {"type": "string"},
        {"type": "object", "properties": {"spec": {"type": "odd"}}},
        {"type": "object", "properties": {"metadata": {"type": "object", "minProperties": 2}}},
    ]
    crds = [make_crd(f"{api.namespace}.dev", "Thing", make_version(schema=s)) for s in schemas]
    replies = [await api.create("customresourcedefinitions", crd) for crd in crds]
    return [[reply.code, reply["reason"]] for reply in replies]


@area.behaviour("The scope and the names of a definition cannot be changed freely")
async def immutable(api: Api) -> Any:
    async with Defined(api) as defined:
        await api.settle(defined.path, "status.conditions.*.status", ["True", "True"])
        patches: list[Any] = [
            {"scope": "Cluster"},
            {"group": "other.dev"},
            {"names": {"plural": "others"}},
            {"names": {"kind": "Other"}},
        ]
        replies = [await api.patch(defined.path, {"spec": patch}) for patch in patches[:3]]
    return [[r.code, [[c["field"], c["reason"]] for c in r["details.causes"]]] for r in replies]


@area.behaviour("Names taken by another definition of the group are not accepted")
async def taken_names(api: Api) -> Any:
    async with Defined(api, shortNames=["th"]) as defined:
        await api.settle(defined.path, "status.conditions.*.status", ["True", "True"])
        other = make_crd(defined.group, "Other", shortNames=["th"])
        path = f"customresourcedefinitions/others.{defined.group}"
        await api.make("customresourcedefinitions", other, name=f"others.{defined.group}")
        reply = await api.settle(path, "status.conditions.0.status", "False")
        await api.delete(path)
    shown = [[c["type"], c["status"], c["reason"]] for c in reply["status.conditions"]]
    return sorted(shown)


@area.behaviour("An object is read in all served versions, with no other change")
async def versions(api: Api) -> Any:
    both = [make_version("v1"), make_version("v2", storage=False)]
    async with Defined(api, *both) as defined:
        await defined.create(spec={"a": 1})
        second = await api.get(f"{defined.things('v2')}/x")
        patched = await api.patch(f"{defined.things('v2')}/x", {"spec": {"b": 2}})
        first = await api.get(f"{defined.things('v1')}/x")
        listed = await api.get(defined.things("v2"))
    return [
        second.show("apiVersion", "spec"),
        patched.show("apiVersion", "metadata.generation"),
        first.show("apiVersion", "spec"),
        listed.show("apiVersion", "items.*.apiVersion"),
    ]


@area.behaviour("A watch gives the objects in its version")
async def watched_version(api: Api) -> Any:
    both = [make_version("v1"), make_version("v2", storage=False)]
    async with Defined(api, *both) as defined:
        made = await defined.create(spec={"a": 1})
        async with api.watch(defined.things("v2"), resourceVersion=made.version) as watch:
            await api.patch(f"{defined.things('v1')}/x", {"spec": {"b": 2}})
            [event] = await watch.until("MODIFIED")
    return [event["object"]["apiVersion"], event["object"]["spec"]]


@area.behaviour("A version that is not served anymore is not found")
async def unserved(api: Api) -> Any:
    both = [make_version("v1"), make_version("v2", storage=False)]
    async with Defined(api, *both) as defined:
        await defined.create(version="v2")
        both[1]["served"] = False
        await api.patch(defined.path, {"spec": {"versions": both}})
        gone = await api.settle(f"{defined.things('v2')}/x", "", ABSENT)
        await api.settle(f"/apis/{defined.group}", "versions.*.version", ["v1"])
        listing = await api.settle(f"/apis/{defined.group}/v2", "", ABSENT)
    return [gone.show(), listing.code]


@area.behaviour("A new storage version is added to the stored versions")
async def storage(api: Api) -> Any:
    both = [make_version("v1"), make_version("v2", storage=False)]
    async with Defined(api, *both) as defined:
        switched = [make_version("v1", storage=False), make_version("v2")]
        await api.patch(defined.path, {"spec": {"versions": switched}})
        stored = await api.settle(defined.path, "status.storedVersions", ["v1", "v2"])
        removed = await api.patch(defined.path, {"spec": {"versions": [make_version("v2")]}})
    return [stored.show("status.storedVersions"), removed.show()]


@area.behaviour("A deprecated version gives a warning")
async def deprecated(api: Api) -> Any:
    old = make_version("v1beta1", storage=False, deprecated=True)
    worded = make_version(
        "v1beta2", storage=False, deprecated=True, deprecationWarning="Use v1 instead"
    )
    async with Defined(api, make_version("v1"), old, worded) as defined:
        replies = [await api.get(defined.things(v)) for v in ("v1beta1", "v1beta2", "v1")]
    return [reply.warnings for reply in replies]


@area.behaviour("A cluster-scoped resource has no namespaces")
async def cluster_scope(api: Api) -> Any:
    async with Defined(api, scope="Cluster") as defined:
        root = f"/apis/{defined.group}/v1"
        created = await defined.create()
        listed = await api.get(f"{root}/namespaces/{api.namespace}/things")
        listing = await api.settle(root, "kind", "APIResourceList")
        wrong = await defined.create("y", metadata={"namespace": "some"})
    return [
        created.show("metadata.namespace"),
        listed.show("items"),
        listing.show("resources.0.namespaced"),
        wrong.show("metadata.namespace"),
    ]


@area.behaviour("A changed schema is in use for the next objects")
async def changed_schema(api: Api) -> Any:
    schema: dict[str, Any] = {"type": "object", "properties": {"spec": LOOSE}}
    async with Defined(api, make_version(schema=schema)) as defined:
        pruned = {"type": "object", "properties": {"spec": {"type": "object"}}}
        patch = {"spec": {"versions": [make_version(schema=pruned)]}}
        await defined.create("old", spec={"a": 1})
        await api.patch(defined.path, patch)
        old = await api.settle(f"{defined.things()}/old", "spec", {})
        new = await defined.create("new", spec={"a": 1})
    return [old.show("spec"), new.show("spec")]


@area.behaviour("A status subresource can be added later")
async def added_subresource(api: Api) -> Any:
    async with Defined(api) as defined:
        await defined.create(status={"phase": "P"})
        version = make_version(subresources={"status": {}})
        await api.patch(defined.path, {"spec": {"versions": [version]}})
        path = f"{defined.things()}/x/status"
        await api.settle(path, "kind", "Thing")
        sub = await api.patch(path, {"status": {"phase": "Q"}})
        main = await api.patch(f"{defined.things()}/x", {"status": {"phase": "R"}})
    return [sub.show("status"), main.show("status")]


@area.behaviour("The scale is read from and written to the defined fields")
async def scale(api: Api) -> Any:
    await api.make("stricts", {"spec": {"replicas": 2}})
    await api.patch("stricts/x/status", {"status": {"replicas": 1, "selector": "a=b"}})
    got = await api.get("stricts/x/scale")
    patched = await api.patch("stricts/x/scale", {"spec": {"replicas": 5}})
    main = await api.get("stricts/x")
    fields = ("kind", "apiVersion", "spec", "status", "metadata.name")
    return [
        got.show(*fields),
        patched.show(*fields),
        main.show("spec.replicas", "metadata.generation"),
    ]


@area.behaviour("The scale is replaced, with conflicts as any other object")
async def replaced_scale(api: Api) -> Any:
    await api.make("stricts", {"spec": {"replicas": 2}})
    old = await api.get("stricts/x/scale")
    new = await api.put("stricts/x/scale", {**old.body, "spec": {"replicas": 3}})
    stale = await api.put("stricts/x/scale", {**old.body, "spec": {"replicas": 4}})
    negative = await api.patch("stricts/x/scale", {"spec": {"replicas": -1}})
    return [new.show("spec"), stale.show(), negative.code]


@area.behaviour("The scale of an object with no replicas can be written, but not read")
async def absent_scale(api: Api) -> Any:
    await api.make("stricts", {"spec": {}})
    got = await api.get("stricts/x/scale")
    patched = await api.patch("stricts/x/scale", {"spec": {"replicas": 5}})
    body = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "x"}}
    put = await api.put("stricts/x/scale", {**body, "spec": {"replicas": 3}})
    main = await api.get("stricts/x")
    return [got.show(), patched.show(), put.show(), main.show("spec")]


@area.behaviour("A definition with finalized objects is terminating until they are released")
async def terminating(api: Api) -> Any:
    async with Defined(api) as defined:
        await api.settle(defined.path, "status.conditions.*.status", ["True", "True"])
        await defined.create(metadata={"finalizers": ["a.b/c"]})
        await defined.create("y")
        deleted = await api.delete(defined.path)
        marked = await api.settle(f"{defined.things()}/x", "metadata.deletionGracePeriodSeconds", 0)
        await api.settle(f"{defined.things()}/y", "", ABSENT)
        refused = await defined.create("z")
        crd = await api.get(defined.path)
        await api.patch(f"{defined.things()}/x", {"metadata": {"finalizers": None}})
        gone = await api.settle(defined.path, "", ABSENT, patience=30)
    conditions = sorted([c["type"], c["status"], c["reason"]] for c in crd["status.conditions"])
    return [
        deleted.show("kind", "metadata.finalizers"),
        marked.show("metadata.deletionTimestamp"),
        refused.show(),
        conditions,
        gone.code,
    ]


@area.behaviour("The objects of a terminating definition can be changed, though it is not offered")
async def offered(api: Api) -> Any:
    async with Defined(api) as defined:
        await api.settle(defined.path, "status.conditions.*.status", ["True", "True"])
        await defined.create(metadata={"finalizers": ["a.b/c"]})
        await api.delete(defined.path)
        verbs = ["delete", "deletecollection", "get", "list", "watch"]
        offered = await api.settle(f"/apis/{defined.group}/v1", "resources.*.verbs", [verbs])
        patched = await api.patch(f"{defined.things()}/x", {"metadata": {"labels": {"a": "b"}}})
        await api.patch(f"{defined.things()}/x", {"metadata": {"finalizers": None}})
        gone = await api.settle(defined.path, "", ABSENT, patience=30)
    return [offered.show("resources.*.verbs"), patched.show("metadata.labels"), gone.code]


@area.behaviour("A deleted definition takes its objects with it, also when defined again")
async def redefined(api: Api) -> Any:
    async with Defined(api) as defined:
        await defined.create()
        await api.delete(defined.path)
        await api.settle(defined.path, "", ABSENT, patience=30)
        await api.settle(defined.things(), "", ABSENT, patience=30)
        async with defined:
            return (await api.get(defined.things())).show("items")


@area.behaviour("The group of the definition is in the errors about its objects")
async def errors(api: Api) -> Any:
    return (await api.create("stricts", strict("Wrong"))).show("kind")["details"]["group"] == GROUP
