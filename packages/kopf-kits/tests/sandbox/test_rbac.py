"""The sandbox in which roles decide who may do what; the texts are compared in the conformance."""

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from kopf_kits.sandbox import ClusterOptions, Sandbox

PODS = "/api/v1/namespaces/default/pods"
MAPS = "/api/v1/namespaces/default/configmaps"
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
RBAC = "rbac.authorization.k8s.io"


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    async with Sandbox(options=ClusterOptions(rbac=True)) as sandbox:
        body = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "me"}}
        await sandbox.create(body)
        yield sandbox


async def permit(sandbox: Sandbox, *rules: dict[str, Any], place: str | None = "default") -> None:
    cluster = "Cluster" if place is None else ""
    meta = {"name": "mine"} | ({} if place is None else {"namespace": place})
    ref = {"apiGroup": RBAC, "kind": f"{cluster}Role", "name": "mine"}
    subject = {"kind": "ServiceAccount", "name": "me", "namespace": "default"}
    head = {"apiVersion": f"{RBAC}/v1", "metadata": meta}
    await sandbox.create({**head, "kind": f"{cluster}Role", "rules": [*rules]})
    await sandbox.create(
        {**head, "kind": f"{cluster}RoleBinding", "roleRef": ref, "subjects": [subject]}
    )


def rule(resources: str, verbs: str, group: str = "") -> dict[str, Any]:
    return {"apiGroups": [group], "resources": resources.split(), "verbs": verbs.split()}


async def ask(
    sandbox: Sandbox, method: str, path: str, body: Any = None, token: str = "me", **headers: str
) -> tuple[int, Any]:
    known = {"me": "sandbox:default:me", "admin": "sandbox"}
    authorization = {"Authorization": f"Bearer {known.get(token, token)}"} if token else {}
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    async with (
        aiohttp.ClientSession(headers={**authorization, **names}) as session,
        session.request(method, sandbox.url + path, json=body) as response,
    ):
        return response.status, await response.json(content_type=None)


async def test_n_nothing_is_allowed_with_no_roles(sandbox):
    code, status = await ask(sandbox, "GET", f"{PODS}/x")
    assert (code, status["reason"]) == (403, "Forbidden")
    assert status["details"] == {"name": "x", "kind": "pods"}
    assert status["message"] == (
        'pods "x" is forbidden: User "system:serviceaccount:default:me" cannot get resource '
        '"pods" in API group "" in the namespace "default"'
    )


async def test_n_admin_is_not_restricted(sandbox):
    assert (await ask(sandbox, "GET", PODS, token="admin"))[0] == 200
    assert sandbox.kubeconfig()["users"][0]["user"] == {"token": "sandbox"}


@pytest.mark.parametrize("token", ["nonsense", "sandbox:default:absent", "sandbox:a:b:c"])
async def test_n_unknown_tokens_are_rejected(sandbox, token):
    code, status = await ask(sandbox, "GET", PODS, token=token)
    assert (code, status["message"]) == (401, "Unauthorized")


async def test_n_those_without_tokens_are_anonymous(sandbox):
    code, status = await ask(sandbox, "GET", "/apis", token="")
    assert (code, 'User "system:anonymous" cannot get path' in status["message"]) == (403, True)
    assert (await ask(sandbox, "GET", "/version", token=""))[0] == 200
    assert (await ask(sandbox, "GET", "/apis"))[0] == 200


@pytest.mark.parametrize("place", ["default", None])
async def test_n_roles_permit_what_is_in_them(sandbox, place):
    await permit(sandbox, rule("configmaps", "list create"), place=place)
    assert (await ask(sandbox, "POST", MAPS, {"metadata": {"name": "x"}}))[0] == 201
    assert (await ask(sandbox, "GET", MAPS))[0] == 200
    assert (await ask(sandbox, "GET", f"{MAPS}/x"))[0] == 403
    assert (await ask(sandbox, "GET", f"{MAPS}?watch=true"))[0] == 403
    assert (await ask(sandbox, "GET", PODS))[0] == 403
    code, _ = await ask(sandbox, "GET", "/api/v1/configmaps")
    assert code == (403 if place else 200)


async def test_n_names_and_subresources_are_respected(sandbox):
    limited = {**rule("configmaps", "get list"), "resourceNames": ["x"]}
    await permit(sandbox, limited, rule("pods/status", "patch"), rule("*/scale", "get", "*"))
    await sandbox.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}})
    assert (await ask(sandbox, "GET", f"{MAPS}/x"))[0] == 200
    assert (await ask(sandbox, "GET", f"{MAPS}/y"))[0] == 403
    assert (await ask(sandbox, "GET", MAPS))[0] == 403
    assert (await ask(sandbox, "GET", f"{MAPS}?fieldSelector=metadata.name%3Dx"))[0] == 200
    assert (await ask(sandbox, "PATCH", f"{PODS}/x", {}))[0] == 403
    assert (await ask(sandbox, "PATCH", f"{PODS}/x/status", {}))[0] != 403
    scale = "/apis/apps/v1/namespaces/default/deployments/x/scale"
    assert (await ask(sandbox, "GET", scale))[0] == 404


async def test_n_applying_what_is_absent_is_a_creation(sandbox):
    await permit(sandbox, rule("configmaps", "patch"))
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}
    options = {"Content_Type": "application/apply-patch+yaml"}
    code, status = await ask(sandbox, "PATCH", f"{MAPS}/x?fieldManager=me", body, **options)
    assert (code, "cannot create" in status["message"]) == (403, True)
    await sandbox.create(body)
    assert (await ask(sandbox, "PATCH", f"{MAPS}/x?fieldManager=me", body, **options))[0] == 200


async def test_n_rights_are_taken_away_at_once(sandbox):
    await permit(sandbox, rule("configmaps", "list"))
    assert (await ask(sandbox, "GET", MAPS))[0] == 200
    await sandbox.delete("rolebindings", "mine")
    assert (await ask(sandbox, "GET", MAPS))[0] == 403


async def test_n_impersonation_is_for_those_who_may(sandbox):
    other = {"Impersonate_User": "system:serviceaccount:default:me"}
    code, status = await ask(sandbox, "GET", PODS, token="admin", **other)
    assert (code, "serviceaccount:default:me" in status["message"]) == (403, True)
    code, status = await ask(sandbox, "GET", PODS, Impersonate_User="somebody")
    assert (code, "cannot impersonate" in status["message"]) == (403, True)


async def test_n_reviews_are_answered_by_the_roles(sandbox):
    await permit(sandbox, rule("pods", "list"))
    spec = {"resourceAttributes": {"verb": "list", "resource": "pods", "namespace": "default"}}
    _, review = await ask(sandbox, "POST", REVIEWS, {"spec": spec})
    reason = 'RBAC: allowed by RoleBinding "mine/default" of Role "mine" to ServiceAccount'
    assert review["status"] == {"allowed": True, "reason": f'{reason} "me/default"'}
    spec["resourceAttributes"]["verb"] = "get"
    _, review = await ask(sandbox, "POST", REVIEWS, {"spec": spec})
    assert review["status"] == {"allowed": False}
    url = REVIEWS.replace("access", "rules")
    _, review = await ask(sandbox, "POST", url, {"spec": {"namespace": "default"}})
    assert rule("pods", "list") in review["status"]["resourceRules"]


async def test_n_issued_tokens_are_those_of_kubeconfigs(sandbox):
    url = "/api/v1/namespaces/default/serviceaccounts/me/token"
    _, issued = await ask(sandbox, "POST", url, {"spec": {}}, token="admin")
    config = sandbox.kubeconfig(account="me")
    assert config["users"][0]["user"]["token"] == issued["status"]["token"]


async def test_n_nobody_is_asked_by_default():
    async with Sandbox() as sandbox:
        assert (await ask(sandbox, "GET", PODS, token="nonsense"))[0] == 200
        assert await sandbox.list("clusterroles") == []
