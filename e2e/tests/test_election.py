"""One lease for operators of ours, and for a program with client-go: they respect each other.

The program is built with Go, once, into the user's cache; with no Go, the test is skipped.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pathlib
from collections.abc import AsyncIterator
from typing import Any, Self

import pytest

from e2e.programs import obtain
from e2e.tests.harness import World
from kopf_cogs.configs.settings import OperatorSettings
from kopf_core.intents import decorators as on
from kopf_core.intents.registries import OperatorRegistry

LEASE = "/apis/coordination.k8s.io/v1/namespaces/{}/leases/shared"
DURATION, DEADLINE, PERIOD = 5, 4, 0.5
PATIENCE = 120.0

pytestmark = pytest.mark.long  # it lives through the lifetimes of real leases


@pytest.fixture
def binary() -> pathlib.Path:
    """The program: found in the cache, or built."""
    return obtain("election")


class Gopher:
    """The program with client-go, and what it has printed."""

    def __init__(self, binary: pathlib.Path, world: World, identity: str) -> None:
        times = [f"{seconds}s" for seconds in (DURATION, DEADLINE, PERIOD)]
        self._command = [str(binary), world.namespace, "shared", identity, *times]
        self._env = {**os.environ, "KUBECONFIG": str(world.kubeconfig)}
        self._news = asyncio.Event()
        self.lines: list[str] = []

    async def __aenter__(self) -> Self:
        self.process = await asyncio.create_subprocess_exec(
            *self._command, env=self._env, stdout=asyncio.subprocess.PIPE
        )
        self._reader = asyncio.create_task(self._read())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()
        await self._reader

    async def _read(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            self.lines.append(line.decode().strip())
            self._news.set()

    async def until(self, line: str) -> None:
        async with asyncio.timeout(PATIENCE):
            while line not in self.lines:
                self._news.clear()
                await self._news.wait()

    async def stop(self) -> None:
        self.process.terminate()
        await self.process.wait()


class Ours:
    """An operator of ours."""

    def __init__(self, world: World, *, release_on_exit: bool = True) -> None:
        self._world = world
        self.led = asyncio.Event()
        self.registry = OperatorRegistry()
        self.settings = OperatorSettings()
        self.settings.posting.enabled = False
        self.settings.leasing.name, self.settings.leasing.namespace = "shared", world.namespace
        self.settings.leasing.duration, self.settings.leasing.renew_deadline = DURATION, DEADLINE
        self.settings.leasing.retry_period = PERIOD
        self.settings.leasing.release_on_exit = release_on_exit
        on.leading(registry=self.registry)(self._lead)

    async def _lead(self, **_: Any) -> None:
        self.led.set()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Any]:
        async with self._world.operator(self.registry, settings=self.settings) as operator:
            yield operator

    async def until_leading(self) -> None:
        async with asyncio.timeout(PATIENCE):
            await self.led.wait()


async def get_lease(world: World) -> Any:
    return (await world.request("GET", LEASE.format(world.namespace)))["spec"]


async def until_following(operator: Any, holder: str) -> None:
    async with asyncio.timeout(PATIENCE):
        while operator.leadership.holder != holder:  # noqa: ASYNC110
            await asyncio.sleep(0.1)  # it is not told, only known
    assert not operator.leadership.is_leading


@pytest.mark.timeout(900)
async def test_i_client_go_and_ours_respect_each_other(world: World, binary: pathlib.Path) -> None:
    async with Gopher(binary, world, "go-1") as gopher:
        await gopher.until("leading")
        ours = Ours(world)
        async with ours.running() as operator:
            await until_following(operator, "go-1")
            await asyncio.sleep(DURATION + 1)  # it is renewed, so it is not taken over
            assert not ours.led.is_set()
            await gopher.stop()  # released by client-go
            await ours.until_leading()
            lease = await get_lease(world)
            assert lease["leaseDurationSeconds"] == DURATION
            async with Gopher(binary, world, "go-2") as second:
                await second.until(f"leader {lease['holderIdentity']}")
                await asyncio.sleep(DURATION + 1)
                assert "leading" not in second.lines
                operator.stop()  # released by ours
                await second.until("leading")
                heir = Ours(world, release_on_exit=False)
                async with heir.running() as follower:
                    await until_following(follower, "go-2")
                    second.process.kill()  # not released
                    await heir.until_leading()
    async with Gopher(binary, world, "go-3") as third:  # ours has ended, and has not released
        await third.until("leading")
        final = await get_lease(world)
    assert final["holderIdentity"] == "go-3"
    assert final["leaseTransitions"] == 4, "One for every change of the holder."
