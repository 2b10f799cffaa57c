"""The built-in kinds that the sandbox serves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kopf_kits.sandbox.schemas.schemas import Node
from kopf_kits.sandbox.store.resources import VERBS, Registry, Resource, Scale, Served
from kopf_kits.sandbox.store.rules import Rules
from kopf_kits.sandbox.store.storage import Store, Versions

from . import defaults
from .builtins import builtin_schemas
from .conversions import event_from_v1, event_to_v1

_PLAIN = Rules(strategic=True, generation=False, unconditional=True)


@dataclass(frozen=True, slots=True)
class Kind:
    """A line in the table of the built-in kinds."""

    group: str
    plural: str
    kind: str
    short: str = ""
    categories: str = ""
    namespaced: bool = True
    versions: str = "v1"
    status: bool = False
    scale: bool = False
    extras: str = ""
    collective: bool = True
    rules: Rules = _PLAIN


def _rules(key: str) -> Rules:
    return defaults.RULES[key]


_RBAC = Rules(strategic=True, generation=False, unconditional=True, names="path")
_COUNTED = Rules(strategic=True, unconditional=True)

_EVENT_FIELDS = ("regarding.kind", "regarding.name", "regarding.namespace", "regarding.uid",
                 "reason", "type", "reportingController")  # fmt: skip

KINDS = (
    Kind("", "namespaces", "Namespace", "ns", namespaced=False, status=True, extras="finalize",
         collective=False, rules=_rules("namespaces")),
    Kind("", "nodes", "Node", "no", namespaced=False, status=True, rules=_rules("nodes")),
    Kind("", "pods", "Pod", "po", "all", status=True, rules=_rules("pods"),
         extras="log,exec,attach,portforward,eviction,binding,ephemeralcontainers"),
    Kind("", "services", "Service", "svc", "all", status=True, rules=_rules("services")),
    Kind("", "secrets", "Secret", rules=_rules("secrets")),
    Kind("", "configmaps", "ConfigMap", "cm", rules=_rules("configmaps")),
    Kind("", "events", "Event", "ev", rules=_rules("events")),
    Kind("", "serviceaccounts", "ServiceAccount", "sa", rules=_rules("serviceaccounts"),
         extras="token"),
    Kind("", "endpoints", "Endpoints", "ep"),
    Kind("", "limitranges", "LimitRange", "limits"),
    Kind("", "podtemplates", "PodTemplate", rules=_rules("podtemplates")),
    Kind("", "resourcequotas", "ResourceQuota", "quota", status=True),
    Kind("", "replicationcontrollers", "ReplicationController", "rc", "all", status=True,
         scale=True, rules=_COUNTED),
    Kind("", "persistentvolumes", "PersistentVolume", "pv", namespaced=False, status=True,
         rules=_rules("persistentvolumes")),
    Kind("", "persistentvolumeclaims", "PersistentVolumeClaim", "pvc", status=True,
         rules=_rules("persistentvolumeclaims")),
    Kind("apps", "deployments", "Deployment", "deploy", "all", status=True, scale=True,
         rules=_rules("deployments")),
    Kind("apps", "replicasets", "ReplicaSet", "rs", "all", status=True, scale=True,
         rules=_rules("replicasets")),
    Kind("apps", "statefulsets", "StatefulSet", "sts", "all", status=True, scale=True,
         rules=_rules("statefulsets")),
    Kind("apps", "daemonsets", "DaemonSet", "ds", "all", status=True,
         rules=_rules("daemonsets")),
    Kind("apps", "controllerrevisions", "ControllerRevision"),
    Kind("batch", "jobs", "Job", "", "all", status=True, rules=_rules("jobs")),
    Kind("batch", "cronjobs", "CronJob", "cj", "all", status=True, rules=_rules("cronjobs")),
    Kind("networking.k8s.io", "ingresses", "Ingress", "ing", status=True, rules=_COUNTED),
    Kind("networking.k8s.io", "ingressclasses", "IngressClass", namespaced=False,
         rules=_COUNTED),
    Kind("networking.k8s.io", "networkpolicies", "NetworkPolicy", "netpol", rules=_COUNTED),
    Kind("policy", "poddisruptionbudgets", "PodDisruptionBudget", "pdb", status=True,
         rules=_COUNTED),
    Kind("autoscaling", "horizontalpodautoscalers", "HorizontalPodAutoscaler", "hpa", "all",
         versions="v2,v1", status=True),
    Kind("coordination.k8s.io", "leases", "Lease", rules=_rules("leases")),
    Kind("discovery.k8s.io", "endpointslices", "EndpointSlice", rules=_COUNTED),
    Kind("rbac.authorization.k8s.io", "roles", "Role", rules=_RBAC),
    Kind("rbac.authorization.k8s.io", "rolebindings", "RoleBinding", rules=_RBAC),
    Kind("rbac.authorization.k8s.io", "clusterroles", "ClusterRole", namespaced=False,
         rules=_RBAC),
    Kind("rbac.authorization.k8s.io", "clusterrolebindings", "ClusterRoleBinding",
         namespaced=False, rules=_RBAC),
    Kind("scheduling.k8s.io", "priorityclasses", "PriorityClass", "pc", namespaced=False,
         rules=_rules("priorityclasses")),
    Kind("storage.k8s.io", "storageclasses", "StorageClass", "sc", namespaced=False,
         rules=_rules("storageclasses")),
    Kind("storage.k8s.io", "csidrivers", "CSIDriver", namespaced=False),
    Kind("storage.k8s.io", "csinodes", "CSINode", namespaced=False),
    Kind("storage.k8s.io", "volumeattachments", "VolumeAttachment", namespaced=False,
         status=True),
    Kind("certificates.k8s.io", "certificatesigningrequests", "CertificateSigningRequest",
         "csr", namespaced=False, status=True, extras="approval"),
    Kind("admissionregistration.k8s.io", "validatingwebhookconfigurations",
         "ValidatingWebhookConfiguration", "", "api-extensions", namespaced=False,
         rules=_rules("validatingwebhookconfigurations")),
    Kind("admissionregistration.k8s.io", "mutatingwebhookconfigurations",
         "MutatingWebhookConfiguration", "", "api-extensions", namespaced=False,
         rules=_rules("mutatingwebhookconfigurations")),
    *(Kind("admissionregistration.k8s.io", name.lower(), name.removesuffix("s"), "",
           "api-extensions", namespaced=False, rules=_COUNTED)
      for name in ("ValidatingAdmissionPolicyBindings", "MutatingAdmissionPolicyBindings")),
    Kind("admissionregistration.k8s.io", "validatingadmissionpolicies",
         "ValidatingAdmissionPolicy", "", "api-extensions", namespaced=False, status=True,
         rules=_COUNTED),
    Kind("admissionregistration.k8s.io", "mutatingadmissionpolicies",
         "MutatingAdmissionPolicy", "", "api-extensions", namespaced=False, rules=_COUNTED),
    Kind("apiextensions.k8s.io", "customresourcedefinitions", "CustomResourceDefinition",
         "crd,crds", "api-extensions", namespaced=False, status=True,
         rules=_rules("customresourcedefinitions")),
    Kind("apiregistration.k8s.io", "apiservices", "APIService", "", "api-extensions",
         namespaced=False, status=True),
)  # fmt: skip


def register_builtins(registry: Registry, versions: Versions, history: int) -> None:
    """Serve all the built-in kinds."""
    for line in KINDS:
        resource = _make(line, Store(versions, history=history))
        registry.add(resource)
        if line.plural == "events":
            served = Served("v1", encode=event_to_v1, decode=event_from_v1)
            served.compile = _compile("events.k8s.io/v1", "Event")
            served.selectable = _EVENT_FIELDS
            registry.alias(resource, "events.k8s.io", served)


def _compile(api_version: str, kind: str) -> Callable[[], Node | None]:
    return lambda: builtin_schemas().compile(api_version, kind)


def _make(line: Kind, store: Store) -> Resource:
    names = [name for name in line.versions.split(",") if name]
    served = {
        name: Served(
            name,
            compile=_compile(f"{line.group}/{name}" if line.group else name, line.kind),
            status=line.status,
            scale=Scale() if line.scale else None,
            extras=tuple(name for name in line.extras.split(",") if name),
            selectable=line.rules.fields,
        )
        for name in names
    }
    return Resource(
        group=line.group,
        plural=line.plural,
        kind=line.kind,
        singular=line.kind.lower(),
        list_kind=f"{line.kind}List",
        namespaced=line.namespaced,
        store=store,
        versions=served,
        storage_version=names[0],
        short_names=tuple(name for name in line.short.split(",") if name),
        categories=tuple(name for name in line.categories.split(",") if name),
        rules=line.rules,
        verbs=VERBS if line.collective else tuple(v for v in VERBS if v != "deletecollection"),
    )
