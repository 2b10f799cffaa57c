"""What is forbidden is told once, for all whom it concerns; and works as soon as permitted."""

import asyncio
import logging
from typing import Any

import pytest
from idleness import until

from kopf_core.intents import decorators as on

DENIAL = (
    'kopfexamples.kopf.dev "{name}" is forbidden: User "me" cannot patch resource '
    '"kopfexamples" in API group "kopf.dev" in the namespace "default"'
)


def deny_patches(faults: Any, *names: str) -> None:
    for name in names:
        faults.fail(403, method="PATCH", path=f"*/{name}", message=DENIAL.format(name=name))


async def test_b4_r37_forbidden_patches_are_told_once_for_all_objects(
    cluster, operate, registry, settings, journal, logged
):
    settings.queueing.error_delays = [0.01]
    names = ["a", "b", "c"]

    @on.create("kopfexamples", registry=registry)
    async def fn(name: str, **_: Any) -> None:
        journal(name)

    async with operate():
        for _ in range(2):  # told again if it was permitted meanwhile
            deny_patches(cluster.sandbox.faults, *names)
            for name in names:
                await cluster.create(name)
            await until_patched_in_vain(cluster.sandbox.journal, *names)
            cluster.sandbox.faults.clear()
            for name in names:
                await until_handled(cluster, name)
                await cluster.delete(name)
            names = [f"{name}{name}" for name in names]
    told = [text for text in logged(logging.WARNING) if "cannot patch" in text]
    assert len(told) == 2, told
    assert told[0].startswith("Throttling for 0.01 seconds due to missing permissions: 403")
    assert 'cannot patch resource "kopfexamples" in API group "kopf.dev" in the' in told[0]
    assert told[0].endswith(
        'Add this rule to the role of the operator: {apiGroups: ["kopf.dev"], '
        "resources: [kopfexamples], verbs: [patch]}."
    )
    assert len(journal) == len({*journal}) == 6


async def test_r37_all_that_is_missing_is_told_at_the_first_refused_patch(
    cluster, operate, registry, logged, monkeypatch
):
    permit_only(monkeypatch, ("kopfexamples", "list"), ("kopfexamples", "watch"))
    deny_patches(cluster.sandbox.faults, "a")

    @on.create("kopfexamples", registry=registry)
    async def fn(**_: Any) -> None:
        pass

    def get_told() -> list[str]:
        return [text for text in logged(logging.WARNING) if "cannot patch" in text]

    async with operate():
        await cluster.create("a")
        await until(lambda: get_told())
    assert get_told()[0].endswith(
        'Add this rule to the role of the operator: {apiGroups: ["kopf.dev"], '
        "resources: [kopfexamples], verbs: [get, patch]}."
    )


async def until_patched_in_vain(requests: Any, *names: str) -> None:
    for name in names:
        async with asyncio.timeout(60):
            await requests.wait("PATCH", f"*/{name}", count=2)


async def until_handled(cluster: Any, name: str) -> None:
    def is_marked(body: Any) -> bool:
        return "annotations" in body["metadata"]

    await cluster.sandbox.wait("kopfexamples", name, is_marked)


REVIEWS = "*/selfsubjectaccessreviews"


def permit_only(monkeypatch: Any, *permitted: tuple[str, str]) -> None:
    """Let the server say of the rights that it refuses all others: the sandbox checks none."""
    documents = pytest.importorskip("kopf_kits.sandbox.http.documents")
    answer_review = documents.answer_review

    def answer(call: Any, target: Any, nature: Any) -> Any:
        reply = answer_review(call, target, nature)
        if target.plural != "selfsubjectaccessreviews":
            return reply
        body = call.parse_body()
        spec = body["spec"]["resourceAttributes"]
        name = "/".join(filter(None, [spec["resource"], spec["subresource"]]))
        status = {"allowed": (name, spec["verb"]) in permitted}
        return type(reply).of({**body, "status": status}, 201)

    monkeypatch.setattr(documents, "answer_review", answer)


@pytest.mark.parametrize("is_reviewed", [True, False], ids=["reviewed", "unknown"])
async def test_r37_all_that_is_missing_for_the_kinds_is_told_at_once(
    cluster, operate, registry, logged, monkeypatch, make_definition, is_reviewed
):
    text = 'widgets is forbidden: User "me" cannot list resource "{}" in API group "kopf.dev"'
    definition = make_definition("v1", subresources={"status": {}})
    definition["metadata"]["name"] = "widgets.kopf.dev"
    names = {"kind": "Widget", "plural": "widgets", "singular": "widget"}
    definition["spec"]["names"] = names
    await cluster.sandbox.apply(definition)
    for plural in ("widgets", "kopfexamples"):
        path = f"*/kopf.dev/v1/{plural}"
        cluster.sandbox.faults.fail(403, method="GET", path=path, message=text.format(plural))
    permit_only(monkeypatch, ("kopfexamples", "list"), ("widgets", "get"))
    if not is_reviewed:
        cluster.sandbox.faults.fail(403, method="POST", path=REVIEWS)

    @on.create("widgets", registry=registry)
    @on.event("kopfexamples", registry=registry)
    async def fn(**_: Any) -> None:
        pass

    def get_told() -> list[str]:
        return [message for message in logged(logging.WARNING) if "Cannot watch" in message]

    async with operate(clusterwide=True):
        await until(lambda: get_told())
    (told,) = get_told()
    assert told.startswith("Cannot watch 2 kinds (")
    rules = told.partition("of the operator: ")[2]
    if is_reviewed:
        assert sorted(rules.removesuffix("}.").split("}, ")) == [
            '{apiGroups: ["kopf.dev"], resources: [kopfexamples], verbs: [watch]',
            '{apiGroups: ["kopf.dev"], resources: [widgets/status], verbs: [patch]',
            '{apiGroups: ["kopf.dev"], resources: [widgets], verbs: [list, watch, patch]',
        ]
    else:
        assert rules.startswith('{apiGroups: ["kopf.dev"], resources: [')
        assert rules.endswith("], verbs: [list]}.")
        assert "kopfexamples" in rules
        assert "widgets" in rules


async def test_b3_definitions_are_watched_as_soon_as_it_is_permitted(
    cluster, operate, registry, journal, logged, make_definition
):
    message = 'User "me" cannot list resource "customresourcedefinitions" at the cluster scope'
    crds = "*/customresourcedefinitions"

    @on.event("kopfexamples", registry=registry)
    async def fn(resource: Any, **_: Any) -> None:
        journal(resource.version)

    fault = cluster.sandbox.faults.fail(403, method="GET", path=crds, message=message)
    async with operate():
        await cluster.create("a")
        await journal.until(lambda calls: "v1" in calls)
        async with asyncio.timeout(60):
            await cluster.sandbox.journal.wait("GET", crds, count=3)
        fault.release()
        await cluster.redefine(make_definition("v2", "v1"))
        await journal.until(lambda calls: "v2" in calls)
    (warning,) = [text for text in logged(logging.WARNING) if "customresource" in text]
    assert warning.startswith(
        "Not enough permissions to list & watch customresourcedefinitions.v1.apiextensions.k8s.io "
        "cluster-wide; so, new custom resources are not noticed until they are granted."
    )
    assert message in warning


@pytest.mark.parametrize("status", [403, 404])
async def test_b3_namespaces_are_matched_as_soon_as_they_are_permitted(
    cluster, operate, registry, journal, logged, status
):
    fault = cluster.sandbox.faults.fail(status, method="GET", path="/api/v1/namespaces")

    @on.event("kopfexamples", registry=registry)
    async def fn(namespace: str, **_: Any) -> None:
        journal(namespace)

    await cluster.create("a")
    async with operate(namespaces=["exact", "def*"]):
        async with asyncio.timeout(60):
            await cluster.sandbox.journal.wait("GET", "*/namespaces", count=3)
            await cluster.sandbox.journal.wait("GET", "*/namespaces/exact/kopfexamples")
        assert not journal
        fault.release()
        await journal.until(lambda calls: "default" in calls)
    warnings = [text for text in logged(logging.WARNING) if "Not enough permissions" in text]
    assert len(warnings) == (status == 403)
    assert all("these patterns are ignored: 'def*'" in warning for warning in warnings)


async def test_n_exact_namespaces_need_no_rights_to_list_namespaces(
    cluster, operate, registry, journal, logged
):
    """The least role of such an operator has no such rule, so it is not to be asked for."""
    cluster.sandbox.faults.fail(403, method="GET", path="/api/v1/namespaces")

    @on.event("kopfexamples", registry=registry)
    async def fn(namespace: str, **_: Any) -> None:
        journal(namespace)

    await cluster.create("a")
    async with operate(namespaces=["default"]):
        await cluster.sandbox.journal.wait("GET", "*/namespaces")
        await journal.until(lambda calls: "default" in calls)
    assert not [text for text in logged(logging.WARNING) if "namespaces" in text]


async def test_b3_forbidden_discovery_is_told_once(cluster, operate, registry, journal, logged):
    @on.event("kopfexamples", registry=registry)
    async def fn(name: str, **_: Any) -> None:
        journal(name)

    text = 'forbidden: User "me" cannot get path "{}"'
    faults = [
        cluster.sandbox.faults.fail(403, method="GET", path=path, message=text.format(path))
        for path in ("/api", "/apis")
    ]
    async with operate():
        async with asyncio.timeout(60):
            await cluster.sandbox.journal.wait("GET", "/api", count=3)
            await cluster.sandbox.journal.wait("GET", "/apis", count=3)
        for fault in faults:
            fault.release()
        await cluster.create("a")
        await journal.until(lambda calls: "a" in calls)
    [warning] = [text for text in logged(logging.WARNING) if "cannot get path" in text]
    assert warning.startswith("The resources of the cluster cannot be discovered, will be retried:")
    assert warning.endswith("Bind the cluster role system:discovery to the operator.")
