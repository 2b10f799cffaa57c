"""Hints: the rules that the roles lack, found by the refusals and the reviews of RBAC."""

import asyncio
import re
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from kopf_cogs.clients import errors
from kopf_cogs.structs import credentials

if TYPE_CHECKING:
    from kopf_cogs.clients import session

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"

REVIEWS_OF_OTHERS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"

RULES = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"

NOWHERE = "no.namespace"
"""No namespace can have such a name, so the rules there come from the whole cluster only."""

TIMEOUT = 5.0
"""In seconds: how long to wait for the answers; the hints are only worth so much."""

_REFUSAL = re.compile(
    r'cannot (?P<verb>\w+) resource "(?P<resource>[^"]+)" in API group "(?P<group>[^"]*)"'
)

_REFUSAL_OF_DISCOVERY = re.compile(r'cannot get path "/apis?[/"]')


class Right(NamedTuple):
    """A request that a rule of a role can permit."""

    group: str
    resource: str
    """The plural name, maybe with a subresource: ``pods``, ``pods/status``."""

    verb: str

    name: str = ""
    """The only object that the right is needed for; any object, if it is empty."""


class Subject(NamedTuple):
    """The user whose rights are reviewed, if it is not the client itself."""

    user: str
    groups: Collection[str]

    @classmethod
    def of_account(cls, name: str, namespace: str) -> "Subject":
        """A service account."""
        groups = "serviceaccounts", f"serviceaccounts:{namespace}", "authenticated"
        return cls(
            f"system:serviceaccount:{namespace}:{name}", [f"system:{group}" for group in groups]
        )


def hint_at_role(exc: Exception, also: Collection[str] = ()) -> str:
    """A sentence after the message: the rule that would permit the request; empty if unknown.

    ``also`` are other verbs that the same task needs, though the server has not refused them yet.
    """
    if _REFUSAL_OF_DISCOVERY.search(str(exc)):
        return f"{_end(exc)} Bind the cluster role system:discovery to the operator."
    right = parse_refusal(exc)
    if right is None:
        return ""
    verbs = dict.fromkeys([right.verb, *also])
    return suggest_rules([right._replace(verb=verb) for verb in verbs], exc)


def parse_refusal(exc: Exception) -> Right | None:
    """The refused right, if the message tells it."""
    match = _REFUSAL.search(str(exc))
    return match and Right(match["group"], match["resource"], match["verb"])


async def explain_refusal(
    client: "session.Client",
    exc: errors.APIError,
    wanted: Collection[Right],
    namespace: str | None,
) -> str:
    """The rules that would permit all the wanted rights, not only the refused one.

    The client asks the API about each right. If the API does not answer, or sees no problem,
    the hint is only the rule for the refused right.
    """
    missing = await find_missing(client, wanted, namespace)
    return suggest_rules(missing, exc) if missing else hint_at_role(exc)


def suggest_rules(missing: Collection[Right], exc: Exception) -> str:
    """A sentence after the message: the rules for these rights."""
    these = "this rule" if len(make_rules(missing)) == 1 else "these rules"
    return f"{_end(exc)} Add {these} to the role of the operator: {suggest(missing)}."


def suggest(missing: Collection[Right]) -> str:
    """The rules as they are usually written in the YAML files of roles, in one line."""
    return ", ".join(map(_format_rule, make_rules(missing)))


def make_rules(missing: Collection[Right]) -> list[dict[str, list[str]]]:
    """The fewest rules for these rights that permit nothing else, as they are in roles."""
    verbs: dict[tuple[str, str, str], list[str]] = {}
    for group, resource, verb, name in missing:
        verbs.setdefault((group, resource, name), []).append(verb)
    resources: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for (group, resource, name), its_verbs in verbs.items():
        resources.setdefault((group, name, tuple(its_verbs)), []).append(resource)
    return [
        {
            "apiGroups": [group],
            "resources": its_resources,
            **({"resourceNames": [name]} if name else {}),
            "verbs": [*its_verbs],
        }
        for (group, name, its_verbs), its_resources in resources.items()
    ]


def _format_rule(rule: Mapping[str, Collection[str]]) -> str:
    """Format a rule as in the YAML files of roles; groups can be empty, so they are quoted."""
    items = ((key, [f'"{v}"' if key == "apiGroups" else v for v in rule[key]]) for key in rule)
    return "{" + ", ".join(f"{key}: [{', '.join(values)}]" for key, values in items) + "}"


def make_role(name: str, namespace: str | None, rights: Collection[Right]) -> dict[str, Any]:
    """A role of these rights: for a namespace, or for the whole cluster."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole" if namespace is None else "Role",
        "metadata": {"name": name} | ({} if namespace is None else {"namespace": namespace}),
        "rules": make_rules(rights),
    }


def _end(exc: Exception) -> str:
    return "" if str(exc).endswith(".") else "."


async def find_missing(
    client: "session.Client", wanted: Collection[Right], namespace: str | None
) -> Collection[Right]:
    """The rights that the client lacks; none if the API does not answer."""
    try:
        return await review(client, wanted, namespace)
    except (errors.APIError, credentials.LoginError):
        return ()


async def review(
    client: "session.Client",
    wanted: Collection[Right],
    namespace: str | None,
    subject: Subject | None = None,
) -> Collection[Right]:
    """The rights that the client itself lacks, or the subject if it is specified.

    Raises :class:`APIError` and :class:`LoginError` if the API does not answer.
    """
    free = client.without_fence()  # reviews change nothing, and followers ask, too
    asking = (_is_allowed(free, right, namespace, subject) for right in wanted)
    allowed = await asyncio.gather(*asking)
    return [right for right, is_allowed in zip(wanted, allowed, strict=True) if not is_allowed]


async def find_ungranted(
    client: "session.Client", wanted: Collection[Right], namespace: str | None
) -> Collection[Right]:
    """The rights that the client lacks, by one request if all are granted, as they usually are.

    The API tells the rules that it knows of. There can be other authorizers, or the API can know
    no rules at all. So the client asks again about each of the rights that are not in the rules.
    """
    rules = await _list_rules(client.without_fence(), namespace)
    if rules is None:
        return ()
    doubted = [right for right in wanted if not any(is_permitted(rule, right) for rule in rules)]
    return await find_missing(client, doubted, namespace)


async def _list_rules(
    client: "session.Client", namespace: str | None
) -> list[Mapping[str, Any]] | None:
    """The rules that the API knows of; ``None`` if it tells nothing at all."""
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": namespace or NOWHERE},
    }
    try:
        reply = await client.post(RULES, review, timeout=TIMEOUT, backoffs=())
    except (errors.APIError, credentials.LoginError):
        return None
    status = reply.get("status") if isinstance(reply, dict) else None
    rules = status.get("resourceRules") if isinstance(status, dict) else None
    return [rule for rule in rules if _is_rule(rule)] if isinstance(rules, list) else []


def _is_rule(rule: object) -> bool:
    """Whether the rule makes sense: servers can answer anything."""
    fields = "apiGroups", "resources", "verbs", "resourceNames"
    values = [rule.get(field) or [] for field in fields] if isinstance(rule, dict) else [None]
    return all(isinstance(v, list) and all(isinstance(one, str) for one in v) for v in values)


def is_permitted(rule: Mapping[str, Any], right: Right) -> bool:
    """Whether the rule of a role gives this right."""
    fields = ("apiGroups", right.group), ("resources", right.resource), ("verbs", right.verb)
    names = rule.get("resourceNames")
    is_for_it = not names or right.name in names
    return is_for_it and all({value, "*"} & {*(rule.get(field) or ())} for field, value in fields)


async def _is_allowed(
    client: "session.Client", right: Right, namespace: str | None, subject: Subject | None
) -> bool:
    resource, _, subresource = right.resource.partition("/")
    attributes = {
        "group": right.group,
        "resource": resource,
        "subresource": subresource,
        "verb": right.verb,
        "namespace": namespace or "",
        "name": right.name,
    }
    who = {} if subject is None else {"user": subject.user, "groups": [*subject.groups]}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview" if subject is None else "SubjectAccessReview",
        "spec": {"resourceAttributes": attributes, **who},
    }
    url = REVIEWS if subject is None else REVIEWS_OF_OTHERS
    reply = await client.post(url, review, timeout=TIMEOUT, backoffs=())
    status = reply.get("status") if isinstance(reply, dict) else None
    if not isinstance(status, dict) or not isinstance(status.get("allowed"), bool):
        raise errors.APIResponseError("the response is not a review of access")
    return bool(status["allowed"])
