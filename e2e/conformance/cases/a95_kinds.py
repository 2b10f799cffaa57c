"""The built-in kinds that operators deal with: defaults and validation."""

from __future__ import annotations

from typing import Any

from e2e.conformance.api import Api, brief
from e2e.conformance.normal import ABSENT
from e2e.conformance.objects import CONTAINER, DEPLOYMENT, POD, TEMPLATE, meta
from e2e.conformance.registry import Area

area = Area("kinds")

EVENT = {
    "reason": "Testing",
    "message": "Some text",
    "type": "Normal",
    "source": {"component": "kopf"},
    "firstTimestamp": "2020-01-01T00:00:00Z",
    "lastTimestamp": "2020-01-01T00:00:00Z",
    "count": 1,
}


def event_of(namespace: str, name: str = "x", **fields: Any) -> dict[str, Any]:
    involved = {"kind": "Plain", "name": "some", "namespace": namespace, "uid": "some-uid"}
    return {**meta(name), **EVENT, "involvedObject": involved, **fields}


def causes(shown: Any) -> Any:
    """Show only the fields of the failure: the messages of these can be long."""
    if "details" not in shown:
        return shown
    fields = [[cause["field"], cause["reason"]] for cause in shown["details"].get("causes", [])]
    return {"code": shown["code"], "reason": shown["reason"], "causes": fields}


@area.behaviour("Events are created as given, also with generated names")
async def events(api: Api) -> Any:
    reply = await api.create("events", event_of(api.namespace))
    body = event_of(api.namespace, metadata={"generateName": "kopf-event-"})
    generated = await api.create("events", body)
    fields = ("reason", "message", "type", "count", "source", "involvedObject", "firstTimestamp")
    return [reply.show(*fields), generated.name.startswith("kopf-event-")]


@area.behaviour("Events must be in the namespace of their objects")
async def event_namespaces(api: Api) -> Any:
    wrong = await api.create("events", event_of("other"))
    cluster_wide = event_of("")
    return [causes(wrong.show()), (await api.create("events", cluster_wide)).show("kind")]


TIMED = {
    "eventTime": "2020-01-01T00:00:00.000000Z",
    "reportingComponent": "kopf",
    "reportingInstance": "dev",
    "action": "Testing",
}


@area.behaviour("Texts of events are limited in bytes, if the events have their times")
async def event_limits(api: Api) -> Any:
    outcomes = []
    for number, fields in enumerate(
        [
            {"message": "x" * 1024},
            {"message": "x" * 1025},
            {"message": "\u0436" * 512},
            {"message": "\u0436" * 513},
            {"message": "x" * 1025, "eventTime": None},
            {"reason": "x" * 128},
            {"reason": "x" * 129},
            {"reason": "\u0436" * 65},
            {"reason": "x" * 129, "eventTime": None},
            {"action": "x" * 128},
            {"action": "x" * 129},
            {"reportingInstance": "x" * 128},
            {"reportingInstance": "x" * 129},
        ]
    ):
        body = {**event_of(api.namespace, f"e{number}"), **TIMED, **fields}
        outcomes.append((await api.create("events", body)).show("kind"))
    return outcomes


@area.behaviour("What events with their times must have")
async def event_requirements(api: Api) -> Any:
    outcomes = []
    for number, fields in enumerate(
        [
            {"reason": ""},
            {"action": ""},
            {"reportingInstance": ""},
            {"reportingComponent": ""},
            {"reportingComponent": "not a name!"},
            {"reportingComponent": "example.com/kopf"},
            {"reason": "", "action": "", "eventTime": None},
            {"type": "Anything"},
            {"type": ""},
            {"involvedObject": event_of("other")["involvedObject"]},
            {"involvedObject": event_of("")["involvedObject"]},
        ]
    ):
        body = {**event_of(api.namespace, f"r{number}"), **TIMED, **fields}
        outcomes.append((await api.create("events", body)).show("kind"))
    return outcomes


@area.behaviour("Texts of events in their own group are limited in bytes")
async def new_event_limits(api: Api) -> Any:
    path = f"/apis/events.k8s.io/v1/namespaces/{api.namespace}/events"
    regarding = event_of(api.namespace)["involvedObject"]
    base = {"eventTime": TIMED["eventTime"], "action": "Testing", "type": "Normal"}
    base |= {"reportingController": "kopf", "reportingInstance": "dev", "reason": "Testing"}
    outcomes = []
    for number, fields in enumerate(
        [
            {"note": "\u0436" * 512},
            {"note": "\u0436" * 513},
            {"reason": "x" * 129},
            {"action": "x" * 129},
            {"reportingInstance": "x" * 129},
            {"reportingController": "not a name!"},
            {"type": "Anything"},
        ]
    ):
        body = {**meta(f"n{number}"), **base, "regarding": regarding, **fields}
        outcomes.append((await api.create(path, body)).show("kind"))
    return outcomes


@area.behaviour("Events of cluster-scoped objects are in the default namespace")
async def cluster_events(api: Api) -> Any:
    name = f"event-{api.namespace}"
    body = event_of("", name)
    reply = await api.create("/api/v1/namespaces/default/events", body)
    await api.delete(f"/api/v1/namespaces/default/events/{name}")
    return reply.show("involvedObject.name", "metadata.namespace")


@area.behaviour("Events can have any type and reason, and texts longer than a kilobyte")
async def odd_events(api: Api) -> Any:
    bodies = [
        event_of(api.namespace, "a", type="Odd"),
        event_of(api.namespace, "b", type=None),
        event_of(api.namespace, "c", reason="Any Reason, \u00fc"),
        event_of(api.namespace, "d", message="x" * 2000),
    ]
    return [causes((await api.create("events", body)).show("type", "reason")) for body in bodies]


@area.behaviour("New-style events are checked more strictly")
async def new_events(api: Api) -> Any:
    path = f"/apis/events.k8s.io/v1/namespaces/{api.namespace}/events"
    base = {
        "eventTime": "2020-01-01T00:00:00.000000Z",
        "reportingController": "kopf.dev/operator",
        "reportingInstance": "dev",
        "action": "Testing",
        "reason": "Testing",
        "type": "Normal",
        "note": "Some text",
        "regarding": {"kind": "Plain", "name": "some", "namespace": api.namespace},
    }
    replies = [
        await api.create(path, {**meta("a"), **base}),
        await api.create(path, {**meta("b"), **base, "type": "Odd"}),
        await api.create(path, {**meta("c"), **base, "action": ""}),
        await api.create(path, {**meta("d"), **base, "note": "x" * 1025}),
    ]
    return [causes(reply.show("note", "regarding.name")) for reply in replies]


@area.behaviour("Events are the same in both of their groups")
async def both_events(api: Api) -> Any:
    await api.create("events", event_of(api.namespace))
    path = f"/apis/events.k8s.io/v1/namespaces/{api.namespace}/events/x"
    fields = ("apiVersion", "note", "regarding.name", "deprecatedCount", "deprecatedSource")
    return (await api.get(path)).show(*fields)


@area.behaviour("Events are selected by their objects")
async def selected_events(api: Api) -> Any:
    await api.create("events", event_of(api.namespace))
    selectors = ["involvedObject.name=some", "involvedObject.name=other", "reason=Testing"]
    selectors += ["type=Warning", "involvedObject.uid=some-uid,involvedObject.kind=Plain"]
    return [
        (await api.get("events", fieldSelector=one))["items.*.metadata.name"] for one in selectors
    ]


@area.behaviour("Events are watched as any other objects")
async def watched_events(api: Api) -> Any:
    version = (await api.get("events"))["metadata.resourceVersion"]
    async with api.watch("events", resourceVersion=version) as watch:
        await api.create("events", event_of(api.namespace))
        await api.patch("events/x", {"count": 2}, "strategic")
        return brief(await watch.until("MODIFIED"), "count")


@area.behaviour("Leases are created and renewed")
async def leases(api: Api) -> Any:
    spec = {"holderIdentity": "me", "leaseDurationSeconds": 15}
    spec |= {"renewTime": "2020-01-01T00:00:00.123456Z", "leaseTransitions": 0}
    created = await api.create("leases", {**meta(), "spec": spec})
    patch = {"spec": {"renewTime": "2020-01-01T00:00:10.000000Z"}}
    renewed = await api.patch("leases/x", patch)
    return [created["spec"] == spec, renewed["spec.renewTime"] == patch["spec"]["renewTime"]]


@area.behaviour("Deleted leases are created anew by replacements, unless these name an uid")
async def deleted_leases(api: Api) -> Any:
    created = await api.create("leases", {**meta(), "spec": {"holderIdentity": "me"}})
    version, uid = created["metadata.resourceVersion"], created["metadata.uid"]
    found = []
    for known in ({"uid": uid, "resourceVersion": version}, {"resourceVersion": version}, {}):
        await api.delete("leases/x")
        reply = await api.put("leases/x", {**meta(**known), "spec": {"holderIdentity": "me"}})
        found.append([reply.code, reply["reason"], reply["metadata.name"]])
    return found


@area.behaviour("Wrong leases are refused")
async def wrong_leases(api: Api) -> Any:
    specs = [{"leaseDurationSeconds": 0}, {"leaseTransitions": -1}, {"renewTime": "odd"}]
    replies = [await api.create("leases", {**meta(), "spec": spec}) for spec in specs]
    return [[reply.code, reply["reason"]] for reply in replies]


@area.behaviour("Config maps are checked")
async def configmaps(api: Api) -> Any:
    bodies: list[dict[str, Any]] = [
        {"data": {"a b": "c"}},
        {"data": {"a": 1}},
        {"binaryData": {"a": "YQ=="}},
        {"binaryData": {"a": "odd!"}},
        {"data": {"a": "b"}, "binaryData": {"a": "YQ=="}},
    ]
    replies = [await api.create("configmaps", {**meta(), **body}) for body in bodies]
    return [causes(reply.show("binaryData")) for reply in replies]


@area.behaviour("Secrets are opaque by default; their texts are encoded")
async def secrets(api: Api) -> Any:
    body = {**meta(), "stringData": {"a": "text"}, "data": {"b": "YQ=="}}
    wrong = {**meta("y"), "data": {"b": "not base64"}}
    return [
        (await api.create("secrets", body)).show("type", "data", "stringData"),
        [(await api.create("secrets", wrong)).code],
    ]


@area.behaviour("Namespaces are active, labelled by their names, with a finalizer in the spec")
async def namespaces(api: Api) -> Any:
    reply = await api.get(f"namespaces/{api.namespace}")
    return reply.show("metadata.labels", "spec", "status")


@area.behaviour("The initial namespaces are there")
async def initial_namespaces(api: Api) -> Any:
    names = (await api.get("namespaces"))["items.*.metadata.name"]
    return [name for name in names if not name.startswith("conformance-")]


@area.behaviour("Services get their addresses and defaults")
async def services(api: Api) -> Any:
    spec = {"ports": [{"port": 80}], "selector": {"app": "x"}}
    reply = await api.create("services", {**meta(), "spec": spec})
    fields = ("type", "sessionAffinity", "ipFamilyPolicy", "internalTrafficPolicy", "ports")
    has_address = reply["spec.clusterIP"].startswith("10.")
    return [reply.show(*(f"spec.{field}" for field in fields)), has_address]


@area.behaviour("Services are checked")
async def wrong_services(api: Api) -> Any:
    specs: list[dict[str, Any]] = [
        {},
        {"ports": [{"port": 0}]},
        {"ports": [{"port": 80}, {"port": 81}]},
        {"ports": [{"port": 80}], "type": "Odd"},
    ]
    replies = [await api.create("services", {**meta(), "spec": spec}) for spec in specs]
    return [causes(reply.show("kind")) for reply in replies]


@area.behaviour("Pods get their defaults, and are pending")
async def pods(api: Api) -> Any:
    reply = await api.create("pods", {**meta(), **POD})
    fields = ("restartPolicy", "dnsPolicy", "schedulerName", "terminationGracePeriodSeconds")
    container = {k: v for k, v in reply["spec.containers.0"].items() if k != "volumeMounts"}
    return [
        reply.show(*(f"spec.{field}" for field in fields), "status.phase", "status.qosClass"),
        container,
    ]


@area.behaviour("Pods are checked")
async def wrong_pods(api: Api) -> Any:
    specs: list[dict[str, Any]] = [
        {},
        {"containers": []},
        {"containers": [{"name": "x"}]},
        {"containers": [{"image": "x"}]},
        {"containers": [CONTAINER, CONTAINER]},
        {"containers": [CONTAINER], "restartPolicy": "Odd"},
        {"containers": [{**CONTAINER, "ports": [{"containerPort": 0}]}]},
        {"containers": "text"},
    ]
    replies = [await api.create("pods", {**meta(), "spec": spec}) for spec in specs]
    return [causes(reply.show("kind")) for reply in replies]


@area.behaviour("The status of a pod is changed in its subresource", bare=True)
async def pod_status(api: Api) -> Any:
    await api.make("pods", POD)
    reply = await api.patch("pods/x/status", {"status": {"phase": "Running"}}, "strategic")
    main = await api.patch("pods/x", {"status": {"phase": "Failed"}})
    return [reply.show("status.phase"), main.show("status.phase")]


@area.behaviour("Deployments get their defaults", bare=True)
async def deployments(api: Api) -> Any:
    reply = await api.create("deployments", {**meta(), **DEPLOYMENT})
    fields = ("replicas", "strategy", "revisionHistoryLimit", "progressDeadlineSeconds")
    return reply.show(*(f"spec.{field}" for field in fields), "metadata.generation", "status")


@area.behaviour("Deployments are checked")
async def wrong_deployments(api: Api) -> Any:
    selector = {"matchLabels": {"app": "y"}}
    specs: list[dict[str, Any]] = [
        {},
        {"selector": selector, "template": TEMPLATE},
        {"selector": {}, "template": TEMPLATE},
        {**DEPLOYMENT["spec"], "replicas": -1},
    ]
    replies = [await api.create("deployments", {**meta(), "spec": spec}) for spec in specs]
    return [causes(reply.show("kind")) for reply in replies]


@area.behaviour("The scale of a deployment is read and written", bare=True)
async def deployment_scale(api: Api) -> Any:
    await api.make("deployments", DEPLOYMENT)
    patched = await api.patch("deployments/x/scale", {"spec": {"replicas": 3}})
    main = await api.get("deployments/x")
    fields = ("kind", "apiVersion", "spec", "status")
    return [patched.show(*fields), main.show("spec.replicas", "metadata.generation")]


@area.behaviour("Jobs get their defaults, their selectors, and labels")
async def jobs(api: Api) -> Any:
    spec = {"template": {"spec": {"containers": [CONTAINER], "restartPolicy": "Never"}}}
    reply = await api.create("jobs", {**meta(), "spec": spec})
    fields = ("parallelism", "completions", "backoffLimit", "suspend", "completionMode")
    labels = sorted(reply["spec.template.metadata.labels"])
    return [
        reply.show(*(f"spec.{field}" for field in fields)),
        sorted(reply["spec.selector.matchLabels"]),
        labels,
    ]


CRONJOB: dict[str, Any] = {
    "schedule": "*/5 1-3 1,15 jan sun",
    "jobTemplate": {
        "spec": {"template": {"spec": {"containers": [CONTAINER], "restartPolicy": "Never"}}}
    },
}


@area.behaviour("Cron jobs get their defaults")
async def cron_jobs(api: Api) -> Any:
    reply = await api.create("cronjobs", {**meta(), "spec": CRONJOB})
    fields = ("concurrencyPolicy", "suspend", "successfulJobsHistoryLimit", "jobTemplate.metadata")
    pod = "jobTemplate.spec.template.spec"
    return [
        reply.show(*(f"spec.{field}" for field in (*fields, f"{pod}.dnsPolicy"))),
        sorted(reply["spec.jobTemplate.spec"]),
    ]


@area.behaviour("Cron jobs are checked")
async def wrong_cron_jobs(api: Api) -> Any:
    job = CRONJOB["jobTemplate"]["spec"]["template"]["spec"]
    templates = [
        {"spec": {"template": {"spec": {**job, **change}}}}
        for change in ({"restartPolicy": "Always"}, {"containers": [{"name": "x"}]})
    ]
    changes: list[dict[str, Any]] = [
        {"schedule": "bad"},
        {"schedule": "* * * * * *"},
        {"schedule": "99 * * * *"},
        {"schedule": "* * 0 * *"},
        {"schedule": "* * 9-3 * *"},
        {"schedule": "@sometimes"},
        {"schedule": "TZ=UTC * * * * *"},
        {"timeZone": "No/Where"},
        {"concurrencyPolicy": "Odd"},
        {"failedJobsHistoryLimit": -1},
        *({"jobTemplate": template} for template in templates),
    ]
    replies = [
        await api.create("cronjobs", {**meta(), "spec": {**CRONJOB, **change}})
        for change in changes
    ]
    replies.append(await api.create("cronjobs", {**meta("x" * 53), "spec": CRONJOB}))
    return [causes(reply.show("kind")) for reply in replies]


@area.behaviour("Stateful sets and volume claims get their defaults")
async def storage(api: Api) -> Any:
    spec = {**DEPLOYMENT["spec"], "serviceName": "x"}
    stateful = await api.create("statefulsets", {**meta(), "spec": spec})
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    claimed = await api.create("persistentvolumeclaims", {**meta(), "spec": claim})
    fields = ("spec.replicas", "spec.podManagementPolicy", "spec.updateStrategy")
    return [stateful.show(*fields), claimed.show("spec.volumeMode", "status")]


@area.behaviour("Bound volume claims neither shrink below their volumes nor change otherwise")
async def bound_claims(api: Api) -> Any:
    def size(value: str) -> dict[str, Any]:
        return {"spec": {"resources": {"requests": {"storage": value}}}}

    claim = {"accessModes": ["ReadWriteOnce"], **size("2Gi")["spec"]}
    await api.make("persistentvolumeclaims", {"spec": claim})
    status = {"phase": "Bound", "capacity": {"storage": "2Gi"}}
    await api.patch("persistentvolumeclaims/x/status", {"status": status})
    replies = [
        await api.patch("persistentvolumeclaims/x", size("1Gi")),
        await api.patch("persistentvolumeclaims/x", size("2147483647")),
        await api.patch("persistentvolumeclaims/x", size("2Gi")),
    ]
    other = await api.patch(
        "persistentvolumeclaims/x", {"spec": {"accessModes": ["ReadWriteMany"]}}
    )
    return [*(reply.show("kind") for reply in replies), causes(other.show("kind"))]


@area.behaviour("Service accounts are created as they are")
async def service_accounts(api: Api) -> Any:
    reply = await api.create("serviceaccounts", meta())
    return [reply.show("kind", "secrets", "automountServiceAccountToken")]


@area.behaviour("One can ask what one is allowed to do, and who one is")
async def reviews(api: Api) -> Any:
    attributes = {"verb": "list", "resource": "pods", "namespace": api.namespace}
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    access = await api.create("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body)
    who = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    self = await api.create("/apis/authentication.k8s.io/v1/selfsubjectreviews", who)
    known = self["status.userInfo.username"] not in (ABSENT, "")
    return [access.show("kind", "status.allowed"), self.code, known]


@area.behaviour("Roles and bindings are created as they are")
async def roles(api: Api) -> Any:
    root = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{api.namespace}"
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
    subjects = [{"kind": "ServiceAccount", "name": "x", "namespace": api.namespace}]
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "x"}
    role = await api.create(f"{root}/roles", {**meta(), "rules": rules})
    body = {**meta(), "subjects": subjects, "roleRef": reference}
    binding = await api.create(f"{root}/rolebindings", body)
    return [role.show("rules"), binding.show("roleRef", "subjects")]
