"""What the log says when the role of the operator does not permit what handlers do."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import kopf

CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}

Messages = Callable[[], list[str]]


def refuse(websites: Any, method: str, verb: str) -> Any:
    """Refuse it as RBAC does."""
    message = (
        f'configmaps "a" is forbidden: User "op" cannot {verb} resource "configmaps" '
        'in API group "" in the namespace "ns1"'
    )
    where: Any = {"path": "*/configmaps*", "method": method, "watch": False}
    return websites.sandbox.faults.fail(403, message=message, **where)


@pytest.fixture
def errors(caplog: pytest.LogCaptureFixture) -> Messages:
    return lambda: [r.getMessage() for r in caplog.records if r.levelname == "ERROR"]


async def attempt(action: Any, websites: Any) -> None:
    """Run it in a handler, and wait until it has failed for good."""

    @kopf.on.create(websites.kind, id="fn", registry=websites.registry, errors=FAIL)
    async def fn(**_: Any) -> None:
        result = action()
        if isinstance(result, Awaitable):
            await result

    await websites.apply()
    async with websites.operating():
        await websites.wait(websites.kind, "web", check=is_handled)


FAIL = kopf.ErrorsMode.PERMANENT


def is_handled(obj: Any) -> bool:
    return "kopf.zalando.org/last-handled-configuration" in obj["metadata"].get("annotations", {})


def hint(*verbs: str) -> str:
    rule = f'{{apiGroups: [""], resources: [configmaps], verbs: [{", ".join(verbs)}]}}'
    return f" Add this rule to the role of the operator: {rule}."


@pytest.mark.parametrize(
    ("method", "verb", "verbs", "action"),
    [
        ("GET", "get", ["get"], lambda: kopf.api.get("configmaps", "a")),
        ("GET", "list", ["list"], lambda: kopf.api.list("configmaps")),
        ("POST", "create", ["create"], lambda: kopf.api.create(CONFIG_MAP)),
        ("PATCH", "create", ["create", "patch"], lambda: kopf.api.apply(CONFIG_MAP)),
        ("PATCH", "patch", ["patch", "create"], lambda: kopf.api.apply(CONFIG_MAP)),
        ("PATCH", "patch", ["patch"], lambda: kopf.api.patch("configmaps", "a", {})),
        ("DELETE", "delete", ["delete"], lambda: kopf.api.delete("configmaps", "a")),
    ],
)
async def test_r37_refused_calls_of_the_client_name_the_rule(
    websites: Any, errors: Messages, method: str, verb: str, verbs: list[str], action: Any
) -> None:
    refuse(websites, method, verb)
    await attempt(action, websites)
    [error] = errors()
    assert error.startswith("Handler 'fn' failed with an exception and will stop now: 403 ")
    assert error.endswith(hint(*verbs))


async def test_r37_refused_children_name_the_rule(websites: Any, errors: Messages) -> None:
    @websites.reconcile(id="fn", backoff=0.01)
    def fn(conditions: Any, **_: Any) -> Any:
        yield CONFIG_MAP
        conditions.set("Ready", True)

    fault = refuse(websites, "PATCH", "create")
    await websites.apply()
    async with websites.operating():
        await websites.sandbox.journal.wait(method="PATCH", path="*/configmaps/a", count=2)
        websites.sandbox.faults.remove(fault)
        await websites.wait("configmaps", "a")
    assert errors()
    for error in errors():
        assert error.startswith("Reconciler 'fn' failed with an exception and will try again in ")
        assert error.endswith(hint("create", "patch"))


async def test_s4_unwanted_children_that_cannot_be_deleted_name_the_rule(
    websites: Any, errors: Messages
) -> None:
    @websites.reconcile(id="fn", backoff=0.01)
    def fn(spec: Any, **_: Any) -> Any:
        if spec["wanted"]:
            yield CONFIG_MAP

    fault = refuse(websites, "DELETE", "delete")
    await websites.apply(wanted=True)
    async with websites.operating():
        await websites.wait("configmaps", "a")
        await websites.patch(wanted=False)
        await websites.sandbox.journal.wait(method="DELETE", path="*/configmaps/a", count=2)
        websites.sandbox.faults.remove(fault)
        await websites.wait("configmaps", "a", gone=True)
    failures = [error for error in errors() if error.startswith("Reconciler 'fn' failed")]
    assert failures
    assert all(error.endswith(hint("delete")) for error in failures)


async def test_s4_refused_patches_of_the_object_name_the_rule(
    websites: Any, errors: Messages
) -> None:
    message = (
        'websites.example.com "web" is forbidden: User "op" cannot patch resource "websites" '
        'in API group "example.com" in the namespace "ns1"'
    )

    @kopf.on.create(websites.kind, id="fn", registry=websites.registry)
    def fn(patch: kopf.Patch, **_: Any) -> None:
        patch.spec["x"] = "1"

    faults = websites.sandbox.faults
    with faults.fail(403, message=message, method="PATCH", path="*/websites/web"):
        await websites.apply()
        async with websites.operating():
            await websites.sandbox.journal.wait(method="PATCH", path="*/websites/web", count=2)
            faults.clear()
            await websites.wait(websites.kind, "web", check=is_handled)
    assert errors()[0].endswith(
        ' Add this rule to the role of the operator: {apiGroups: ["example.com"], '
        "resources: [websites], verbs: [patch]}."
    )
