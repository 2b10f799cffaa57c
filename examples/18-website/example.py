"""A website for every Website: its pages in a ConfigMap, served by a Deployment."""

import kopf


@kopf.reconcile("websites.example.com", owns=["configmaps", "deployments.apps"], every=600)
def website(spec, name, conditions, **_):
    replicas = spec.get("replicas", 1)
    pages = yield config_map(name, spec["pages"])
    live = yield deployment(name, replicas, kopf.content_hash(pages["data"]))
    ready = live.get("status", {}).get("readyReplicas", 0)
    conditions.set(
        "Ready", ready >= replicas, reason="Rollout", message=f"{ready} of {replicas} are ready"
    )


def config_map(name, pages):
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name},
        "data": dict(pages),
    }


def deployment(name, replicas, revision):
    nginx = {
        "name": "nginx",
        "image": "nginx:stable",
        "volumeMounts": [{"name": "pages", "mountPath": "/usr/share/nginx/html"}],
    }
    volume = {"name": "pages", "configMap": {"name": name}}
    meta = {"labels": {"website": name}, "annotations": {"example.com/revision": revision}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"website": name}},
            "template": {"metadata": meta, "spec": {"containers": [nginx], "volumes": [volume]}},
        },
    }
