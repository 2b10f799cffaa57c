"""Hints at what is missing in the roles, made of the refusals by RBAC, and of its own answers."""

import asyncio
import re
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from kopf_cogs.clients import errors
from kopf_cogs.structs import credentials

if TYPE_CHECKING:
    from kopf_cogs.clients import session

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"

RULES = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"

TIMEOUT = 5.0
"""In seconds: how long to wait for the answers; the hints are only worth so much."""

_REFUSAL = re.compile(
    r'cannot (?P<verb>\w+) resource "(?P<resource>[^"]+)" in API group "(?P<group>[^"]*)"'
)

_REFUSAL_OF_DISCOVERY = re.compile(r'cannot get path "/apis?[/"]')


class Right(NamedTuple):
    """What can be permitted by a rule of a role."""

    group: str
    resource: str
    """The plural name, maybe with a subresource: ``pods``, ``pods/status``."""

    verb: str


def hint_at_role(exc: Exception, also: Collection[str] = ()) -> str:
    """The rule that would permit it, a sentence to go on the message with; empty if unknown.

    ``also`` are other verbs that are needed for the same, though they were not refused yet.
    """
    if _REFUSAL_OF_DISCOVERY.search(str(exc)):
        return f"{_end(exc)} Bind the cluster role system:discovery to the operator."
    right = parse_refusal(exc)
    if right is None:
        return ""
    verbs = dict.fromkeys([right.verb, *also])
    return suggest_rules([right._replace(verb=verb) for verb in verbs], exc)


def parse_refusal(exc: Exception) -> Right | None:
    """What was refused, if it can be seen in the message."""
    match = _REFUSAL.search(str(exc))
    return match and Right(match["group"], match["resource"], match["verb"])


async def explain_refusal(
    client: "session.Client",
    exc: errors.APIError,
    wanted: Collection[Right],
    namespace: str | None,
) -> str:
    """The rules that would permit all that is wanted, not only what was refused.

    The API is asked of each right; if it does not answer, or sees no problem with them,
    it is only the rule for what was refused.
    """
    missing = await find_missing(client, wanted, namespace)
    return suggest_rules(missing, exc) if missing else hint_at_role(exc)


def suggest_rules(missing: Collection[Right], exc: Exception) -> str:
    """The rules for these rights, a sentence to go on the message with."""
    rules = _format_rules(missing)
    these = "this rule" if len(rules) == 1 else "these rules"
    return f"{_end(exc)} Add {these} to the role of the operator: {', '.join(rules)}."


def _format_rules(missing: Collection[Right]) -> list[str]:
    verbs: dict[tuple[str, str], list[str]] = {}
    for group, resource, verb in missing:
        verbs.setdefault((group, resource), []).append(verb)
    resources: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (group, resource), its_verbs in verbs.items():
        resources.setdefault((group, tuple(its_verbs)), []).append(resource)
    return [
        f'{{apiGroups: ["{group}"], resources: [{", ".join(names)}], '
        f"verbs: [{', '.join(its_verbs)}]}}"
        for (group, its_verbs), names in resources.items()
    ]


def format_role(name: str, namespace: str | None, rights: Collection[Right]) -> str:
    """A role of these rights as YAML in one line: for a namespace, or for the whole cluster."""
    kind, place = (
        ("ClusterRole", "") if namespace is None else ("Role", f", namespace: {namespace}")
    )
    rules = ", ".join(_format_rules(rights))
    return (
        f"{{apiVersion: rbac.authorization.k8s.io/v1, kind: {kind}, "
        f"metadata: {{name: {name}{place}}}, rules: [{rules}]}}"
    )


def _end(exc: Exception) -> str:
    return "" if str(exc).endswith(".") else "."


async def find_missing(
    client: "session.Client", wanted: Collection[Right], namespace: str | None
) -> Collection[Right]:
    """Those of the rights that are not there; none if it is not possible to find it out."""
    free = client.without_fence()  # nothing is changed by that, and followers ask, too
    try:
        allowed = await asyncio.gather(*(_is_allowed(free, right, namespace) for right in wanted))
    except (errors.APIError, credentials.LoginError):
        return ()
    return [right for right, is_allowed in zip(wanted, allowed, strict=True) if not is_allowed]


async def find_ungranted(
    client: "session.Client", wanted: Collection[Right], namespace: str | None
) -> Collection[Right]:
    """The same by one request if everything is granted, as it usually is.

    The API tells the rules that it knows of. There can be other authorizers, or it can know no
    rules at all; so, it is asked again of each of the rights that are not in the rules.
    """
    rules = await _list_rules(client.without_fence(), namespace)
    if rules is None:
        return ()
    doubted = [right for right in wanted if not any(_permits(rule, right) for rule in rules)]
    return await find_missing(client, doubted, namespace)


async def _list_rules(
    client: "session.Client", namespace: str | None
) -> list[Mapping[str, Any]] | None:
    """The rules that the API knows of; ``None`` if it tells nothing at all."""
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": namespace or "default"},
    }
    try:
        reply = await client.post(RULES, review, timeout=TIMEOUT, backoffs=())
    except (errors.APIError, credentials.LoginError):
        return None
    status = reply.get("status") if isinstance(reply, dict) else None
    rules = status.get("resourceRules") if isinstance(status, dict) else None
    return [
        rule for rule in rules or () if isinstance(rule, dict) and not rule.get("resourceNames")
    ]


def _permits(rule: Mapping[str, Any], right: Right) -> bool:
    fields = ("apiGroups", right.group), ("resources", right.resource), ("verbs", right.verb)
    return all({value, "*"} & {*(rule.get(field) or ())} for field, value in fields)


async def _is_allowed(client: "session.Client", right: Right, namespace: str | None) -> bool:
    resource, _, subresource = right.resource.partition("/")
    attributes = {
        "group": right.group,
        "resource": resource,
        "subresource": subresource,
        "verb": right.verb,
        "namespace": namespace or "",
    }
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    reply = await client.post(REVIEWS, review, timeout=TIMEOUT, backoffs=())
    status = reply.get("status") if isinstance(reply, dict) else None
    return not isinstance(status, dict) or status.get("allowed") is not False
