"""Replicas that ask the server only for their parts: it selects by shards, or it does not."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from idleness import until

from e2e.clusters import Cluster, open_cluster
from e2e.tests.harness import GROUP, World
from e2e.tests.worlds import apply_definitions, open_world
from kopf_core.engines.sharding.hashing import SHARDS
from kopf_core.intents import decorators as on
from kopf_core.intents.registries import OperatorRegistry
from kopf_core.reactor.life.operator import Operator

NAMES = [f"obj-{number}" for number in range(20)]


@pytest.fixture(scope="module", params=[True, False], ids=["selecting", "ignoring"])
def selecting(request: pytest.FixtureRequest) -> bool:
    """Whether the server selects objects by shards."""
    return bool(request.param)


@pytest.fixture(scope="module")
def server(
    selecting: bool, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    if selecting and not cluster.is_local:
        pytest.skip("Other clusters are as they are.")
    folder = tmp_path_factory.mktemp("server")
    with open_cluster(cluster.name, folder, sharded=True) if selecting else _as_is(cluster) as one:
        apply_definitions(one)
        yield one


@contextlib.contextmanager
def _as_is(cluster: Cluster) -> Iterator[Cluster]:
    yield cluster


@pytest.fixture
async def world(server: Cluster, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    monkeypatch.setenv("KUBECONFIG", str(server.kubeconfig_path))
    async with open_world(server) as world:
        yield world


class Replicas:
    """The replicas, and what they have handled: which of them, the object, and its number."""

    def __init__(self, world: World) -> None:
        self.calls: list[tuple[str, str, int]] = []
        self._world = world

    @contextlib.asynccontextmanager
    async def run(self, who: str) -> AsyncIterator[Operator]:
        settings = copy.deepcopy(self._world.settings)
        settings.sharding.name, settings.sharding.namespace = "mine", self._world.namespace
        settings.sharding.retry_period = 0.2
        registry = OperatorRegistry()

        @on.create(GROUP, "kexes", registry=registry)
        @on.update(GROUP, "kexes", registry=registry)
        async def fn(name: str, spec: Any, **_: Any) -> None:
            self.calls.append((who, name, spec["n"]))

        async with self._world.operator(registry, settings=settings) as operator:
            yield operator

    async def until_handled(self, n: int) -> None:
        await until(lambda: {name for _, name, number in self.calls if number == n} == {*NAMES})
        for name in NAMES:
            await self._world.until_handled(name, {"n": n})


def count_shards(operator: Operator) -> int:
    share = operator.essentials.share
    return 0 if share is None else len(share.shards)


def count_known(operator: Operator) -> int:
    return sum(informer.count for informer in operator.handling.pool.informers.values())


def count_events(*operators: Operator) -> int:
    """How many events have come to them; bookmarks are rare."""
    pools = [operator.handling.pool for operator in operators]
    return sum(one.traffic.events for pool in pools for one in pool.informers.values())


async def change_all(world: World, n: int) -> None:
    for name in NAMES:
        await world.patch({"spec": {"n": n}}, name)


async def test_o_replicas_know_their_parts_only_wherever_they_are_selected(world, selecting):
    replicas = Replicas(world)
    async with replicas.run("one") as one:
        await until(lambda: count_shards(one) == SHARDS)
        for name in NAMES:
            await world.create({"n": 0}, name)
        await replicas.until_handled(0)
        assert count_known(one) == len(NAMES)
        async with replicas.run("two") as two:
            await until(lambda: count_shards(one) == count_shards(two) == SHARDS // 2)
            await until(lambda: 0 < count_known(two) == len(NAMES) - count_known(one))
            before = count_events(one, two)
            await change_all(world, 1)
            await replicas.until_handled(1)
            assert count_known(one) + count_known(two) == len(NAMES)
            changes = 2 * len(NAMES)  # those of the spec, and those of our marks
            if selecting:
                assert count_events(one, two) - before < 1.5 * changes
            else:
                await until(lambda: count_events(one, two) - before >= 2 * changes)
        await until(lambda: count_shards(one) == SHARDS)
        await change_all(world, 2)
        await replicas.until_handled(2)
        assert count_known(one) == len(NAMES)
    done = [(name, number) for _, name, number in replicas.calls]
    assert len(done) == len({*done}) == 3 * len(NAMES)
    assert {who for who, _, number in replicas.calls if number == 1} == {"one", "two"}
