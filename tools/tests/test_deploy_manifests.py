"""The manifests in `deploy/` fit each other: whoever applies several of them gets one operator."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
MANIFESTS = sorted([*DEPLOY.glob("rbac/*.yaml"), *DEPLOY.glob("webhooks/*.yaml")])
NAMESPACE = "my-namespace"


def load(path: Path) -> list[dict[str, Any]]:
    return [*yaml.safe_load_all(path.read_text("utf-8"))]


def get_namespaces(obj: dict[str, Any]) -> Iterator[str]:
    """All namespaces that are named in the object, also as a part of a DNS name."""
    if "namespace" in obj["metadata"]:
        yield obj["metadata"]["namespace"]
    if obj["kind"] == "Namespace":
        yield obj["metadata"]["name"]
    yield from (subj["namespace"] for subj in obj.get("subjects", []) if "namespace" in subj)
    yield from (name.split(".")[1] for name in obj.get("spec", {}).get("dnsNames", []))


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_all_are_in_one_namespace(path: Path) -> None:
    assert {name for obj in load(path) for name in get_namespaces(obj)} <= {NAMESPACE}


def test_all_rights_are_of_the_account_that_the_deployments_use() -> None:
    objects = [obj for path in MANIFESTS for obj in load(path)]
    accounts = {obj["metadata"]["name"] for obj in objects if obj["kind"] == "ServiceAccount"}
    granted = {
        subject["name"]
        for obj in objects
        for subject in obj.get("subjects", [])
        if subject["kind"] == "ServiceAccount"
    }
    used = {
        obj["spec"]["template"]["spec"]["serviceAccountName"]
        for obj in objects
        if obj["kind"] == "Deployment"
    }
    assert accounts == granted == used == {"my-operator"}
