import base64
from decimal import Decimal

import pytest

from kopf_kits.sandbox.kinds.claims import parse_quantity

NS = "/api/v1/namespaces/default"
LABELS = {"app": "x"}
TEMPLATE = {"metadata": {"labels": LABELS}, "spec": {"containers": [
    {"name": "a", "image": "image"}]}}  # fmt: skip
WORKLOAD = {"selector": {"matchLabels": LABELS}, "template": TEMPLATE}


async def test_namespaces_at_start(client):
    answer = await client.get("/api/v1/namespaces")
    names = [item["metadata"]["name"] for item in answer.json["items"]]
    assert names == ["default", "kube-node-lease", "kube-public", "kube-system"]
    assert all(item["status"]["phase"] == "Active" for item in answer.json["items"])


async def test_secrets(client):
    body = {"metadata": {"name": "x"}, "stringData": {"a": "b"}, "data": {"c": "ZA=="}}
    answer = await client.post(f"{NS}/secrets", body)
    assert answer.json["data"] == {"a": base64.b64encode(b"b").decode(), "c": "ZA=="}
    assert answer.json["type"] == "Opaque"
    assert "stringData" not in answer.json
    assert "generation" not in answer.json["metadata"]
    assert (await client.merge(f"{NS}/secrets/x", {"type": "other"})).status == 422
    answer = await client.merge(f"{NS}/secrets/x", {"data": {"a": "YQ?="}})
    assert answer.status == 400
    assert answer.json["message"].endswith("illegal base64 data at input byte 2")
    assert (await client.merge(f"{NS}/secrets/x", {"data": {"a b": "YQ=="}})).status == 422


async def test_immutable_configmaps(client):
    body = {"metadata": {"name": "x"}, "data": {"a": "b"}, "immutable": True}
    await client.post(f"{NS}/configmaps", body)
    answer = await client.merge(f"{NS}/configmaps/x", {"data": {"a": "c"}})
    assert answer.status == 422
    assert answer.json["details"]["causes"][0]["reason"] == "FieldValueForbidden"


def make_claim_spec(size):
    return {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}


async def test_s6_claims_grow_but_do_not_shrink(client):
    url = f"{NS}/persistentvolumeclaims"
    await client.post(url, {"metadata": {"name": "x"}, "spec": make_claim_spec("2Gi")})
    assert (await client.merge(f"{url}/x", {"spec": make_claim_spec("3Gi")})).status == 200
    answer = await client.merge(f"{url}/x", {"spec": make_claim_spec("2500M")})
    assert answer.status == 422
    assert answer.json["message"] == (
        'PersistentVolumeClaim "x" is invalid: spec.resources.requests.storage: '
        "Forbidden: field can not be less than previous value"
    )
    answer = await client.merge(f"{url}/x", {"spec": {"accessModes": ["ReadWriteMany"]}})
    assert answer.status == 422
    assert "spec is immutable after creation except resources.requests" in answer.json["message"]
    assert (await client.merge(f"{url}/x", {"spec": {"volumeName": "v"}})).status == 200
    assert (await client.merge(f"{url}/x", {"spec": {"volumeName": "w"}})).status == 422


async def test_s6_claims_do_not_become_smaller_than_their_volumes(client):
    url = f"{NS}/persistentvolumeclaims"
    await client.post(url, {"metadata": {"name": "x"}, "spec": make_claim_spec("1Gi")})
    status = {"phase": "Bound", "capacity": {"storage": "1Gi"}}
    await client.merge(f"{url}/x/status", {"status": status})
    assert (await client.merge(f"{url}/x", {"spec": make_claim_spec("3Gi")})).status == 200
    assert (await client.merge(f"{url}/x", {"spec": make_claim_spec("2Gi")})).status == 200
    answer = await client.merge(f"{url}/x", {"spec": make_claim_spec("1Gi")})
    assert answer.json["message"].endswith("field can not be less than status.capacity")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1Gi", 2**30),
        ("1.5Ki", 1536),
        ("500M", 500_000_000),
        ("2e3", 2000),
        ("1E", 10**18),
        ("1500m", Decimal("1.5")),
        (7, 7),
        ("1GiB", None),
        ("..", None),
        (None, None),
    ],
)
def test_quantities(text, value):
    assert parse_quantity(text) == value


async def test_pods(client):
    body = {"metadata": {"name": "x"}, "spec": TEMPLATE["spec"]}
    answer = await client.post(f"{NS}/pods", body)
    assert answer.json["status"]["phase"] == "Pending"
    assert answer.json["spec"]["restartPolicy"] == "Always"
    assert answer.json["spec"]["containers"][0]["imagePullPolicy"] == "Always"
    patch = {"status": {"phase": "Running"}}
    assert (await client.merge(f"{NS}/pods/x", patch)).json["status"]["phase"] == "Pending"
    assert (await client.merge(f"{NS}/pods/x/status", patch)).json["status"]["phase"] == "Running"
    answer = await client.get(f"{NS}/pods?fieldSelector=status.phase=Running")
    assert len(answer.json["items"]) == 1
    answer = await client.get(f"{NS}/pods?fieldSelector=status.phase!=Running")
    assert answer.json["items"] == []


@pytest.mark.parametrize(
    ("group", "plural", "spec"),
    [
        ("apps", "deployments", WORKLOAD),
        ("apps", "replicasets", WORKLOAD),
        ("apps", "statefulsets", {**WORKLOAD, "serviceName": "x"}),
        ("apps", "daemonsets", WORKLOAD),
        ("batch", "jobs", {"template": {"spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}}),
        ("batch", "cronjobs", {"schedule": "* * * * *", "jobTemplate": {
            "spec": {"template": {"spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}}}}),
    ],
)  # fmt: skip
async def test_workloads(client, group, plural, spec):
    path = f"/apis/{group}/v1/namespaces/default/{plural}"
    answer = await client.post(path, {"metadata": {"name": "x"}, "spec": spec})
    assert answer.status == 201
    assert answer.json["metadata"]["generation"] == 1
    assert "status" in answer.json
    answer = await client.merge(f"{path}/x", {"metadata": {"labels": {"a": "b"}}})
    assert answer.json["metadata"]["generation"] == 1
    answer = await client.merge(f"{path}/x/status", {"status": {"observedGeneration": 1}})
    assert answer.json["metadata"]["generation"] == 1
    if plural in ("deployments", "replicasets", "statefulsets"):
        answer = await client.merge(f"{path}/x", {"spec": {"replicas": 5}})
        assert answer.json["metadata"]["generation"] == 2
        answer = await client.merge(
            f"{path}/x", {"spec": {"selector": {"matchLabels": {"y": "z"}}}}
        )
        assert answer.status == 422
        assert "spec.selector" in [cause["field"] for cause in answer.json["details"]["causes"]]


async def test_wrong_types_cannot_be_decoded(client):
    path = "/apis/apps/v1/namespaces/default/deployments"
    body = {"metadata": {"name": "x"}, "spec": {**WORKLOAD, "replicas": "many"}}
    answer = await client.post(path, body)
    assert answer.status == 400
    assert answer.json["message"] == (
        'Deployment in version "v1" cannot be handled as a Deployment: json: cannot unmarshal '
        "string into Go struct field DeploymentSpec.spec.replicas of type int32"
    )


async def test_unknown_fields_are_dropped(client):
    body = {"metadata": {"name": "x"}, "data": {"a": "b"}, "unknown": 1}
    answer = await client.post(f"{NS}/configmaps", body)
    assert "unknown" not in answer.json
    assert answer.headers["Warning"] == '299 - "unknown field \\"unknown\\""'


@pytest.mark.parametrize(
    ("plural", "spec", "field"),
    [
        ("pods", {"containers": [{"name": "a"}]}, "spec.containers[0].image"),
        ("pods", {"containers": TEMPLATE["spec"]["containers"] * 2}, "spec.containers[1].name"),
        ("services", {}, "spec.ports"),
        ("services", {"ports": [{"port": 0}]}, "spec.ports[0].port"),
        ("services", {"ports": [{"port": 1}], "type": "Odd"}, "spec.type"),
    ],
)
async def test_wrong_specs(client, plural, spec, field):
    answer = await client.post(f"{NS}/{plural}", {"metadata": {"name": "x"}, "spec": spec})
    assert answer.status == 422
    assert answer.json["details"]["causes"][0]["field"] == field


async def test_pods_are_immutable_but_for_the_images(client):
    await client.post(f"{NS}/pods", {"metadata": {"name": "x"}, "spec": TEMPLATE["spec"]})
    container = {"name": "a", "image": "other"}
    answer = await client.strategic(f"{NS}/pods/x", {"spec": {"containers": [container]}})
    assert answer.json["spec"]["containers"][0]["image"] == "other"
    answer = await client.merge(f"{NS}/pods/x", {"spec": {"restartPolicy": "Never"}})
    assert answer.status == 422
    assert answer.json["details"]["causes"][0]["field"] == "spec"


async def test_items_of_lists_have_no_kinds(client):
    answer = await client.get("/api/v1/namespaces")
    assert answer.json["kind"] == "NamespaceList"
    assert all("kind" not in item and "apiVersion" not in item for item in answer.json["items"])
    answer = await client.get("/api/v1/namespaces?watch=1&timeoutSeconds=1")
    assert all(line["object"]["kind"] == "Namespace" for line in answer.lines)


async def test_questions_about_access(client):
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    spec = {"resourceAttributes": {"verb": "list", "resource": "pods"}}
    answer = await client.post(path, {"spec": spec})
    assert answer.status == 201
    assert answer.json["status"] == {"allowed": True}
    assert answer.json["spec"] == spec
    answer = await client.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", {})
    assert answer.json["status"]["userInfo"]["username"] == "sandbox"
    assert (await client.get(path)).status == 405


async def test_required_fields(client):
    answer = await client.post(f"{NS}/pods", {"metadata": {"name": "x"}, "spec": {}})
    assert answer.status == 422
    [cause] = answer.json["details"]["causes"]
    assert (cause["field"], cause["reason"]) == ("spec.containers", "FieldValueRequired")


async def test_unconditional_replacement(client):
    await client.post(f"{NS}/configmaps", {"metadata": {"name": "x"}})
    body = {"metadata": {"name": "x"}, "data": {"a": "b"}}
    assert (await client.put(f"{NS}/configmaps/x", body)).json["data"] == {"a": "b"}


async def test_leases_are_created_by_replacement(client):
    path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/x"
    body = {"metadata": {"name": "x"}, "spec": {"holderIdentity": "me"}}
    assert (await client.put(path, body)).status == 201
    assert (await client.put(path, body)).status == 200


async def test_services_have_addresses(client):
    body = {"metadata": {"name": "x"}, "spec": {"ports": [{"port": 80}]}}
    answer = await client.post(f"{NS}/services", body)
    spec = answer.json["spec"]
    assert spec["clusterIP"].startswith("10.96.0.")
    assert spec["ports"] == [{"port": 80, "protocol": "TCP", "targetPort": 80}]
    body["metadata"]["name"] = "with.dot"
    answer = await client.post(f"{NS}/services", body)
    assert "must not contain dots" in answer.json["message"]


async def test_events_in_both_groups(client):
    body = {
        "metadata": {"generateName": "kopf-event-", "namespace": "default"},
        "involvedObject": {"kind": "Pod", "name": "x", "namespace": "default", "uid": "u"},
        "type": "Normal",
        "reason": "Logging",
        "message": "hello",
        "reportingComponent": "kopf",
    }
    answer = await client.post(f"{NS}/events", body)
    assert answer.status == 201
    name = answer.json["metadata"]["name"]
    answer = await client.get(f"/apis/events.k8s.io/v1/namespaces/default/events/{name}")
    assert answer.json["apiVersion"] == "events.k8s.io/v1"
    assert answer.json["note"] == "hello"
    assert answer.json["regarding"]["name"] == "x"
    assert answer.json["reportingController"] == "kopf"
    query = "fieldSelector=involvedObject.name=x,involvedObject.uid=u,type=Normal"
    assert len((await client.get(f"{NS}/events?{query}")).json["items"]) == 1
    answer = await client.get(
        "/apis/events.k8s.io/v1/namespaces/default/events?fieldSelector=regarding.name=y"
    )
    assert answer.json["items"] == []
    body["involvedObject"]["namespace"] = "other"
    assert (await client.post(f"{NS}/events", body)).status == 422


async def test_scale(client):
    path = "/apis/apps/v1/namespaces/default/deployments"
    await client.post(path, {"metadata": {"name": "x"}, "spec": WORKLOAD})
    scale = (await client.get(f"{path}/x/scale")).json
    assert scale["kind"] == "Scale"
    assert scale["spec"] == {"replicas": 1}
    assert scale["status"] == {"replicas": 0, "selector": "app=x"}
    answer = await client.merge(f"{path}/x/scale", {"spec": {"replicas": 3}})
    assert answer.json["spec"] == {"replicas": 3}
    assert (await client.get(f"{path}/x")).json["spec"]["replicas"] == 3
    assert (await client.put(f"{path}/x/scale", scale)).status == 409
    assert (await client.merge(f"{path}/x/scale", {"spec": {"replicas": -1}})).status == 422


async def test_eviction_and_binding(client):
    await client.post(f"{NS}/pods", {"metadata": {"name": "x"}, "spec": TEMPLATE["spec"]})
    answer = await client.post(f"{NS}/pods/x/binding", {"target": {"kind": "Node", "name": "n"}})
    assert answer.status == 201
    assert (await client.get(f"{NS}/pods/x")).json["spec"]["nodeName"] == "n"
    answer = await client.post(f"{NS}/pods/x/eviction", {"metadata": {"name": "x"}})
    assert answer.status == 201
    assert (await client.get(f"{NS}/pods/x")).json["metadata"]["deletionTimestamp"]


async def test_tokens(client):
    await client.post(f"{NS}/serviceaccounts", {"metadata": {"name": "x"}})
    answer = await client.post(f"{NS}/serviceaccounts/x/token", {"spec": {}})
    assert answer.status == 201
    assert answer.json["status"]["token"]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"schedule": "bad"}, "spec.schedule"),
        ({"schedule": "60 * * * *"}, "spec.schedule"),
        ({"schedule": "* * 0 * *"}, "spec.schedule"),
        ({"schedule": "* 5-3 * * *"}, "spec.schedule"),
        ({"schedule": "@sometimes"}, "spec.schedule"),
        ({"schedule": "CRON_TZ=UTC * * * * *"}, "spec.schedule"),
        ({"timeZone": "No/Where"}, "spec.timeZone"),
        ({"concurrencyPolicy": "Odd"}, "spec.concurrencyPolicy"),
        ({"failedJobsHistoryLimit": -1}, "spec.failedJobsHistoryLimit"),
    ],
)
async def test_q_wrong_cron_jobs_are_refused(client, change, field):
    pod = {**TEMPLATE["spec"], "restartPolicy": "Never"}
    spec = {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": {"spec": pod}}}, **change}
    path = "/apis/batch/v1/namespaces/default/cronjobs"
    answer = await client.post(path, {"metadata": {"name": "x"}, "spec": spec})
    assert answer.status == 422
    assert [cause["field"] for cause in answer.json["details"]["causes"]] == [field]


@pytest.mark.parametrize("schedule", ["@daily", "@every 5m", "*/5 1-3 1,15 jan sun"])
async def test_q_right_schedules_of_cron_jobs_are_accepted(client, schedule):
    pod = {**TEMPLATE["spec"], "restartPolicy": "Never"}
    spec = {"schedule": schedule, "jobTemplate": {"spec": {"template": {"spec": pod}}}}
    path = "/apis/batch/v1/namespaces/default/cronjobs"
    answer = await client.post(path, {"metadata": {"name": "y" * 52}, "spec": spec})
    assert answer.status == 201
    answer = await client.post(path, {"metadata": {"name": "y" * 53}, "spec": spec})
    assert answer.status == 422
