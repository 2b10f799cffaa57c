"""``kopf run --ring`` in three processes under a sharder: killed, suspended, and stopped.

The sharder is a small one of this test: it speaks the protocol of kubernetes-controller-sharding.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import hashlib
import pathlib
import signal
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest

from e2e.tests.harness import World
from e2e.tests.test_shards import HANDLERS, LEASES, Stage

RING = "alpha.sharding.timebertt.dev/controllerring"
SHARD = "shard.alpha.sharding.timebertt.dev/web"
DRAIN = "drain.alpha.sharding.timebertt.dev/web"
MERGE = "application/merge-patch+json"

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="There are no such signals.")


class Sharder:
    """Assigns the objects to the shards with living Leases, until it is stopped."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def run(self) -> None:
        while True:
            await self.sync()
            await asyncio.sleep(0.1)

    async def sync(self) -> None:
        path = LEASES.format(self._world.namespace)
        leases = (await self._world.request("GET", path))["items"]
        leases = [one for one in leases if RING in (one["metadata"].get("labels") or {})]
        shards = [one["metadata"]["name"] for one in leases if await self._is_alive(path, one)]
        for obj in (await self._world.request("GET", self._world.path()))["items"]:
            await self._assign(obj, shards)

    async def _is_alive(self, path: str, lease: Any) -> bool:
        name, spec = lease["metadata"]["name"], lease["spec"]
        if spec.get("holderIdentity") != name:
            return False
        now = datetime.datetime.now(datetime.UTC)
        renewed = datetime.datetime.fromisoformat(spec["renewTime"])
        if (now - renewed).total_seconds() < 2 * spec["leaseDurationSeconds"]:
            return True
        taken = {"holderIdentity": "sharder", "renewTime": now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")}
        await self._patch(f"{path}/{name}", lease, spec=taken)
        return False

    async def _assign(self, obj: Any, shards: list[str]) -> None:
        name, labels = obj["metadata"]["name"], obj["metadata"].get("labels") or {}
        current = labels.get(SHARD)
        wanted = max(
            shards,
            key=lambda shard: hashlib.sha256(f"{shard}/{name}".encode()).digest(),
            default=current,
        )
        if current in shards and current != wanted:
            changes = {DRAIN: "true"}
        elif current != wanted:
            changes = {SHARD: wanted, DRAIN: None}
        else:
            return
        await self._patch(self._world.path(name), obj, metadata={"labels": changes})

    async def _patch(self, path: str, seen: Any, **fields: Any) -> None:
        """Change the object, if it is as it was seen."""
        version = {"resourceVersion": seen["metadata"]["resourceVersion"]}
        fields["metadata"] = {**fields.get("metadata", {}), **version}
        await self._world.attempt("PATCH", path, fields, MERGE)


class RingStage(Stage):
    """The shards of a ring, and their objects."""

    @contextlib.asynccontextmanager
    async def replica(self) -> AsyncIterator[asyncio.subprocess.Process]:
        ring, env = f"--ring=web@{self.world.namespace}", {"FOLDER": str(self._folder)}
        async with self.world.process(self._folder / "handlers.py", ring, env=env) as process:
            yield process

    @contextlib.asynccontextmanager
    async def sharded(self) -> AsyncIterator[None]:
        task = asyncio.create_task(Sharder(self.world).run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])
            assert task.cancelled(), task.exception()


@pytest.fixture
def stage(world: World, tmp_path: pathlib.Path) -> RingStage:
    (tmp_path / "handlers.py").write_text(HANDLERS)
    return RingStage(world, tmp_path)


async def test_o_every_change_is_handled_by_one_shard_of_the_ring_though_they_fail(stage):
    async with stage.sharded(), stage.replica() as one, stage.replica() as two:
        await stage.create_all()
        await stage.until_handled()
        async with stage.replica() as three:  # the sharder drains some objects for it
            await stage.until_all_handle_a_change()

            await stage.kill(one)
            await stage.until_all_handle_a_change()  # the other shards have got its objects

            await stage.suspend(two)
            await stage.until_all_handle_a_change()
            two.send_signal(signal.SIGCONT)
            await stage.until_all_handle_a_change()

            await stage.finish(three)
        await stage.until_all_handle_a_change()
        await stage.finish(two)
    stage.check_the_journal()
