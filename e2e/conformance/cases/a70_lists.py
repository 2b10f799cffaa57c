"""Lists: pages, versions, selectors, and the ways to show them."""

from __future__ import annotations

from typing import Any

from e2e.conformance.api import Api, Reply
from e2e.conformance.normal import ABSENT, pick
from e2e.conformance.objects import POD, meta
from e2e.conformance.registry import Area

area = Area("lists")
NAMES = "items.*.metadata.name"
TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}
PARTIAL = {"Accept": "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"}
SINGLE = {"Accept": "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"}


async def make_some(api: Api, *names: str, what: str = "secrets") -> list[Reply]:
    return [await api.make(what, {"metadata": {"labels": {"is": n}}}, n) for n in names]


@area.behaviour("The items of built-in kinds have no kind and version; the list has")
async def builtin(api: Api) -> Any:
    await api.make("secrets")
    reply = await api.get("secrets")
    return [reply.show("kind", "apiVersion", "items.*.kind"), sorted(reply["metadata"])]


@area.behaviour("The items of custom kinds have the kind and the version, as the list has")
async def custom(api: Api) -> Any:
    await api.make("plains")
    reply = await api.get("plains")
    fields = ("kind", "apiVersion", "items.*.kind", "items.*.apiVersion")
    return [reply.show(*fields), sorted(reply["metadata"])]


@area.behaviour("An empty list has an empty list of items, and a version")
async def empty(api: Api) -> Any:
    return [(await api.get(what)).show("items", "metadata") for what in ("secrets", "plains")]


@area.behaviour("A list in an absent namespace is empty")
async def absent_namespace(api: Api) -> Any:
    return (await api.get("/api/v1/namespaces/absent-one/secrets")).show("items")


@area.behaviour("The items are sorted by their namespaces and names")
async def order(api: Api) -> Any:
    await make_some(api, "b", "c", "a", "a-b", "a.b", "a0")
    return (await api.get("secrets"))[NAMES]


@area.behaviour("The version of a list is not less than that of its items")
async def version(api: Api) -> Any:
    made = await api.make("plains")
    return int((await api.get("plains"))["metadata.resourceVersion"]) >= int(made.version)


@area.behaviour("A limited list is continued by tokens, in the same version to the end")
async def pages(api: Api) -> Any:
    await make_some(api, "a", "b", "c", "d", "e")
    shown: list[Any] = []
    versions, token = set(), ""
    while token != ABSENT:
        reply = await api.get("secrets", limit=2, **({"continue": token} if token else {}))
        token = reply["metadata.continue"]
        versions.add(reply["metadata.resourceVersion"])
        await api.make("secrets", name=f"e{len(shown)}")  # not seen in this version
        shown.append([reply[NAMES], reply["metadata.remainingItemCount"]])
    return [shown, len(versions)]


@area.behaviour("A limited list of custom objects is continued by tokens")
async def custom_pages(api: Api) -> Any:
    await make_some(api, "a", "b", "c", what="plains")
    first = await api.get("plains", limit=2)
    second = await api.get("plains", limit=2, **{"continue": first["metadata.continue"]})
    return [reply.show(NAMES, "metadata") for reply in (first, second)]


@area.behaviour("The count of remaining items is unknown with selectors")
async def remaining_with_selectors(api: Api) -> Any:
    await make_some(api, "a", "b", "c")
    return (await api.get("secrets", limit=1, labelSelector="is!=b")).show(NAMES, "metadata")


@area.behaviour("A limit that is just enough gives no token")
async def exact_limit(api: Api) -> Any:
    await make_some(api, "a", "b")
    return (await api.get("secrets", limit=2)).show(NAMES, "metadata")


@area.behaviour("Wrong limits and tokens are refused")
async def wrong_pages(api: Api) -> Any:
    token = {"continue": "odd"}
    replies = [
        await api.get("secrets", limit=1, **token),
        await api.get("secrets", limit="odd"),
        await api.get("secrets", limit=-1),
        await api.get("secrets", limit=1, resourceVersion=1, **token),
    ]
    return [reply.show("items") for reply in replies]


@area.behaviour(
    "A token is expired after the compaction; a new one continues without consistency",
    compacts=True,
)
async def expired(api: Api) -> Any:
    await make_some(api, "a", "b", "c")
    first = await api.get("secrets", limit=1)
    token = {"continue": first["metadata.continue"]}
    last = await api.make("secrets", name="b2")
    assert api.cluster.compact is not None
    api.cluster.compact(int(last.version))
    second = await api.get("secrets", limit=1, **token)
    again = {"continue": second["metadata.continue"]}
    third = await api.get("secrets", limit=5, **again)
    return [second.show(), third.show(NAMES)]


@area.behaviour("A list in an exact version that is compacted is expired", compacts=True)
async def expired_version(api: Api) -> Any:
    first = await api.make("secrets", name="a")
    last = await api.make("secrets", name="b")
    params = {"resourceVersion": first.version, "resourceVersionMatch": "Exact"}
    before = await api.get("secrets", **params)
    assert api.cluster.compact is not None
    api.cluster.compact(int(last.version))
    return [before.show(NAMES), (await api.get("secrets", **params)).show()]


@area.behaviour("A list in at least some version")
async def not_older(api: Api) -> Any:
    made = await api.make("secrets")
    params = {"resourceVersion": made.version, "resourceVersionMatch": "NotOlderThan"}
    return [
        (await api.get("secrets", **params)).show(NAMES),
        (await api.get("secrets", resourceVersion="0")).code,
        (await api.get("secrets", resourceVersion=made.version)).show(NAMES),
    ]


@area.behaviour("Wrong versions of lists are refused")
async def wrong_versions(api: Api) -> Any:
    replies = [
        await api.get("secrets", resourceVersion="odd"),
        await api.get("secrets", resourceVersionMatch="Exact"),
        await api.get("secrets", resourceVersion="0", resourceVersionMatch="Exact"),
        await api.get("secrets", resourceVersion="1", resourceVersionMatch="Odd"),
    ]
    return [reply.show("items") for reply in replies]


@area.behaviour("A version from the future times out")
async def future_version(api: Api) -> Any:
    made = await api.make("secrets")
    reply = await api.get("secrets", resourceVersion=int(made.version) + 1_000_000)
    shown = reply.show()
    return [shown["code"], shown["reason"], shown["details"], shown["message"].split(":")[0]]


@area.behaviour("Labels are selected by equality, sets, and existence")
async def labels(api: Api) -> Any:
    await make_some(api, "a", "b", "c")
    await api.make("secrets", name="d")
    selectors = [
        "is=a",
        "is==b",
        "is!=b",
        "is in (a,b)",
        "is notin (a, b)",
        "is",
        "!is",
        "is,is!=a",
        "none=x",
        "",
        "is=",
        "is in (a),is notin (a)",
    ]
    return {one: (await api.get("secrets", labelSelector=one))[NAMES] for one in selectors}


@area.behaviour("Wrong label selectors are refused")
async def wrong_labels(api: Api) -> Any:
    selectors = ["a b", "=", "is in", "is in (a", "a=b c", "is>x", "-a=b"]
    return [(await api.get("secrets", labelSelector=one)).show("items") for one in selectors]


@area.behaviour("Fields are selected by names and namespaces")
async def fields(api: Api) -> Any:
    await make_some(api, "a", "b")
    await make_some(api, "a", "b", what="plains")
    selectors = ["metadata.name=a", "metadata.name!=a", f"metadata.namespace={api.namespace}"]
    selectors += ["metadata.name=a,metadata.namespace=other", ""]
    return {
        one: [(await api.get(what, fieldSelector=one))[NAMES] for what in ("secrets", "plains")]
        for one in selectors
    }


@area.behaviour("Unknown field selectors are refused")
async def wrong_fields(api: Api) -> Any:
    return [
        (await api.get("secrets", fieldSelector="data.a=b")).show(),
        (await api.get("plains", fieldSelector="spec.a=b")).show(),
        (await api.get("secrets", fieldSelector="odd")).show(),
    ]


@area.behaviour("Fields of custom objects are selected if so defined")
async def selectable_fields(api: Api) -> Any:
    await api.make("stricts", {"spec": {"text": "a"}}, name="a")
    await api.make("stricts", {"spec": {"text": "b"}}, name="b")
    return (await api.get("stricts", fieldSelector="spec.text=b"))[NAMES]


@area.behaviour("Pods and secrets have their own fields to select by", bare=True)
async def builtin_fields(api: Api) -> Any:
    await api.make("pods", POD)
    await api.make("secrets", {"type": "some/type"})
    return [
        (await api.get("pods", fieldSelector="status.phase=Pending"))[NAMES],
        (await api.get("pods", fieldSelector="status.phase=Running"))[NAMES],
        (await api.get("pods", fieldSelector="spec.nodeName="))[NAMES],
        (await api.get("secrets", fieldSelector="type=some/type"))[NAMES],
    ]


def show_table(reply: Reply, *more: str) -> Any:
    columns = reply["columnDefinitions"]
    names = [[column["name"], column["type"], column["format"]] for column in columns]
    ages = [i for i, column in enumerate(columns) if column["name"] in ("Age", "Last Seen")]
    rows = [
        ["(age)" if i in ages else cell for i, cell in enumerate(row["cells"])]
        for row in reply["rows"]
    ]
    return [reply.show("kind", "apiVersion", *more), names, rows]


@area.behaviour("A table of custom objects has the defined columns")
async def table(api: Api) -> Any:
    await api.make("stricts", {"spec": {"text": "a", "number": 3}})
    await api.make("stricts", {"spec": {}}, name="y")
    reply = await api.request("GET", "stricts", headers=TABLE)
    fields = ("columnDefinitions.*.priority", "columnDefinitions.1.description")
    return show_table(reply, *fields, "rows.0.object.kind", "rows.0.object.apiVersion")


@area.behaviour("A table of custom objects with no defined columns has names and ages")
async def default_table(api: Api) -> Any:
    await api.make("plains")
    return show_table(await api.request("GET", "plains", headers=TABLE))


@area.behaviour("A table of config maps, secrets, and namespaces")
async def builtin_tables(api: Api) -> Any:
    await api.make("configmaps", {"data": {"a": "b"}})
    await api.make("secrets", {"data": {"a": "YQ=="}})
    whats = ["configmaps/x", "secrets", f"namespaces/{api.namespace}"]
    return [show_table(await api.request("GET", what, headers=TABLE)) for what in whats]


@area.behaviour("A table of one object has one row")
async def single_table(api: Api) -> Any:
    await api.make("plains")
    return show_table(await api.request("GET", "plains/x", headers=TABLE))


@area.behaviour("The rows of a table can have whole objects, or none")
async def table_objects(api: Api) -> Any:
    await api.make("plains", {"spec": {"a": 1}})
    shown = []
    for mode in ("Metadata", "Object", "None"):
        params = {"includeObject": mode}
        reply = await api.request("GET", "plains", headers=TABLE, params=params)
        row = reply["rows.0.object"]
        shown.append([mode, pick(row, "kind"), pick(row, "spec"), pick(row, "metadata.name")])
    return shown


@area.behaviour("A failure is a status also when a table is asked for")
async def absent_table(api: Api) -> Any:
    return (await api.request("GET", "plains/x", headers=TABLE)).show()


@area.behaviour("Only the metadata can be asked for, of lists and of single objects")
async def partial(api: Api) -> Any:
    await api.make("plains", {"spec": {"a": 1}})
    listed = await api.request("GET", "plains", headers=PARTIAL)
    single = await api.request("GET", "plains/x", headers=SINGLE)
    fields = ("kind", "apiVersion")
    return [
        listed.show(*fields, "items.*.kind", "items.*.metadata.name", "items.*.spec"),
        single.show(*fields, "metadata.name", "spec"),
    ]


@area.behaviour("A cluster-wide list has the objects of all namespaces")
async def cluster_wide(api: Api) -> Any:
    await api.make("secrets", name="x")
    selector = f"metadata.namespace={api.namespace},metadata.name=x"
    reply = await api.get("/api/v1/secrets", fieldSelector=selector)
    return reply.show("items.*.metadata.namespace", NAMES)


@area.behaviour("Unknown parameters of the URL are ignored")
async def unknown_parameters(api: Api) -> Any:
    return [
        (await api.get("secrets", odd="1")).code,
        (await api.create("secrets", meta(), odd="1")).code,
    ]
