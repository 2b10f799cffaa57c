"""The roles that are in every cluster from its very start, without the roles for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .users import AUTHENTICATED, MASTERS

Obj = dict[str, Any]
_GROUP = "rbac.authorization.k8s.io"
_META = {
    "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
    "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
}
_HEALTH = ["/healthz", "/livez", "/readyz", "/version", "/version/"]
_DISCOVERY = [
    "/api",
    "/api/*",
    "/apis",
    "/apis/*",
    "/healthz",
    "/livez",
    "/openapi",
    "/openapi/*",
    "/readyz",
    "/version",
    "/version/",
]
_ROLES: dict[str, tuple[list[Obj], list[str]]] = {
    "cluster-admin": (
        [
            {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
            {"verbs": ["*"], "nonResourceURLs": ["*"]},
        ],
        [MASTERS],
    ),
    "system:basic-user": (
        [
            {
                "verbs": ["create"],
                "apiGroups": ["authorization.k8s.io"],
                "resources": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
            },
            {
                "verbs": ["create"],
                "apiGroups": ["authentication.k8s.io"],
                "resources": ["selfsubjectreviews"],
            },
        ],
        [AUTHENTICATED],
    ),
    "system:discovery": (
        [{"verbs": ["get"], "nonResourceURLs": _DISCOVERY}],
        [AUTHENTICATED],
    ),
    "system:public-info-viewer": (
        [{"verbs": ["get"], "nonResourceURLs": _HEALTH}],
        [AUTHENTICATED, "system:unauthenticated"],
    ),
}


def list_defaults() -> Iterator[tuple[str, Obj]]:
    """The roles and bindings, each with the plural name of its kind."""
    for name, (rules, groups) in _ROLES.items():
        yield "clusterroles", {"metadata": {"name": name, **_META}, "rules": rules}
        subjects = [{"kind": "Group", "apiGroup": _GROUP, "name": group} for group in groups]
        ref = {"apiGroup": _GROUP, "kind": "ClusterRole", "name": name}
        body = {"metadata": {"name": name, **_META}, "roleRef": ref, "subjects": subjects}
        yield "clusterrolebindings", body
