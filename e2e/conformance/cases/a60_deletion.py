"""Deletion: finalizers, grace, preconditions, propagation."""

from __future__ import annotations

from typing import Any

from e2e.conformance.api import Api, brief
from e2e.conformance.normal import ABSENT
from e2e.conformance.objects import CONTAINER, POD, plain
from e2e.conformance.registry import Area

area = Area("deletion")
FINALIZERS = {"metadata": {"finalizers": ["a.b/c"]}}
ORPHAN = {"propagationPolicy": "Orphan"}
RELEASED = {"metadata": {"finalizers": None}}
MARKS = ("metadata.deletionTimestamp", "metadata.deletionGracePeriodSeconds", "metadata.generation")


@area.behaviour("An object is deleted at once, and a status tells what it was")
async def simple(api: Api) -> Any:
    await api.make("configmaps")
    await api.make("plains")
    return [
        (await api.delete("configmaps/x")).show(),
        (await api.delete("plains/x")).show(),
        (await api.get("plains/x")).code,
    ]


@area.behaviour("An absent object is not found")
async def absent(api: Api) -> Any:
    return (await api.delete("plains/x")).show()


@area.behaviour("An object with finalizers is only marked, and is given back")
async def marking(api: Api) -> Any:
    await api.make("plains", FINALIZERS)
    deleted = await api.delete("plains/x")
    got = await api.get("plains/x")
    await api.patch("plains/x", RELEASED)
    return [deleted.show("kind", *MARKS), got.body == deleted.body]


@area.behaviour("A marked object is not changed by one more deletion")
async def twice(api: Api) -> Any:
    await api.make("plains", FINALIZERS)
    first = await api.delete("plains/x")
    second = await api.delete("plains/x")
    await api.patch("plains/x", RELEASED)
    return [second.code, first.body == second.body]


@area.behaviour("A marked object disappears with its last finalizer; the patch gives it back")
async def release(api: Api) -> Any:
    await api.make("plains", {"metadata": {"finalizers": ["a.b/c", "d.e/f"]}})
    await api.delete("plains/x")
    first = await api.patch("plains/x", {"metadata": {"finalizers": ["d.e/f"]}})
    last = await api.patch("plains/x", {"metadata": {"finalizers": []}})
    fields = ("metadata.finalizers", *MARKS)
    return [first.show(*fields), last.show(*fields), (await api.get("plains/x")).code]


@area.behaviour("A marked object disappears with its last finalizer also in a replacement")
async def release_by_put(api: Api) -> Any:
    await api.make("plains", FINALIZERS)
    body = (await api.delete("plains/x")).body
    del body["metadata"]["finalizers"]
    return [(await api.put("plains/x", body)).code, (await api.get("plains/x")).code]


@area.behaviour("The last event of an object has it as it was with its last finalizer")
async def events(api: Api) -> Any:
    old = await api.make("plains", FINALIZERS)
    async with api.watch("plains", resourceVersion=old.version) as watch:
        await api.delete("plains/x")
        await api.patch("plains/x", {"metadata": {"finalizers": None}, "spec": {"last": 1}})
        seen = await watch.until("DELETED")
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in seen]
    fields = ("metadata.finalizers", "metadata.deletionTimestamp", "spec")
    return [brief(seen, *fields), versions == sorted(set(versions))]


@area.behaviour("The version of a deleted object in its last event is newer than its last state")
async def last_version(api: Api) -> Any:
    old = await api.make("plains")
    async with api.watch("plains", resourceVersion=old.version) as watch:
        await api.delete("plains/x")
        [event] = await watch.until("DELETED")
    return int(event["object"]["metadata"]["resourceVersion"]) > int(old.version)


@area.behaviour("Finalizers cannot be added to a marked object, but can be kept or removed")
async def late_finalizers(api: Api) -> Any:
    await api.make("plains", FINALIZERS)
    await api.delete("plains/x")
    patch = {"metadata": {"finalizers": ["a.b/c", "d.e/f"]}}
    shown = [
        (await api.patch("plains/x", patch)).show(),
        (await api.patch("plains/x", {**FINALIZERS, "spec": {"a": 1}})).show("spec", *MARKS),
    ]
    await api.patch("plains/x", RELEASED)
    return shown


@area.behaviour("A marked object can be changed, and its mark stays")
async def marked_changes(api: Api) -> Any:
    await api.make("plains", FINALIZERS)
    await api.delete("plains/x")
    patch = {"metadata": {"deletionTimestamp": None, "annotations": {"a": "b"}}, "spec": {"a": 1}}
    shown = (await api.patch("plains/x", patch)).show("metadata.annotations", "spec", *MARKS)
    await api.patch("plains/x", RELEASED)
    return shown


@area.behaviour("A new object with the same name conflicts while the old one is being deleted")
async def recreated(api: Api) -> Any:
    await api.make("plains", FINALIZERS)
    await api.delete("plains/x")
    shown = [(await api.create("plains", plain())).show()]
    await api.patch("plains/x", RELEASED)
    again = await api.create("plains", plain())
    return [*shown, again.code]


@area.behaviour("A precondition on the uid")
async def uid(api: Api) -> Any:
    old = await api.make("plains")
    other = {"preconditions": {"uid": "01234567-89ab-cdef-0123-456789abcdef"}}
    same = {"preconditions": {"uid": old["metadata.uid"]}}
    return [(await api.delete("plains/x", body)).show() for body in (other, same)]


@area.behaviour("A precondition on the resource version")
async def version(api: Api) -> Any:
    old = await api.make("plains")
    new = await api.patch("plains/x", {"spec": {"a": 1}})
    bodies = [{"preconditions": {"resourceVersion": reply.version}} for reply in (old, new)]
    return [(await api.delete("plains/x", body)).show("kind") for body in bodies]


@area.behaviour("Unknown options of deletion are refused")
async def wrong_options(api: Api) -> Any:
    await api.make("plains")
    return [
        (await api.delete("plains/x", {"propagationPolicy": "Odd"})).show(),
        (await api.delete("plains/x", {"dryRun": ["Odd"]})).show(),
        (
            await api.delete("plains/x", {"orphanDependents": True, "propagationPolicy": "Orphan"})
        ).show(),
    ]


@area.behaviour("Options of deletion can be in the URL")
async def options_in_url(api: Api) -> Any:
    await api.make("plains")
    marked = await api.delete("plains/x", propagationPolicy="Orphan")
    shown = marked.show("metadata.finalizers")
    await api.patch("plains/x", RELEASED)
    return shown


@area.behaviour("Foreground and orphaning deletion add their finalizers")
async def propagation(api: Api) -> Any:
    await api.make("plains", FINALIZERS)
    await api.make("plains", FINALIZERS, name="y")
    replies = [
        await api.delete("plains/x", {"propagationPolicy": "Foreground"}),
        await api.delete("plains/y", {"propagationPolicy": "Orphan"}),
    ]
    shown = [sorted(reply["metadata.finalizers"]) for reply in replies]
    for name in ("x", "y"):
        await api.patch(f"plains/{name}", RELEASED)
    return shown


@area.behaviour("A dry run of a deletion deletes nothing")
async def dry_run(api: Api) -> Any:
    await api.make("plains")
    await api.make("plains", FINALIZERS, name="y")
    replies = [await api.delete(f"plains/{name}", dryRun="All") for name in ("x", "y")]
    left = [(await api.get(f"plains/{name}"))["metadata.deletionTimestamp"] for name in ("x", "y")]
    await api.patch("plains/y", RELEASED)
    return [[reply.show("kind", "metadata.deletionTimestamp") for reply in replies], left]


@area.behaviour("A collection is deleted, and is given back as a list")
async def collection(api: Api) -> Any:
    for name in ("a", "b", "c"):
        await api.make("plains", {"metadata": {"labels": {"odd": str(name != "b")}}}, name=name)
    deleted = await api.delete("plains", labelSelector="odd=True")
    left = await api.get("plains")
    return [deleted.show("kind", "items.*.metadata.name"), left["items.*.metadata.name"]]


@area.behaviour("A collection with finalizers is marked")
async def marked_collection(api: Api) -> Any:
    await api.make("plains", FINALIZERS)
    await api.delete("plains")
    shown = (await api.get("plains/x")).show(*MARKS)
    await api.patch("plains/x", RELEASED)
    return shown


@area.behaviour("A pod on no node is deleted at once", bare=True)
async def pending_pod(api: Api) -> Any:
    await api.make("pods", POD)
    deleted = await api.delete("pods/x")
    return [deleted.show("kind", *MARKS), (await api.get("pods/x")).code]


@area.behaviour("A pod on a node is given its grace period, unless deleted without", bare=True)
async def graceful_pod(api: Api) -> Any:
    await api.make("pods", {"spec": {"containers": [CONTAINER], "nodeName": "absent"}})
    graceful = await api.delete("pods/x")
    left = await api.get("pods/x")
    forced = await api.delete("pods/x", {"gracePeriodSeconds": 0})
    got = await api.get("pods/x")
    return [graceful.show("kind", *MARKS), left.code, forced.show("kind", *MARKS), got.code]


@area.behaviour("The grace period of a pod can be chosen, and shortened later", bare=True)
async def chosen_grace(api: Api) -> Any:
    await api.make("pods", {"spec": {"containers": [CONTAINER], "nodeName": "absent"}})
    replies = [await api.delete("pods/x", gracePeriodSeconds=seconds) for seconds in (10, 20, 5)]
    await api.delete("pods/x", gracePeriodSeconds=0)
    return [reply["metadata.deletionGracePeriodSeconds"] for reply in replies]


@area.behaviour("A grace period is of no use for objects other than pods")
async def useless_grace(api: Api) -> Any:
    await api.make("plains")
    deleted = await api.delete("plains/x", {"gracePeriodSeconds": 30})
    return [deleted.show("kind"), (await api.get("plains/x")).code]


@area.behaviour("Owned objects are deleted after their owner")
async def owned(api: Api) -> Any:
    owner = await api.make("configmaps", name="owner")
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner"}
    references = [{**reference, "uid": owner["metadata.uid"]}]
    await api.make("configmaps", {"metadata": {"ownerReferences": references}}, name="owned")
    await api.delete("configmaps/owner")
    return (await api.settle("configmaps/owned", "", ABSENT, patience=40)).show()


@area.behaviour("Orphaned objects stay after their owner, with no reference to it")
async def orphaned(api: Api) -> Any:
    owner = await api.make("configmaps", name="owner")
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner"}
    references = [{**reference, "uid": owner["metadata.uid"]}]
    await api.make("configmaps", {"metadata": {"ownerReferences": references}}, name="owned")
    await api.delete("configmaps/owner", {"propagationPolicy": "Orphan"})
    await api.settle("configmaps/owner", "", ABSENT, patience=40)
    return (await api.get("configmaps/owned")).show("metadata.ownerReferences")


@area.behaviour("An owner waits for its blocking objects when deleted in the foreground")
async def foreground(api: Api) -> Any:
    owner = await api.make("configmaps", name="owner")
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner"}
    references = [{**reference, "uid": owner["metadata.uid"], "blockOwnerDeletion": True}]
    fields = {"ownerReferences": references, "finalizers": ["a.b/c"]}
    await api.make("configmaps", {"metadata": fields}, name="owned")
    await api.delete("configmaps/owner", {"propagationPolicy": "Foreground"})
    marked = await api.settle("configmaps/owned", "metadata.deletionGracePeriodSeconds", 0, 40)
    waiting = await api.get("configmaps/owner")
    await api.patch("configmaps/owned", RELEASED)
    gone = await api.settle("configmaps/owner", "", ABSENT, patience=40)
    return [marked.show(*MARKS), waiting.show("metadata.finalizers"), gone.code]


@area.behaviour("A deleted namespace is terminating while its contents are being deleted")
async def namespace(api: Api) -> Any:
    name = f"{api.namespace}-2"
    await api.create("namespaces", {"metadata": {"name": name}})
    path = f"/api/v1/namespaces/{name}"
    await api.create(f"{path}/configmaps", {"metadata": {"name": "x", "finalizers": ["a.b/c"]}})
    await api.create(f"{path}/configmaps", {"metadata": {"name": "y"}})
    deleted = await api.delete(path)
    refused = await api.create(f"{path}/configmaps", {"metadata": {"name": "z"}})
    gone = await api.settle(f"{path}/configmaps/y", "", ABSENT, patience=40)
    terminating = await api.get(path)
    await api.patch(f"{path}/configmaps/x", RELEASED)
    fields = ("kind", "status.phase", "spec.finalizers")
    return [deleted.show(*fields), refused.show(), gone.code, terminating.show(*fields)]


@area.behaviour("An empty namespace disappears soon after it is deleted")
async def empty_namespace(api: Api) -> Any:
    path = f"namespaces/{api.namespace}-2"
    await api.create("namespaces", {"metadata": {"name": f"{api.namespace}-2"}})
    await api.delete(path)
    return (await api.settle(path, "", ABSENT, patience=40)).show()


@area.behaviour("The initial namespaces cannot be deleted")
async def initial_namespaces(api: Api) -> Any:
    return [(await api.delete(f"namespaces/{n}")).show() for n in ("default", "kube-system")]
