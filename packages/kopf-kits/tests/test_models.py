"""Objects of other libraries are adopted in the same way as dictionaries."""

from typing import Any

import pytest

from kopf_cogs.structs.bodies import Body
from kopf_kits.hierarchies import (
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


@pytest.fixture(scope="module")
def client() -> Any:
    return pytest.importorskip("kubernetes.client")


def test_pykube_objects_are_adopted() -> None:
    pykube = pytest.importorskip("pykube")
    pod = pykube.objects.Pod(None, {})
    adopt([pod], OWNER)
    assert pod.obj["metadata"]["generateName"] == "n1-"
    assert pod.obj["metadata"]["namespace"] == "ns1"
    assert pod.obj["metadata"]["labels"] == {"l1": "v1"}
    assert pod.obj["metadata"]["ownerReferences"][0]["uid"] == "u1"


def test_pykube_objects_can_be_owners() -> None:
    pykube = pytest.importorskip("pykube")
    obj: dict[str, Any] = {}
    append_owner_reference(obj, pykube.objects.Pod(None, {"metadata": {"name": "p", "uid": "pu"}}))
    assert obj["metadata"]["ownerReferences"][0]["uid"] == "pu"


def test_models_are_adopted(client: Any) -> None:
    pod = client.V1Pod()
    adopt(pod, OWNER)
    assert pod.metadata.generate_name == "n1-"
    assert pod.metadata.namespace == "ns1"
    assert pod.metadata.labels == {"l1": "v1"}
    [ref] = pod.metadata.owner_references
    assert isinstance(ref, client.V1OwnerReference)
    assert (ref.api_version, ref.kind, ref.name) == ("kopf.dev/v1", "KopfExample", "n1")
    assert (ref.uid, ref.controller, ref.block_owner_deletion) == ("u1", True, True)


def test_models_are_renamed(client: Any) -> None:
    pod = client.V1Pod(metadata=client.V1ObjectMeta(generate_name="x-"))
    harmonize_naming(pod, "a", forced=True, strict=True)
    assert (pod.metadata.name, pod.metadata.generate_name) == ("a", None)


def test_models_lose_owners(client: Any) -> None:
    pod = client.V1Pod()
    append_owner_reference(pod, OWNER)
    append_owner_reference(pod, OWNER)
    assert len(pod.metadata.owner_references) == 1
    append_owner_reference(
        pod, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "uid": "u2"}}
    )
    remove_owner_reference(pod, OWNER)
    assert [ref.uid for ref in pod.metadata.owner_references] == ["u2"]


@pytest.mark.parametrize("nested", ["spec.jobTemplate", "spec.job_template"])
def test_models_are_labelled_inside(client: Any, nested: str) -> None:
    spec = client.V1CronJobSpec(schedule="* * * * *", job_template=client.V1JobTemplateSpec())
    job = client.V1CronJob(spec=spec)
    label(job, {"a": "b"}, nested=[nested, "spec.jobTemplate.spec.template"])
    assert job.metadata.labels == {"a": "b"}
    assert job.spec.job_template.metadata.labels == {"a": "b"}


def test_models_can_be_owners(client: Any) -> None:
    metadata = client.V1ObjectMeta(name="kn", namespace="kns", uid="ku", labels={"kl": "kv"})
    obj: dict[str, Any] = {}
    adopt(obj, client.V1Pod(api_version="v1", kind="Pod", metadata=metadata), strict=True)
    ref = {
        "controller": True,
        "blockOwnerDeletion": True,
        "apiVersion": "v1",
        "kind": "Pod",
        "name": "kn",
    }
    assert obj["metadata"] == {
        "ownerReferences": [{**ref, "uid": "ku"}],
        "name": "kn",
        "namespace": "kns",
        "labels": {"kl": "kv"},
    }


@pytest.mark.parametrize("nested", ["spec.template", "absent", "spec.selector.x.y"])
def test_k40_models_with_no_such_field_are_labelled_outside_only(client: Any, nested: str) -> None:
    template = client.V1PodTemplateSpec()
    selector = client.V1LabelSelector()
    deployment = client.V1Deployment(
        spec=client.V1DeploymentSpec(selector=selector, template=template)
    )
    service = client.V1Service(spec=client.V1ServiceSpec(selector={"app": "x"}))
    label([deployment, service], {"a": "b"}, nested=nested)
    adopt([deployment, service], OWNER, nested=nested)
    assert deployment.metadata.labels == service.metadata.labels == {"a": "b", "l1": "v1"}
    if nested == "spec.template":
        assert deployment.spec.template.metadata.labels == {"a": "b", "l1": "v1"}
