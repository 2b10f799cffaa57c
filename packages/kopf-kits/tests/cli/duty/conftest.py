"""A cluster over HTTP in a thread of its own: the commands have their own event loops."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import click.testing
import pytest

from kopf_core.intents.registries import get_default_registry, set_default_registry
from kopf_kits.cli import main
from kopf_kits.cli.controls import CLIControls
from kopf_kits.logs import preserved_logging
from kopf_kits.sandbox import Sandbox

Obj = dict[str, Any]


class World:
    """The cluster as the tests see it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, sandbox: Sandbox) -> None:
        self._loop = loop
        self.sandbox = sandbox

    def call(self, coro: Any) -> Any:
        if not asyncio.iscoroutine(coro):
            return coro
        return asyncio.run_coroutine_threadsafe(coro, self._loop).result(30)

    def create(self, name: str = "obj", namespace: str = "default", **meta: Any) -> Obj:
        body = {
            "apiVersion": "kopf.dev/v1",
            "kind": "KopfExample",
            "metadata": {"name": name, "namespace": namespace, **meta},
            "spec": {"n": 1},
        }
        return self.call(self.sandbox.create(body))

    def get(self, name: str = "obj", namespace: str = "default") -> Obj:
        return self.call(self.sandbox.get("kopfexamples", name, namespace=namespace))

    def exists(self, name: str = "obj") -> bool:
        items = self.call(self.sandbox.list("kopfexamples"))
        return any(item["metadata"]["name"] == name for item in items)

    def get_annotations(self, name: str = "obj") -> dict[str, str]:
        return self.get(name)["metadata"].get("annotations") or {}

    def get_finalizers(self, name: str = "obj") -> list[str]:
        return self.get(name)["metadata"].get("finalizers") or []

    def delete(self, name: str = "obj") -> None:
        self.call(self.sandbox.delete("kopfexamples", name, namespace="default"))


@pytest.fixture(autouse=True)
def _logging_preserved() -> Iterator[None]:
    with preserved_logging():
        yield


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, crd_path: Path) -> Iterator[World]:
    started: Future[World] = Future()
    stopping = threading.Event()

    async def serve() -> None:
        async with Sandbox() as sandbox:
            monkeypatch.setenv("KUBECONFIG", str(sandbox.write_kubeconfig(tmp_path / "config")))
            monkeypatch.setenv("COLUMNS", "100")
            await sandbox.apply(crd_path)
            meta = {"name": "other"}
            await sandbox.create({"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
            started.set_result(World(asyncio.get_running_loop(), sandbox))
            await asyncio.to_thread(stopping.wait)

    thread = threading.Thread(target=asyncio.run, args=[serve()])
    thread.start()
    try:
        yield started.result(30)
    finally:
        stopping.set()
        thread.join()


Invoke = Callable[..., click.testing.Result]


@pytest.fixture
def invoke() -> Invoke:
    """Run the command line in this process."""

    def run(*args: str, answer: str | None = None) -> click.testing.Result:
        return click.testing.CliRunner().invoke(main, args, input=answer)

    return run


@pytest.fixture
def invoke_with() -> Invoke:
    """The same, with something given from the code."""

    def run(controls: CLIControls, *args: str) -> click.testing.Result:
        before = get_default_registry()
        try:
            return click.testing.CliRunner().invoke(main, args, obj=controls)
        finally:
            set_default_registry(before)

    return run
