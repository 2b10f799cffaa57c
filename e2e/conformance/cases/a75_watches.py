"""Watches: what is sent, in which order, from when, and how they end."""

from __future__ import annotations

import json
from typing import Any

from e2e.conformance.api import Api, brief
from e2e.conformance.normal import ABSENT, pick
from e2e.conformance.objects import make_crd
from e2e.conformance.registry import Area

area = Area("watches")
INITIAL = {
    "sendInitialEvents": "true",
    "resourceVersionMatch": "NotOlderThan",
    "allowWatchBookmarks": "true",
}


def show_bookmark(event: Any) -> Any:
    """Show a bookmark in full."""
    return [event["type"], {k: v for k, v in event["object"].items() if k != "spec"}]


@area.behaviour("Without a version, the existing objects come first as added ones")
async def existing(api: Api) -> Any:
    await api.make("plains", name="a")
    await api.make("plains", name="b")
    async with api.watch("plains") as watch:
        first = await watch.until("ADDED", "b")
        await api.make("plains", name="c")
        then = await watch.until("ADDED", "c")
    return [watch.code, sorted(brief(first)), brief(then)]


@area.behaviour("With the zero version, the existing objects come first too")
async def existing_from_zero(api: Api) -> Any:
    await api.make("plains", name="a")
    await api.get("plains", resourceVersion="0")
    async with api.watch("plains", resourceVersion="0") as watch:
        return brief(await watch.until("ADDED", "a"))


@area.behaviour("From the version of a list, only the later events come, in their order")
async def from_list(api: Api) -> Any:
    await api.make("plains", name="a")
    version = (await api.get("plains"))["metadata.resourceVersion"]
    await api.make("plains", name="b")
    await api.patch("plains/a", {"spec": {"x": 1}})
    await api.delete("plains/b")
    async with api.watch("plains", resourceVersion=version) as watch:
        await api.patch("plains/a", {"spec": {"x": 2}})
        await api.delete("plains/a")
        events = await watch.until("DELETED", "a")
    return brief(events, "metadata.name", "spec.x")


@area.behaviour("From the version of an object, its later events come")
async def from_object(api: Api) -> Any:
    made = await api.make("plains", name="a")
    await api.patch("plains/a", {"spec": {"x": 1}})
    async with api.watch("plains", resourceVersion=made.version) as watch:
        return brief(await watch.until("MODIFIED"), "spec.x")


@area.behaviour("The events have whole objects with the kind and the version")
async def whole_objects(api: Api) -> Any:
    made = await api.make("configmaps", {"data": {"a": "b"}})
    async with api.watch("configmaps", fieldSelector="metadata.name=x") as watch:
        [event] = await watch.until("ADDED")
    return [event["object"] == made.body, event["object"]["kind"], event["object"]["apiVersion"]]


@area.behaviour("An object that starts to match the label selector is added, if stops, is deleted")
async def labels(api: Api) -> Any:
    made = await api.make("plains", name="a")
    params = {"labelSelector": "on=yes", "resourceVersion": made.version}
    async with api.watch("plains", **params) as watch:
        for value in ("no", "yes", "yes", "no", "yes"):
            await api.patch("plains/a", {"metadata": {"labels": {"on": value}}, "spec": {}})
        await api.patch("plains/a", {"spec": {"x": 1}})
        await api.delete("plains/a")
        events = await watch.until("MODIFIED")
        events += await watch.until("DELETED")
    return brief(events, "metadata.labels.on", "spec.x")


@area.behaviour("The object of a deletion by labels has its old state, but the new version")
async def unmatched_state(api: Api) -> Any:
    made = await api.make("plains", {"metadata": {"labels": {"on": "yes"}}})
    params = {"labelSelector": "on=yes", "resourceVersion": made.version}
    async with api.watch("plains", **params) as watch:
        patched = await api.patch("plains/x", {"metadata": {"labels": {"on": "no"}}})
        [event] = await watch.until("DELETED")
    seen = event["object"]["metadata"]
    return [seen["labels"], seen["resourceVersion"] == patched.version]


@area.behaviour("One object can be watched by its name")
async def by_name(api: Api) -> Any:
    made = await api.make("plains", name="a")
    params = {"fieldSelector": "metadata.name=b", "resourceVersion": made.version}
    async with api.watch("plains", **params) as watch:
        await api.patch("plains/a", {"spec": {"x": 1}})
        await api.make("plains", name="b")
        return brief(await watch.until("ADDED"))


@area.behaviour("A watch of a namespace has no events of others, a cluster-wide one has")
async def scopes(api: Api) -> Any:
    other = f"{api.namespace}-2"
    await api.create("namespaces", {"metadata": {"name": other}})
    made = await api.make("plains", name="a")
    body = {**made.body, "metadata": {"name": "b"}}
    path = f"/apis/conformance.kopf.dev/v1/namespaces/{other}/plains"
    wide = "/apis/conformance.kopf.dev/v1/plains"
    async with (
        api.watch("plains", resourceVersion=made.version) as own,
        api.watch(wide, resourceVersion=made.version) as all_of_them,
    ):
        await api.create(path, body)
        await api.make("plains", name="c")
        own_events = await own.until("ADDED", "c")
        all_events = await all_of_them.until("ADDED", "c")
    await api.delete(f"namespaces/{other}")
    all_shown = brief(all_events, "metadata.namespace", "metadata.name")
    return [brief(own_events), [one for one in all_shown if one[1].startswith(api.namespace)]]


@area.behaviour("The initial events are ended by an annotated bookmark, when asked for")
async def initial_events(api: Api) -> Any:
    await api.make("plains", name="a")
    await api.make("plains", name="b")
    async with api.watch("plains", **INITIAL) as watch:
        events = await watch.until("BOOKMARK")
        await api.make("plains", name="c")
        then = await watch.until("ADDED", "c")
    return [sorted(brief(events[:-1])), show_bookmark(events[-1]), brief(then)]


@area.behaviour("The version of the initial bookmark is one to watch from")
async def initial_version(api: Api) -> Any:
    made = await api.make("plains", name="a")
    async with api.watch("plains", **INITIAL) as watch:
        events = await watch.until("BOOKMARK")
    version = events[-1]["object"]["metadata"]["resourceVersion"]
    async with api.watch("plains", resourceVersion=version) as watch:
        await api.make("plains", name="b")
        then = await watch.until("ADDED")
    return [int(version) >= int(made.version), brief(then)]


@area.behaviour("The initial events of an empty list are only the bookmark")
async def initial_of_none(api: Api) -> Any:
    async with api.watch("secrets", **INITIAL) as watch:
        return [show_bookmark(event) for event in await watch.until("BOOKMARK")]


@area.behaviour("The initial events come in the order of names")
async def initial_order(api: Api) -> Any:
    for name in ("c", "a", "b"):
        await api.make("plains", name=name)
    async with api.watch("plains", **INITIAL) as watch:
        return brief(await watch.until("BOOKMARK"))


@area.behaviour("The initial events can be declined: then only the later ones come")
async def declined_initial_events(api: Api) -> Any:
    await api.make("plains", name="a")
    params = {**INITIAL, "sendInitialEvents": "false"}
    version = (await api.get("plains"))["metadata.resourceVersion"]
    async with api.watch("plains", resourceVersion=version, **params) as watch:
        await api.make("plains", name="b")
        return brief(await watch.until("ADDED"))


@area.behaviour("Wrong options of the initial events are refused")
async def wrong_initial_events(api: Api) -> Any:
    wrongs: list[dict[str, str]] = [
        {"watch": "true", "sendInitialEvents": "true"},
        {"watch": "true", "resourceVersionMatch": "NotOlderThan"},
        {"watch": "true", **INITIAL, "resourceVersionMatch": "Exact"},
        {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"},
    ]
    return [(await api.get("plains", **wrong)).show() for wrong in wrongs]


@area.behaviour("A bookmark is sent before the end of a watch, when bookmarks are asked for")
async def bookmark(api: Api) -> Any:
    made = await api.make("plains", name="a")
    params = {"allowWatchBookmarks": "true", "resourceVersion": made.version}
    for seconds in (3, 6, 12):  # it can be late on a busy machine
        async with api.watch("plains", timeoutSeconds=seconds, **params) as watch:
            events = await watch.rest()
        if events:
            break
    fresh = [int(pick(e, "object.metadata.resourceVersion")) >= int(made.version) for e in events]
    return [[show_bookmark(event) for event in events[:1]], fresh[:1]]


@area.behaviour("No bookmarks come when not asked for; the watch ends in time with no error")
async def timeout(api: Api) -> Any:
    made = await api.make("plains", name="a")
    params = {"timeoutSeconds": 1, "resourceVersion": made.version}
    async with api.watch("plains", **params) as watch:
        return [watch.code, await watch.rest()]


@area.behaviour("A version that is too old is gone: by an event in the stream")
async def too_old(api: Api) -> Any:
    await api.make("plains")
    async with api.watch("plains", resourceVersion="1") as watch:
        events = await watch.rest()
    return [watch.code, events]


@area.behaviour("A version that is not a number is refused")
async def wrong_version(api: Api) -> Any:
    return (await api.get("plains", watch="true", resourceVersion="odd")).show()


@area.behaviour("An absent resource is not found when watched")
async def absent(api: Api) -> Any:
    path = f"/apis/conformance.kopf.dev/v1/namespaces/{api.namespace}/unknowns"
    return (await api.get(path, watch="true")).show()


@area.behaviour("Wrong selectors are refused when watched")
async def wrong_selectors(api: Api) -> Any:
    return [
        (await api.get("plains", watch="true", labelSelector="a b")).show(),
        (await api.get("plains", watch="true", fieldSelector="spec.a=b")).show(),
    ]


@area.behaviour("The stream is of JSON, a line an event, in chunks")
async def headers(api: Api) -> Any:
    reply = await api.request("GET", "plains", params={"watch": "true", "timeoutSeconds": 1})
    return [reply.headers["Content-Type"], reply.headers.get("Transfer-Encoding", ABSENT)]


@area.behaviour("A watch can be of tables")
async def tables(api: Api) -> Any:
    await api.make("plains")
    headers = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    url = f"{api.cluster.url}{api.path('plains')}"
    async with api.session.get(url, params={"watch": "true"}, headers=headers) as response:
        line = await response.content.readline()
    event = json.loads(line)
    row = pick(event, "object.rows.0.object.metadata.name")
    return [event["type"], event["object"]["kind"], row]


@area.behaviour("The instances are deleted with their definition, and the watch ends")
async def removed_definition(api: Api) -> Any:
    group = f"{api.namespace}.dev"
    path = f"customresourcedefinitions/things.{group}"
    await api.make("customresourcedefinitions", make_crd(group, "Thing"))
    things = f"/apis/{group}/v1/namespaces/{api.namespace}/things"
    await api.settle(things, "kind", "ThingList")
    body = {"apiVersion": f"{group}/v1", "kind": "Thing", "metadata": {"name": "x"}}
    made = await api.create(things, body)
    async with api.watch(things, resourceVersion=made.version) as watch:
        await api.delete(path)
        events = await watch.until("DELETED")
    gone = await api.settle(path, "", ABSENT)
    return [brief(events), gone.code]
