"""Custom objects against the schemas of their definitions."""

from __future__ import annotations

import json
from typing import Any

from e2e.conformance.api import Api
from e2e.conformance.objects import make_crd, make_version, meta, strict
from e2e.conformance.registry import Area

area = Area("schemas")


async def create_all(api: Api, *specs: Any) -> list[Any]:
    replies = [await api.create("stricts", strict(f"x{i}", s)) for i, s in enumerate(specs)]
    return [reply.show("spec") for reply in replies]


@area.behaviour("Unknown fields are pruned from the spec, the status, lists, and the top level")
async def pruning(api: Api) -> Any:
    spec = {"text": "a", "odd": 1, "nested": {"inner": 1, "odd": 2}}
    spec["things"] = [{"name": "n", "odd": 3}]
    created = await api.create("stricts", strict(spec=spec, odd={"a": 1}))
    status = {"status": {"phase": "P", "kopf": {"progress": {}}}}
    patched = await api.patch("stricts/x/status", status)
    return [created.show("spec", "odd"), patched.show("status")]


@area.behaviour("A patch of only unknown fields changes nothing")
async def pruned_patch(api: Api) -> Any:
    old = await api.make("stricts", {"spec": {"text": "a"}})
    main = await api.patch("stricts/x", {"spec": {"odd": 1}})
    status = await api.patch("stricts/x/status", {"status": {"odd": {"x": 1}}})
    return [main.version == old.version, status.show("status"), main.warnings]


@area.behaviour("Unknown fields are kept where the schema says so")
async def preserved(api: Api) -> Any:
    return await create_all(api, {"free": {"any": [{"thing": None}]}})


@area.behaviour("Metadata is never pruned, except for its unknown fields")
async def metadata(api: Api) -> Any:
    body = {**strict(), **meta(odd=1, annotations={"any/thing": "x"})}
    return (await api.create("stricts", body)).show("metadata.odd", "metadata.annotations")


@area.behaviour("Defaults are put where the parent is there")
async def defaults(api: Api) -> Any:
    shown = await create_all(api, {}, {"nested": {}}, {"preset": "own"})
    without_spec = await api.create("stricts", strict("y"))
    return [shown, without_spec.show("spec")]


@area.behaviour("A null is replaced by the default, or dropped; it stays where it is allowed")
async def nulls(api: Api) -> Any:
    return await create_all(api, {"preset": None}, {"nothing": None}, {"text": None})


@area.behaviour("Removed defaults come back")
async def defaults_again(api: Api) -> Any:
    await api.make("stricts", {"spec": {"preset": "own"}})
    return (await api.patch("stricts/x", {"spec": {"preset": None}})).show("spec")


@area.behaviour("New defaults are seen in the old objects at once")
async def late_defaults(api: Api) -> Any:
    group = f"{api.namespace}.dev"
    inner: dict[str, Any] = {"type": "object", "properties": {"old": {"type": "string"}}}
    schema = {"type": "object", "properties": {"spec": inner}}
    crd = make_crd(group, "Thing", make_version(schema=schema))
    path = f"customresourcedefinitions/things.{group}"
    await api.make("customresourcedefinitions", crd)
    await api.settle(path, "status.conditions.*.status", ["True", "True"])
    things = f"/apis/{group}/v1/namespaces/{api.namespace}/things"
    body = {"apiVersion": f"{group}/v1", "kind": "Thing", "metadata": {"name": "x"}, "spec": {}}
    await api.settle(things, "kind", "ThingList")
    await api.create(things, body)
    inner["properties"]["new"] = {"type": "integer", "default": 7}
    await api.patch(path, {"spec": {"versions": [make_version(schema=schema)]}})
    reply = await api.settle(f"{things}/x", "spec.new", 7)
    await api.delete(path)
    return reply.show("spec", "metadata.generation")


@area.behaviour("Values of wrong types are refused")
async def types(api: Api) -> Any:
    return await create_all(
        api,
        {"text": 1},
        {"number": "1"},
        {"number": 1.5},
        {"flag": "true"},
        {"items": {}},
        {"nested": []},
        {"mapping": {"a": "b"}},
        {"mixed": True},
    )


@area.behaviour("Whole floats are integers, and integers are numbers")
async def numbers(api: Api) -> Any:
    return await create_all(api, {"number": 2.0}, {"ratio": 2}, {"mixed": "50%"}, {"mixed": 5})


@area.behaviour("Values out of their limits are refused")
async def limits(api: Api) -> Any:
    return await create_all(
        api,
        {"number": 0},
        {"number": 10},
        {"text": "abcdefghijk"},
        {"text": "ABC"},
        {"choice": "c"},
        {"items": ["a", "b", "c", "d"]},
        {"moment": "yesterday"},
    )


@area.behaviour("All wrong values are named at once")
async def several(api: Api) -> Any:
    return await create_all(api, {"text": 1, "number": 77, "choice": "x"})


@area.behaviour("Absent required fields are refused, also in lists")
async def required(api: Api) -> Any:
    return await create_all(api, {"demanding": {}}, {"things": [{"size": 1}]})


@area.behaviour("Repeated items are refused in sets, and repeated keys in maps")
async def uniqueness(api: Api) -> Any:
    things = [{"name": "a"}, {"name": "a"}]
    return await create_all(api, {"unique": ["a", "a"]}, {"things": things})


@area.behaviour("Rules of the schema (CEL) are checked")
async def rules(api: Api) -> Any:
    return await create_all(api, {"low": 2, "high": 1}, {"low": 1, "high": 2})


@area.behaviour("A spec that is not a mapping is refused")
async def wrong_stanzas(api: Api) -> Any:
    bodies = [strict(spec="text"), strict(spec=[]), strict(status="text")]
    return [(await api.create("stricts", body)).show("status") for body in bodies]


@area.behaviour("A patch is checked as the object that it makes")
async def patches(api: Api) -> Any:
    await api.make("stricts", {"spec": {"text": "a"}})
    return [
        (await api.patch("stricts/x", {"spec": {"number": 77}})).show(),
        (await api.patch("stricts/x/status", {"status": {"phase": 1}})).show(),
        (await api.patch("stricts/x", {"spec": "text"})).show(),
    ]


@area.behaviour("An unchanged wrong value stays when the schema becomes stricter")
async def ratcheting(api: Api) -> Any:
    group = f"{api.namespace}.dev"
    inner: dict[str, Any] = {"type": "object", "properties": {"text": {"type": "string"}}}
    inner["properties"]["other"] = {"type": "string"}
    schema = {"type": "object", "properties": {"spec": inner}}
    path = f"customresourcedefinitions/things.{group}"
    await api.make(
        "customresourcedefinitions", make_crd(group, "Thing", make_version(schema=schema))
    )
    things = f"/apis/{group}/v1/namespaces/{api.namespace}/things"
    await api.settle(things, "kind", "ThingList")
    body = {"apiVersion": f"{group}/v1", "kind": "Thing", "metadata": {"name": "x"}}
    await api.create(things, {**body, "spec": {"text": "long"}})
    inner["properties"]["text"]["maxLength"] = 2
    await api.patch(path, {"spec": {"versions": [make_version(schema=schema)]}})
    await api.settle(path, "spec.versions.0.schema.openAPIV3Schema", schema)
    probe = {**body, "metadata": {"name": "probe"}, "spec": {"text": "long"}}
    while (await api.create(things, probe, dryRun="All")).ok:
        pass  # until the stricter schema is in use
    same = await api.patch(f"{things}/x", {"spec": {"other": "o"}})
    changed = await api.patch(f"{things}/x", {"spec": {"text": "longer"}})
    await api.delete(path)
    return [same.show("spec"), changed.show()]


@area.behaviour("Without structure, everything is kept as it is")
async def loose(api: Api) -> Any:
    spec: dict[str, Any] = {"a": None, "b": [None, {}], "c": {"": 0}, "d": 1.0, "e": 10**15}
    spec |= {"f": "\u0000é", "g": -0.5}
    return (await api.make("plains", {"spec": spec})).show("spec")


@area.behaviour("Whole fractions are stored as integers, whatever the schema says")
async def fractions(api: Api) -> Any:
    group = "fractions.kopf.dev"
    inner: dict[str, Any] = {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
        "properties": {
            "integer": {"type": "integer"},
            "short": {"type": "integer", "format": "int32"},
            "long": {"type": "integer", "format": "int64"},
            "number": {"type": "number"},
            "either": {"x-kubernetes-int-or-string": True},
            "preset": {"type": "number", "default": 5.0},
        },
    }
    schema = {"type": "object", "properties": {"spec": inner}}
    path = f"customresourcedefinitions/things.{group}"
    await api.create(
        "customresourcedefinitions", make_crd(group, "Thing", make_version(schema=schema))
    )
    things = f"/apis/{group}/v1/namespaces/{api.namespace}/things"
    await api.settle(things, "kind", "ThingList")
    whole, broken = (
        dict.fromkeys(["integer", "short", "long", "number", "either", "unknown"], value)
        for value in (1e3, 1.5)
    )
    body = {"apiVersion": f"{group}/v1", "kind": "Thing"}
    created = await api.create(things, {**body, **meta("x"), "spec": {**whole, "zero": -0.0}})
    patched = await api.patch(f"{things}/x", {"spec": {"number": 2.0, "unknown": [{"deep": 3.0}]}})
    refused = await api.create(things, {**body, **meta("y"), "spec": broken})
    await api.delete(path)
    shown = [json.dumps(reply["spec"], sort_keys=True) for reply in (created, patched)]
    return [shown, refused.show()]
