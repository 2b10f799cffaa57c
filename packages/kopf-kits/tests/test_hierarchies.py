"""Parents and children: on dictionaries; other libraries' objects are in test_models.py."""

import copy
from types import SimpleNamespace
from typing import Any

import pytest

from kopf_cogs.structs.bodies import Body
from kopf_core.actions.context import Invocation, invocation_var
from kopf_kits.hierarchies import (
    adjust_namespace,
    adopt,
    append_owner_reference,
    harmonize_naming,
    label,
    remove_owner_reference,
)

OWNER = Body(
    {
        "apiVersion": "kopf.dev/v1",
        "kind": "KopfExample",
        "metadata": {"name": "n1", "namespace": "ns1", "uid": "u1", "labels": {"l1": "v1"}},
    }
)
OTHER: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p1", "uid": "u2"}}
REF = {
    "controller": True,
    "blockOwnerDeletion": True,
    "apiVersion": "kopf.dev/v1",
    "kind": "KopfExample",
    "name": "n1",
    "uid": "u1",
}


@pytest.fixture
def _handling() -> Any:
    """As if it were inside of a handler for the owner."""
    cause: Any = SimpleNamespace(body=OWNER)
    handler: Any = SimpleNamespace(id="fn")
    execution: Any = SimpleNamespace()
    invocation = Invocation(handler=handler, cause=cause, execution=execution)
    token = invocation_var.set(invocation)
    yield
    invocation_var.reset(token)


@pytest.mark.parametrize(
    "fn",
    [
        append_owner_reference,
        remove_owner_reference,
        harmonize_naming,
        adjust_namespace,
        adopt,
        label,
    ],
)
def test_no_owner_outside_of_handlers(fn: Any) -> None:
    obj: dict[str, Any] = {}
    with pytest.raises(LookupError, match=r"must be set explicitly"):
        fn(obj)
    assert obj == {}


# Labels


def test_labels_are_added_to_all_objects() -> None:
    objs: list[dict[str, Any]] = [{"kind": "Job"}, {"kind": "Deployment"}]
    label(iter(objs), {"a": "b"})
    assert objs == [
        {"kind": "Job", "metadata": {"labels": {"a": "b"}}},
        {"kind": "Deployment", "metadata": {"labels": {"a": "b"}}},
    ]


@pytest.mark.parametrize(("forced", "expected"), [(False, "old"), (True, "new")])
def test_existing_labels_stay_unless_forced(forced: bool, expected: str) -> None:
    obj = {"metadata": {"labels": {"a": "old"}}}
    label(obj, {"a": "new", "c": "d"}, forced=forced)
    assert obj == {"metadata": {"labels": {"a": expected, "c": "d"}}}


def test_deprecated_force_of_labels() -> None:
    obj = {"metadata": {"labels": {"a": "old"}}}
    with pytest.warns(DeprecationWarning, match="forced="):
        label(obj, {"a": "new"}, force=True)
    assert obj == {"metadata": {"labels": {"a": "new"}}}


@pytest.mark.usefixtures("_handling")
@pytest.mark.parametrize("args", [(), (None,)])
def test_labels_of_the_handled_object_are_the_default(args: tuple[Any, ...]) -> None:
    obj: dict[str, Any] = {}
    label(obj, *args)
    assert obj == {"metadata": {"labels": {"l1": "v1"}}}


@pytest.mark.usefixtures("_handling")
def test_no_labels_is_not_the_same_as_the_default() -> None:
    obj: dict[str, Any] = {}
    label(obj, {})
    assert obj == {"metadata": {"labels": {}}}


@pytest.mark.parametrize(
    "nested", ["spec.template", ["spec.template"], [("spec", "template")], [["spec", "template"]]]
)
def test_nested_labels_are_added_where_the_field_exists(nested: Any) -> None:
    objs: list[dict[str, Any]] = [{}, {"spec": {"template": {}}}, {"spec": None}, {"spec": {}}]
    label(objs, {"a": "b"}, nested=nested)
    meta = {"labels": {"a": "b"}}
    assert objs == [
        {"metadata": meta},
        {"metadata": meta, "spec": {"template": {"metadata": meta}}},
        {"metadata": meta, "spec": None},
        {"metadata": meta, "spec": {}},
    ]


@pytest.mark.parametrize("value", [["x"], "x", 123])
def test_nested_labels_on_something_else(value: Any) -> None:
    with pytest.raises(TypeError):
        label({"spec": value}, {"a": "b"}, nested="spec.template")


@pytest.mark.parametrize("metadata", [None, {"labels": None}])
def test_labels_replace_nulls(metadata: Any) -> None:
    obj = {"metadata": metadata}
    label(obj, {"a": "b"})
    assert obj == {"metadata": {"labels": {"a": "b"}}}


# Owners


def test_owner_is_added_once() -> None:
    obj: dict[str, Any] = {}
    append_owner_reference(obj, OWNER)
    append_owner_reference(obj, OWNER, controller=False)
    assert obj == {"metadata": {"ownerReferences": [REF]}}


def test_owners_are_added_to_others() -> None:
    obj: dict[str, Any] = {}
    append_owner_reference(obj, OWNER)
    append_owner_reference(obj, OTHER, controller=False, block_owner_deletion=None)
    other = {"controller": False, "apiVersion": "v1", "kind": "Pod", "name": "p1", "uid": "u2"}
    assert obj == {"metadata": {"ownerReferences": [REF, other]}}


@pytest.mark.usefixtures("_handling")
def test_owner_is_the_handled_object_by_default() -> None:
    obj: dict[str, Any] = {}
    append_owner_reference(obj)
    assert obj == {"metadata": {"ownerReferences": [REF]}}
    remove_owner_reference(obj)
    assert obj == {"metadata": {"ownerReferences": []}}


def test_owner_is_removed_by_its_uid() -> None:
    obj = {"metadata": {"ownerReferences": [copy.copy(REF), {"uid": "u2"}]}}
    remove_owner_reference(obj, OTHER)
    assert obj == {"metadata": {"ownerReferences": [REF]}}


def test_unsupported_owner() -> None:
    with pytest.raises(TypeError, match="int"):
        append_owner_reference({}, 123)


# Names


@pytest.mark.parametrize(
    ("before", "forced", "strict", "after"),
    [
        ({}, False, False, {"generateName": "a-"}),
        ({}, False, True, {"name": "a"}),
        ({}, True, False, {"generateName": "a-"}),
        ({}, True, True, {"name": "a"}),
        ({"name": "x"}, False, False, {"name": "x"}),
        ({"name": "x"}, False, True, {"name": "x"}),
        ({"name": "x"}, True, False, {"generateName": "a-"}),
        ({"name": "x"}, True, True, {"name": "a"}),
        ({"generateName": "x-"}, False, False, {"generateName": "x-"}),
        ({"generateName": "x-"}, False, True, {"generateName": "x-"}),
        ({"generateName": "x-"}, True, False, {"generateName": "a-"}),
        ({"generateName": "x-"}, True, True, {"name": "a"}),
        ({"name": None}, False, True, {"name": "a"}),
        ({"name": ""}, False, True, {"name": "a"}),
    ],
)
def test_naming(before: Any, forced: bool, strict: bool, after: Any) -> None:
    obj = {"metadata": dict(before)}
    harmonize_naming(obj, "a", forced=forced, strict=strict)
    assert obj == {"metadata": after}


@pytest.mark.usefixtures("_handling")
@pytest.mark.parametrize("args", [(), (None,)])
def test_naming_after_the_handled_object(args: tuple[Any, ...]) -> None:
    obj: dict[str, Any] = {}
    harmonize_naming(obj, *args)
    assert obj == {"metadata": {"generateName": "n1-"}}


# Namespaces


@pytest.mark.parametrize(
    ("before", "forced", "after"),
    [({}, False, "a"), ({"namespace": None}, False, "a"), ({"namespace": "x"}, False, "x"),
     ({"namespace": "x"}, True, "a")],
)  # fmt: skip
def test_namespaces(before: Any, forced: bool, after: str) -> None:
    obj = {"metadata": dict(before)}
    adjust_namespace(obj, "a", forced=forced)
    assert obj == {"metadata": {"namespace": after}}


@pytest.mark.usefixtures("_handling")
def test_namespace_of_the_handled_object_is_the_default() -> None:
    obj: dict[str, Any] = {}
    adjust_namespace(obj)
    assert obj == {"metadata": {"namespace": "ns1"}}


# All at once


@pytest.mark.usefixtures("_handling")
def test_adopting_by_the_handled_object() -> None:
    objs: list[dict[str, Any]] = [{"kind": "Job"}, {"spec": {"template": {}}}]
    adopt(iter(objs), strict=True, nested="spec.template")
    metadata = {"ownerReferences": [REF], "name": "n1", "namespace": "ns1", "labels": {"l1": "v1"}}
    template = {"metadata": {"labels": {"l1": "v1"}}}
    assert objs == [
        {"kind": "Job", "metadata": metadata},
        {"metadata": metadata, "spec": {"template": template}},
    ]


def test_adopting_is_careful_unless_forced() -> None:
    metadata = {"name": "x", "namespace": "y", "labels": {"l1": "z"}}
    kept, changed = {"metadata": dict(metadata)}, {"metadata": dict(metadata)}
    adopt(kept, OWNER)
    adopt(changed, OWNER, forced=True)
    assert kept["metadata"] == {**metadata, "ownerReferences": [REF]}
    assert changed["metadata"] == {
        "generateName": "n1-",
        "namespace": "ns1",
        "labels": {"l1": "v1"},
        "ownerReferences": [REF],
    }


def test_adopting_by_cluster_scoped_owners() -> None:
    obj = {"metadata": {"namespace": "x"}}
    adopt(obj, OTHER, forced=True)
    assert obj["metadata"]["namespace"] is None


@pytest.mark.usefixtures("_handling")
def test_adopting_by_nameless_owners_does_not_take_the_name_of_another() -> None:
    with pytest.raises(LookupError, match="no name"):
        adopt({}, {"metadata": {"uid": "u3"}})


@pytest.mark.parametrize("obj", ["abc", b"abc", 123, [123], OWNER])
def test_unsupported_objects(obj: Any) -> None:
    with pytest.raises(TypeError, match="not supported"):
        label(obj, {"a": "b"})


@pytest.mark.parametrize("wrong", [object(), 1, [1], Body({})])
def test_r35_wrong_objects_are_type_errors(wrong: Any) -> None:
    with pytest.raises(TypeError, match="K8s object class is not supported: <class "):
        adopt(wrong, owner=Body({"metadata": {"name": "owner"}}))


@pytest.mark.parametrize("wrong", [object(), 1, "x"])
@pytest.mark.parametrize("error", [TypeError, AttributeError])
def test_r35_wrong_owners_are_errors_of_both_kinds(wrong: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="Owners of this type are not supported"):
        adopt({}, owner=wrong)
