"""Merge patches and JSON patches, of whole objects and of their subresources."""

from __future__ import annotations

from typing import Any

from e2e.conformance.api import Api, brief
from e2e.conformance.objects import DEPLOYMENT, POD
from e2e.conformance.registry import Area

area = Area("patches")

SPEC = {"a": 1, "deep": {"x": 1, "y": {"z": 2}}, "list": [1, {"k": "v"}, 3]}


async def merge(api: Api, *patches: Any, what: str = "plains/x") -> Any:
    """Apply the patches one by one to an object with a sample spec."""
    await api.make("plains", {"spec": SPEC})
    return [(await api.patch(what, patch)).show("spec") for patch in patches]


async def change(api: Api, *patches: Any) -> Any:
    """Apply the JSON patches one by one, each to a new object with a sample spec."""
    shown = []
    for number, patch in enumerate(patches):
        await api.make("plains", {"spec": SPEC}, name=f"x{number}")
        reply = await api.patch(f"plains/x{number}", patch, "json")
        shown.append(reply.show("spec"))
    return shown


def op(op: str, path: str, *value: Any, **fields: Any) -> dict[str, Any]:
    return {"op": op, "path": path, **({"value": value[0]} if value else {}), **fields}


@area.behaviour("A merge patch adds and changes fields, also deep ones")
async def merge_fields(api: Api) -> Any:
    return await merge(api, {"spec": {"a": 2, "b": 3, "deep": {"y": {"w": 4}}}})


@area.behaviour("A merge patch removes fields by nulls, also deep ones and whole stanzas")
async def merge_nulls(api: Api) -> Any:
    return await merge(api, {"spec": {"a": None, "deep": {"y": {"z": None}}}}, {"spec": None})


@area.behaviour("Nulls in a merge patch never create fields, but what is around them does")
async def merge_nulls_of_absent(api: Api) -> Any:
    return await merge(
        api, {"spec": {"none": None}}, {"spec": {"new": {"none": None, "inner": {}}}}
    )


@area.behaviour("Lists in a merge patch replace lists, with their nulls inside")
async def merge_lists(api: Api) -> Any:
    return await merge(api, {"spec": {"list": [None, {"k": None}, []]}}, {"spec": {"list": []}})


@area.behaviour("A merge patch puts a value instead of a mapping, and the other way round")
async def merge_types(api: Api) -> Any:
    return await merge(api, {"spec": {"deep": 1, "a": {"b": 2}}})


@area.behaviour("A merge patch that changes nothing does not change the version, nor is an event")
async def merge_nothing(api: Api) -> Any:
    old = await api.make("plains", {"spec": {"a": 1}})
    patches = [{}, {"spec": {"a": 1}}, {"spec": {"none": None}}, {"status": None}]
    async with api.watch("plains", resourceVersion=old.version) as watch:
        replies = [await api.patch("plains/x", patch) for patch in patches]
        await api.make("plains", name="marker")
        events = await watch.until("ADDED", "marker")
    return [[[r.code, r.version == old.version] for r in replies], brief(events)]


@area.behaviour("An empty mapping in a merge patch is created")
async def merge_empty(api: Api) -> Any:
    await api.make("plains")
    return (await api.patch("plains/x", {"status": {}})).show("status", "metadata.generation")


@area.behaviour("A merge patch that is not a mapping is refused")
async def merge_wrong(api: Api) -> Any:
    await api.make("plains")
    replies = [await api.patch("plains/x", body) for body in ("[]", '"text"', "{", "null", "1")]
    return [[reply.code, reply["reason"]] for reply in replies]


@area.behaviour("A stale resource version in a merge patch conflicts, the actual one does not")
async def merge_versions(api: Api) -> Any:
    old = await api.make("plains")
    new = await api.patch("plains/x", {"spec": {"a": 1}})
    stale = {"metadata": {"resourceVersion": old.version}, "spec": {"a": 2}}
    actual = {"metadata": {"resourceVersion": new.version}, "spec": {"a": 3}}
    return [(await api.patch("plains/x", patch)).show("spec") for patch in (stale, actual)]


@area.behaviour("A merge patch with another uid conflicts")
async def merge_uid(api: Api) -> Any:
    await api.make("plains")
    other = {"metadata": {"uid": "01234567-89ab-cdef-0123-456789abcdef"}, "spec": {"a": 1}}
    return (await api.patch("plains/x", other)).show()


@area.behaviour("A merge patch of an absent object is not found")
async def merge_absent(api: Api) -> Any:
    return (await api.patch("plains/x", {"spec": {}})).show()


@area.behaviour("The name, the namespace, the kind, and the version cannot be patched")
async def merge_identity(api: Api) -> Any:
    await api.make("plains")
    patches: list[dict[str, Any]] = [
        {"metadata": {"name": "y"}},
        {"metadata": {"namespace": "other"}},
        {"kind": "Other"},
        {"apiVersion": "other.dev/v1"},
        {"apiVersion": "conformance.kopf.dev/v2"},
        {"metadata": None},
    ]
    return [(await api.patch("plains/x", patch)).show() for patch in patches]


@area.behaviour("Labels and annotations are merged by their keys")
async def merge_labels(api: Api) -> Any:
    await api.make("plains", {"metadata": {"labels": {"a": "1"}, "annotations": {"b/c": "2"}}})
    patch = {"metadata": {"labels": {"z": "3"}, "annotations": {"b/c": None, "d/e": "{}"}}}
    fields = ("metadata.labels", "metadata.annotations", "metadata.generation")
    last = {"metadata": {"annotations": {"d/e": None}}}
    return [
        (await api.patch("plains/x", patch)).show(*fields),
        (await api.patch("plains/x", last)).show(*fields),
    ]


@area.behaviour(
    "A merge patch of the main resource ignores the status; that of the status, the rest"
)
async def merge_status(api: Api) -> Any:
    await api.make("stricts", {"spec": {"text": "a"}})
    fields = ("spec.text", "status", "metadata.labels", "metadata.generation")
    both = {"spec": {"text": "b"}, "status": {"phase": "P"}, "metadata": {"labels": {"l": "1"}}}
    other = {"spec": {"text": "c"}, "status": {"phase": "Q"}, "metadata": {"labels": {"l": "2"}}}
    return [
        (await api.patch("stricts/x", both)).show(*fields),
        (await api.patch("stricts/x/status", other)).show(*fields),
    ]


@area.behaviour("A merge patch of only the status in the main resource changes nothing at all")
async def merge_status_in_main(api: Api) -> Any:
    old = await api.make("stricts", {"spec": {"text": "a"}})
    new = await api.patch("stricts/x", {"status": {"phase": "P"}})
    return [new.show("status"), new.version == old.version]


@area.behaviour("Annotations are not changed via the status subresource of custom objects")
async def annotations_via_status(api: Api) -> Any:
    await api.make("stricts")
    patch = {"metadata": {"annotations": {"a": "b"}}, "status": {"phase": "P"}}
    return (await api.patch("stricts/x/status", patch)).show("metadata.annotations", "status")


@area.behaviour("Annotations are changed via the status subresource of built-in objects")
async def annotations_via_builtin_status(api: Api) -> Any:
    await api.make("deployments", DEPLOYMENT)
    await api.make("pods", POD)
    patch = {"metadata": {"annotations": {"a": "b"}, "labels": {"c": "d"}}}
    fields = ("metadata.annotations", "metadata.labels")
    return [
        (await api.patch("deployments/x/status", patch)).show(*fields),
        (await api.patch("pods/x/status", patch)).show(*fields),
    ]


@area.behaviour("A dry run of a patch gives the new object, but does not change it")
async def dry_run(api: Api) -> Any:
    old = await api.make("plains", {"spec": {"a": 1}})
    new = await api.patch("plains/x", {"spec": {"a": 2}}, dryRun="All")
    same = (await api.get("plains/x")).version == old.version
    return [new.show("spec", "metadata.generation"), same]


@area.behaviour("A JSON patch adds, replaces, and removes fields")
async def json_fields(api: Api) -> Any:
    return await change(
        api,
        [op("add", "/spec/b", 2)],
        [op("replace", "/spec/a", {"b": None})],
        [op("remove", "/spec/deep/y")],
        [op("add", "/spec/a", 5), op("remove", "/spec/list"), op("add", "/spec/list", [])],
    )


@area.behaviour("A JSON patch adds to lists by index and by dash, replaces and removes items")
async def json_lists(api: Api) -> Any:
    return await change(
        api,
        [op("add", "/spec/list/0", 0)],
        [op("add", "/spec/list/-", 4)],
        [op("add", "/spec/list/3", 4)],
        [op("replace", "/spec/list/1/k", "w")],
        [op("remove", "/spec/list/0"), op("remove", "/spec/list/0")],
    )


@area.behaviour("A JSON patch moves and copies fields")
async def json_moves(api: Api) -> Any:
    return await change(
        api,
        [{"op": "move", "from": "/spec/deep/x", "path": "/spec/moved"}],
        [{"op": "copy", "from": "/spec/deep/y", "path": "/spec/copied"}],
        [{"op": "move", "from": "/spec/none", "path": "/spec/moved"}],
    )


@area.behaviour("A JSON patch with a passed test is applied, with a failed one is invalid")
async def json_tests(api: Api) -> Any:
    return await change(
        api,
        [op("test", "/spec/a", 1), op("replace", "/spec/a", 2)],
        [op("test", "/spec/a", 5), op("replace", "/spec/a", 2)],
        [op("test", "/spec/deep", {"y": {"z": 2}, "x": 1}), op("remove", "/spec/deep")],
        [op("test", "/spec/none", 1)],
        [op("test", "/spec/none", None)],
        [op("test", "/spec/deep/none/none", 1)],
    )


@area.behaviour("A JSON patch with a test of a stale resource version is invalid")
async def json_version_test(api: Api) -> Any:
    old = await api.make("plains", {"spec": {"a": 1}})
    new = await api.patch("plains/x", {"spec": {"a": 2}})
    change = op("replace", "/spec/a", 3)
    return [
        (
            await api.patch(
                "plains/x", [op("test", "/metadata/resourceVersion", version), change], "json"
            )
        ).show("spec")
        for version in (old.version, new.version)
    ]


@area.behaviour("A JSON patch with a replaced stale resource version conflicts")
async def json_version_replaced(api: Api) -> Any:
    old = await api.make("plains", {"spec": {"a": 1}})
    await api.patch("plains/x", {"spec": {"a": 2}})
    ops = [op("replace", "/metadata/resourceVersion", old.version), op("replace", "/spec/a", 3)]
    return (await api.patch("plains/x", ops, "json")).show("spec")


@area.behaviour("A JSON patch on absent paths is invalid")
async def json_absent(api: Api) -> Any:
    return await change(
        api,
        [op("remove", "/spec/none")],
        [op("replace", "/spec/none", 1)],
        [op("add", "/spec/none/deep", 1)],
        [op("remove", "/spec/list/7")],
        [op("add", "/spec/list/7", 1)],
        [op("add", "/status/phase", "P")],
    )


@area.behaviour("A JSON patch of unknown or incomplete operations is refused")
async def json_wrong(api: Api) -> Any:
    replies = await change(
        api,
        [{"op": "odd", "path": "/spec/a", "value": 1}],
        [{"op": "add", "value": 1}],
        [{"op": "add", "path": "spec", "value": 1}],
        {"op": "add", "path": "/spec/a", "value": 1},
        [1],
    )
    return [[reply["code"], reply.get("reason")] for reply in replies]


@area.behaviour("Slashes and tildes in the keys are escaped in JSON patches")
async def json_escapes(api: Api) -> Any:
    await api.make("plains", {"metadata": {"annotations": {"a.b/c": "1"}}})
    ops = [op("replace", "/metadata/annotations/a.b~1c", "2"), op("add", "/spec", {})]
    ops += [op("add", "/spec/~0~1", "3")]
    return (await api.patch("plains/x", ops, "json")).show("metadata.annotations", "spec")


@area.behaviour("An empty JSON patch changes nothing")
async def json_empty(api: Api) -> Any:
    old = await api.make("plains")
    new = await api.patch("plains/x", [], "json")
    return [new.code, new.version == old.version]


@area.behaviour("A JSON patch of an absent object is not found")
async def json_absent_object(api: Api) -> Any:
    return (await api.patch("plains/x", [], "json")).show()


@area.behaviour("A JSON patch of the status subresource changes only the status")
async def json_status(api: Api) -> Any:
    await api.make("stricts", {"spec": {"text": "a"}})
    ops = [op("add", "/status", {"phase": "P"}), op("replace", "/spec/text", "b")]
    return (await api.patch("stricts/x/status", ops, "json")).show("status", "spec.text")


@area.behaviour("A JSON patch with a test removes one finalizer of several")
async def json_finalizers(api: Api) -> Any:
    await api.make("plains", {"metadata": {"finalizers": ["a.b/c", "d.e/f"]}})
    path = "/metadata/finalizers/0"
    ops = [op("test", path, "a.b/c"), op("remove", path)]
    first = await api.patch("plains/x", ops, "json")
    again = await api.patch("plains/x", ops, "json")
    shown = [first.show("metadata.finalizers"), again.show("metadata.finalizers")]
    await api.patch("plains/x", {"metadata": {"finalizers": None}})
    return shown


@area.behaviour("A JSON patch can have 10,000 operations, not more")
async def json_limit(api: Api) -> Any:
    await api.make("plains", {"spec": {"a": 1}})
    ops = [op("test", "/spec/a", 1)] * 10_001
    return (await api.patch("plains/x", ops, "json")).show("spec")


@area.behaviour("A patch of an unknown type is refused")
async def unknown_type(api: Api) -> Any:
    await api.make("plains")
    await api.make("configmaps")
    return [
        (await api.patch("plains/x", {}, "application/json")).show(),
        (await api.patch("configmaps/x", {}, "application/json")).show(),
    ]


@area.behaviour("A type of a patch can have parameters")
async def type_with_parameters(api: Api) -> Any:
    await api.make("plains")
    kind = "application/merge-patch+json; charset=utf-8"
    return (await api.patch("plains/x", {"spec": {"a": 1}}, kind)).show("spec")
