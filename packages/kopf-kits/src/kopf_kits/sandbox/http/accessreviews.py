"""Questions about access: all clients may do everything here, unless there are roles."""

from __future__ import annotations

from typing import Any

from kopf_kits.sandbox.access.authorizer import Authorizer
from kopf_kits.sandbox.access.requests import Request
from kopf_kits.sandbox.access.users import ADMIN, NOBODY, User, parse_token
from kopf_kits.sandbox.base.statuses import method_not_allowed
from kopf_kits.sandbox.cluster import Cluster

from .calls import Call, Reply
from .routing import Target

Obj = dict[str, Any]

_AUTHORIZATION = {
    "selfsubjectaccessreviews": "SelfSubjectAccessReview",
    "selfsubjectrulesreviews": "SelfSubjectRulesReview",
    "subjectaccessreviews": "SubjectAccessReview",
    "localsubjectaccessreviews": "LocalSubjectAccessReview",
}
_AUTHENTICATION = {
    "selfsubjectreviews": "SelfSubjectReview",
    "tokenreviews": "TokenReview",
}
REVIEWS = {
    "authorization.k8s.io": _AUTHORIZATION,
    "authentication.k8s.io": _AUTHENTICATION,
}


def answer_review(call: Call, target: Target, cluster: Cluster) -> Reply | None:
    """Answer the question; none if it is not about access."""
    kind = REVIEWS.get(target.group, {}).get(target.plural)
    if kind is None or target.version != "v1":
        return None
    if call.method != "POST" or target.name is not None:
        raise method_not_allowed()
    body = call.parse_body()
    review = {
        **body,
        "kind": kind,
        "apiVersion": f"{target.group}/v1",
        "metadata": {
            "creationTimestamp": cluster.options.nature.now(),
            **(body.get("metadata") or {}),
        },
        "status": _status(kind, body.get("spec") or {}, _get_user(call), cluster.authorizer),
    }
    return Reply.of(review, 201)


def _get_user(call: Call) -> User:
    """The user who asks. Without roles, any client can act as any user, like an admin."""
    if call.user is not None:
        return call.user
    return User.impersonated(call.impersonated, call.groups) if call.impersonated else ADMIN


def _status(kind: str, spec: Obj, user: User, authorizer: Authorizer | None) -> Obj:
    match kind:
        case "SelfSubjectReview":
            return {"userInfo": user.as_dict()}
        case "TokenReview":
            found = ADMIN if authorizer is None else parse_token(str(spec.get("token", "")))
            is_known = found is not None and found is not NOBODY
            return {"authenticated": True, "user": found.as_dict()} if found and is_known else {}
        case "SelfSubjectRulesReview":
            namespace = str(spec.get("namespace") or "")
            return _list_rules(user, namespace, authorizer)
        case "SubjectAccessReview" | "LocalSubjectAccessReview":
            user = User(str(spec.get("user", "")), tuple(spec.get("groups") or ()))
    if authorizer is None:
        return {"allowed": True}
    decision = authorizer.decide(user, _make_request(spec))
    reason = {"reason": decision.reason} if decision.reason else {}
    return {"allowed": decision.allowed, **reason}


def _make_request(spec: Obj) -> Request:
    path = spec.get("nonResourceAttributes")
    if path:
        return Request(verb=path.get("verb", ""), path=path.get("path", ""))
    names = ("verb", "group", "resource", "subresource", "namespace", "name")
    attributes = spec.get("resourceAttributes") or {}
    return Request(**{name: str(attributes.get(name) or "") for name in names})


def _list_rules(user: User, namespace: str, authorizer: Authorizer | None) -> Obj:
    if authorizer is None:
        rule: Obj = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
        urls = {"verbs": ["*"], "nonResourceURLs": ["*"]}
        return {"resourceRules": [rule], "nonResourceRules": [urls], "incomplete": False}
    rules = authorizer.collect(user, namespace)
    granted = [rule for rule, _ in rules.granted]
    status: Obj = {
        "resourceRules": [rule for rule in granted if rule.get("resources")],
        "nonResourceRules": [rule for rule in granted if rule.get("nonResourceURLs")],
        "incomplete": bool(rules.problems),
    }
    return {**status, "evaluationError": rules.explain()} if rules.problems else status
