"""Server-side apply and the managed fields."""

from __future__ import annotations

from typing import Any

from e2e.conformance.api import Api, Reply
from e2e.conformance.normal import ABSENT
from e2e.conformance.objects import CONTAINER, DEPLOYMENT, TEMPLATE, plain, strict
from e2e.conformance.registry import Area

area = Area("apply")


async def apply(api: Api, body: Any, manager: str = "one", what: str = "", **params: Any) -> Reply:
    plural = f"{body['kind'].lower()}s"
    path = what or f"{plural}/{body['metadata']['name']}"
    return await api.patch(path, body, "apply", fieldManager=manager, **params)


def managers(reply: Reply) -> Any:
    entries = reply["metadata.managedFields"]
    if entries == ABSENT:
        return ABSENT
    keys = ("manager", "operation", "apiVersion", "fieldsType", "subresource", "fieldsV1")
    return [{key: entry[key] for key in keys if key in entry} for entry in entries]


@area.behaviour("An absent object is created, an existing one is merged")
async def creation(api: Api) -> Any:
    fields = ("spec", "metadata.generation")
    return [
        (await apply(api, plain(spec={"a": 1, "b": {"c": 2}}))).show(*fields),
        (await apply(api, plain(spec={"a": 2, "b": {"c": 2}}))).show(*fields),
    ]


@area.behaviour("Fields that are not applied anymore are removed")
async def removal(api: Api) -> Any:
    await apply(api, plain(spec={"a": 1, "b": {"c": 2, "d": 3}}))
    return (await apply(api, plain(spec={"b": {"c": 2}}))).show("spec")


@area.behaviour("Fields of other managers stay")
async def others(api: Api) -> Any:
    await apply(api, plain(spec={"a": 1}))
    await apply(api, plain(spec={"b": 2}), "two")
    return (await apply(api, plain(spec={"c": 3}))).show("spec")


@area.behaviour("Applying the same again changes nothing")
async def same(api: Api) -> Any:
    first = await apply(api, plain(spec={"a": 1}))
    again = await apply(api, plain(spec={"a": 1}))
    return [again.code, again.version == first.version]


@area.behaviour("A field of another manager conflicts")
async def conflict(api: Api) -> Any:
    await apply(api, plain(spec={"a": 1, "b": 1}))
    return (await apply(api, plain(spec={"a": 2}), "two")).show()


@area.behaviour("A field of another manager is taken over by force")
async def force(api: Api) -> Any:
    await apply(api, plain(spec={"a": 1, "b": 1}))
    reply = await apply(api, plain(spec={"a": 2}), "two", force="true")
    return [reply.show("spec"), managers(reply)]


@area.behaviour("The same value can be applied by several managers")
async def shared(api: Api) -> Any:
    await apply(api, plain(spec={"a": 1}))
    both = await apply(api, plain(spec={"a": 1}), "two")
    left = await apply(api, plain(spec={"b": 1}))
    return [both.code, left.show("spec")]


@area.behaviour("The field manager is required")
async def no_manager(api: Api) -> Any:
    return (await api.patch("plains/x", plain(), "apply")).show()


@area.behaviour("The managed fields cannot be applied")
async def managed_fields(api: Api) -> Any:
    body = plain()
    body["metadata"]["managedFields"] = [{"manager": "x"}]
    return (await apply(api, body)).show()


@area.behaviour("The name must be that of the URL; the kind and the version are required")
async def identity(api: Api) -> Any:
    nameless = await api.patch("plains/x", {"metadata": {"name": "x"}}, "apply", fieldManager="a")
    return [(await apply(api, plain("y"), what="plains/x")).show(), nameless.show()]


@area.behaviour("Nulls are applied as values, and are dropped where a value is needed")
async def nulls(api: Api) -> Any:
    return [
        (await apply(api, plain(spec={"a": None, "b": {"c": None}}))).show("spec"),
        (await apply(api, strict(spec={"text": None, "nothing": None}))).show("spec"),
    ]


@area.behaviour("Lists are replaced as a whole, where the schema says nothing else")
async def lists(api: Api) -> Any:
    await apply(api, plain(spec={"list": [1, 2]}))
    return (await apply(api, plain(spec={"list": [3]}))).show("spec")


@area.behaviour("Lists with keys are merged by them")
async def keyed_lists(api: Api) -> Any:
    await apply(api, strict(spec={"things": [{"name": "a", "size": 1}, {"name": "b"}]}))
    await apply(api, strict(spec={"things": [{"name": "c"}, {"name": "a"}]}), "two")
    return (await apply(api, strict(spec={"things": [{"name": "b"}]}))).show("spec.things")


@area.behaviour("Sets are merged by their items")
async def sets(api: Api) -> Any:
    await apply(api, strict(spec={"unique": ["a", "b"]}))
    await apply(api, strict(spec={"unique": ["c"]}), "two")
    return (await apply(api, strict(spec={"unique": ["b"]}))).show("spec.unique")


@area.behaviour("YAML can be applied")
async def yaml(api: Api) -> Any:
    body = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: {a: b}\n"
    return (await api.patch("configmaps/x", body, "apply", fieldManager="a")).show("data")


@area.behaviour("Objects of built-in kinds are merged by the keys of their lists")
async def builtin(api: Api) -> Any:
    first = {"name": "a", "port": 80, "protocol": "TCP"}
    second = {"name": "b", "port": 81, "protocol": "TCP"}
    base = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "x"}}
    await apply(api, {**base, "spec": {"ports": [first]}})
    reply = await apply(api, {**base, "spec": {"ports": [second]}}, "two")
    return reply.show("spec.ports.*.name")


@area.behaviour("The status is applied only to its subresource")
async def status(api: Api) -> Any:
    await apply(api, strict(spec={"text": "a"}, status={"phase": "Main"}))
    body = strict(status={"phase": "Sub"})
    reply = await apply(api, body, "two", what="stricts/x/status")
    return [reply.show("spec.text", "status"), managers(reply)]


@area.behaviour("A dry run of an application gives the object, but does not create it")
async def dry_run(api: Api) -> Any:
    reply = await apply(api, plain(), dryRun="All")
    return [reply.code, (await api.get("plains/x")).code]


@area.behaviour("Creations, updates, and patches are kept in the managed fields")
async def operations(api: Api) -> Any:
    created = await api.create("plains", plain(spec={"a": 1}), fieldManager="creator")
    await api.patch("plains/x", {"spec": {"b": [1, {}]}}, fieldManager="patcher")
    body = {**(await api.get("plains/x")).body, "data": {"k": "v"}}
    replaced = await api.put("plains/x", body, fieldManager="replacer")
    return [managers(created), managers(replaced)]


@area.behaviour("Without a field manager, it is taken from the user agent")
async def default_manager(api: Api) -> Any:
    headers = {"User-Agent": "some-agent/1.2.3 (more)"}
    reply = await api.request("POST", "plains", plain(spec={"a": 1}), headers=headers)
    return managers(reply)


@area.behaviour("A change of the status is kept in the managed fields with the subresource")
async def status_manager(api: Api) -> Any:
    await api.create("stricts", strict(spec={"text": "a"}), fieldManager="creator")
    patch = {"status": {"phase": "P"}}
    return managers(await api.patch("stricts/x/status", patch, fieldManager="patcher"))


@area.behaviour("The managed fields are reset by a list of one empty item, not by an empty list")
async def reset(api: Api) -> Any:
    await api.create("plains", plain(spec={"a": 1}), fieldManager="creator")
    shown = []
    values: list[Any] = [[], [{}]]
    for number, value in enumerate(values):
        patch = {"metadata": {"managedFields": value}, "spec": {f"b{number}": 1}}
        shown.append(managers(await api.patch("plains/x", patch, fieldManager="patcher")))
    return shown


@area.behaviour("Where nothing is managed yet, only an application starts to manage")
async def unmanaged(api: Api) -> Any:
    created = await api.create("plains", plain())
    patched = await api.patch("plains/x", {"spec": {"a": 1}}, fieldManager="patcher")
    applied = await apply(api, plain(spec={"b": 1}))
    return [managers(reply) for reply in (created, patched, applied)]


def deployment(**spec: Any) -> dict[str, Any]:
    identity = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x"}}
    return {**identity, "spec": {**DEPLOYMENT["spec"], **spec}}


@area.behaviour("Fields that the schema does not know are refused")
async def undeclared(api: Api) -> Any:
    container = {**CONTAINER, "imag": "x"}
    template = {**TEMPLATE, "spec": {"containers": [container]}}
    metadata = {"metadata": {"name": "x", "odd": 1}}
    return [
        (await apply(api, deployment(replicsa=1))).show(),
        (await apply(api, deployment(template=template))).show(),
        (await apply(api, deployment(replicsa=1), fieldValidation="Ignore")).show(),
        (await apply(api, strict(spec={"odd": 1}))).show(),
        (await apply(api, strict(spec={"things": [{"name": "a", "odd": 1}]}))).show(),
        (await apply(api, {**strict(), **metadata})).show(),
        (await apply(api, {**strict(), "odd": 1})).show(),
        (await apply(api, plain(odd=1))).show("odd"),
    ]


@area.behaviour("Fields that the schema does not know are refused also in existing objects")
async def undeclared_later(api: Api) -> Any:
    await api.make("stricts", strict(spec={"text": "a"}))
    status = await apply(api, strict(status={"odd": 1}), what="stricts/x/status")
    return [(await apply(api, strict(spec={"odd": 1}))).show(), status.show()]


@area.behaviour("Values of other types than in the schema are refused")
async def mistyped(api: Api) -> Any:
    return [
        (await apply(api, deployment(replicas="3"))).show(),
        (await apply(api, deployment(paused=[]))).show(),
        (await apply(api, strict(spec={"number": "3"}))).show(),
        (await apply(api, strict(spec={"flag": "x"}))).show(),
    ]


@area.behaviour("Repeated keys of lists are refused")
async def repeated_keys(api: Api) -> Any:
    things = [{"name": "a"}, {"name": "a"}]
    ports = [{"port": 80, "protocol": "TCP"}, {"port": 80, "protocol": "TCP"}]
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "x"}}
    return [
        (await apply(api, strict(spec={"things": things}))).show(),
        (await apply(api, strict(spec={"unique": ["a", "a"]}))).show(),
        (await apply(api, {**service, "spec": {"ports": ports}})).show(),
    ]
