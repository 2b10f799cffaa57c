"""One pass of a reconciler as pure data."""

import inspect
from collections.abc import Iterator
from typing import Any

import pytest

from kopf_cogs.structs.patches import Patch
from kopf_core.actions.errors import TemporaryError
from kopf_core.engines.desired.triggers import Again, Trigger
from kopf_core.intents.callbacks import ReconcilingFn
from kopf_kits.reconciling import reconcile

BODY = {
    "apiVersion": "example.com/v1",
    "kind": "Website",
    "metadata": {"name": "web", "namespace": "ns", "uid": "u1", "generation": 3},
    "spec": {"replicas": 2},
}

SECRET = {"apiVersion": "v1", "kind": "Secret"}


def website(spec: Any, name: str, conditions: Any, children: Any, **_: Any) -> Iterator[Any]:
    config = yield {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
    replicas = {"replicas": spec["replicas"]}
    live = yield {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {}, "spec": replicas}
    ready = live.get("status", {}).get("readyReplicas", 0)
    conditions.set("Ready", ready >= spec["replicas"], message=f"{len(children['Deployment'])}")
    assert config["metadata"]["name"] == name
    if ready < spec["replicas"]:
        yield Again(after=30)


def test_nothing_exists_yet() -> None:
    result = reconcile(website, BODY)
    assert [body["kind"] for body in result.objects] == ["ConfigMap", "Deployment"]
    assert result["Deployment"]["spec"] == {"replicas": 2}
    assert result.conditions["Ready"]["status"] == "False"
    assert result.again == 30


def test_children_come_back_to_the_function() -> None:
    child = {"kind": "Deployment", "metadata": {"name": "web"}, "status": {"readyReplicas": 2}}
    result = reconcile(website, BODY, children=[child])
    assert result.conditions["Ready"]["status"] == "True"
    assert result.conditions["Ready"]["message"] == "1"
    assert result.again is None
    assert result.patch["status"]["conditions"][0]["observedGeneration"] == 3


def test_q_strings_of_secrets_come_back_as_data() -> None:
    def fn(patch: Patch, **_: Any) -> Any:
        strings = {"user": "ann"}
        secret = yield SECRET | {"metadata": {"name": "s"}, "stringData": strings}
        patch.status["user"] = secret["data"]["user"]
        assert secret["data"] == {"user": "YW5u", "old": "b2xk"}
        assert "stringData" not in secret

    live = SECRET | {"metadata": {"name": "s"}, "data": {"old": "b2xk"}}
    result = reconcile(fn, BODY, children=[live])
    assert result.patch.status == {"user": "YW5u"}
    assert result["Secret"]["stringData"] == {"user": "ann"}


async def test_inside_of_a_running_loop() -> None:
    assert reconcile(website, BODY).again == 30


def test_errors_are_those_of_the_function() -> None:
    def failing(triggers: Any, **_: Any) -> None:
        raise TemporaryError(f"{[*triggers]}")

    with pytest.raises(TemporaryError, match="child"):
        reconcile(failing, BODY, triggers=[Trigger("child", "Pod ns/a")])


def test_what_operators_refuse_is_refused_here_too() -> None:
    def fn(**_: Any) -> Any:
        return [{"kind": "Secret", "metadata": {"name": "s"}}]

    with pytest.raises(TypeError, match="Secret s: apiVersion and kind must be there"):
        reconcile(fn, BODY)


def test_absent_kinds_are_not_there() -> None:
    with pytest.raises(KeyError):
        reconcile(lambda **_: [], BODY)["Deployment"]


async def test_async_functions_and_lists() -> None:
    async def fn(name: str, param: str, related: Any, **_: Any) -> list[Any]:
        metadata = {"name": f"{name}-{param}-{len(related)}"}
        return [{"apiVersion": "v1", "kind": "Secret", "metadata": metadata}]

    secret = {"kind": "Secret", "metadata": {"name": "s"}}
    result = reconcile(fn, BODY, param="x", related=[secret])
    assert result["Secret"]["metadata"]["name"] == "web-x-1"


def test_functions_get_all_arguments_of_reconcilers() -> None:
    given: dict[str, Any] = {}
    reconcile(lambda **kwargs: given.update(kwargs), BODY)
    documented = inspect.signature(ReconcilingFn.__call__).parameters
    not_here = {"self", "indices", "cluster"}  # the cluster is given if there are several
    assert {*documented} - not_here == {*given}
    assert given["dryrun"] is False


def test_rehearsals_are_seen_by_functions() -> None:
    def fn(name: str, dryrun: bool, **_: Any) -> Iterator[Any]:
        metadata = {"name": f"{name}-{dryrun}"}
        yield {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}

    assert reconcile(fn, BODY)["Secret"]["metadata"]["name"] == "web-False"
    assert reconcile(fn, BODY, dryrun=True)["Secret"]["metadata"]["name"] == "web-True"
