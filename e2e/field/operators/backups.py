"""An operator as they are written out there, on three clients at once, with what was never public.

It makes backups of databases: a claim for the storage (pykube), a job (the official client),
a config map with the schedule (requests by hand); all of that in synchronous functions.
"""

import datetime
import logging
import os
import threading

import kopf._cogs.structs.diffs
import kubernetes
import pykube
import requests
from kopf._cogs.configs.configuration import OperatorSettings
from kopf._cogs.structs.bodies import Body
from kopf._cogs.structs.dicts import resolve
from kopf._cogs.structs.patches import Patch
from kopf._core.actions.execution import PermanentError, TemporaryError
from kopf._core.intents.causes import Reason

import kopf

LOCK = threading.Lock()
SEEN_PODS = {}
logger = logging.getLogger(__name__)


class Backup(pykube.objects.NamespacedAPIObject):
    version = "example.com/v1"
    endpoint = "backups"
    kind = "Backup"


@kopf.on.login()
def login_fn(**kwargs):
    return kopf.login_via_client(**kwargs) or kopf.login_via_pykube(**kwargs)


@kopf.on.startup()
def configure(settings: OperatorSettings, logger, memo, **_):
    settings.posting.level = logging.INFO
    settings.persistence.finalizer = "backups.example.com/finalizer"
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix="example.com")
    settings.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(
        prefix="example.com", key="last-handled"
    )
    settings.execution.max_workers = 4
    memo.api = pykube.HTTPClient(pykube.KubeConfig.from_env())
    kubernetes.config.load_kube_config()
    memo.token = "not-checked"
    logger.info("The backup operator is configured.")


@kopf.on.cleanup()
def cleanup(logger, **_):
    logger.info("The backup operator says goodbye.")


@kopf.on.create("example.com", "v1", "backups")
def create_claim(spec, name, namespace, memo, logger, **_):
    size = spec.get("size")
    if not size:
        raise PermanentError(f"Size must be set; got {size!r}.")
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": f"{name}-claim"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": size}},
        },
    }
    obj = pykube.PersistentVolumeClaim(memo.api, claim)
    kopf.adopt(obj)
    kopf.label(obj, {"app": "backups"})
    obj.create()
    logger.info(f"PVC child is created: {obj.name}")
    return {"claim": obj.name}


@kopf.on.create("example.com", "v1", "backups", backoff=0.1)
def create_job(body: Body, spec, retry, patch: Patch, started, runtime, logger, **_):
    if not retry:
        raise TemporaryError("The storage is not ready yet.", delay=0.1)
    job = kubernetes.client.V1Job(
        metadata=kubernetes.client.V1ObjectMeta(),
        spec=kubernetes.client.V1JobSpec(
            template=kubernetes.client.V1PodTemplateSpec(
                spec=kubernetes.client.V1PodSpec(
                    restart_policy="Never",
                    containers=[kubernetes.client.V1Container(name="main", image="busybox")],
                )
            )
        ),
    )
    job.api_version, job.kind = "batch/v1", "Job"
    kopf.adopt(job, owner=body, nested=["spec.template"])
    kopf.label([job], {"app": "backups"}, nested="spec.template")
    job.metadata.name, job.metadata.generate_name = f"{body['metadata']['name']}-job", None
    kubernetes.client.BatchV1Api().create_namespaced_job(body.metadata.namespace, job)
    patch.status["attempts"] = retry + 1
    patch.setdefault("metadata", {}).setdefault("labels", {})["backed-up"] = "yes"
    kopf.info(body, reason="Scheduled", message=f"Made in {retry + 1} attempts.")
    assert isinstance(started, datetime.datetime), started
    assert isinstance(runtime, datetime.timedelta), runtime


@kopf.on.resume("example.com", "v1", "backups")
@kopf.on.update("example.com", "v1", "backups", field="spec.schedule")
@kopf.on.create("example.com", "v1", "backups", field="spec.schedule")
def write_schedule(name, namespace, spec, memo, reason, logger, uid, **kwargs):
    """By HTTP with no client at all, as if there were no libraries."""
    url = os.environ["FIELD_API"] + f"/api/v1/namespaces/{namespace}/configmaps"
    data = {"schedule": spec.get("schedule", "-"), "reason": Reason(reason).value}
    owner = {"apiVersion": "example.com/v1", "kind": "Backup", "name": name, "uid": uid}
    body = {"metadata": {"name": name, "ownerReferences": [owner]}, "data": data}
    with LOCK:
        rsp = requests.put(f"{url}/{name}", json=body, timeout=5)
        if rsp.status_code == 404:
            rsp = requests.post(url, json=body, timeout=5)
        rsp.raise_for_status()
    return data


@kopf.on.update("example.com", "v1", "backups")
def explain(diff: kopf._cogs.structs.diffs.Diff, old, new, body, logger, **_):
    for op, field, before, after in diff:
        logger.info(f"{op} {'.'.join(field)}: {before!r} -> {after!r}")
    assert resolve(body, ("spec", "size")) == body["spec"]["size"]
    kopf.event(body, type="Normal", reason="Explained", message=f"{len(diff)} changes.")


@kopf.on.delete("backups.example.com")
def confirm(body, memo, namespace, name, logger, **_):
    maps = pykube.ConfigMap.objects(memo.api).filter(namespace=namespace)
    names = [cm.name for cm in maps]
    logger.info(f"Config maps on deletion: {names}")
    backup = Backup.objects(memo.api, namespace=namespace).get_by_name(name)
    assert backup.obj["metadata"]["uid"] == body.meta.get("uid")


@kopf.on.event("", "v1", "pods", labels={"app": "backups"})
def watch_pods(event, type, name, memo: kopf.Memo, status, **_):
    memo.setdefault("phases", []).append(status.get("phase"))
    SEEN_PODS[name] = type


@kopf.index("pods", labels={"app": kopf.PRESENT})
def by_app(labels, name, **_):
    return {labels["app"]: name}


@kopf.timer("example.com", "v1", "backups", interval=0.2, idle=0.1, when=lambda spec, **_: spec)
def count_pods(by_app: kopf.Index, patch, status, **_):
    count = len(by_app.get("backups", []))
    if status.get("pods") != count:
        patch.status["pods"] = count


@kopf.daemon("backups", cancellation_timeout=1.0)
def linger(stopped, logger, name, **_):
    logger.info(f"The daemon of {name} is waiting.")
    while not stopped:
        stopped.wait(10)
    logger.info(f"The daemon of {name} is stopped for {stopped.reason}.")
