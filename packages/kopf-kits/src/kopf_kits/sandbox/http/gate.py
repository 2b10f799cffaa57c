"""The gate: who makes the request, and whether it is allowed, before it is answered."""

from __future__ import annotations

import dataclasses
import re

from kopf_kits.sandbox.access.requests import Request
from kopf_kits.sandbox.access.users import User, parse_account, parse_token
from kopf_kits.sandbox.base.statuses import StatusError
from kopf_kits.sandbox.cluster import Cluster
from kopf_kits.sandbox.verbs.reads import parse_flag

from .calls import Call
from .routing import Target

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_NAME = re.compile(r"(?:^|,)metadata\.name==?([^,=]+)(?:,|$)")


class Gate:
    """Lets in the clients with the rights for their requests; all clients, without RBAC."""

    def __init__(self, cluster: Cluster) -> None:
        self._authorizer = cluster.authorizer
        self._accounts = cluster.registry.find("serviceaccounts").resource.store

    def check(self, call: Call, target: Target | None) -> None:
        """Raise `StatusError` if the request is not allowed."""
        if self._authorizer is None:
            return
        call.user = self._authenticate(call)
        request = make_request(call, target)
        if call.impersonated:
            self._check_impersonation(call.user, call, request)
            call.user = User.impersonated(call.impersonated, call.groups)
        self._require(call.user, request)

    def check_creation(self, call: Call, target: Target) -> None:
        """Raise `StatusError` if the user may not create, when a write becomes a creation."""
        if self._authorizer is not None and call.user is not None:
            self._require(call.user, make_request(call, target, verb="create"))

    def _authenticate(self, call: Call) -> User:
        user = parse_token(call.token)
        account = None if user is None else parse_account(user.name)
        if user is None or (account is not None and self._accounts.get(account) is None):
            raise StatusError(401, "Unauthorized", "Unauthorized")
        return user

    def _check_impersonation(self, user: User, call: Call, request: Request) -> None:
        """Refuse in the words of servers that can permit it for some requests only; we cannot."""
        assert self._authorizer is not None
        impersonations = _list_impersonations(call)
        if not all(self._authorizer.decide(user, one).allowed for one in impersonations):
            mode = "serviceaccount" if parse_account(call.impersonated) else "user-info"
            verb = f"impersonate-on:{mode}:{request.verb}"
            raise dataclasses.replace(request, verb=verb).refuse(user)

    def _require(self, user: User, request: Request) -> None:
        assert self._authorizer is not None
        decision = self._authorizer.decide(user, request)
        if not decision.allowed:
            raise request.refuse(user, decision.reason)


def _list_impersonations(call: Call) -> list[Request]:
    account = parse_account(call.impersonated)
    requests = [Request(verb="impersonate", resource="users", name=call.impersonated)]
    if account is not None:
        kind, (namespace, name) = "serviceaccounts", account
        requests = [Request(verb="impersonate", resource=kind, namespace=namespace, name=name)]
    groups = [Request(verb="impersonate", resource="groups", name=name) for name in call.groups]
    return [*requests, *groups]


def make_request(call: Call, target: Target | None, *, verb: str = "") -> Request:
    """The request in the words of the rules."""
    if target is None or not target.plural:
        return Request(verb=call.method.lower(), path=call.path)
    name, namespace = target.name or "", target.namespace or ""
    if not verb:
        verb = _get_verb(call, target)
    if verb in ("list", "watch", "deletecollection") and not name:
        found = _NAME.search(call.query.get("fieldSelector", ""))
        name = found[1] if found else ""
    if target.plural == "namespaces" and not target.group and target.name:
        namespace = target.name
    return Request(
        verb=verb,
        group=target.group,
        resource=target.plural,
        subresource=target.subresource or "",
        namespace=namespace,
        name=name,
    )


def _get_verb(call: Call, target: Target) -> str:
    if call.method in ("GET", "HEAD"):
        if target.watch:
            return "watch"
        if target.name is not None:
            return "get"
        return "watch" if parse_flag(call.query, "watch") else "list"
    if call.method == "DELETE" and target.name is None:
        return "deletecollection"
    return _VERBS.get(call.method, call.method.lower())
