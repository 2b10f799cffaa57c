"""Operators of others as processes, and the objects that they serve."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from e2e.clusters import Cluster
from e2e.compat.clients import Api

PATIENCE = 30.0  # seconds to wait for what must come
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

Obj = dict[str, Any]


class Process:
    """A running operator, and what it has logged so far."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._lines: list[str] = []
        self._logged = asyncio.Event()
        self._reading = asyncio.create_task(self._read())

    @property
    def log(self) -> str:
        return "".join(self._lines)

    async def _read(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            self._lines.append(line.decode())
            self._logged.set()
        self._logged.set()

    async def until_logged(self, text: str) -> None:
        """Wait until something is logged; fail at once if the operator exits before that."""
        try:
            async with asyncio.timeout(PATIENCE):
                while text not in self.log and not self._reading.done():
                    self._logged.clear()
                    await self._logged.wait()
        except TimeoutError:
            pass
        assert text in self.log, f"It is not logged: {text!r}; the log:\n{self.log}"

    async def stop(self) -> int:
        """Ask the operator to exit as Kubernetes does, and wait; returns its exit code."""
        if self._process.returncode is None:
            self._process.terminate()
        return await self.wait()

    async def wait(self) -> int:
        """Wait until the operator exits by itself; returns its exit code."""
        try:
            async with asyncio.timeout(PATIENCE):
                await self._reading
                return await self._process.wait()
        finally:
            if self._process.returncode is None:
                self._process.kill()
                await self._process.wait()


@contextlib.asynccontextmanager
async def running(
    cluster: Cluster, *command: str | Path, cwd: Path | None = None
) -> AsyncIterator[Process]:
    """Run an operator for the time of the context."""
    process = await asyncio.create_subprocess_exec(
        *map(str, command),
        cwd=cwd,
        env={**os.environ, "KUBECONFIG": str(cluster.kubeconfig_path), "PYTHONUNBUFFERED": "1"},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    operator = Process(process)
    try:
        yield operator
    finally:
        await operator.stop()
        print(operator.log)  # shown by pytest for the failed test


class Objects:
    """The objects of a namespace, to be changed and waited for."""

    def __init__(self, api: Api, namespace: str) -> None:
        self.api = api
        self.namespace = namespace

    def path(self, plural: str, name: str = "") -> str:
        """The path of ``[GROUP/VERSION/]PLURAL`` in the namespace; of the core v1 by default."""
        group, _, plural = plural.rpartition("/")
        root = f"/apis/{group}" if group else "/api/v1"
        return f"{root}/namespaces/{self.namespace}/{plural}" + (f"/{name}" if name else "")

    async def create(self, plural: str, body: Obj) -> Obj:
        return await self.api.request("POST", self.path(plural), body)

    async def get(self, plural: str, name: str) -> Obj:
        return await self.api.request("GET", self.path(plural, name))

    async def patch(self, plural: str, name: str, patch: Obj) -> Obj:
        return await self.api.request("PATCH", self.path(plural, name), patch)

    async def delete(self, plural: str, name: str) -> None:
        await self.api.request("DELETE", self.path(plural, name))

    async def until(self, plural: str, check: Callable[[dict[str, Obj]], object]) -> dict[str, Obj]:
        """Watch all objects of the kind, by their names, until they are as expected."""
        listed = await self.api.request("GET", self.path(plural))
        seen: dict[str, Obj] = {item["metadata"]["name"]: item for item in listed["items"]}
        if check(seen):
            return seen
        version = listed["metadata"]["resourceVersion"]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                async for event in self.api.watch(self.path(plural), version):
                    name = event["object"]["metadata"]["name"]
                    seen[name] = event["object"]
                    if event["type"] == "DELETED":
                        del seen[name]
                    if check(seen):
                        return seen
        raise AssertionError(f"The {plural} are not as expected: {seen!r}")
