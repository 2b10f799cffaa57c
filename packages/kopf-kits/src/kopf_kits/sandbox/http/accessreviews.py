"""Questions about access: everybody is allowed everything here."""

from __future__ import annotations

from typing import Any

from kopf_kits.sandbox.base.nature import Nature
from kopf_kits.sandbox.base.statuses import method_not_allowed

from .calls import Call, Reply
from .routing import Target

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
USER: dict[str, Any] = {
    "username": "sandbox",
    "groups": ["system:masters", "system:authenticated"],
}


def answer_review(call: Call, target: Target, nature: Nature) -> Reply | None:
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
        "metadata": {"creationTimestamp": nature.now(), **(body.get("metadata") or {})},
        "status": _status(kind, _get_user(call)),
    }
    return Reply.of(review, 201)


def _get_user(call: Call) -> dict[str, Any]:
    """Who asks. Everybody can act as everybody else, as those of ``system:masters`` can."""
    if not call.impersonated:
        return USER
    return {"username": call.impersonated, "groups": [*call.groups, "system:authenticated"]}


def _status(kind: str, user: dict[str, Any]) -> dict[str, Any]:
    match kind:
        case "SelfSubjectReview":
            return {"userInfo": user}
        case "TokenReview":
            return {"authenticated": True, "user": USER}
        case "SelfSubjectRulesReview":
            rule = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
            urls = {"verbs": ["*"], "nonResourceURLs": ["*"]}
            return {"resourceRules": [rule], "nonResourceRules": [urls], "incomplete": False}
    return {"allowed": True}
