"""A Deployment for every Worker, with a password from a Secret: new passwords are rolled out."""

import kopf


@kopf.reconcile("workers.example.com", owns=["deployments"], related={"secrets": "spec.secret"})
def worker(spec, name, related, children, conditions, **_):
    secret = related["Secret"].get(spec["secret"])
    if secret is None:
        conditions.set("Ready", False, reason="NoSecret", message=f"no secret {spec['secret']!r}")
        yield from children["Deployment"].values()  # what runs, goes on
        return  # there will be another call when the secret appears
    live = yield deployment(name, spec, kopf.content_hash(secret.get("data")))
    ready = live.get("status", {}).get("readyReplicas", 0)
    conditions.set("Ready", ready > 0, reason="Rollout", message=f"{ready} are ready")


def deployment(name, spec, revision):
    labels = {"worker": name}
    container = {
        "name": "worker",
        "image": spec["image"],
        "envFrom": [{"secretRef": {"name": spec["secret"]}}],
    }
    annotations = {"example.com/secret": revision}  # a new one makes new pods
    template = {
        "metadata": {"labels": labels, "annotations": annotations},
        "spec": {"containers": [container]},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }
