"""One run of a case: the operator's process, its objects, and everything that is seen of them."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from e2e.clusters import Cluster

from .clients import Api, ApiError, make_path
from .definitions import CLUSTERED
from .engines import Engine
from .proxies import Proxy, Request, wait_until

if TYPE_CHECKING:
    from .cases import Case

FOREIGN = "example.com/foreign"
OPERATORS = Path(__file__).parent / "operators"
HEADER = "from helpers import *\nimport kopf, asyncio, os, time\n"
QUIET_TIME = 0.8
STARTING_TIME = 60.0
WAITING_TIME = 40.0
STOPPING_TIME = 20.0


@dataclasses.dataclass
class Observations:
    """All what has been seen in one run, as it was, before the normalisation."""

    journal: list[dict[str, Any]]
    snapshots: list[dict[str, Any]]
    requests: list[Request]
    logs: list[str]
    events: list[dict[str, Any]]
    notes: list[str]
    """What has gone wrong in the run itself: time-outs, exit codes, refused changes."""


class Track:
    """Runs the script of a case with the generations given, each start with the next one.

    It is the context for the steps, see there.
    """

    def __init__(
        self, case: Case, engines: Sequence[Engine], cluster: Cluster, api: Api, folder: Path
    ) -> None:
        self.case = case
        self.folder = folder
        self.run_id = folder.name
        self.namespace = f"compat-{folder.name}"
        self.journal: list[dict[str, Any]] = []
        self.notes: list[str] = []
        self._engines = engines
        self._starts = 0
        self._api = api
        self._cluster = cluster
        self._proxy = Proxy(cluster, self._touch)
        self._process: asyncio.subprocess.Process | None = None
        self._objects: dict[tuple[str, str], dict[str, Any]] = {}
        self._snapshots: list[dict[str, Any]] = []
        self._logs: list[str] = []
        self._position = 0
        self._touched = time.monotonic()

    async def run(self) -> Observations:
        """Run the case from the beginning to the end, and clean up."""
        self.folder.mkdir(parents=True, exist_ok=True)
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}}
        await self._api.ensure("/api/v1/namespaces", body)
        watchers = [asyncio.create_task(self._watch(plural)) for plural in self.case.plurals]
        async with self._proxy:
            self._proxy.write_kubeconfig(self.folder / "kubeconfig")
            self.write_source(self.case.operator)
            try:
                await self._run_script()
                events = await self._get_events()
            finally:
                await self.kill()
                for watcher in watchers:
                    watcher.cancel()
                await asyncio.gather(*watchers, return_exceptions=True)
                await self._clean()
        return Observations(
            journal=self.journal,
            snapshots=self._snapshots,
            requests=self._proxy.requests,
            logs=self._logs,
            events=events,
            notes=self.notes,
        )

    async def _run_script(self) -> None:
        if not self.case.is_started_later:
            await self.start()
        for step in self.case.steps:
            try:
                await step.run(self)
            except ApiError as e:
                self.notes.append(f"{step} is refused: {e}")
        await self.stop()
        self._read_journal()

    # What the steps do:

    def rename(self, name: str) -> str:
        """Names of cluster-scoped objects are shared by all runs, so make them different."""
        return f"{name}-{self.run_id}" if CLUSTERED in self.case.plurals else name

    def write_source(self, source: str) -> None:
        (self.folder / "operator.py").write_text(HEADER + source, encoding="utf-8")

    async def change(self, method: str, path: str, body: Any = None) -> None:
        await self._api.request(method, path, body)
        self._touch()

    async def start(self) -> None:
        engine = self._engines[self._starts % len(self._engines)]
        self._starts += 1
        self._proxy.watched.clear()
        scope = ["-A"] if CLUSTERED in self.case.plurals else ["-n", self.namespace]
        options = ["--standalone", "--verbose", "--log-format=full", *scope, *self.case.options]
        self._process = await asyncio.create_subprocess_exec(
            *engine.command,
            *options,
            str(self.folder / "operator.py"),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=self._make_environment(),
            limit=2**26,
        )
        self._reader = asyncio.create_task(self._read_logs(self._process))
        if not await wait_until(self._is_ready, STARTING_TIME):
            self.notes.append("The operator has not started in time.")
        self._touch()

    def _is_ready(self) -> bool:
        if self._process is None or self._process.returncode is not None:
            return True
        paths = {make_path(plural, self.namespace) for plural in self.case.plurals}
        return paths <= self._proxy.watched

    def _make_environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "KUBECONFIG": str(self.folder / "kubeconfig"),
            "PYTHONPATH": str(OPERATORS),
            "PYTHONUNBUFFERED": "1",
            "COMPAT_JOURNAL": str(self.folder / "journal"),
            "COMPAT_FOLDER": str(self.folder),
            "COMPAT_RUN": self.run_id,
        }

    async def stop(self) -> None:
        if self._process is None:
            return
        if self._process.returncode is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(self._process.wait(), STOPPING_TIME)
        except TimeoutError:
            self.notes.append("The operator has not stopped in time.")
            await self.kill()
            return
        await self._reader
        if self._process.returncode:
            self.notes.append(f"The operator has exited with code {self._process.returncode}.")
        self._process = None

    async def kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()
            await self._reader
        self._process = None

    async def settle(self, *, pending: bool) -> None:
        """Wait until nothing happens, and nothing is about to."""
        self._touch()
        is_settled = await wait_until(lambda: self._is_quiet(pending), WAITING_TIME)
        if not is_settled:
            self.notes.append("It has not settled in time.")

    async def wait_for(self, condition: Callable[[], bool], what: str) -> None:
        def check() -> bool:
            self._read_journal()
            return condition()

        if not await wait_until(check, WAITING_TIME):
            self.notes.append(f"There were no {what} in time.")

    def take_snapshot(self) -> None:
        snapshot = {f"{plural}/{name}": body for (plural, name), body in self._objects.items()}
        self._snapshots.append(json.loads(json.dumps(snapshot)))

    def get_retries(self, name: str, handler: str) -> int:
        key = handler.replace("/", ".")
        for (_, object_name), body in self._objects.items():
            if object_name == name:
                annotations = body["metadata"].get("annotations") or {}
                record = json.loads(annotations.get(f"kopf.zalando.org/{key}") or "{}")
                return int(record.get("retries") or 0)
        return 0

    # How it is known:

    def _touch(self) -> None:
        self._touched = time.monotonic()

    def _is_quiet(self, pending: bool) -> bool:
        self._read_journal()
        if self._proxy.running:
            return False
        if not pending and any(_is_pending(body) for body in self._objects.values()):
            return False
        return time.monotonic() - self._touched > QUIET_TIME

    def _read_journal(self) -> None:
        path = self.folder / "journal"
        if not path.exists():
            return
        with path.open("rb") as file:
            file.seek(self._position)
            content = file.read()
        whole = content[: content.rfind(b"\n") + 1]
        if whole:
            self._position += len(whole)
            self.journal.extend(json.loads(line) for line in whole.splitlines())
            self._touch()

    async def _read_logs(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        with (self.folder / "log").open("a", encoding="utf-8") as file:
            async for line in process.stdout:
                text = line.decode("utf-8", "replace").rstrip("\n")
                file.write(text + "\n")
                self._logs.append(text)
                self._touch()

    async def _watch(self, plural: str) -> None:
        async for event in self._api.watch(make_path(plural, self.namespace)):
            body = event["object"]
            if plural == CLUSTERED and not body["metadata"]["name"].endswith(f"-{self.run_id}"):
                continue
            key = (plural, body["metadata"]["name"])
            if event["type"] == "DELETED":
                self._objects.pop(key, None)
            else:
                self._objects[key] = body
            self._touch()

    async def _get_events(self) -> list[dict[str, Any]]:
        is_clustered = CLUSTERED in self.case.plurals
        namespace = "default" if is_clustered else self.namespace
        listed = await self._api.request("GET", f"/api/v1/namespaces/{namespace}/events")
        items: list[dict[str, Any]] = listed["items"]
        if is_clustered:
            names = [item["involvedObject"].get("name", "") for item in items]
            pairs = zip(items, names, strict=True)
            items = [item for item, name in pairs if name.endswith(f"-{self.run_id}")]
        return items

    async def _clean(self) -> None:
        for plural, name in list(self._objects):
            path = make_path(plural, self.namespace, name)
            for method, body in [("PATCH", {"metadata": {"finalizers": None}}), ("DELETE", None)]:
                try:
                    await self._api.request(method, path, body)
                except ApiError:
                    pass
        try:
            await self._api.request("DELETE", f"/api/v1/namespaces/{self.namespace}")
        except ApiError:
            pass


def _is_pending(body: dict[str, Any]) -> bool:
    metadata = body["metadata"]
    if metadata.get("deletionTimestamp") and set(metadata.get("finalizers", [])) - {FOREIGN}:
        return True
    for key, value in (metadata.get("annotations") or {}).items():
        if key.startswith("kopf.zalando.org/") and value.startswith('{"started"'):
            record = json.loads(value)
            if not record.get("success") and not record.get("failure"):
                return True
    return False
