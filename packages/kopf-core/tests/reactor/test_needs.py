"""Rights: all that are missing for what is declared are told at once, before they are needed."""

import asyncio
import json
import logging
from collections.abc import Callable
from typing import Any

import pytest
from idleness import until

from kopf_cogs.structs.resources import Resource
from kopf_core.intents import decorators as on
from kopf_core.reactor.life.essentials import OperatorOptions
from kopf_core.reactor.life.needs import list_needs

RULES, ACCESS = "*/selfsubjectrulesreviews", "*/selfsubjectaccessreviews"
LINE = "The operator lacks rights for what is declared in it. Add them: "


def make_rule(key: str, verbs: str) -> dict[str, Any]:
    """The key is a kind, or a kind and a name: ``leases``, ``leases:default``."""
    resource, _, name = key.partition(":")
    rule = {"apiGroups": ["*"], "resources": [resource], "verbs": verbs.split()}
    return rule | ({"resourceNames": [name]} if name else {})


@pytest.fixture
def permit(monkeypatch) -> Callable[..., None]:
    """Let the server say that it permits only these: verbs by kinds. The sandbox checks nothing."""
    documents = pytest.importorskip("kopf_kits.sandbox.http.documents")
    original = documents.answer_review

    def permit(
        rights: dict[str, str],
        incomplete: bool = False,
        only: str | None = None,
        unknown: object = (),
    ) -> None:
        def answer(call: Any, *args: Any) -> Any:
            reply = original(call, *args)
            body = call.parse_body()
            if body["kind"] == "SelfSubjectRulesReview":
                is_there = only in (None, body["spec"]["namespace"])
                rules = [make_rule(key, verbs) for key, verbs in rights.items() if is_there]
                told = unknown if incomplete else rules
                status = {"resourceRules": told, "incomplete": incomplete}
            else:
                spec = body["spec"]["resourceAttributes"]
                name = "/".join(filter(None, [spec["resource"], spec["subresource"]]))
                keys = [name, f"{name}:{spec.get('name')}"]
                verbs = " ".join(rights.get(key, "") for key in keys).split()
                is_there = only in (None, spec.get("namespace"))
                status = {"allowed": is_there and spec["verb"] in verbs}
            return type(reply).of({**body, "status": status}, 201)

        monkeypatch.setattr(documents, "answer_review", answer)

    return permit


@pytest.fixture
def declare(registry, settings, operate):
    """A reconciler with children, with events, and with a lease."""
    settings.posting.enabled = True
    settings.name = "examples.kopf.dev"
    settings.leasing.name = settings.leasing.namespace = "default"

    @on.reconcile(
        "kopfexamples",
        owns=["v1/configmaps", "deployments"],
        related={"v1/secrets": "spec.secret"},
        registry=registry,
    )
    def fn(**_: Any) -> None:
        pass


GRANTED = {
    "kopfexamples": "list watch get patch",
    "kopfexamples/status": "patch",
    "customresourcedefinitions": "list watch",
    "configmaps": "list watch create",
    "secrets": "list watch",
    "leases": "get create update",
}
EVERYTHING = {"customresourcedefinitions": "list watch"}
KEEPING = ["list", "watch", "create", "patch", "delete"]


async def look(operate: Any, logged: Any, **options: Any) -> list[dict[str, Any]]:
    """The missing roles, as they are told."""
    async with operate(**options):
        await until(lambda: any(LINE in text for text in logged(logging.WARNING)))
    [line] = [text for text in logged(logging.WARNING) if LINE in text]
    manifest = json.loads(line.partition(LINE)[2])  # as `kubectl apply` takes it
    assert (manifest["apiVersion"], manifest["kind"]) == ("v1", "List")
    roles: list[dict[str, Any]] = manifest["items"]
    return roles


def get_named(rule: dict[str, Any]) -> tuple[str, list[str] | None, list[str]]:
    [resource] = rule["resources"]
    return resource, rule.get("resourceNames"), rule["verbs"]


def get_rights(role: dict[str, Any]) -> dict[str, list[str]]:
    return {name: rule["verbs"] for rule in role["rules"] for name in rule["resources"]}


@pytest.mark.usefixtures("declare")
@pytest.mark.parametrize("incomplete", [False, True], ids=["rules", "no-rules"])
async def test_k30_all_missing_rights_are_told_at_once(operate, logged, permit, incomplete):
    permit(GRANTED, incomplete)
    [role] = await look(operate, logged, clusterwide=True)
    name = "examples.kopf.dev-missing"  # a role of its own, which replaces no other one
    assert (role["kind"], role["metadata"]) == ("ClusterRole", {"name": name})
    assert get_rights(role) == {
        "configmaps": ["patch", "delete"],
        "deployments": KEEPING,
        "events": ["create", "patch"],
    }


@pytest.mark.usefixtures("declare")
@pytest.mark.parametrize(
    "rules",
    [
        None,
        5,
        {"verbs": ["*"]},
        [5],
        [{"apiGroups": 5, "resources": ["*"], "verbs": ["*"]}],
        [{"apiGroups": ["*"], "resources": ["*"], "verbs": [{}]}],
        [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"], "resourceNames": 5}],
    ],
    ids=repr,
)
async def test_k30_rules_that_make_no_sense_are_no_rules(operate, logged, permit, rules):
    permit(GRANTED, incomplete=True, unknown=rules)
    [role] = await look(operate, logged, clusterwide=True)
    assert get_rights(role)["configmaps"] == ["patch", "delete"]


@pytest.mark.usefixtures("declare")
async def test_k30_rights_in_namespaces_are_apart_from_those_of_the_cluster(
    operate, logged, permit, settings
):
    settings.leasing.namespace = "elsewhere"
    permit({key: verbs for key, verbs in GRANTED.items() if key[0] not in "l"} | {"events": "*"})
    roles = {
        r["metadata"].get("namespace"): r
        for r in await look(operate, logged, namespaces=["default"])
    }
    assert {key: role["kind"] for key, role in roles.items()} == {
        "default": "Role",
        "elsewhere": "Role",
    }
    assert [*map(get_named, roles["elsewhere"]["rules"])] == [
        ("leases", ["default"], ["get", "update"]),
        ("leases", None, ["create"]),  # cannot be limited by names
    ]
    assert get_rights(roles["default"])["deployments"] == KEEPING


@pytest.mark.usefixtures("declare")
async def test_k30_n_rights_in_one_namespace_are_none_for_the_whole_cluster(
    operate, logged, permit
):
    permit(GRANTED, only="default")
    roles = await look(operate, logged)
    [role] = [role for role in roles if role["kind"] == "ClusterRole"]
    assert get_rights(role)["kopfexamples"] == GRANTED["kopfexamples"].split()


@pytest.mark.parametrize("incomplete", [False, True], ids=["rules", "no-rules"])
@pytest.mark.parametrize("name", ["default", "other"])
async def test_k30_rights_for_one_lease_are_enough_for_that_lease(
    cluster, operate, logged, permit, settings, incomplete, name
):
    settings.leasing.name, settings.leasing.namespace = name, "default"
    settings.leasing.retry_period = 0.01
    settings.posting.enabled = False
    permit({"leases": "create", "leases:default": "get update"} | EVERYTHING, incomplete)
    if name == "other":
        [role] = await look(operate, logged, namespaces=["default"])
        assert [*map(get_named, role["rules"])] == [("leases", ["other"], ["get", "update"])]
    else:
        async with operate(namespaces=["default"]), asyncio.timeout(60):
            await cluster.sandbox.journal.wait("POST", RULES, count=2)
            await cluster.sandbox.journal.wait("PUT", "*/leases/default")
        assert not [text for text in logged(logging.WARNING) if LINE in text]


@pytest.mark.usefixtures("declare")
async def test_k30_nothing_is_said_if_nothing_can_be_known(cluster, operate, logged, settings):
    settings.leasing.name = None
    cluster.sandbox.faults.fail(404, method="POST", path=RULES)
    async with operate(clusterwide=True), asyncio.timeout(60):
        await cluster.sandbox.journal.wait("POST", RULES)
        await cluster.create("one")
        await cluster.sandbox.journal.wait("GET", "*/secrets", count=2)
    assert len([e for e in cluster.sandbox.journal if "selfsubject" in e.path]) == 1
    assert not [text for text in logged(logging.WARNING) if LINE in text]


@pytest.mark.usefixtures("declare")
async def test_k30_it_is_one_request_if_everything_is_granted(cluster, operate, logged, settings):
    settings.leasing.name = None  # it would be one more, for its namespace
    async with operate(clusterwide=True), asyncio.timeout(60):
        await cluster.sandbox.journal.wait("POST", RULES)
        await cluster.create("one")
        await cluster.sandbox.journal.wait("GET", "*/secrets", count=2)
    assert len([e for e in cluster.sandbox.journal if "selfsubject" in e.path]) == 1
    assert not [text for text in logged(logging.WARNING) if LINE in text]


def test_n_namesakes_in_other_groups_are_not_needed(registry, settings):
    """The core kinds are served then, and nothing else: see `Selector.select`."""

    @on.event("pods", id="fn", registry=registry)
    def fn(**_: Any) -> None:
        pass

    verbs = frozenset({"list", "watch"})
    groups = ("", "metrics.k8s.io")
    pods = [Resource(group, "v1", "pods", namespaced=True, verbs=verbs) for group in groups]
    needs = list_needs(OperatorOptions(registry=registry, settings=settings), pods, [None])
    assert {right.group for right in needs[None] if right.resource == "pods"} == {""}
    purposes = {right.verb: [*why] for right, why in needs[None].items() if right.group == ""}
    assert purposes["list"] == purposes["watch"] == ["Handler 'fn'"]


@pytest.mark.parametrize("decorators", [[on.validate], [on.mutate], [on.validate, on.mutate], []])
def test_k30_both_configurations_of_webhooks_are_needed_whatever_is_declared(
    registry, settings, decorators
):
    """Those of the other type are cleaned up: they are left by an earlier version, or a crash."""
    for decorator in decorators:

        @decorator("kopfexamples", id=decorator.__name__, registry=registry)
        def fn(**_: Any) -> None:
            pass

    settings.admission.managed = "hooks.example.com"
    needs = list_needs(OperatorOptions(registry=registry, settings=settings), [], [None])
    verbs: dict[str, set[str]] = {}
    for right in needs[None]:
        if right.group == "admissionregistration.k8s.io":
            verbs.setdefault(right.resource, set()).add(right.verb)
    kinds = ("validatingwebhookconfigurations", "mutatingwebhookconfigurations")
    assert verbs == {kind: {"list", "watch", "create", "patch"} for kind in kinds}
