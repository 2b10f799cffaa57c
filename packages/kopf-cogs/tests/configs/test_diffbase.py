import copy
import json

import pytest

from kopf_cogs.configs.diffbase import (
    AnnotationsDiffBaseStorage,
    DiffBaseStorage,
    HashingDiffBaseStorage,
    MultiDiffBaseStorage,
    StatusDiffBaseStorage,
)
from kopf_cogs.structs.bodies import Body
from kopf_cogs.structs.patches import Patch

KOPF = "kopf.zalando.org"
MINE = "my-op.com"
KEY = "last-handled-configuration"
OWNERS = {"ownerReferences": [{"kind": "Deployment"}]}

RAW = {
    "apiVersion": "kopf.dev/v1",
    "kind": "KopfExample",
    "metadata": {
        "name": "n",
        "namespace": "ns",
        "uid": "u",
        "labels": {"a": "b"},
        "annotations": {
            "x": "y",
            "kubectl.kubernetes.io/last-applied-configuration": "{}",
            f"{KOPF}/fn": "{}",
            f"{KOPF}/{KEY}": "{}",
            f"{KOPF}/touch-dummy": "1",
            f"sub.{KOPF}/q": "1",
            "kopf.dev/z": "1",
        },
        "resourceVersion": "1",
        "generation": 1,
        "managedFields": [],
        "finalizers": ["f"],
        "creationTimestamp": "2020-01-01T00:00:00Z",
        "selfLink": "/x",
    },
    "spec": {"field": "v1", "nested": {"a": None, "l": [1, {"z": {}}]}, "empty": {}},
    "status": {"x": 1, "kopf": {"progress": {}}},
    "data": {"k": "v"},
    "list": [1],
    "null": None,
    "empty": {},
}
STANZAS = {
    "spec": {"field": "v1", "nested": {"a": None, "l": [1, {"z": {}}]}, "empty": {}},
    "data": {"k": "v"},
    "list": [1],
    "null": None,
    "empty": {},
}
META = {"labels": {"a": "b"}, "annotations": {"x": "y", "kopf.dev/z": "1"}}


def build(raw, *, storage=None, extra_fields=None):
    """Build the essence and ensure that the body is not changed."""
    original = copy.deepcopy(raw)
    essence = (storage or AnnotationsDiffBaseStorage()).build(
        body=Body(raw), extra_fields=extra_fields
    )
    assert raw == original
    return essence


# All facts about the essence are recorded from Kopf 1.45, except where it failed with errors.
@pytest.mark.parametrize("storage", [AnnotationsDiffBaseStorage(), StatusDiffBaseStorage()])
def test_only_the_essential_fields_are_taken(storage):
    essence = build(RAW, storage=storage)
    assert essence == {**STANZAS, "metadata": META}
    assert list(essence) == ["spec", "data", "list", "null", "empty", "metadata"]
    assert list(essence["metadata"]) == ["labels", "annotations"]


@pytest.mark.parametrize(
    ("raw", "essence"),
    [
        ({}, {}),
        ({"metadata": {}}, {}),
        ({"metadata": {"name": "n"}, "spec": {}}, {"spec": {}}),
        ({"spec": None, "status": "text"}, {"spec": None}),
        ({"metadata": {"labels": {}, "annotations": {}}, "spec": {"a": 1}}, {"spec": {"a": 1}}),
        ({"metadata": {"annotations": {f"{KOPF}/fn": "1"}}}, {}),
        # Errors in the predecessor:
        ({"metadata": None, "spec": {}}, {"spec": {}}),
        ({"metadata": "text", "spec": {}}, {"spec": {}}),
        ({"metadata": {"labels": None, "annotations": None}, "spec": {}}, {"spec": {}}),
    ],
)
def test_a10_essence_of_unusual_objects(raw, essence):
    assert build(raw) == essence


@pytest.mark.parametrize(
    ("keys", "remaining"),
    [
        (["x", "x.com/y"], ["x", "x.com/y"]),
        ([f"{KOPF}/a", f"x.{KOPF}/a", f"x.y.{KOPF}/a"], []),
        ([f"x{KOPF}/a", f"{KOPF}x/a", KOPF, "zalando.org/a"], ...),
        (["kopf.dev/a", "x.kopf.dev/a"], ...),
        (["kubectl.kubernetes.io/last-applied-configuration"], []),
        (["kubectl.kubernetes.io/restartedAt", "deployment.kubernetes.io/revision"], ...),
        (
            ["q.com/kopf-managed", "q.com/fn", "x.q.com/fn", "qq.com/fn"],
            ["x.q.com/fn", "qq.com/fn"],
        ),
        (["q.com/kopf-managedx", "q.com/fn", "kopf-managed", "x/y/kopf-managed", "x/z"], ...),
        (["kopf.dev/kopf-managed", "kopf.dev/a", "x.kopf.dev/b"], ["x.kopf.dev/b"]),
        ([f"{MINE}/{KEY}", f"{MINE}/fn"], ...),
    ],
)
def test_annotations_of_all_operators_are_excluded(keys, remaining):
    essence = build({"metadata": {"annotations": dict.fromkeys(keys, "1")}})
    annotations = essence.get("metadata", {}).get("annotations", {})
    assert list(annotations) == (keys if remaining is ... else remaining)


@pytest.mark.parametrize("value", ["yes", "no", ""])
def test_markers_work_with_any_values(value):
    annotations = {"q.com/kopf-managed": value, "q.com/fn": "1"}
    assert build({"metadata": {"annotations": annotations}}) == {}


def test_own_annotation_is_excluded_even_if_not_marked():
    storage = AnnotationsDiffBaseStorage(prefix=MINE, key="key")
    raw = {"metadata": {"annotations": {f"{MINE}/key": "1", f"{MINE}/other": "2"}}}
    assert build(raw, storage=storage) == {"metadata": {"annotations": {f"{MINE}/other": "2"}}}


@pytest.mark.parametrize(
    ("fields", "extra"),
    [
        (["status.x"], {"status": {"x": 1}}),
        (["status"], {"status": {"x": 1, "kopf": {"progress": {}}}}),
        ([("status", "kopf")], {"status": {"kopf": {"progress": {}}}}),
        (["apiVersion"], {"apiVersion": "kopf.dev/v1"}),
        (["metadata.name", "metadata.uid"], {"metadata": {**META, "name": "n", "uid": "u"}}),
        (["metadata.finalizers"], {"metadata": {**META, "finalizers": ["f"]}}),
        (
            [["metadata", "annotations", f"{KOPF}/fn"]],
            {"metadata": {**META, "annotations": {**META["annotations"], f"{KOPF}/fn": "{}"}}},
        ),
        ([["metadata", "annotations", f"{KOPF}/{KEY}"]], {}),
        (["spec.field", "spec.nested", "spec"], {}),
        (["absent", "absent.x.y", "status.absent", None], {}),
        (["status.x.y"], {}),  # an error in the predecessor
    ],
)
def test_extra_fields(fields, extra):
    essence = build(RAW, extra_fields=fields)
    assert essence == {**STANZAS, "metadata": META, **extra}
    assert json.dumps(essence) == json.dumps({**STANZAS, "metadata": META, **extra})


def test_a9_depth_bombs_are_ordinary_errors():
    bomb = {}
    for _ in range(300_000):  # from 3.14 on, the depth is limited by the real stack
        bomb = {"x": bomb}
    body, patch = Body({"spec": bomb}), Patch()
    storage = AnnotationsDiffBaseStorage()
    with pytest.raises(RecursionError):
        storage.build(body=body)
    with pytest.raises(RecursionError):
        storage.store(body=body, patch=patch, essence={"spec": bomb})
    assert patch == {}


def test_essence_shares_nothing_with_the_body():
    raw = {
        "metadata": {"labels": {"l": "1"}, "annotations": {"a": "1"}, "finalizers": ["f"]},
        "spec": {"x": [{"y": 1}]},
        "status": {"x": {"y": 1}},
    }
    essence = build(raw, extra_fields=["status.x", "metadata.finalizers"])
    expected = copy.deepcopy(essence)
    raw["metadata"]["labels"]["l"] = "2"
    raw["metadata"]["annotations"]["a"] = "2"
    raw["metadata"]["finalizers"].append("g")
    raw["spec"]["x"][0]["y"] = 2
    raw["status"]["x"]["y"] = 2
    assert essence == expected


@pytest.mark.parametrize(
    ("fields", "raw", "essence"),
    [
        (["spec.a"], {"spec": {"a": 1, "b": 2}}, {"spec": {"b": 2}}),
        (["spec.a"], {"spec": {"a": 1}}, {}),
        (["spec.a"], {"spec": {}}, {}),
        (["spec.a.b"], {"spec": {"a": {"b": 1, "c": 2}}}, {"spec": {"a": {"c": 2}}}),
        (["spec.a.b"], {"spec": {"a": 1}}, {"spec": {"a": 1}}),
        (["spec"], {"spec": None}, {}),
        (["spec.a"], {"spec": None}, {"spec": None}),
        (["data", "metadata"], {"data": 1, "metadata": {"labels": {"a": "b"}}}, {}),
        (["metadata.labels"], {"metadata": {"labels": {"a": "b"}}}, {}),
        (
            [["metadata", "annotations", "x.y/z"]],
            {"metadata": {"annotations": {"x.y/z": "1", "q": "2"}}},
            {"metadata": {"annotations": {"q": "2"}}},
        ),
    ],
)
@pytest.mark.parametrize("cls", [AnnotationsDiffBaseStorage, StatusDiffBaseStorage])
def test_ignored_fields(cls, fields, raw, essence):
    assert build(raw, storage=cls(ignored_fields=fields)) == essence


def test_ignored_fields_win_over_extra_fields():
    storage = AnnotationsDiffBaseStorage(ignored_fields=["status.x"])
    raw = {"status": {"x": 1, "y": 2}}
    assert build(raw, storage=storage, extra_fields=["status"]) == {"status": {"y": 2}}


@pytest.mark.parametrize(
    ("essence", "encoded"),
    [
        ({}, "{}"),
        ({"spec": {"field": "v1"}}, '{"spec":{"field":"v1"}}'),
        (
            {"spec": {"f": 'é\u2028"'}, "a": None, "l": [1, 2.5, True]},
            '{"spec":{"f":"\\u00e9\\u2028\\""},"a":null,"l":[1,2.5,true]}',
        ),
    ],
)
def test_storing_and_restoring(essence, encoded):
    storage, patch = AnnotationsDiffBaseStorage(), Patch()
    storage.store(body=Body({}), patch=patch, essence=essence)
    assert patch == {"metadata": {"annotations": {f"{KOPF}/{KEY}": f"{encoded}\n"}}}
    assert storage.fetch(body=Body(dict(patch))) == essence

    storage, patch = StatusDiffBaseStorage(), Patch()
    storage.store(body=Body({}), patch=patch, essence=essence)
    assert patch == {"status": {"kopf": {KEY: encoded}}}
    assert storage.fetch(body=Body(dict(patch))) == essence


def test_storing_with_custom_prefixes_and_keys():
    storage, patch = AnnotationsDiffBaseStorage(prefix=MINE, key="a/b"), Patch()
    storage.store(body=Body({}), patch=patch, essence={})
    assert patch["metadata"]["annotations"] == {
        f"{MINE}/a.b": "{}\n",
        f"{MINE}/kopf-managed": "yes",
    }


def test_storing_for_replicasets():
    body, patch = Body({"kind": "ReplicaSet", "metadata": OWNERS}), Patch()
    storage = AnnotationsDiffBaseStorage(prefix=MINE)
    storage.store(body=body, patch=patch, essence={"spec": 1})
    annotations = patch["metadata"]["annotations"]
    assert list(annotations) == [f"{MINE}/{KEY}-ofDRS", f"{MINE}/kopf-managed"]

    del annotations[f"{MINE}/kopf-managed"]
    body = Body({"kind": "ReplicaSet", "metadata": {**OWNERS, "annotations": annotations}})
    assert storage.fetch(body=body) == {"spec": 1}
    assert storage.build(body=body) == {}
    assert MultiDiffBaseStorage([storage]).build(body=body) == {}
    body = Body({"kind": "ReplicaSet", "metadata": {"annotations": annotations}})
    assert storage.fetch(body=body) is None


@pytest.mark.parametrize(
    ("kwargs", "field"),
    [
        ({}, ("status", "kopf", KEY)),
        ({"name": "abc"}, ("status", "abc", KEY)),
        ({"field": "spec.x"}, ("spec", "x")),
        ({"field": "status.{name}.{name}", "name": "q"}, ("status", "q", "q")),
        ({"field": ["status", "{name}"]}, ("status", "{name}")),
    ],
)
def test_fields_in_status(kwargs, field):
    storage = StatusDiffBaseStorage(**kwargs)
    assert storage.field == field
    with pytest.raises(ValueError, match="must have a field"):
        storage.field = None


@pytest.mark.parametrize(
    ("field", "raw", "essence"),
    [
        ("spec.diff", {"spec": {"diff": "x", "b": 1}}, {"spec": {"b": 1}}),
        ("spec.diff", {"spec": {"diff": "x"}}, {}),
        (
            "status.diff",
            {"spec": {}, "status": {"diff": "x", "y": 1}},
            {"spec": {}, "status": {"y": 1}},
        ),
    ],
)
def test_own_field_in_status_is_excluded(field, raw, essence):
    storage = StatusDiffBaseStorage(field=field)
    assert build(raw, storage=storage, extra_fields=["status"]) == essence


@pytest.mark.parametrize(
    "raw",
    [
        {},
        {"metadata": None, "status": None},
        {"metadata": {"annotations": None}, "status": "text"},
        {"metadata": {"annotations": {"x": "y"}}, "status": {"kopf": None}},
        {"metadata": {"annotations": {f"{KOPF}/{KEY}": None}}, "status": {"kopf": {KEY: None}}},
        {"metadata": {"annotations": {f"{KOPF}/{KEY}": "null"}}, "status": {"kopf": {KEY: "null"}}},
    ],
)
def test_a10_restoring_of_what_is_not_stored(raw, caplog):
    body = Body(raw)
    storages = [AnnotationsDiffBaseStorage(), StatusDiffBaseStorage(), MultiDiffBaseStorage([])]
    for storage in storages:
        assert storage.fetch(body=body) is None
    assert not caplog.records


@pytest.mark.parametrize("value", ["", "{", '{"spec":', "[]", "1", "[" * 100_000, 5, {"spec": {}}])
def test_c14_corrupted_states_are_ignored_with_one_warning(value, caplog):
    metadata = {"name": "n", "namespace": "ns", "annotations": {f"{KOPF}/{KEY}": value}}
    body = Body({"kind": "Kex", "metadata": metadata, "status": {"kopf": {KEY: value}}})
    assert AnnotationsDiffBaseStorage().fetch(body=body) is None
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert f"annotation '{KOPF}/{KEY}' of Kex ns/n" in caplog.records[0].getMessage()
    caplog.clear()
    assert StatusDiffBaseStorage().fetch(body=body) is None
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert f"field 'status.kopf.{KEY}' of Kex ns/n" in caplog.records[0].getMessage()


def test_multi_storage_writes_to_all_and_reads_from_the_first():
    storage = MultiDiffBaseStorage([StatusDiffBaseStorage(), AnnotationsDiffBaseStorage()])
    patch = Patch()
    storage.store(body=Body({}), patch=patch, essence={"spec": {"a": 1}})
    assert patch == {
        "status": {"kopf": {KEY: '{"spec":{"a":1}}'}},
        "metadata": {"annotations": {f"{KOPF}/{KEY}": '{"spec":{"a":1}}\n'}},
    }
    status = {"status": {"kopf": {KEY: '{"spec":{"a":2}}'}}}
    assert storage.fetch(body=Body({**patch, **status})) == {"spec": {"a": 2}}
    assert storage.fetch(body=Body({"metadata": patch["metadata"]})) == {"spec": {"a": 1}}
    assert storage.fetch(body=Body({})) is None


def test_multi_storage_excludes_everything_excluded_by_any_storage():
    storage = MultiDiffBaseStorage(
        [
            AnnotationsDiffBaseStorage(prefix=MINE, ignored_fields=["spec.a"]),
            StatusDiffBaseStorage(field="spec.diff"),
            AnnotationsDiffBaseStorage(ignored_fields=["spec.b"]),
        ]
    )
    raw = {
        "kind": "Kex",
        "metadata": {"name": "n", "labels": {"z": "1"}, "annotations": {f"{MINE}/{KEY}": "{}"}},
        "spec": {"a": 1, "b": 2, "c": 3, "diff": "{}"},
        "status": {"x": 1, "y": 2},
    }
    assert build(raw, storage=storage, extra_fields=["status.x", "metadata.name"]) == {
        "metadata": {"name": "n", "labels": {"z": "1"}},
        "spec": {"c": 3},
        "status": {"x": 1},
    }


def test_e6_hashing_storage_keeps_no_values():
    storage, patch = HashingDiffBaseStorage(), Patch()
    body = Body({"metadata": {"uid": "u1"}, "data": {"k": "SECRET"}, "type": "Opaque"})
    essence = storage.build(body=body)
    assert essence["type"] == "Opaque"
    assert essence["data"].keys() == {"k"}
    assert essence["data"]["k"].startswith("blake2b:")
    assert body["data"] == {"k": "SECRET"}

    storage.store(body=body, patch=patch, essence=essence)
    assert "SECRET" not in repr(patch)
    assert storage.fetch(body=Body(dict(patch))) == essence


def test_e6_hashing_storage_detects_changes():
    storage = HashingDiffBaseStorage(hashed_fields=["spec.password"])

    def hashed(uid, password):
        raw = {"metadata": {"uid": uid}, "spec": {"password": password, "x": 1}}
        return build(raw, storage=storage)["spec"]

    assert hashed("u1", "a") == hashed("u1", "a")
    assert hashed("u1", "a") != hashed("u1", "b")
    assert hashed("u1", "a") != hashed("u2", "a")
    assert hashed("u1", None) == {"password": None, "x": 1}
    assert MultiDiffBaseStorage([storage]).build(
        body=Body({"metadata": {"uid": "u1"}, "spec": {"password": "a", "x": 1}})
    ) == {"spec": hashed("u1", "a")}


def test_custom_storages():
    class MemoryStorage(DiffBaseStorage):
        essence = None

        def fetch(self, *, body):
            return self.essence

        def store(self, *, body, patch, essence):
            self.essence = essence

    storage = MemoryStorage(ignored_fields=["spec.x"])
    essence = build({"spec": {"x": 1, "y": 2}}, storage=storage)
    storage.store(body=Body({}), patch=Patch(), essence=essence)
    assert storage.fetch(body=Body({})) == {"spec": {"y": 2}}


def test_incomplete_storages_cannot_be_used():
    with pytest.raises(TypeError, match="abstract"):
        DiffBaseStorage()


@pytest.mark.parametrize(
    "storage",
    [
        AnnotationsDiffBaseStorage(prefix="example.com"),
        StatusDiffBaseStorage(),
        MultiDiffBaseStorage([StatusDiffBaseStorage(), AnnotationsDiffBaseStorage()]),
    ],
    ids=lambda storage: type(storage).__name__,
)
def test_everything_is_erased(storage):
    raw = {"metadata": {"annotations": {"x": "y"}}, "status": {"mine": 1}}
    before = copy.deepcopy(raw)
    patch = Patch()
    storage.store(body=Body(raw), patch=patch, essence={"spec": {}})
    storage.store_seen(body=Body(raw), patch=patch, seen="{}")
    patch.apply_fields(raw)
    assert raw != before
    patch = Patch()
    storage.erase(body=Body(raw), patch=patch)
    patch.apply_fields(raw)
    assert raw == before
