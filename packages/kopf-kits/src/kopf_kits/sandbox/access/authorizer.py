"""The authorizer: roles and their bindings, as they are stored."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from kopf_kits.sandbox.store.resources import Registry
from kopf_kits.sandbox.store.storage import Store

from .requests import Request
from .users import MASTERS, User, make_account

Obj = dict[str, Any]
GROUP = "rbac.authorization.k8s.io"


@dataclass(slots=True)
class Rules:
    """The rules of a user, each with the binding that grants it; and the roles that are missing."""

    granted: list[tuple[Obj, str]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def explain(self) -> str:
        """The problems in one line."""
        problems = list(dict.fromkeys(self.problems))
        return problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether a request is allowed, and why."""

    allowed: bool
    reason: str = ""


class Authorizer:
    """Decides by the roles and bindings in the cluster now; does not check for escalation."""

    def __init__(self, registry: Registry) -> None:
        self._stores: dict[str, Store] = {
            name: registry.find(f"{name}.{GROUP}").resource.store
            for name in ("roles", "clusterroles", "rolebindings", "clusterrolebindings")
        }

    def decide(self, user: User, request: Request) -> Decision:
        """Decide on the request of the user."""
        if MASTERS in user.groups:
            return Decision(allowed=True)
        rules = self.collect(user, request.namespace)
        for rule, grantor in rules.granted:
            if _permits(rule, request):
                return Decision(allowed=True, reason=f"RBAC: allowed by {grantor}")
        reason = f"RBAC: {rules.explain()}" if rules.problems else ""
        return Decision(allowed=False, reason=reason)

    def collect(self, user: User, namespace: str) -> Rules:
        """All rules for the user: of the cluster, and of the namespace, if any."""
        rules = Rules()
        for binding in self._list("clusterrolebindings", None):
            self._add(rules, user, binding, "")
        if namespace:
            for binding in self._list("rolebindings", namespace):
                self._add(rules, user, binding, namespace)
        return rules

    def _list(self, name: str, namespace: str | None) -> Iterator[Obj]:
        yield from (stored.obj for stored in self._stores[name].select(namespace))

    def _add(self, rules: Rules, user: User, binding: Obj, namespace: str) -> None:
        subjects = binding.get("subjects") or ()
        subject = next((one for one in subjects if _is_for(one, user, namespace)), None)
        if subject is None:
            return
        ref, name = binding["roleRef"], binding["metadata"]["name"]
        is_local = ref["kind"] == "Role"
        key = (namespace if is_local else "", ref["name"])
        role = self._stores["roles" if is_local else "clusterroles"].get(key)
        if role is None:
            kind = f"{ref['kind'].lower()}.{GROUP}"
            rules.problems.append(f'{kind} "{ref["name"]}" not found')
            return
        title = f'RoleBinding "{name}/{namespace}"' if namespace else f'ClusterRoleBinding "{name}"'
        who = _describe_subject(subject, namespace)
        grantor = f'{title} of {ref["kind"]} "{ref["name"]}" to {who}'
        rules.granted.extend((rule, grantor) for rule in role.obj.get("rules") or ())


def _is_for(subject: Obj, user: User, namespace: str) -> bool:
    match subject.get("kind"):
        case "User":
            return bool(subject["name"] == user.name)
        case "Group":
            return subject["name"] in user.groups
        case "ServiceAccount":
            space = subject.get("namespace") or namespace
            return bool(space) and make_account(space, subject["name"]).name == user.name
    return False


def _describe_subject(subject: Obj, namespace: str) -> str:
    name = subject["name"]
    if subject["kind"] == "ServiceAccount":
        name = f"{name}/{subject.get('namespace') or namespace}"
    return f'{subject["kind"]} "{name}"'


def _permits(rule: Obj, request: Request) -> bool:
    if not {request.verb, "*"} & {*(rule.get("verbs") or ())}:
        return False
    if not request.resource:
        return any(_is_like(request.path, url) for url in rule.get("nonResourceURLs") or ())
    if not {request.group, "*"} & {*(rule.get("apiGroups") or ())}:
        return False
    names = rule.get("resourceNames")
    if names and request.name not in names:
        return False
    wanted = {request.combined, "*"}
    if request.subresource:
        wanted.add(f"*/{request.subresource}")
    return bool(wanted & {*(rule.get("resources") or ())})


def _is_like(path: str, url: str) -> bool:
    return path == url or (url.endswith("*") and path.startswith(url.rstrip("*")))
