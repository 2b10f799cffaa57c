"""``@kopf.reconcile`` where the definition of the kind does not let the conditions through."""

from collections.abc import Iterator
from typing import Any

import pytest

import kopf

ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
CONDITIONS = {"type": "array", "items": ANYTHING}
MANY_CONDITIONS = CONDITIONS | {"minItems": 2}


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def make_status(**fields: Any) -> dict[str, Any]:
    return {"spec": ANYTHING, "status": {"type": "object", "properties": fields}}


def has_condition(message: str) -> Any:
    def check(obj: Any) -> bool:
        conditions = obj.get("status", {}).get("conditions", [])
        return any(c["message"] == message for c in conditions)

    return check


@pytest.fixture
def reconciler(websites: Any) -> Any:
    @websites.reconcile(id="fn")
    def fn(name: str, spec: Any, patch: Any, conditions: Any, **_: Any) -> Iterator[Any]:
        yield config_map(name, x=spec["x"])
        patch.status["phase"] = spec["x"]
        conditions.set("Ready", True, message=spec["x"])

    return fn


@pytest.mark.usefixtures("reconciler")
async def test_absent_observed_generations_cost_no_writes_after_restarts(websites: Any) -> None:
    await websites.define(**make_status(conditions=CONDITIONS, phase={"type": "string"}))
    await websites.apply(x="1")
    async with websites.operating():
        await websites.wait(websites.kind, "web", check=has_condition("1"))
    since = websites.now
    async with websites.operating():
        await websites.apply("last", x="1")
        await websites.wait(websites.kind, "last", check=has_condition("1"))
    writes = [e for e in websites.sandbox.journal if e.number > since and e.method != "GET"]
    assert not [entry for entry in writes if entry.path.endswith("/websites/web/status")]


@pytest.mark.usefixtures("reconciler")
async def test_rejected_conditions_are_told_of_once_and_the_rest_is_stored(
    websites: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "kopf_core.engines.desired.desired_states.REJECTION_DELAYS", (0.1, 0.5, 60.0)
    )
    await websites.define(**make_status(conditions=MANY_CONDITIONS, phase={"type": "string"}))
    await websites.apply(x="1")
    async with websites.operating():
        await websites.wait(websites.kind, "web", jsonpath="status.phase", value="1")
        rejected = await websites.sandbox.journal.wait("PATCH", "*/websites/web/status", count=3)
        assert rejected
        await websites.define(**make_status(conditions=CONDITIONS, phase={"type": "string"}))
        await websites.wait(websites.kind, "web", check=has_condition("1"))
    errors = [r.getMessage() for r in caplog.records if r.levelname == "ERROR"]
    assert len(errors) == 1
    assert "The conditions are rejected and dropped: 422" in errors[0]
    assert [w for w in websites.writes() if w != "PATCH status"] == ["PATCH web"]


async def test_conditions_that_are_not_stored_are_not_sent_again_and_again(
    websites: Any, caplog: pytest.LogCaptureFixture
) -> None:
    @websites.reconcile(id="fn")
    def fn(name: str, spec: Any, conditions: Any, **_: Any) -> Iterator[Any]:
        yield config_map(name)
        conditions.set("Ready", True, message=spec["x"])

    await websites.define(**make_status(phase={"type": "string"}))
    await websites.apply(x="1")
    async with websites.operating():
        await websites.sandbox.journal.wait("PATCH", "*/websites/web/status")
        for count in (2, 3, 4):
            await websites.sandbox.delete("configmaps", "web", namespace="ns1")
            await websites.sandbox.journal.wait("PATCH", "*/configmaps/web", count=count)
            await websites.wait("configmaps", "web")
        await websites.apply("last", x="1")
        await websites.sandbox.journal.wait("PATCH", "*/websites/last/status")
        assert websites.writes().count("PATCH status") == 2
        await websites.define(**make_status(conditions=CONDITIONS, phase={"type": "string"}))
        await websites.patch(x="2")
        await websites.wait(websites.kind, "web", check=has_condition("2"))
    lost = [r for r in caplog.records if "inconsistencies" in r.getMessage()]
    assert len(lost) == 2  # once for each object


async def test_h2_generations_are_not_observed_until_all_reconcilers_are_done(
    websites: Any,
) -> None:
    @websites.reconcile(id="bad", backoff=0.01)
    def bad(name: str, spec: Any, conditions: Any, **_: Any) -> Iterator[Any]:
        if spec["x"] == "bad":
            raise kopf.TemporaryError("Not now.", delay=600)
        yield config_map(name, x=spec["x"])
        conditions.set("Ready", True, message=spec["x"])

    @websites.reconcile(id="good")
    def good(name: str, spec: Any, conditions: Any, **_: Any) -> Iterator[Any]:
        yield config_map(f"{name}-good", x=spec["x"])
        conditions.set("Good", True, message=spec["x"])

    def is_observed(obj: Any) -> bool:
        return bool(obj["status"].get("observedGeneration") == obj["metadata"]["generation"])

    await websites.apply(x="bad")
    async with websites.operating():
        web = await websites.wait(websites.kind, "web", check=has_condition("bad"))
        assert not is_observed(web)
        await websites.patch(x="1")
        await websites.wait(websites.kind, "web", check=is_observed)
        await websites.patch(x="bad")
        conditions = {"path": "*/websites/web/status", "count": 3}
        await websites.sandbox.journal.wait("PATCH", **conditions)
        web = await websites.wait(websites.kind, "web", check=has_condition("bad"))
        assert not is_observed(web)
        await websites.patch(x="2")
        await websites.wait(websites.kind, "web", check=is_observed)


async def test_h2_generations_are_observed_even_if_conditions_were_told_earlier(
    websites: Any,
) -> None:
    @websites.reconcile(id="slow")
    def slow(retry: int, **_: Any) -> None:
        if not retry:
            raise kopf.TemporaryError("Not now.", delay=0.01)

    @websites.reconcile(id="fast")
    def fast(conditions: Any, **_: Any) -> None:
        conditions.set("Ready", True)

    await websites.apply()
    async with websites.operating():
        await websites.wait(websites.kind, "web", jsonpath="status.observedGeneration", value=1)
