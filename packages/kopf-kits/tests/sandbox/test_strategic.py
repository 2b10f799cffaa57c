import pytest

from kopf_kits.sandbox.fields.strategic import merge
from kopf_kits.sandbox.kinds.builtins import builtin_schemas

POD = builtin_schemas().compile("v1", "Pod")


def pod(*containers, **spec):
    return {"spec": {"containers": list(containers), **spec}}


A = {"name": "a", "image": "a:1"}
B = {"name": "b", "image": "b:1"}


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        (pod({"name": "b", "image": "b:2"}), pod(A, {"name": "b", "image": "b:2"})),
        (pod({"name": "c"}), pod({"name": "c"}, A, B)),
        (pod({"name": "a", "$patch": "delete"}), pod(B)),
        (pod({"name": "c"}, {"$patch": "replace"}), pod({"name": "c"})),
        (pod({"name": "a", "image": None}), pod({"name": "a"}, B)),
        (
            {"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}},
            pod(B, A),
        ),
        ({"spec": {"$patch": "replace", "nodeName": "n"}}, {"spec": {"nodeName": "n"}}),
        ({"spec": {"$retainKeys": ["nodeName"], "nodeName": "n"}}, {"spec": {"nodeName": "n"}}),
        ({"spec": {"nodeSelector": {"a": "b", "c": None}}}, pod(A, B, nodeSelector={"a": "b"})),
        ({"spec": None}, {}),
    ],
)
def test_pods(patch, expected):
    target = pod(A, B)
    assert merge(POD, target, patch) == expected
    assert target == pod(A, B)


def test_primitive_lists():
    target = {"metadata": {"finalizers": ["a", "b"]}}
    patch = {"metadata": {"finalizers": ["c", "a"]}}
    assert merge(POD, target, patch) == {"metadata": {"finalizers": ["c", "a", "b"]}}
    patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}}
    assert merge(POD, target, patch) == {"metadata": {"finalizers": ["b"]}}


def test_atomic_lists_are_replaced():
    target = pod({**A, "args": ["x", "y"]})
    patch = pod({"name": "a", "args": ["z"]})
    assert merge(POD, target, patch) == pod({**A, "args": ["z"]})


async def test_over_http(client, sandbox):
    await sandbox.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, **pod(A)})
    path = "/api/v1/namespaces/default/pods/x"
    answer = await client.strategic(path, pod({"name": "a", "image": "a:2"}))
    assert [item["image"] for item in answer.json["spec"]["containers"]] == ["a:2"]
