"""The website of example 18 in the typed way: the models are also the definition of the kind."""

from typing import Annotated, Any

from pydantic import BaseModel, Field

import kopf


class WebsiteSpec(BaseModel, frozen=True):
    pages: Annotated[dict[str, str], Field(min_length=1, description="Texts by file names.")]
    replicas: Annotated[int, Field(ge=1, le=10)] = 1


class WebsiteStatus(BaseModel, frozen=True):
    conditions: list[dict[str, Any]] = []
    observedGeneration: int | None = None


@kopf.resource(
    "websites.example.com/v1",
    short=["web"],
    columns=[kopf.schema.Column("Replicas", ".spec.replicas", "integer")],
)
class Website(BaseModel, frozen=True):
    spec: WebsiteSpec
    status: WebsiteStatus | None = None


@kopf.reconcile(Website, owns=["configmaps", "deployments.apps"], every=600)
def website(spec: WebsiteSpec, name: str, conditions: kopf.Conditions, **_: Any) -> kopf.Wishes:
    metadata = {"name": name}
    pages = yield {
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": spec.pages,
    }  # fmt: skip
    revision = kopf.content_hash(pages["data"])
    live = yield deployment(name, spec.replicas, revision)
    ready = live.get("status", {}).get("readyReplicas", 0)
    text = f"{ready} of {spec.replicas} are ready"
    conditions.set("Ready", ready >= spec.replicas, reason="Rollout", message=text)


def deployment(name: str, replicas: int, revision: str) -> dict[str, Any]:
    mount = {"name": "pages", "mountPath": "/usr/share/nginx/html"}
    nginx = {"name": "nginx", "image": "nginx:stable", "volumeMounts": [mount]}
    volume = {"name": "pages", "configMap": {"name": name}}
    meta = {"labels": {"website": name}, "annotations": {"example.com/revision": revision}}
    template = {"metadata": meta, "spec": {"containers": [nginx], "volumes": [volume]}}
    selector = {"matchLabels": {"website": name}}
    spec = {"replicas": replicas, "selector": selector, "template": template}
    return {
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec,
    }  # fmt: skip
