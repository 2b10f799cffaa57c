"""Drift of applied fields, on what real API servers have in ``managedFields``."""

import copy
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kopf_cogs.structs.managedfields import covers, find_drift, get_applied_fields

WANTED: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "ns1", "labels": {"app": "web"}},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {
                "containers": [
                    {
                        "name": "nginx",
                        "image": "nginx:1.0",
                        "args": ["-v", "x"],
                        "ports": [{"containerPort": 80}],
                        "resources": {"requests": {"cpu": "1000m"}},
                    }
                ]
            },
        },
    },
}
FIELDS: dict[str, Any] = {
    "f:metadata": {"f:labels": {"f:app": {}}},
    "f:spec": {
        "f:replicas": {},
        "f:selector": {},
        "f:template": {
            "f:metadata": {"f:labels": {"f:app": {}}},
            "f:spec": {
                "f:containers": {
                    'k:{"name":"nginx"}': {
                        ".": {},
                        "f:name": {},
                        "f:image": {},
                        "f:args": {},
                        "f:ports": {
                            'k:{"containerPort":80,"protocol":"TCP"}': {
                                ".": {},
                                "f:containerPort": {},
                            }
                        },
                        "f:resources": {"f:requests": {"f:cpu": {}}},
                    }
                }
            },
        },
    },
}


def make_live() -> dict[str, Any]:
    """The object as it is stored: with defaults, and with fields of others."""
    live = copy.deepcopy(WANTED)
    live["metadata"] |= {"uid": "u1", "resourceVersion": "5", "annotations": {"theirs": "x"}}
    live["metadata"]["managedFields"] = [
        {"manager": "kubectl", "operation": "Update", "fieldsV1": {"f:spec": {"f:replicas": {}}}},
        {"manager": "me", "operation": "Apply", "fieldsV1": FIELDS},
        {"manager": "me", "operation": "Apply", "subresource": "status", "fieldsV1": {}},
    ]
    pod = live["spec"]["template"]["spec"]
    pod["restartPolicy"] = "Always"
    pod["containers"][0]["ports"][0]["protocol"] = "TCP"
    pod["containers"][0]["resources"]["requests"]["cpu"] = "1"
    pod["containers"].insert(0, {"name": "sidecar", "image": "theirs"})
    return live


def test_applied_fields_are_of_the_manager_and_of_the_main_resource() -> None:
    assert get_applied_fields(make_live(), "me") == FIELDS
    assert get_applied_fields(make_live(), "kubectl") is None


def test_defaults_and_foreign_fields_are_no_drift() -> None:
    assert find_drift(WANTED, make_live(), manager="me") is None


def test_with_managed_fields_removed_only_what_is_wanted_is_compared() -> None:
    stored = {**WANTED, "status": {}, "metadata": {**WANTED["metadata"], "resourceVersion": "1"}}
    assert find_drift(WANTED, stored, manager="kopf") == ()
    assert find_drift(WANTED, stored, manager="kopf", ignored={()}) is None
    changed = {**stored, "spec": {**WANTED["spec"], "replicas": 5}}
    assert find_drift(WANTED, changed, manager="kopf", ignored={()}) == ()


def test_never_applied_differs_as_a_whole() -> None:
    assert find_drift(WANTED, make_live(), manager="other") == ()


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ("spec.replicas", 3, "spec.replicas"),
        ("metadata.labels.app", "other", "metadata.labels.app"),
        ("metadata.labels.new", "x", "metadata.labels.new"),
        ("metadata.annotations", {"mine": "x"}, "metadata.annotations"),
        ("spec.selector.matchLabels.app", "other", "spec.selector"),
        ("spec.replicas", True, "spec.replicas"),
    ],
)
def test_changed_and_new_wishes_differ(path: str, value: Any, expected: str) -> None:
    wanted = copy.deepcopy(WANTED)
    *parents, last = path.split(".")
    node = wanted
    for parent in parents:
        node = node[parent]
    node[last] = value
    assert ".".join(find_drift(wanted, make_live(), manager="me") or ()) == expected


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("image", "nginx:2.0", "nginx.image"),
        ("args", ["-v"], "nginx.args"),
        ("args", ["x", "-v"], "nginx.args"),
        ("ports", [{"containerPort": 81}], "nginx.ports.80,TCP"),
        ("ports", [], "nginx.ports.80,TCP"),
        ("resources", {"requests": {"cpu": "2"}}, "nginx.resources.requests.cpu"),
        ("name", "other", "nginx"),
    ],
)
def test_changed_items_of_lists_differ(field: str, value: Any, expected: str) -> None:
    wanted = copy.deepcopy(WANTED)
    wanted["spec"]["template"]["spec"]["containers"][0][field] = value
    drift = find_drift(wanted, make_live(), manager="me")
    assert drift is not None
    assert ".".join(drift) == f"spec.template.spec.containers.{expected}"


def test_what_is_not_wanted_anymore_differs() -> None:
    wanted = copy.deepcopy(WANTED)
    del wanted["spec"]["replicas"]
    assert find_drift(wanted, make_live(), manager="me") == ("spec", "replicas")
    wanted = copy.deepcopy(WANTED)
    wanted["spec"]["template"]["spec"]["containers"].append({"name": "more"})
    assert find_drift(wanted, make_live(), manager="me") is not None


def test_foreign_changes_of_our_fields_are_a_drift() -> None:
    live = make_live()
    live["spec"]["replicas"] = 5
    assert find_drift(WANTED, live, manager="me") == ("spec", "replicas")
    live = make_live()
    del live["spec"]["template"]["spec"]["containers"][1]
    assert find_drift(WANTED, live, manager="me") is not None


def test_items_that_are_set_as_a_whole() -> None:
    refs = [{"apiVersion": "v1", "kind": "Web", "name": "x", "uid": "u1", "controller": True}]
    wanted = {"metadata": {"name": "a", "ownerReferences": refs}}
    live: Any = copy.deepcopy(wanted)
    live["metadata"]["ownerReferences"].append({"uid": "u2", "name": "theirs"})
    fields = {"f:metadata": {"f:ownerReferences": {'k:{"uid":"u1"}': {}}}}
    live["metadata"]["managedFields"] = [
        {"manager": "me", "operation": "Apply", "fieldsV1": fields}
    ]
    assert find_drift(wanted, live, manager="me") is None
    live["metadata"]["ownerReferences"][0]["controller"] = False
    assert find_drift(wanted, live, manager="me") == ("metadata", "ownerReferences", "u1")


def test_nulls_are_as_absent() -> None:
    wanted = copy.deepcopy(WANTED)
    wanted["spec"]["paused"] = None
    assert find_drift(wanted, make_live(), manager="me") is None


@pytest.mark.parametrize(
    ("live", "wanted", "path", "expected"),
    [
        ("1", "1000m", ("requests", "cpu"), True),
        ("1Gi", "1024Mi", ("limits", "memory"), True),
        ("1", "1001m", ("limits", "cpu"), False),
        (1, "1", ("limits", "cpu"), True),
        ("1.0", "1", ("image", "tag"), False),
        ("x", "1", ("limits", "cpu"), False),
        ({"a": 1, "default": 2}, {"a": 1}, (), True),
        ({"a": 1}, {"a": 1, "b": 2}, (), False),
        ([1, 2], [1], (), False),
        (1, True, (), False),
    ],
)
def test_coverage(live: Any, wanted: Any, path: tuple[str, ...], expected: bool) -> None:
    assert covers(live, wanted, path) is expected


_LEAVES = st.sampled_from(["", "x", "y", 0, 1, True, False, 1.0, [], ["x"], ["x", "y"], {}])
_REFS = st.lists(st.sampled_from([{"uid": "1"}, {"uid": "2", "x": True}]), unique_by=str)
_DOCS = st.recursive(
    st.dictionaries(st.sampled_from("abc"), _LEAVES | _REFS),
    lambda docs: st.dictionaries(st.sampled_from("abc"), _LEAVES | _REFS | docs),
    max_leaves=5,
)


def own(doc: Any) -> dict[str, Any]:
    """The fields as the server keeps them when they are applied."""
    if isinstance(doc, dict):
        return {f"f:{key}": own(value) for key, value in doc.items()}
    if isinstance(doc, list) and doc and all(isinstance(item, dict) for item in doc):
        return {f'k:{{"uid":"{item["uid"]}"}}': {} for item in doc}
    if isinstance(doc, list) and doc == ["x", "y"]:
        return {".": {}, **{f'v:"{item}"': {} for item in doc}}
    return {}


@given(applied=_DOCS, wanted=_DOCS, live=_DOCS, case=st.sampled_from(["same", "new", "drift"]))
def test_the_fast_way_finds_the_same_as_the_slow_one(
    applied: Any, wanted: Any, live: Any, case: str
) -> None:
    wanted = {"spec": applied if case != "new" else wanted}
    entry = {"manager": "me", "operation": "Apply", "fieldsV1": own({"spec": applied})}
    stored = {"spec": {**applied, **live} if case == "drift" else applied}
    body = {**stored, "metadata": {"managedFields": [entry]}}
    slow = find_drift(wanted, body, manager="me", ignored={("nothing",)})
    assert find_drift(wanted, body, manager="me") == slow
    assert case != "same" or slow is None


class TestOtherVersions:
    """What is wanted in one version of the kind is watched in another one, with other fields."""

    WANTED: ClassVar[dict[str, Any]] = {
        "apiVersion": "autoscaling/v1",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web", "annotations": {"digest": "1"}},
        "spec": {
            "maxReplicas": 3,
            "target": 80,
            "empty": "",
            "ports": [{"port": 80, "name": "http"}, {"port": 81}],
            "tags": ["a", "b"],
        },
    }
    FIELDS: ClassVar[dict[str, Any]] = {
        "f:metadata": {"f:annotations": {"f:digest": {}}},
        "f:spec": {
            "f:maxReplicas": {},
            "f:target": {},
            "f:ports": {
                'k:{"port":80,"protocol":"TCP"}': {".": {}, "f:port": {}, "f:name": {}},
                'k:{"port":81,"protocol":"TCP"}': {".": {}, "f:port": {}},
            },
            "f:tags": {'v:"a"': {}, 'v:"b"': {}},
        },
    }

    def find(self, fields: Any = FIELDS, version: str = "autoscaling/v1", **options: Any) -> Any:
        entry = {
            "manager": "kopf",
            "operation": "Apply",
            "apiVersion": version,
            "fieldsV1": fields,
        }
        annotations = {"digest": options.pop("digest", "1")}
        live = {
            "apiVersion": "autoscaling/v2",
            "metadata": {"name": "web", "annotations": annotations, "managedFields": [entry]},
            "spec": {"maxReplicas": 3, "metrics": [{"resource": {"target": 80}}]},
        }
        return find_drift(self.WANTED, live, manager="kopf", **options)

    def test_what_is_all_ours_is_as_wanted(self) -> None:
        assert self.find() is None

    @pytest.mark.parametrize(
        ("path", "expected"),
        [
            (("f:spec", "f:target"), ("spec", "target")),
            (("f:spec",), ("spec",)),
            (("f:spec", "f:ports", 'k:{"port":81,"protocol":"TCP"}'), ("spec", "ports", "1")),
            (
                ("f:spec", "f:ports", 'k:{"port":80,"protocol":"TCP"}', "f:name"),
                ("spec", "ports", "0", "name"),
            ),
            (("f:spec", "f:tags", 'v:"b"'), ("spec", "tags", "1")),
        ],
    )
    def test_h2_what_others_have_changed_is_not_ours_anymore(
        self, path: Any, expected: Any
    ) -> None:
        fields: Any = copy.deepcopy(self.FIELDS)
        *parents, last = path
        here = fields
        for key in parents:
            here = here[key]
        del here[last]
        assert self.find(fields) == expected
        assert self.find(fields, ignored={expected}) is None

    def test_metadata_is_compared_in_all_versions(self) -> None:
        assert self.find(digest="2") == ("metadata", "annotations", "digest")

    def test_what_was_applied_in_another_version_is_applied_anew(self) -> None:
        assert self.find(version="autoscaling/v2") == ()


@pytest.mark.parametrize(
    ("wanted", "live", "owned"),
    [
        pytest.param("", "10.0.0.1", {}, id="allocated"),  # the address of a service
        pytest.param([], ["Ingress"], {}, id="defaulted"),  # the types of a network policy
        pytest.param([], [], None, id="set"),  # custom resources keep them as they are
        pytest.param({}, {}, None, id="mapping"),
    ],
)
def test_h2_empty_wishes_are_no_drift(wanted: Any, live: Any, owned: Any) -> None:
    assert _find_drift_of_field(wanted, live, owned) is None


@pytest.mark.parametrize(
    ("wanted", "live", "owned"),
    [
        pytest.param("", "theirs", None, id="text of others"),
        pytest.param([], ["theirs"], None, id="list of others"),
        pytest.param([], ["ours"], {'v:"ours"': {}}, id="not wanted anymore"),
        pytest.param(False, True, {}, id="flag"),
        pytest.param(0, 5, {}, id="number"),
    ],
)
def test_h2_empty_wishes_differ_from_what_others_have_set(
    wanted: Any, live: Any, owned: Any
) -> None:
    assert _find_drift_of_field(wanted, live, owned) == ("spec", "field")


def _find_drift_of_field(wanted: Any, live: Any, owned: Any) -> Any:
    fields = {"f:other": {}} | ({} if owned is None else {"f:field": owned})
    entry = {"manager": "me", "operation": "Apply", "fieldsV1": {"f:spec": fields}}
    body = {
        "metadata": {"name": "x", "managedFields": [entry]},
        "spec": {"field": live, "other": 1},
    }
    wish = {"metadata": {"name": "x"}, "spec": {"field": wanted, "other": 1}}
    return find_drift(wish, body, manager="me")
