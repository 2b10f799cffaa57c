"""Replacing objects: conflicts, generations, and what cannot be changed."""

from __future__ import annotations

import copy
from typing import Any

from e2e.conformance.api import Api, brief
from e2e.conformance.normal import ABSENT
from e2e.conformance.objects import DEPLOYMENT, POD, meta, plain, strict
from e2e.conformance.registry import Area

area = Area("updates")


@area.behaviour("A stale resource version conflicts; of a built-in object")
async def conflict(api: Api) -> Any:
    old = await api.make("configmaps")
    await api.put("configmaps/x", {**old.body, "data": {"a": "1"}})
    return (await api.put("configmaps/x", {**old.body, "data": {"a": "2"}})).show()


@area.behaviour("A stale resource version conflicts; of a custom object")
async def custom_conflict(api: Api) -> Any:
    old = await api.make("plains")
    await api.put("plains/x", {**old.body, "spec": {"a": "1"}})
    return (await api.put("plains/x", {**old.body, "spec": {"a": "2"}})).show()


@area.behaviour("Without a resource version, built-in objects are overwritten, custom ones are not")
async def unconditional(api: Api) -> Any:
    await api.make("configmaps")
    await api.make("plains")
    return [
        (await api.put("configmaps/x", {**meta(), "data": {"a": "1"}})).show("data"),
        (await api.put("plains/x", plain(spec={"a": "1"}))).show("spec"),
    ]


@area.behaviour("A resource version that is not a number is refused")
async def wrong_version(api: Api) -> Any:
    await api.make("configmaps")
    await api.make("plains")
    return [
        (await api.put("configmaps/x", meta(resourceVersion="odd"))).show(),
        (await api.put("plains/x", plain(**meta(resourceVersion="odd")))).show(),
    ]


@area.behaviour("An absent object cannot be replaced")
async def absent(api: Api) -> Any:
    return [
        (await api.put("configmaps/x", meta())).show(),
        (await api.put("plains/x", plain())).show(),
        (await api.put("plains/x", plain(**meta(resourceVersion="1")))).show(),
    ]


@area.behaviour("Another uid conflicts")
async def other_uid(api: Api) -> Any:
    configmap = await api.make("configmaps")
    custom = await api.make("plains")
    version = custom.version
    other = "01234567-89ab-cdef-0123-456789abcdef"
    return [
        (await api.put("configmaps/x", meta(uid=other))).show(),
        (await api.put("plains/x", plain(**meta(uid=other, resourceVersion=version)))).show(),
        (await api.put("configmaps/x", meta(uid=configmap["metadata.uid"]))).code,
    ]


@area.behaviour("Another name in the body than in the URL is refused")
async def other_name(api: Api) -> Any:
    await api.make("configmaps")
    old = await api.make("plains")
    return [
        (await api.put("configmaps/x", meta("y"))).show(),
        (await api.put("plains/x", {**old.body, **meta("y", resourceVersion=old.version)})).show(),
    ]


@area.behaviour("A replacement that changes nothing does not change the version, nor is an event")
async def nothing_changed(api: Api) -> Any:
    old = await api.make("plains", {"spec": {"a": 1}})
    async with api.watch("plains", resourceVersion=old.version) as watch:
        same = await api.put("plains/x", old.body)
        await api.make("plains", name="marker")
        events = await watch.until("ADDED", "marker")
    return [same.code, same.version == old.version, brief(events)]


@area.behaviour("A change makes a new, greater version")
async def version_grows(api: Api) -> Any:
    old = await api.make("plains", {"spec": {"a": 1}})
    new = await api.put("plains/x", {**old.body, "spec": {"a": 2}})
    return [new.code, int(new.version) > int(old.version)]


@area.behaviour("A change of the spec increments the generation, that of the metadata does not")
async def generation(api: Api) -> Any:
    old = await api.make("plains", {"spec": {"a": 1}})
    labelled = copy.deepcopy(old.body)
    labelled["metadata"]["labels"] = {"l": "1"}
    second = await api.put("plains/x", labelled)
    third = await api.put("plains/x", {**second.body, "spec": {"a": 2}})
    fourth = await api.put("plains/x", {**third.body, "other": {"a": 2}})
    return [reply["metadata.generation"] for reply in (old, second, third, fourth)]


@area.behaviour("Without the subresource, a change of the status increments the generation too")
async def generation_with_plain_status(api: Api) -> Any:
    old = await api.make("plains", {"spec": {"a": 1}})
    new = await api.put("plains/x", {**old.body, "status": {"phase": "Some"}})
    return new.show("metadata.generation", "status")


@area.behaviour("With the subresource, the status is changed only there; with no new generation")
async def status_subresource(api: Api) -> Any:
    old = await api.make("stricts", {"spec": {"text": "a"}})
    fields = ("spec.text", "status", "metadata.generation", "metadata.labels")
    main = await api.put("stricts/x", {**old.body, "status": {"phase": "Main"}})
    body = {**main.body, "spec": {"text": "b"}, "status": {"phase": "Sub"}}
    body["metadata"] = {**body["metadata"], "labels": {"a": "b"}}
    sub = await api.put("stricts/x/status", body)
    return [main.show(*fields), main.version == old.version, sub.show(*fields)]


@area.behaviour("With the subresource, it is read as the whole object")
async def status_reading(api: Api) -> Any:
    old = await api.make("stricts", {"spec": {"text": "a"}})
    return [(await api.get("stricts/x/status")).body == old.body]


@area.behaviour("Without the subresource, there is nothing at its path")
async def absent_status_subresource(api: Api) -> Any:
    await api.make("plains")
    return [
        (await api.get("plains/x/status")).show(),
        (await api.put("plains/x/status", plain())).show(),
        (await api.patch("plains/x/status", {"status": {}})).show(),
    ]


@area.behaviour("The creation time and the uid stay; the generation cannot be set")
async def kept_metadata(api: Api) -> Any:
    old = await api.make("plains", {"spec": {"a": 1}})
    changed = {"generation": 77, "creationTimestamp": "2000-01-01T00:00:00Z", "selfLink": "/x"}
    body = {**old.body, "metadata": {**old["metadata"], **changed}, "spec": {"a": 2}}
    new = await api.put("plains/x", body)
    kept = new["metadata.creationTimestamp"] == old["metadata.creationTimestamp"]
    return [new.show("metadata.generation", "metadata.selfLink"), kept]


@area.behaviour("deletionTimestamp cannot be set by a replacement")
async def deletion_timestamp(api: Api) -> Any:
    old = await api.make("plains")
    fields = {"deletionTimestamp": "2000-01-01T00:00:00Z", "finalizers": ["a.b/c"]}
    body = {**old.body, "metadata": {**old["metadata"], **fields}}
    shown = (await api.put("plains/x", body)).show("metadata.deletionTimestamp")
    await api.patch("plains/x", {"metadata": {"finalizers": None}})
    return shown


@area.behaviour("A dry run gives the new object, but does not change it")
async def dry_run(api: Api) -> Any:
    old = await api.make("plains", {"spec": {"a": 1}})
    new = await api.put("plains/x", {**old.body, "spec": {"a": 2}}, dryRun="All")
    got = await api.get("plains/x")
    return [new.show("spec", "metadata.generation"), new.version == old.version, got["spec"]]


@area.behaviour("An immutable config map stays so")
async def immutable_configmap(api: Api) -> Any:
    await api.make("configmaps", {"immutable": True, "data": {"a": "1"}})
    return [
        (await api.patch("configmaps/x", {"data": {"a": "2"}})).show(),
        (await api.patch("configmaps/x", {"immutable": False})).show(),
        (await api.patch("configmaps/x", {"metadata": {"labels": {"a": "b"}}})).code,
    ]


@area.behaviour("The type of a secret is immutable")
async def immutable_secret_type(api: Api) -> Any:
    await api.make("secrets")
    return (await api.patch("secrets/x", {"type": "other"})).show()


@area.behaviour("The selector of a deployment is immutable")
async def immutable_selector(api: Api) -> Any:
    await api.make("deployments", DEPLOYMENT)
    labels = {"app": "x", "more": "y"}
    spec = {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}}}
    reply = await api.patch("deployments/x", {"spec": spec})
    return [reply.code, reply["reason"], reply["details.causes.0.field"]]


@area.behaviour("The containers of a pod are immutable, except for their images", bare=True)
async def immutable_pod(api: Api) -> Any:
    await api.make("pods", POD)
    named = {"spec": {"containers": [{"name": "main", "image": "other"}]}}
    commanded = {"spec": {"containers": [{"name": "main", "command": ["x"]}]}}
    refused = await api.patch("pods/x", commanded, "strategic")
    return [
        (await api.patch("pods/x", named, "strategic")).show("spec.containers.0.image"),
        [refused.code, refused["reason"], refused["details.causes.0.field"]],
    ]


@area.behaviour("The generation of a deployment is that of its spec")
async def deployment_generation(api: Api) -> Any:
    await api.make("deployments", DEPLOYMENT)
    label = await api.patch("deployments/x", {"metadata": {"labels": {"a": "b"}}})
    spec = await api.patch("deployments/x", {"spec": {"replicas": 3}})
    status = await api.patch("deployments/x/status", {"status": {"replicas": 3}})
    return [reply["metadata.generation"] for reply in (label, spec, status)]


@area.behaviour("Finalizers can be added and removed freely while the object is not deleted")
async def finalizers(api: Api) -> Any:
    await api.make("plains", {"spec": {}})
    added = await api.patch("plains/x", {"metadata": {"finalizers": ["a.b/c", "d.e/f"]}})
    removed = await api.patch("plains/x", {"metadata": {"finalizers": None}})
    fields = ("metadata.finalizers", "metadata.generation")
    return [added.show(*fields), removed.show(*fields)]


@area.behaviour("Repeated labels in a replacement remove those that are not there")
async def labels_replaced(api: Api) -> Any:
    old = await api.make("plains", {"metadata": {"labels": {"a": "1", "b": "2"}}})
    body = {**old.body, "metadata": {**old["metadata"], "labels": {"b": "3"}}}
    return (await api.put("plains/x", body)).show("metadata.labels")


@area.behaviour("An empty status or spec is kept as it is")
async def empty_stanzas(api: Api) -> Any:
    created = await api.create("plains", plain(spec={}, status={}))
    without = {key: value for key, value in created.body.items() if key != "status"}
    replaced = await api.put("plains/x", without)
    return [created.show("spec", "status"), replaced.show("spec", "status")]


@area.behaviour("An object with a status subresource and no status has none when read")
async def no_status(api: Api) -> Any:
    created = await api.create("stricts", strict(spec={"text": "a"}))
    return [created["status"] == ABSENT, created.show("spec")]
