"""Access: what service accounts may do by roles, and how they are refused."""

from __future__ import annotations

import base64
import contextlib
import ssl
from collections.abc import AsyncIterator
from typing import Any

import aiohttp

from e2e.conformance.api import Api, Reply
from e2e.conformance.objects import meta
from e2e.conformance.registry import Area

area = Area("access")

RBAC = "rbac.authorization.k8s.io"
ROLES = f"/apis/{RBAC}/v1"
ACCESS = "/apis/authorization.k8s.io/v1"
IDENTITY = "/apis/authentication.k8s.io/v1"


def rule(group: str, resources: str, verbs: str, **more: Any) -> dict[str, Any]:
    found = {"apiGroups": [group], "resources": resources.split(), "verbs": verbs.split()}
    return {**found, **more}


def subject(api: Api) -> dict[str, str]:
    return {"kind": "ServiceAccount", "name": "x", "namespace": api.namespace}


async def permit(api: Api, *rules: dict[str, Any], name: str = "x") -> None:
    """Bind a new role to the account, in the own namespace."""
    where = f"{ROLES}/namespaces/{api.namespace}"
    role = await api.create(f"{where}/roles", {**meta(name), "rules": rules})
    assert role.ok, role.body
    await bind(api, "Role", name)


async def bind(api: Api, kind: str, role: str) -> None:
    ref = {"apiGroup": RBAC, "kind": kind, "name": role}
    body = {**meta(role), "roleRef": ref, "subjects": [subject(api)]}
    reply = await api.create(f"{ROLES}/namespaces/{api.namespace}/rolebindings", body)
    assert reply.ok, reply.body


@contextlib.asynccontextmanager
async def visitor(api: Api, token: str | None = None) -> AsyncIterator[Api]:
    """The API as seen by somebody with this token: by default, of an account with no rights."""
    if token is None:
        await api.create("serviceaccounts", meta("x"))
        issued = await api.create("serviceaccounts/x/token", {"spec": {}})
        token = str(issued["status.token"])
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    connector = aiohttp.TCPConnector(ssl=make_context(api) or False)
    async with aiohttp.ClientSession(connector=connector, headers=headers) as session:
        other = Api(api.cluster, session)
        other.namespace = api.namespace
        yield other


def make_context(api: Api) -> ssl.SSLContext | None:
    """The connection of those who have no certificates."""
    described = api.cluster.kubeconfig["clusters"][0]["cluster"]
    authority = described.get("certificate-authority-data")
    if authority is None:
        return None
    return ssl.create_default_context(cadata=base64.b64decode(authority).decode())


async def until(api: Api, what: str, ok: bool = True, **params: Any) -> Reply:
    """Servers notice new roles and bindings in a moment."""
    for _ in range(200):
        reply = await api.get(what, **params)
        if reply.ok is ok:
            break
    return reply


@area.behaviour("Everything is forbidden to new accounts: in namespaces")
async def denials(api: Api) -> Any:
    async with visitor(api) as other:
        return [
            (await other.get("pods")).show(),
            (await other.get("pods/x")).show(),
            (await other.get("pods", watch="true")).show(),
            (await other.create("pods", meta("x"))).show(),
            (await other.put("pods/x", meta("x"))).show(),
            (await other.patch("pods/x", {})).show(),
            (await other.patch("pods/x/status", {})).show(),
            (await other.delete("pods/x")).show(),
            (await other.delete("pods")).show(),
        ]


@area.behaviour("Everything is forbidden to new accounts: of groups, and of custom kinds")
async def group_denials(api: Api) -> Any:
    async with visitor(api) as other:
        return [
            (await other.get("deployments")).show(),
            (await other.create("plains", meta("x"))).show(),
            (await other.patch("plains/x/status", {})).show(),
            (await other.get("deployments/x/scale")).show(),
        ]


@area.behaviour("Everything is forbidden to new accounts: in the cluster")
async def cluster_denials(api: Api) -> Any:
    async with visitor(api) as other:
        return [
            (await other.get("/api/v1/pods")).show(),
            (await other.get("customresourcedefinitions")).show(),
            (await other.get("namespaces")).show(),
            (await other.get(f"namespaces/{api.namespace}")).show(),
            (await other.get("/apis/nosuch.example.com/v1/things")).show(),
            (await other.get("/metrics")).show(),
        ]


@area.behaviour("Everybody who is authenticated can discover")
async def discovery(api: Api) -> Any:
    async with visitor(api) as other:
        paths = ("/api", "/apis", "/api/v1", "/version", "/healthz", "/openapi/v3")
        return [(await other.get(path)).code for path in paths]


@area.behaviour("Wrong tokens are rejected; those with no token are anonymous")
async def strangers(api: Api) -> Any:
    async with visitor(api, "nonsense") as wrong, visitor(api, "") as nobody:
        return [
            (await wrong.get("/api")).show(),
            (await nobody.get("pods")).show(),
            (await nobody.get("/apis")).show(),
            (await nobody.get("/version")).code,
        ]


@area.behaviour("Rules permit verbs, and nothing else")
async def verbs(api: Api) -> Any:
    async with visitor(api) as other:
        await permit(api, rule("", "configmaps", "list create"))
        await until(other, "configmaps")
        return [
            (await other.create("configmaps", meta("x"))).show("metadata.name"),
            (await other.get("configmaps")).show("items.*.metadata.name"),
            (await other.get("configmaps/x")).show(),
            (await other.get("configmaps", watch="true")).show(),
            (await other.get("secrets")).code,
            (await other.get("/api/v1/configmaps")).code,
        ]


@area.behaviour("Rules can be limited by names; also for lists by names")
async def names(api: Api) -> Any:
    async with visitor(api) as other:
        await api.make("configmaps", name="x")
        await permit(api, rule("", "configmaps", "get list", resourceNames=["x"]))
        await until(other, "configmaps/x")
        return [
            (await other.get("configmaps/x")).code,
            (await other.get("configmaps/y")).show(),
            (await other.get("configmaps")).show(),
            (await other.get("configmaps", fieldSelector="metadata.name=x")).code,
            (await other.get("configmaps", fieldSelector="metadata.name=y")).show(),
        ]


@area.behaviour("Asterisks are for all groups, resources, subresources, verbs")
async def asterisks(api: Api) -> Any:
    async with visitor(api) as other:
        await permit(api, rule("*", "*", "get"), rule("", "*/status configmaps", "*"))
        await until(other, "deployments/x/scale", False)
        await until(other, "configmaps")
        return [
            (await other.get("deployments/x")).code,
            (await other.get("deployments/x/scale")).code,
            (await other.get("deployments")).code,
            (await other.patch("pods/x/status", {})).code,
            (await other.patch("pods/x", {})).code,
            (await other.patch("deployments/x/status", {})).code,
            (await other.delete("configmaps")).code,
        ]


@area.behaviour("Subresources are permitted apart from their resources")
async def subresources(api: Api) -> Any:
    async with visitor(api) as other:
        await api.make("plains", {"spec": {}})
        await permit(api, rule("conformance.kopf.dev", "plains", "get patch"))
        await until(other, "plains/x")
        return [
            (await other.patch("plains/x", {"spec": {"a": 1}})).code,
            (await other.patch("plains/x/status", {"status": {"a": 1}})).show(),
        ]


@area.behaviour("Cluster roles can be bound in a namespace")
async def cluster_roles(api: Api) -> Any:
    name = f"role-{api.namespace}"
    async with visitor(api) as other:
        await api.create(
            f"{ROLES}/clusterroles", {**meta(name), "rules": [rule("", "configmaps", "list")]}
        )
        try:
            await bind(api, "ClusterRole", name)
            await until(other, "configmaps")
            return [
                (await other.get("configmaps")).code,
                (await other.get("/api/v1/configmaps")).code,
                (await other.get("/api/v1/namespaces/default/configmaps")).show(),
            ]
        finally:
            await api.delete(f"{ROLES}/clusterroles/{name}")


@area.behaviour("Cluster roles can be bound in the whole cluster, also to groups")
async def cluster_bindings(api: Api) -> Any:
    name = f"role-{api.namespace}"
    group = {
        "kind": "Group",
        "apiGroup": RBAC,
        "name": f"system:serviceaccounts:{api.namespace}",
    }
    ref = {"apiGroup": RBAC, "kind": "ClusterRole", "name": name}
    rules = [rule("", "configmaps", "list"), {"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]
    async with visitor(api) as other:
        await api.create(f"{ROLES}/clusterroles", {**meta(name), "rules": rules})
        body = {**meta(name), "roleRef": ref, "subjects": [group]}
        await api.create(f"{ROLES}/clusterrolebindings", body)
        try:
            await until(other, "/api/v1/configmaps")
            return [
                (await other.get("/api/v1/configmaps")).code,
                (await other.get("configmaps")).code,
                (await other.get("/metrics")).code != 403,
            ]
        finally:
            await api.delete(f"{ROLES}/clusterrolebindings/{name}")
            await api.delete(f"{ROLES}/clusterroles/{name}")


@area.behaviour("Bindings of absent roles are explained")
async def absent_roles(api: Api) -> Any:
    async with visitor(api) as other:
        await bind(api, "Role", "absent")
        for _ in range(200):
            reply = await other.get("pods")
            if "absent" in str(reply.body):
                break
        return reply.show()


@area.behaviour("Namespaces themselves can be read by roles in them")
async def own_namespace(api: Api) -> Any:
    async with visitor(api) as other:
        await permit(api, rule("", "namespaces", "get"))
        reply = await until(other, f"namespaces/{api.namespace}")
        return [reply.code, (await other.get("namespaces/default")).show()]


@area.behaviour("To apply what does not exist is to create it")
async def applied(api: Api) -> Any:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}
    async with visitor(api) as other:
        await permit(api, rule("", "configmaps", "patch list"))
        await until(other, "configmaps")
        refused = await other.patch("configmaps/x", body, "apply", fieldManager="me")
        await api.make("configmaps", name="x")
        applied = await other.patch("configmaps/x", body, "apply", fieldManager="me")
        return [refused.show(), applied.code]


def review(kind: str, attributes: dict[str, str], **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": kind,
        "spec": {"resourceAttributes": attributes, **spec},
    }


@area.behaviour("Accounts can review their own access")
async def own_reviews(api: Api) -> Any:
    async with visitor(api) as other:
        await permit(api, rule("", "configmaps", "get list", resourceNames=["x"]))
        await permit(api, rule("apps", "deployments deployments/status", "*"), name="y")
        await until(other, "deployments")
        await until(other, "configmaps/x", False)
        url = f"{ACCESS}/selfsubjectaccessreviews"
        kind = "SelfSubjectAccessReview"
        where = {"namespace": api.namespace, "verb": "get"}
        apps = {**where, "group": "apps", "resource": "deployments"}
        asked = [
            apps,
            {**apps, "subresource": "status"},
            {**apps, "subresource": "scale"},
            {**apps, "namespace": ""},
            {**where, "resource": "configmaps"},
            {**where, "resource": "configmaps", "name": "x"},
        ]
        replies = [await other.create(url, review(kind, one)) for one in asked]
        paths = [
            {"nonResourceAttributes": {"path": path, "verb": "get"}}
            for path in ("/api", "/metrics")
        ]
        bodies = [{**review(kind, {}), "spec": spec} for spec in paths]
        replies += [await other.create(url, body) for body in bodies]
        return [reply.show("status") for reply in replies]


@area.behaviour("Accounts can review their own rules")
async def own_rules(api: Api) -> Any:
    async with visitor(api) as other:
        await permit(
            api,
            rule("", "configmaps", "get", resourceNames=["x"]),
            rule("apps", "deployments", "list"),
        )
        await until(other, "deployments")
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectRulesReview",
            "spec": {"namespace": api.namespace},
        }
        reply = await other.create(f"{ACCESS}/selfsubjectrulesreviews", body)
        resources, urls = reply["status.resourceRules"], reply["status.nonResourceRules"]
        return [
            reply.code,
            sorted(resources, key=lambda one: (one["apiGroups"], one["resources"])),
            any("/api" in one["nonResourceURLs"] for one in urls),
            reply["status.incomplete"],
        ]


@area.behaviour("Access of others is reviewed by those who may")
async def reviews_of_others(api: Api) -> Any:
    async with visitor(api) as other:
        await permit(api, rule("", "configmaps", "list"))
        await until(other, "configmaps")
        user = f"system:serviceaccount:{api.namespace}:x"
        asked = {"namespace": api.namespace, "verb": "list", "resource": "configmaps"}
        body = review("SubjectAccessReview", asked, user=user)
        local = review("LocalSubjectAccessReview", asked, user=user)
        url = f"{ACCESS}/namespaces/{api.namespace}/localsubjectaccessreviews"
        nobody = review("SubjectAccessReview", asked, user="nobody")
        return [
            (await api.create(f"{ACCESS}/subjectaccessreviews", body)).show("status"),
            (await api.create(f"{ACCESS}/subjectaccessreviews", nobody)).show("status"),
            (await api.create(url, local)).show("status"),
            (await other.create(f"{ACCESS}/subjectaccessreviews", body)).show(),
        ]


@area.behaviour("Accounts know who they are, and those who may can be others")
async def identities(api: Api) -> Any:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    user = {"Impersonate-User": f"system:serviceaccount:{api.namespace}:x"}
    async with visitor(api) as other:
        own = await other.create(f"{IDENTITY}/selfsubjectreviews", body)
        info = own["status.userInfo"]
        return [
            [own.code, info["username"], info["groups"]],
            (await api.request("GET", "pods", headers=user)).show(),
            (await other.request("GET", "pods", headers={"Impersonate-User": "me"})).show(),
            (await other.request("GET", "pods", headers=user)).show(),
        ]
