"""Creating objects, with what is refused, and what is filled in."""

from __future__ import annotations

from typing import Any

from e2e.conformance.api import Api
from e2e.conformance.normal import ABSENT
from e2e.conformance.objects import meta, plain, strict
from e2e.conformance.registry import Area

area = Area("creation")


@area.behaviour("A built-in object is created with its metadata filled in, and no generation")
async def builtin(api: Api) -> Any:
    reply = await api.create("configmaps", {**meta(), "data": {"a": "b"}})
    fields = sorted(reply["metadata"])
    return [reply.show("apiVersion", "kind", "data", "metadata.generation"), fields]


@area.behaviour("A custom object is created with its metadata filled in, and the generation of 1")
async def custom_object(api: Api) -> Any:
    reply = await api.create("plains", plain(spec={"a": "b"}))
    fields = sorted(reply["metadata"])
    return [reply.show("apiVersion", "kind", "spec", "metadata.generation"), fields]


@area.behaviour("What is created is what is read afterwards")
async def read_back(api: Api) -> Any:
    created = await api.make("plains", {"spec": {"list": [1, None, {"x": None}], "null": None}})
    got = await api.get("plains/x")
    return [got.code, created.body == got.body, got["spec"]]


@area.behaviour("An absent object is not found; of a built-in kind")
async def absent_builtin(api: Api) -> Any:
    return (await api.get("configmaps/x")).show()


@area.behaviour("An absent object is not found; of a custom kind")
async def absent_custom(api: Api) -> Any:
    return (await api.get("plains/x")).show()


@area.behaviour("An absent object is not found; of a kind in a group")
async def absent_grouped(api: Api) -> Any:
    return (await api.get("deployments/x")).show()


@area.behaviour("An object with the same name conflicts")
async def duplicates(api: Api) -> Any:
    await api.make("configmaps")
    await api.make("plains")
    return [
        (await api.create("configmaps", meta())).show(),
        (await api.create("plains", plain())).show(),
    ]


@area.behaviour("generateName gets five random characters added")
async def generated_name(api: Api) -> Any:
    replies = [
        await api.create("configmaps", {"metadata": {"generateName": "some-"}}),
        await api.create("plains", {**plain(), "metadata": {"generateName": "some-"}}),
    ]
    return [
        [r.code, r["metadata.generateName"], r.name[:5], len(r.name), r.name[5:].isalnum()]
        for r in replies
    ]


@area.behaviour("generateName is not used when there is a name")
async def generated_and_given_name(api: Api) -> Any:
    reply = await api.create("configmaps", meta("x", generateName="some-"))
    return reply.show("metadata.name", "metadata.generateName")


@area.behaviour("A long generateName is cut for the name to be of 63 characters")
async def long_generated_name(api: Api) -> Any:
    reply = await api.create("configmaps", {"metadata": {"generateName": "a" * 100}})
    return [reply.code, len(reply.name), len(reply["metadata.generateName"])]


@area.behaviour("Either a name or generateName is required")
async def nameless(api: Api) -> Any:
    return [
        (await api.create("configmaps", {})).show(),
        (await api.create("plains", {**plain(), "metadata": {}})).show(),
    ]


@area.behaviour("An invalid name is refused; of a built-in object")
async def invalid_names(api: Api) -> Any:
    names = ["Capital", "under_score", "-dash", "dot.", "space x", "a/b", "ü", "a" * 254]
    return [(await api.create("configmaps", meta(name))).show("metadata.name") for name in names]


@area.behaviour("An invalid name is refused; of a custom object")
async def invalid_custom_names(api: Api) -> Any:
    names = ["Capital", "a/b", ".."]
    return [(await api.create("plains", plain(name))).show("metadata.name") for name in names]


@area.behaviour("An invalid generateName is refused by the name made of it")
async def invalid_generated_name(api: Api) -> Any:
    reply = await api.create("configmaps", {"metadata": {"generateName": "Some_"}})
    return [reply.code, reply["reason"], reply["details.causes.0.field"]]


@area.behaviour("An invalid name of a namespace is refused: no dots, 63 characters at most")
async def invalid_namespace_names(api: Api) -> Any:
    names = ["with.dot", "a" * 64, "Capital"]
    return [(await api.create("namespaces", meta(name))).show() for name in names]


@area.behaviour("An invalid name of a service is refused: no dots; but it can start with a digit")
async def invalid_service_names(api: Api) -> Any:
    spec = {"ports": [{"port": 80}]}
    names = ["1digit", "with.dot"]
    replies = [await api.create("services", {**meta(n), "spec": spec}) for n in names]
    return [reply.show("metadata.name") for reply in replies]


@area.behaviour("The namespace in the body must be the one in the URL")
async def other_namespace(api: Api) -> Any:
    return [
        (await api.create("configmaps", meta(namespace="other"))).show(),
        (await api.create("plains", {**plain(), **meta(namespace="other")})).show(),
    ]


@area.behaviour("The namespace must exist; for built-in and custom objects")
async def absent_namespace(api: Api) -> Any:
    base = f"/namespaces/{api.namespace}-absent"
    return [
        (await api.create(f"/api/v1{base}/configmaps", meta())).show(),
        (await api.create(f"/apis/conformance.kopf.dev/v1{base}/plains", plain())).show(),
    ]


@area.behaviour("Namespaced objects cannot be created across namespaces")
async def no_namespace(api: Api) -> Any:
    return [
        (await api.create("/api/v1/configmaps", meta())).show(),
        (await api.create("/apis/conformance.kopf.dev/v1/plains", plain())).show(),
    ]


@area.behaviour("The kind and the version can be omitted for built-in objects, not for custom ones")
async def omitted_kind(api: Api) -> Any:
    return [
        (await api.create("configmaps", meta())).show("kind", "apiVersion"),
        (await api.create("plains", meta())).show(),
        (await api.create("plains", {"kind": "Plain", **meta()})).show(),
        (await api.create("plains", {"apiVersion": "conformance.kopf.dev/v1", **meta()})).show(),
    ]


@area.behaviour("A wrong kind or version in the body is refused; for built-in objects")
async def wrong_kind(api: Api) -> Any:
    return [
        (await api.create("configmaps", {"kind": "Pod", "apiVersion": "v1", **meta()})).show(),
        (
            await api.create("configmaps", {"kind": "ConfigMap", "apiVersion": "v2", **meta()})
        ).show(),
    ]


@area.behaviour("A wrong kind or version in the body is refused; for custom objects")
async def wrong_custom_kind(api: Api) -> Any:
    return [
        (await api.create("plains", plain(kind="Other"))).show(),
        (await api.create("plains", plain(apiVersion="conformance.kopf.dev/v2"))).show(),
        (await api.create("plains", plain(apiVersion="other.dev/v1"))).show(),
    ]


@area.behaviour("A body that is not JSON is refused")
async def malformed(api: Api) -> Any:
    bodies = ["{", "", "[]", "null", '"text"']
    replies = {body: (await api.create("plains", body)).show() for body in bodies}
    return {body: [shown["code"], shown.get("reason")] for body, shown in replies.items()}


@area.behaviour("A body in YAML is accepted")
async def yaml_body(api: Api) -> Any:
    headers = {"Content-Type": "application/yaml"}
    body = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: x\ndata:\n  a: b\n"
    return (await api.request("POST", "configmaps", body, headers=headers)).show("data")


@area.behaviour("A body of an unknown type is refused")
async def unknown_media_type(api: Api) -> Any:
    headers = {"Content-Type": "application/unknown"}
    return [
        (await api.request("POST", "configmaps", "{}", headers=headers)).show(),
        (await api.request("POST", "plains", "{}", headers=headers)).show(),
    ]


@area.behaviour("A response of an unknown type is refused")
async def unknown_accepted_type(api: Api) -> Any:
    headers = {"Accept": "application/unknown"}
    reply = await api.request("GET", "configmaps", headers=headers)
    return [reply.code, reply["reason"]]


@area.behaviour("A method that is not there for the resource is not allowed")
async def methods(api: Api) -> Any:
    return [
        (await api.create("configmaps/x", meta())).show(),
        (await api.put("configmaps", meta())).show(),
        (await api.delete("namespaces")).show(),
        (await api.patch("configmaps", {})).show(),
    ]


@area.behaviour("Fields of the system are overwritten on creation")
async def system_fields(api: Api) -> Any:
    body = plain(**meta(uid="mine", creationTimestamp="2000-01-01T00:00:00Z", generation=77))
    reply = await api.create("plains", body)
    moved = reply["metadata.creationTimestamp"] > "2020"
    return [reply.show("metadata.generation"), reply["metadata.uid"] != "mine", moved]


@area.behaviour("deletionTimestamp cannot be set on creation")
async def deletion_timestamp(api: Api) -> Any:
    body = plain(**meta(deletionTimestamp="2000-01-01T00:00:00Z", finalizers=["a.b/c"]))
    return (await api.create("plains", body)).show("metadata.deletionTimestamp")


@area.behaviour("resourceVersion must not be set on creation")
async def resource_version(api: Api) -> Any:
    return [
        (await api.create("configmaps", meta(resourceVersion="1"))).show(),
        (await api.create("plains", plain(**meta(resourceVersion="1")))).show(),
    ]


@area.behaviour("The status is dropped on creation where it is a subresource, and kept where not")
async def status(api: Api) -> Any:
    fields: dict[str, Any] = {"status": {"phase": "Mine"}}
    return [
        (await api.create("stricts", strict(**fields))).show("status"),
        (await api.create("plains", plain(**fields))).show("status"),
        (await api.create("namespaces", {**meta(f"{api.namespace}-2"), **fields})).show("status"),
    ]


@area.behaviour("A dry run gives the object, but does not create it")
async def dry_run(api: Api) -> Any:
    reply = await api.create("plains", plain(), dryRun="All")
    known = [reply[f"metadata.{k}"] != ABSENT for k in ("uid", "resourceVersion", "generation")]
    return [reply.code, known, (await api.get("plains/x")).code]


@area.behaviour("A dry run of an unknown kind is refused")
async def wrong_dry_run(api: Api) -> Any:
    return (await api.create("configmaps", meta(), dryRun="Some")).show()


@area.behaviour("Unknown fields of built-in objects: dropped, warned about, or refused")
async def unknown_fields(api: Api) -> Any:
    modes = {"": {}, **{mode: {"fieldValidation": mode} for mode in ("Ignore", "Warn", "Strict")}}
    shown = {}
    for mode, params in modes.items():
        reply = await api.create("configmaps", {**meta(f"x{mode.lower()}"), "odd": 1}, **params)
        shown[mode] = [reply.show("odd", "data"), reply.warnings]
    return shown


@area.behaviour("Unknown fields of custom objects: dropped, warned about, or refused")
async def unknown_custom_fields(api: Api) -> Any:
    modes = {"": {}, **{mode: {"fieldValidation": mode} for mode in ("Ignore", "Warn", "Strict")}}
    shown = {}
    for mode, params in modes.items():
        body = strict(f"x{mode.lower()}", {"odd": 1, "text": "a"}, other={})
        reply = await api.create("stricts", body, **params)
        shown[mode] = [reply.show("spec", "other"), reply.warnings]
    return shown


@area.behaviour("Repeated fields in the body are warned about, or refused")
async def repeated_fields(api: Api) -> Any:
    body = '{"metadata": {"name": "x"}, "data": {"a": "1"}, "data": {"a": "2"}}'
    strict_reply = await api.create("configmaps", body, fieldValidation="Strict")
    warned = await api.create("configmaps", body)
    return [strict_reply.show(), warned.show("data"), warned.warnings]


@area.behaviour("An unknown kind of field validation is refused")
async def wrong_field_validation(api: Api) -> Any:
    return (await api.create("configmaps", meta(), fieldValidation="Odd")).show()


@area.behaviour("Labels and annotations must be strings with valid keys; of a built-in object")
async def invalid_labels(api: Api) -> Any:
    metas: list[dict[str, Any]] = [
        {"labels": {"a b": "x"}},
        {"labels": {"a": "x y"}},
        {"labels": {"a": "x" * 64}},
        {"annotations": {"a/b/c": "x"}},
        {"labels": {"a": 1}},
        {"annotations": {"a": None}},
    ]
    return [
        (await api.create("configmaps", meta(**fields))).show("metadata.annotations")
        for fields in metas
    ]


@area.behaviour("Labels and annotations must be strings with valid keys; of a custom object")
async def invalid_custom_labels(api: Api) -> Any:
    metas: list[dict[str, Any]] = [
        {"labels": {"a b": "x"}},
        {"labels": {"a": "x y"}},
        {"annotations": {"a/b/c": "x"}},
        {"labels": {"a": 1}},
        {"labels": "text"},
        {"annotations": {"a": None}},
    ]
    return [
        (
            await api.create(
                "plains", plain(f"x{number}", **{"metadata": {"name": f"x{number}", **m}})
            )
        ).show("metadata.annotations")
        for number, m in enumerate(metas)
    ]


@area.behaviour("Annotations can take 256 KiB in total")
async def large_annotations(api: Api) -> Any:
    big = {f"a{i}": "x" * (64 * 1024) for i in range(4)}
    reply = await api.create("configmaps", meta(annotations=big))
    return reply.show()


@area.behaviour("Annotations are measured in bytes")
async def large_foreign_annotations(api: Api) -> Any:
    replies = [
        await api.create("configmaps", meta(name, annotations={"a": "\u0436" * size}))
        for name, size in (("fits", 128 * 1024 - 1), ("large", 128 * 1024))
    ]
    return [reply.show("kind") for reply in replies]


@area.behaviour("Owner references must be complete")
async def owner_references(api: Api) -> Any:
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u"}
    wrongs = [{**owner, "uid": ""}, {**owner, "name": ""}, {**owner, "kind": ""}]
    wrongs.append({**owner, "apiVersion": ""})
    replies = [await api.create("plains", plain(**meta(ownerReferences=[w]))) for w in wrongs]
    two = [{**owner, "controller": True}, {**owner, "uid": "v", "controller": True}]
    replies.append(await api.create("plains", plain(**meta(ownerReferences=two))))
    return [reply.show() for reply in replies]


@area.behaviour("Finalizers must have qualified names; some short names are only warned about")
async def finalizers(api: Api) -> Any:
    names = ["short", "a.b/c", "a b/c", "example.com/"]
    replies = [
        await api.create("plains", {**plain(), **meta(f"x{i}", finalizers=[name])})
        for i, name in enumerate(names)
    ]
    shown = [[r.show("metadata.finalizers"), r.warnings] for r in replies]
    await api.patch("plains/x1", {"metadata": {"finalizers": None}})
    return shown
