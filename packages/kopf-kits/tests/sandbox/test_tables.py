import datetime

import pytest

from kopf_kits.sandbox.schemas.jsonpaths import compile_path
from kopf_kits.sandbox.tables.ages import show_age

from .conftest import make_crd

OBJECTS = "/apis/kopf.dev/v1/namespaces/default/kopfexamples"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


def cells(answer):
    names = [column["name"] for column in answer.json["columnDefinitions"]]
    return [dict(zip(names, row["cells"], strict=True)) for row in answer.json["rows"]]


async def test_simple_table(client, crd, make_object):
    await client.post(OBJECTS, make_object())
    answer = await client.get(OBJECTS, TABLE)
    assert answer.headers["Content-Type"].startswith("application/json")
    assert (answer.json["kind"], answer.json["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    [row] = cells(answer)
    assert list(row) == ["Name", "Age"]
    assert row["Name"] == "x"
    assert row["Age"].endswith("s")
    assert answer.json["rows"][0]["object"]["kind"] == "PartialObjectMetadata"


async def test_declared_columns(client, sandbox, make_object):
    await sandbox.apply(make_crd(additionalPrinterColumns=[
        {"name": "Text", "type": "string", "jsonPath": ".spec.text"},
        {"name": "Number", "type": "integer", "jsonPath": ".spec.number", "priority": 1},
        {"name": "Ready", "type": "string",
         "jsonPath": '.status.conditions[?(@.type=="Ready")].status'},
        {"name": "When", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]))  # fmt: skip
    conditions = [{"type": "Other", "status": "False"}, {"type": "Ready", "status": "True"}]
    body = make_object(spec={"text": "t", "number": 5}, status={"conditions": conditions})
    await client.post(OBJECTS, body)
    answer = await client.get(f"{OBJECTS}/x", TABLE)
    [row] = cells(answer)
    assert list(row) == ["Name", "Text", "Number", "Ready", "When"]
    assert (row["Text"], row["Number"], row["Ready"]) == ("t", 5, "True")
    assert answer.json["columnDefinitions"][2]["priority"] == 1
    await client.merge(f"{OBJECTS}/x", {"spec": {"text": None}})
    assert cells(await client.get(OBJECTS, TABLE))[0]["Text"] is None


async def test_watch(client, crd, make_object):
    await client.post(OBJECTS, make_object())
    answer = await client.get(f"{OBJECTS}?watch=1&timeoutSeconds=1", TABLE)
    [event] = answer.lines
    assert event["object"]["kind"] == "Table"
    assert event["object"]["rows"][0]["cells"][0] == "x"


async def test_whole_objects_on_demand(client, crd, make_object):
    await client.post(OBJECTS, make_object(spec={"a": 1}))
    answer = await client.get(f"{OBJECTS}?includeObject=Object", TABLE)
    assert answer.json["rows"][0]["object"]["spec"] == {"a": 1}
    answer = await client.get(f"{OBJECTS}?includeObject=None", TABLE)
    assert "object" not in answer.json["rows"][0]


@pytest.mark.parametrize(
    "path",
    ["api/v1/namespaces", "api/v1/pods", "api/v1/events", "apis/apps/v1/deployments",
     "apis/batch/v1/jobs", "apis/apiextensions.k8s.io/v1/customresourcedefinitions"],
)  # fmt: skip
async def test_built_in_kinds(client, path):
    answer = await client.get(f"/{path}", TABLE)
    assert answer.json["columnDefinitions"]
    assert len(answer.json["rows"]) == (4 if path.endswith("namespaces") else 0)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-5, "0s"), (0, "0s"), (119, "119s"), (120, "2m"), (200, "3m20s"), (3600, "60m"),
     (3 * 3600 + 60, "3h1m"), (10 * 3600, "10h"), (47 * 3600, "47h"), (50 * 3600, "2d2h"),
     (10 * 86400, "10d")],
)  # fmt: skip
def test_ages(seconds, text):
    then = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    moment = then + datetime.timedelta(seconds=seconds)
    assert show_age("2020-01-01T00:00:00Z", moment) == text


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".a.b", [1]),
        ("{.a.b}", [1]),
        (".list[0].n", ["x"]),
        (".list[-1].n", ["y"]),
        (".list[*].n", ["x", "y"]),
        (".list[?(@.n=='y')].v", [2]),
        (".list[?(@.n!='y')].v", [1]),
        (r".labels.my\.key", ["v"]),
        (".labels['my.key']", ["v"]),
        (".absent.deeper", []),
        (".list[5]", []),
    ],
)
def test_json_paths(path, found):
    value = {
        "a": {"b": 1},
        "list": [{"n": "x", "v": 1}, {"n": "y", "v": 2}],
        "labels": {"my.key": "v"},
    }
    assert compile_path(path)(value) == found
