"""Shards of a ring say at the start what their ring lacks."""

import logging
from collections.abc import Callable
from typing import Any

import pytest
from idleness import until

from kopf_core.intents import decorators as on
from kopf_core.reactor.life import ring_checks
from kopf_core.reactor.life.ring_checks import judge_ring

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GROUP = "sharding.timebertt.dev"
RING = f"{ring_checks.URL}/web"


@pytest.fixture(autouse=True)
def _ring(settings):
    settings.sharding.ring, settings.sharding.namespace = "web", "default"
    settings.sharding.retry_period = 0.01


@pytest.fixture(autouse=True)
def _handlers(registry):
    @on.create("kopfexamples", registry=registry)
    @on.event("configmaps", registry=registry)
    @on.index("secrets", registry=registry)
    async def fn(**_: Any) -> None: ...


@pytest.fixture
def define(cluster, make_definition) -> Callable[..., Any]:
    """Install the kind of rings, and one ring with these kinds."""

    async def define(*resources: Any) -> None:
        definition = make_definition("v1alpha1")
        names = {"kind": "ControllerRing", "plural": "controllerrings", "singular": "ring"}
        definition["metadata"]["name"] = f"controllerrings.{GROUP}"
        definition["spec"] |= {"group": GROUP, "scope": "Cluster", "names": names}
        await cluster.client.post(CRDS, definition)
        body = {"apiVersion": f"{GROUP}/v1alpha1", "kind": "ControllerRing"}
        body |= {"metadata": {"name": "web"}, "spec": {"resources": resources}}
        await cluster.client.post(ring_checks.URL, body)

    return define


@pytest.fixture
def lines(logged) -> Callable[..., list[str]]:
    """The lines of the log about the ring."""

    def lines(level: int = logging.WARNING) -> list[str]:
        return [text for text in logged(level) if "ControllerRing" in text]

    return lines


def listed(kind: str, *controlled: str) -> Any:
    plural, _, group = kind.partition(".")
    resource: dict[str, Any] = {"resource": plural, "group": group}
    return resource | {"controlledResources": [listed(one) for one in controlled]}


@pytest.mark.parametrize("is_defined", [False, True], ids=["no sharder", "another ring"])
async def test_o_the_absence_of_the_ring_is_told(
    cluster, operate, settings, define, lines, is_defined
):
    if is_defined:
        await define()
        settings.sharding.ring = "other"
    async with operate():
        await until(lines)
    name = settings.sharding.ring
    (line,) = lines()
    assert line.startswith(f"There is no ControllerRing {name!r} in the cluster:")


async def test_o_handled_kinds_that_the_ring_lacks_are_told(operate, define, lines):
    await define(listed("secrets"))
    async with operate():
        await until(lines)
    (line,) = lines()
    assert "'web' lacks configmaps, kopfexamples.kopf.dev:" in line


async def test_o_a_ring_with_all_handled_kinds_is_as_it_should_be(cluster, operate, define, lines):
    await define(listed("kopfexamples.kopf.dev"), listed("configmaps"))
    async with operate():
        await cluster.sandbox.journal.wait("GET", RING)
    assert not lines()


async def test_o_kinds_that_come_later_are_checked_too(
    cluster, operate, define, lines, make_definition
):
    await define(listed("configmaps"))
    await cluster.client.delete(f"{CRDS}/kopfexamples.kopf.dev")
    async with operate():
        await cluster.sandbox.journal.wait("GET", RING)
        assert not lines()
        await cluster.client.post(CRDS, make_definition("v1"))
        await until(lines)
    (line,) = lines()
    assert "lacks kopfexamples.kopf.dev:" in line


@pytest.mark.parametrize("status", [403, 500])
async def test_o_a_ring_that_cannot_be_read_is_no_obstacle(
    cluster, operate, settings, lines, status
):
    settings.networking.error_backoffs = ()
    cluster.sandbox.faults.fail(status, method="GET", path=RING)
    async with operate() as operator:
        await until(lambda: lines(logging.INFO))
        await until(lambda: operator.essentials.share.shards)
    (line,) = lines(logging.INFO)
    assert line.startswith("The ControllerRing 'web' is not checked: ")
    assert not lines()


def test_o_kinds_that_move_without_a_drain_are_told():
    body = {"spec": {"resources": [listed("websites.example.com", "deployments.apps", "pods")]}}
    (line,) = judge_ring(body, ["websites.example.com", "pods"])
    assert line.startswith("has pods in controlledResources: ")


def test_o_many_kinds_make_no_long_lines():
    (line,) = judge_ring({"spec": {"resources": []}}, [*"abcdefgh"])
    assert line.startswith("lacks a, b, c, d, e, and 3 more: ")


@pytest.mark.parametrize(
    "body",
    [
        None,
        {"spec": None},
        {"spec": {"resources": "no"}},
        {"spec": {"resources": [None]}},
        {"spec": {"resources": [{"resource": None, "controlledResources": [None]}]}},
    ],
    ids=str,
)
def test_o_senseless_rings_list_nothing(body):
    (line,) = judge_ring(body, ["pods"])
    assert line.startswith("lacks pods: ")
