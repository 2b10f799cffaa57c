import json
import logging

import pytest

from kopf_cogs.configs.progress import (
    AnnotationsProgressStorage,
    MultiProgressStorage,
    ProgressRecord,
    ProgressStorage,
    SmartProgressStorage,
    StatusProgressStorage,
    is_unused,
)
from kopf_cogs.structs.bodies import Body
from kopf_cogs.structs.patches import Patch

KOPF = "kopf.zalando.org"
MINE = "my-op.example.com"
TIME = "2020-01-01T00:00:00.000000+00:00"

RECORD = ProgressRecord(
    started=TIME,
    stopped=None,
    delayed=None,
    purpose="create",
    retries=0,
    success=False,
    failure=False,
    message=None,
    subrefs=None,
)
FULL_RECORD = ProgressRecord(
    started=TIME,
    stopped=TIME,
    delayed=TIME,
    purpose="update",
    retries=3,
    success=False,
    failure=True,
    message='é " \n',
    subrefs=["a/b", "c"],
)
DRS = Body(
    {"kind": "ReplicaSet", "metadata": {"ownerReferences": [{"kind": "Deployment"}]}},
)


def annotated(**annotations):
    return Body({"metadata": {"annotations": annotations}})


def body_with(key, value, prefix=KOPF):
    return Body(
        {"kind": "Kex", "metadata": {"name": "n", "annotations": {f"{prefix}/{key}": value}}}
    )


# The bytes are recorded from Kopf 1.45.
@pytest.mark.parametrize(
    ("kwargs", "record", "encoded"),
    [
        (
            {},
            RECORD,
            '{"started":"2020-01-01T00:00:00.000000+00:00","purpose":"create","retries":0,'
            '"success":false,"failure":false}',
        ),
        (
            {"verbose": True},
            RECORD,
            '{"started":"2020-01-01T00:00:00.000000+00:00","stopped":null,"delayed":null,'
            '"purpose":"create","retries":0,"success":false,"failure":false,"message":null,'
            '"subrefs":null}',
        ),
        (
            {},
            FULL_RECORD,
            '{"started":"2020-01-01T00:00:00.000000+00:00",'
            '"stopped":"2020-01-01T00:00:00.000000+00:00",'
            '"delayed":"2020-01-01T00:00:00.000000+00:00","purpose":"update","retries":3,'
            '"success":false,"failure":true,"message":"\\u00e9 \\" \\n","subrefs":["a/b","c"]}',
        ),
        ({}, {"success": True, "started": "x"}, '{"success":true,"started":"x"}'),
        ({}, {"message": "", "subrefs": []}, '{"message":"","subrefs":[]}'),
        ({}, {}, "{}"),
        ({"verbose": True}, {}, "{}"),
    ],
)
def test_storing_in_annotations(kwargs, record, encoded):
    storage, patch = AnnotationsProgressStorage(**kwargs), Patch()
    storage.store(key="fn", record=record, body=Body({}), patch=patch)
    assert patch == {"metadata": {"annotations": {f"{KOPF}/fn": encoded}}}
    assert not patch.fns


def test_storing_under_both_schemes_of_names():
    storage, patch = AnnotationsProgressStorage(), Patch()
    storage.store(key="f" * 64, record=RECORD, body=Body({}), patch=patch)
    annotations = patch["metadata"]["annotations"]
    assert list(annotations) == [f"{KOPF}/{'f' * 56}-PUfAvQ", f"{KOPF}/{'f' * 39}-PUfAvQ"]
    assert len(set(annotations.values())) == 1


def test_storing_for_replicasets():
    storage, patch = AnnotationsProgressStorage(), Patch()
    storage.store(key="fn", record=RECORD, body=DRS, patch=patch)
    assert list(patch["metadata"]["annotations"]) == [f"{KOPF}/fn-ofDRS"]


@pytest.mark.parametrize("prefix", [MINE, "x.kopf.dev", f"abc.{KOPF}", "zalando.org"])
def test_custom_prefixes_are_marked(prefix):
    storage, patch = AnnotationsProgressStorage(prefix=prefix), Patch()
    storage.store(key="fn", record={}, body=Body({}), patch=patch)
    assert patch["metadata"]["annotations"] == {
        f"{prefix}/fn": "{}",
        f"{prefix}/kopf-managed": "yes",
    }


@pytest.mark.parametrize("prefix", [KOPF, "kopf.dev"])
def test_well_known_prefixes_are_not_marked(prefix):
    storage, patch = AnnotationsProgressStorage(prefix=prefix), Patch()
    storage.store(key="fn", record={}, body=Body({}), patch=patch)
    assert patch["metadata"]["annotations"] == {f"{prefix}/fn": "{}"}


def test_prefixes_are_marked_only_once():
    storage, patch = AnnotationsProgressStorage(prefix=MINE), Patch()
    body = body_with("kopf-managed", "yes", prefix=MINE)
    storage.store(key="fn", record={}, body=body, patch=patch)
    assert patch["metadata"]["annotations"] == {f"{MINE}/fn": "{}"}


@pytest.mark.parametrize(
    ("record", "restored"),
    [
        (RECORD, {key: val for key, val in RECORD.items() if val is not None}),
        (FULL_RECORD, FULL_RECORD),
    ],
)
def test_restoring_from_annotations(record, restored):
    storage, patch = AnnotationsProgressStorage(), Patch()
    storage.store(key="a/b", record=record, body=Body({}), patch=patch)
    body = Body(dict(patch))
    assert storage.fetch(key="a/b", body=body) == restored
    assert storage.fetch(key="a/c", body=body) is None


@pytest.mark.parametrize(
    "raw", [{}, {"metadata": None}, {"metadata": {"annotations": None}}, {"metadata": "text"}]
)
def test_a10_restoring_with_no_annotations(raw):
    assert AnnotationsProgressStorage().fetch(key="fn", body=Body(raw)) is None


def test_restoring_by_both_schemes_of_names_with_v2_preferred():
    storage = AnnotationsProgressStorage()
    v2, v1 = storage.make_keys("f" * 64)
    assert storage.fetch(key="f" * 64, body=annotated(**{v1: '{"retries":1}'})) == {"retries": 1}
    assert storage.fetch(key="f" * 64, body=annotated(**{v2: '{"retries":2}'})) == {"retries": 2}
    both = annotated(**{v1: '{"retries":1}', v2: '{"retries":2}'})
    assert storage.fetch(key="f" * 64, body=both) == {"retries": 2}
    storage = AnnotationsProgressStorage(v1=False)
    assert storage.fetch(key="f" * 64, body=annotated(**{v1: '{"retries":1}'})) is None


@pytest.mark.parametrize(
    "value",
    ["", "{", "[]", "1", '"s"', "[" * 100_000, '{"a":' * 100_000, '{"retries":-1}', None, 5, {}],
)
def test_c14_unusable_annotations_are_ignored_with_one_warning(value, caplog):
    storage = AnnotationsProgressStorage()
    assert storage.fetch(key="fn", body=body_with("fn", value)) is None
    assert len(caplog.records) == (0 if value is None else 1)
    for record in caplog.records:
        assert record.levelno == logging.WARNING
        assert f"corrupted annotation '{KOPF}/fn' of Kex n" in record.getMessage()
        assert len(record.getMessage()) < 200


@pytest.mark.parametrize("encoded", ["{", '{"a":' * 100_000, "[]"])
def test_c14_unusable_annotations_are_ignored_with_the_slower_parser(encoded, caplog, monkeypatch):
    monkeypatch.setattr("kopf_cogs.configs.healing._loads", json.loads)
    storage = AnnotationsProgressStorage()
    assert storage.fetch(key="fn", body=body_with("fn", encoded)) is None
    assert [record.levelname for record in caplog.records] == ["WARNING"]


@pytest.mark.parametrize(
    ("encoded", "record", "fields"),
    [
        ('{"retries":-1,"purpose":"create"}', {"purpose": "create"}, "retries"),
        ('{"retries":"x","purpose":"create"}', {"purpose": "create"}, "retries"),
        ('{"retries":true,"purpose":"create"}', {"purpose": "create"}, "retries"),
        ('{"started":5,"stopped":"garbage","retries":1}', {"retries": 1}, "started, stopped"),
        ('{"success":"yes","failure":1,"retries":1}', {"retries": 1}, "failure, success"),
        ('{"message":1,"purpose":[],"subrefs":{},"retries":1}', {"retries": 1}, "message, purpose"),
        ('{"subrefs":["a",1],"retries":1}', {"retries": 1}, "subrefs"),
    ],
)
def test_c14_wrong_values_are_dropped_with_one_warning(encoded, record, fields, caplog):
    storage = AnnotationsProgressStorage()
    assert storage.fetch(key="fn", body=body_with("fn", encoded)) == record
    assert len(caplog.records) == 1
    assert f"wrong values of: {fields}" in caplog.records[0].getMessage()


@pytest.mark.parametrize(
    ("encoded", "record"),
    [
        ("null", None),
        ("{}", {}),
        ('{"retries":null}', {"retries": None}),
        ('{"unknown":[1]}', {"unknown": [1]}),
        ('{"started":"2020-01-01T00:00:00"}', {"started": "2020-01-01T00:00:00"}),
        ('{"started":"2020-01-01T00:00:00Z"}', {"started": "2020-01-01T00:00:00Z"}),
        ('{"started":"2999-01-01T00:00:00+02:00"}', {"started": "2999-01-01T00:00:00+02:00"}),
    ],
)
def test_c14_unusual_values_are_accepted_silently(encoded, record, caplog):
    storage = AnnotationsProgressStorage()
    assert storage.fetch(key="fn", body=body_with("fn", encoded)) == record
    assert not caplog.records


def test_purging_of_annotations():
    storage, body = AnnotationsProgressStorage(), body_with("fn", "{}")
    patch = Patch()
    storage.purge(key="fn", body=body, patch=patch)
    assert patch == {"metadata": {"annotations": {f"{KOPF}/fn": None}}}
    patch = Patch()
    storage.purge(key="other", body=body, patch=patch)
    assert patch == {}


def test_purging_of_annotations_not_yet_patched():
    storage, body, patch = AnnotationsProgressStorage(), body_with("fn1", "{}"), Patch()
    storage.store(key="fn1", record=RECORD, body=body, patch=patch)
    storage.store(key="fn2", record=RECORD, body=body, patch=patch)
    storage.purge(key="fn1", body=body, patch=patch)
    assert patch["metadata"]["annotations"].keys() == {f"{KOPF}/fn1", f"{KOPF}/fn2"}
    assert patch["metadata"]["annotations"][f"{KOPF}/fn1"] is None
    storage.purge(key="fn2", body=body, patch=patch)
    assert patch == {"metadata": {"annotations": {f"{KOPF}/fn1": None}}}


def test_purging_leaves_nothing_in_the_patch():
    storage, body, patch = AnnotationsProgressStorage(), Body({}), Patch()
    storage.store(key="fn", record=RECORD, body=body, patch=patch)
    storage.purge(key="fn", body=body, patch=patch)
    assert patch == {}


def test_touching_of_annotations():
    storage, patch = AnnotationsProgressStorage(), Patch()
    storage.touch(body=Body({}), patch=patch, value="v")
    assert patch == {"metadata": {"annotations": {f"{KOPF}/touch-dummy": "v"}}}


def test_touching_with_custom_keys_and_prefixes():
    storage, patch = AnnotationsProgressStorage(prefix=MINE, touch_key="tick"), Patch()
    storage.touch(body=DRS, patch=patch, value="v")
    assert patch["metadata"]["annotations"] == {
        f"{MINE}/tick-ofDRS": "v",
        f"{MINE}/kopf-managed": "yes",
    }


@pytest.mark.parametrize(
    ("body", "value", "annotations"),
    [
        (Body({}), None, {}),
        (body_with("touch-dummy", "v"), "v", {}),
        (body_with("touch-dummy", "v"), None, {f"{KOPF}/touch-dummy": None}),
        (body_with("touch-dummy", "v"), "w", {f"{KOPF}/touch-dummy": "w"}),
    ],
)
def test_touching_only_when_needed(body, value, annotations):
    patch = Patch()
    AnnotationsProgressStorage().touch(body=body, patch=patch, value=value)
    assert patch.get("metadata", {}).get("annotations", {}) == annotations


@pytest.mark.parametrize(
    ("essence", "result"),
    [
        (
            {
                "metadata": {
                    "annotations": {f"{MINE}/x": "1", f"x.{MINE}/y": "2", f"{MINE}x/z": "3"}
                },
                "spec": {},
            },
            {"metadata": {"annotations": {f"x.{MINE}/y": "2", f"{MINE}x/z": "3"}}, "spec": {}},
        ),
        ({"metadata": {"annotations": {f"{MINE}/x": "1"}}}, {}),
        (
            {"metadata": {"annotations": {f"{MINE}/x": "1"}, "labels": {"l": "1"}}},
            {"metadata": {"labels": {"l": "1"}}},
        ),
        ({"spec": {}}, {"spec": {}}),
    ],
)
def test_clearing_of_annotations(essence, result):
    assert AnnotationsProgressStorage(prefix=MINE).clear(essence=essence) == result


@pytest.mark.parametrize(
    ("kwargs", "field", "touch_field"),
    [
        ({}, ("status", "kopf", "progress"), ("status", "kopf", "dummy")),
        ({"name": "abc"}, ("status", "abc", "progress"), ("status", "abc", "dummy")),
        ({"field": "spec.x"}, ("spec", "x"), ("status", "kopf", "dummy")),
        ({"field": ["status", "{name}"]}, ("status", "{name}"), ("status", "kopf", "dummy")),
        (
            {"touch_field": "status.{name}", "name": "x"},
            ("status", "x", "progress"),
            ("status", "x"),
        ),
    ],
)
def test_fields_in_status(kwargs, field, touch_field):
    storage = StatusProgressStorage(**kwargs)
    assert storage.field == field
    assert storage.touch_field == touch_field


def test_fields_in_status_are_changeable_but_required():
    storage = StatusProgressStorage()
    storage.field = "status.x"
    storage.touch_field = "status.y"
    assert storage.field == ("status", "x")
    assert storage.touch_field == ("status", "y")
    with pytest.raises(ValueError, match="must have a field"):
        StatusProgressStorage(field=None)


def test_storing_in_status():
    storage, patch = StatusProgressStorage(), Patch()
    storage.store(key="a/b", record=RECORD, body=Body({}), patch=patch)
    assert patch == {"status": {"kopf": {"progress": {"a/b": RECORD}}}}
    assert list(patch["status"]["kopf"]["progress"]["a/b"]) == list(RECORD)


def test_restoring_and_purging_in_status():
    storage = StatusProgressStorage()
    body = Body({"status": {"kopf": {"progress": {"fn": dict(RECORD), "null": None}}}})
    assert storage.fetch(key="fn", body=body) == RECORD
    assert storage.fetch(key="null", body=body) is None
    assert storage.fetch(key="absent", body=body) is None
    patch = Patch({"status": {"kopf": {"progress": {"fn": {"retries": 1}, "absent": {}}}}})
    storage.purge(key="fn", body=body, patch=patch)
    storage.purge(key="null", body=body, patch=patch)
    storage.purge(key="absent", body=body, patch=patch)
    assert patch == {"status": {"kopf": {"progress": {"fn": None, "null": None}}}}


@pytest.mark.parametrize(
    "status", [None, "text", {"kopf": None}, {"kopf": "text"}, {"kopf": {"progress": None}}]
)
def test_a10_restoring_from_unusual_status(status, caplog):
    storage, patch = StatusProgressStorage(), Patch()
    assert storage.fetch(key="fn", body=Body({"status": status})) is None
    storage.purge(key="fn", body=Body({"status": status}), patch=patch)
    assert patch == {}
    assert not caplog.records


def test_c14_corrupted_status_is_ignored_with_a_warning(caplog):
    body = Body({"status": {"kopf": {"progress": {"fn": "text"}}}})
    assert StatusProgressStorage().fetch(key="fn", body=body) is None
    assert len(caplog.records) == 1
    assert "corrupted field 'status.kopf.progress'" in caplog.records[0].getMessage()


@pytest.mark.parametrize(
    ("raw", "value", "result"),
    [
        ({}, "v", {"status": {"kopf": {"dummy": "v"}}}),
        ({}, None, {}),
        ({"status": {"kopf": {"dummy": "v"}}}, "v", {}),
        ({"status": {"kopf": {"dummy": "v"}}}, None, {"status": {"kopf": {"dummy": None}}}),
    ],
)
def test_touching_of_status(raw, value, result):
    patch = Patch()
    StatusProgressStorage().touch(body=Body(raw), patch=patch, value=value)
    assert patch == result


# Recorded from Kopf 1.45: the dummy field is left in the essence.
@pytest.mark.parametrize(
    ("essence", "result"),
    [
        (
            {"status": {"kopf": {"dummy": "v", "progress": {"fn": {}}}, "x": 1}},
            {"status": {"kopf": {"dummy": "v"}, "x": 1}},
        ),
        ({"status": {"kopf": {"progress": {"fn": {}}}}, "spec": {}}, {"spec": {}}),
        ({"spec": {}}, {"spec": {}}),
    ],
)
def test_clearing_of_status(essence, result):
    assert StatusProgressStorage().clear(essence=essence) == result


def test_smart_storage_reads_from_both_with_annotations_preferred():
    storage = SmartProgressStorage()
    annotations = {f"{KOPF}/fn": '{"retries":1}'}
    status = {"kopf": {"progress": {"fn": {"retries": 2}}}}
    both = Body({"metadata": {"annotations": annotations}, "status": status})
    assert storage.fetch(key="fn", body=both) == {"retries": 1}
    assert storage.fetch(key="fn", body=Body({"status": status})) == {"retries": 2}
    assert storage.fetch(key="fn", body=Body({})) is None


def test_smart_storage_writes_only_to_annotations():
    storage, patch = SmartProgressStorage(), Patch()
    storage.store(key="fn", record=RECORD, body=Body({}), patch=patch)
    storage.touch(body=Body({"status": {"kopf": {"dummy": "x"}}}), patch=patch, value="v")
    assert patch.keys() == {"metadata"}
    assert patch["metadata"]["annotations"].keys() == {f"{KOPF}/fn", f"{KOPF}/touch-dummy"}


def test_smart_storage_purges_both():
    storage, patch = SmartProgressStorage(), Patch()
    annotations = {f"{KOPF}/fn": "{}"}
    status = {"kopf": {"progress": {"fn": {}}}}
    both = Body({"metadata": {"annotations": annotations}, "status": status})
    storage.purge(key="fn", body=both, patch=patch)
    assert patch == {
        "metadata": {"annotations": {f"{KOPF}/fn": None}},
        "status": {"kopf": {"progress": {"fn": None}}},
    }


def test_smart_storage_clears_both():
    essence = {
        "metadata": {"annotations": {f"{KOPF}/x": "1", "kopf.dev/x": "1"}},
        "status": {"kopf": {"dummy": "2", "progress": {"fn": {}}}},
    }
    assert SmartProgressStorage().clear(essence=essence) == {
        "metadata": {"annotations": {"kopf.dev/x": "1"}},
        "status": {"kopf": {"dummy": "2"}},
    }


def test_smart_storage_is_configurable():
    storage, patch = (
        SmartProgressStorage(prefix=MINE, name="x", touch_key="t", verbose=True),
        Patch(),
    )
    storage.touch(body=Body({}), patch=patch, value="v")
    assert patch["metadata"]["annotations"] == {f"{MINE}/t": "v", f"{MINE}/kopf-managed": "yes"}
    body = Body({"status": {"x": {"progress": {"fn": {"retries": 2}}}}})
    assert storage.fetch(key="fn", body=body) == {"retries": 2}


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({}, True),
        ({"other.example.com/fn": "{}", "plain": "{}"}, True),
        ({f"{KOPF}/last-handled-configuration": "{}", f"{KOPF}/kopf-managed": "yes"}, True),
        ({f"{KOPF}/fn": "{}"}, False),
        ({f"{KOPF}/kopf-managed": '{"success":true}'}, False),  # there is a handler of that name
    ],
)
@pytest.mark.parametrize("cls", [AnnotationsProgressStorage, SmartProgressStorage])
def test_m_objects_with_no_progress_are_recognised(cls, annotations, expected):
    assert is_unused(cls(), Body({"metadata": {"annotations": annotations}})) is expected


def test_m_progress_in_the_status_is_progress():
    body = Body({"metadata": {}, "status": {"kopf": {"progress": {"fn": {}}}}})
    assert not is_unused(SmartProgressStorage(), body)


def test_m_storages_of_users_can_have_progress_anywhere():
    class Elsewhere(AnnotationsProgressStorage):
        pass

    smart = SmartProgressStorage()
    smart.storages = [Elsewhere(), *smart.storages]
    for storage in (Elsewhere(), smart, StatusProgressStorage()):
        assert not is_unused(storage, Body({"metadata": {}}))


def test_multi_storage_writes_to_all_and_reads_from_the_first():
    storage = MultiProgressStorage([StatusProgressStorage(), AnnotationsProgressStorage()])
    patch = Patch()
    storage.store(key="fn", record=RECORD, body=Body({}), patch=patch)
    assert patch["status"]["kopf"]["progress"]["fn"] == RECORD
    assert f"{KOPF}/fn" in patch["metadata"]["annotations"]
    body = Body(dict(patch))
    patch = Patch()
    storage.touch(body=body, patch=patch, value="v")
    storage.purge(key="fn", body=body, patch=patch)
    assert patch == {
        "status": {"kopf": {"dummy": "v", "progress": {"fn": None}}},
        "metadata": {"annotations": {f"{KOPF}/touch-dummy": "v", f"{KOPF}/fn": None}},
    }
    assert storage.clear(essence=dict(body)) == {}


class MemoryStorage(ProgressStorage):
    """An example of a custom storage with no persistence in objects."""

    def __init__(self):
        super().__init__()
        self.records = {}
        self.flushed = 0

    def fetch(self, *, key, body):
        return self.records.get((body.metadata.uid, key))

    def store(self, *, key, record, body, patch):
        self.records[body.metadata.uid, key] = record

    def purge(self, *, key, body, patch):
        self.records.pop((body.metadata.uid, key), None)

    def touch(self, *, body, patch, value):
        patch.status["ping"] = value

    def clear(self, *, essence):
        return essence

    def flush(self):
        self.flushed += 1


def test_custom_storages():
    custom = MemoryStorage()
    storage = MultiProgressStorage([custom])
    body, patch = Body({"metadata": {"uid": "u"}}), Patch()
    storage.store(key="fn", record=RECORD, body=body, patch=patch)
    assert storage.fetch(key="fn", body=body) == RECORD
    assert storage.fetch(key="fn", body=Body({})) is None
    storage.purge(key="fn", body=body, patch=patch)
    assert storage.fetch(key="fn", body=body) is None
    storage.flush()
    assert custom.flushed == 1
    assert patch == {}


def test_incomplete_storages_cannot_be_used():
    with pytest.raises(TypeError, match="abstract"):
        ProgressStorage()


RECORDS = {"a": {"started": "2020-01-01T00:00:00+00:00", "retries": 1}, "b": {"started": "x"}}


@pytest.mark.parametrize(
    "storage",
    [AnnotationsProgressStorage(), StatusProgressStorage(), SmartProgressStorage()],
    ids=lambda storage: type(storage).__name__,
)
def test_everything_is_found_rewritten_and_erased(storage):
    annotations = {
        "kopf.zalando.org/a": json.dumps(RECORDS["a"]),
        "kopf.zalando.org/junk": "{",
        "kopf.zalando.org/other": '{"message":"not a record"}',
        "kopf.zalando.org/touch-dummy": "x",
        "example.com/a": json.dumps(RECORDS["a"]),
    }
    status = {"kopf": {"progress": {**RECORDS, "junk": 1}, "dummy": "x"}, "mine": 1}
    raw = {"metadata": {"annotations": annotations}, "status": status}
    found = dict(storage.find(body=Body(raw)))
    assert found["a"] == RECORDS["a"]
    assert found.keys() <= {"a", "b"}
    patch = Patch()
    storage.rewrite("a", {**RECORDS["a"], "retries": 2}, body=Body(raw), patch=patch)
    storage.rewrite("absent", {**RECORDS["a"]}, body=Body(raw), patch=patch)
    patch.apply_fields(raw)
    assert storage.find(body=Body(raw))["a"]["retries"] == 2
    patch = Patch()
    storage.erase(body=Body(raw), patch=patch)
    patch.apply_fields(raw)
    assert not storage.find(body=Body(raw))
    assert "example.com/a" in raw["metadata"]["annotations"]
    assert "kopf.zalando.org/other" in raw["metadata"]["annotations"]
    assert raw["status"]["mine"] == 1
