"""The sandbox in a thread of its own: for synchronous code, and for other event loops."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import FIRST_COMPLETED, Future
from concurrent.futures import wait as wait_for_any
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, TypeVar, overload

from . import waiting
from .http.faults import Faults
from .http.journal import Journal
from .sandbox import Manifest, Obj, Objs, Sandbox

T = TypeVar("T")


class SandboxThread:
    """The same as `Sandbox`, but synchronous, with the server in a background thread::

        with SandboxThread() as sandbox:
            sandbox.apply(Path("crd.yaml"))

    It takes the arguments of `Sandbox`.
    """

    def __init__(self, **options: Any) -> None:
        self.sandbox = Sandbox(**options)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._started: Future[None] = Future()
        self._given_up: Future[Any] = Future()
        self._stopped: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._run, name="kopf-sandbox", daemon=True)

    def __enter__(self) -> SandboxThread:
        self._thread.start()
        self._started.result()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._loop is not None and self._stopped is not None:
            self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            if self._started.done():
                raise
            self._started.set_exception(error)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopped = asyncio.Event()
        async with self.sandbox:
            self._started.set_result(None)
            await self._stopped.wait()

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the thread of the sandbox, and wait for its result."""
        return self._start(coroutine).result()

    def _start(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        if self._loop is None:
            coroutine.close()
            raise RuntimeError("The sandbox is not started: use it as a context manager.")
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    @property
    def url(self) -> str:
        return self.sandbox.url

    @property
    def port(self) -> int:
        return self.sandbox.port

    @property
    def faults(self) -> Faults:
        return self.sandbox.faults

    @property
    def journal(self) -> Journal:
        return self.sandbox.journal

    def kubeconfig(self, *, namespace: str = "default", account: str | None = None) -> Obj:
        return self.sandbox.kubeconfig(namespace=namespace, account=account)

    def write_kubeconfig(
        self,
        path: str | os.PathLike[str],
        *,
        namespace: str = "default",
        account: str | None = None,
    ) -> Path:
        return self.sandbox.write_kubeconfig(path, namespace=namespace, account=account)

    def apply(self, manifest: Manifest) -> Objs:
        return self.call(self.sandbox.apply(manifest))

    def create(self, body: Obj, *, namespace: str | None = None) -> Obj:
        return self.call(self.sandbox.create(body, namespace=namespace))

    def get(self, resource: str, name: str, *, namespace: str | None = None) -> Obj:
        return self.call(self.sandbox.get(resource, name, namespace=namespace))

    def list(self, resource: str, *, namespace: str | None = None, selector: str = "") -> Objs:
        return self.call(self.sandbox.list(resource, namespace=namespace, selector=selector))

    def patch(
        self,
        resource: str,
        name: str,
        patch: Obj | Objs,
        *,
        namespace: str | None = None,
        subresource: str = "",
    ) -> Obj:
        return self.call(
            self.sandbox.patch(resource, name, patch, namespace=namespace, subresource=subresource)
        )

    def delete(
        self, resource: str, name: str, *, namespace: str | None = None, policy: str | None = None
    ) -> bool:
        return self.call(self.sandbox.delete(resource, name, namespace=namespace, policy=policy))

    @overload
    def wait(
        self,
        resource: str,
        name: str,
        check: waiting.Check | None = None,
        *,
        namespace: str | None = None,
        condition: str | None = None,
        jsonpath: str | None = None,
        value: Any = waiting.ANY,
        gone: Literal[False] = False,
        timeout: float = 30,
    ) -> Obj: ...

    @overload
    def wait(
        self,
        resource: str,
        name: str,
        check: waiting.Check | None = None,
        *,
        namespace: str | None = None,
        condition: str | None = None,
        jsonpath: str | None = None,
        value: Any = waiting.ANY,
        gone: Literal[True],
        timeout: float = 30,
    ) -> None: ...

    @overload
    def wait(
        self,
        resource: str,
        name: str,
        check: waiting.Check | None = None,
        *,
        namespace: str | None = None,
        condition: str | None = None,
        jsonpath: str | None = None,
        value: Any = waiting.ANY,
        gone: bool,
        timeout: float = 30,
    ) -> Obj | None: ...

    def wait(self, resource: str, name: str, *args: Any, **options: Any) -> Obj | None:
        found: Future[Obj | None] = self._start(self.sandbox.wait(resource, name, *args, **options))
        wait_for_any({found, self._given_up}, return_when=FIRST_COMPLETED)
        if self._given_up.done() and not found.done():
            found.cancel()
            self._given_up.result()
        return found.result()

    def give_up(self, error: BaseException) -> None:
        """Let all unfinished waits fail with this error, e.g. as the tested program has ended."""
        if not self._given_up.done():
            self._given_up.set_exception(error)

    def make_ready(self, resource: str, name: str, *, namespace: str | None = None) -> Obj:
        return self.call(self.sandbox.make_ready(resource, name, namespace=namespace))

    def compact(self) -> None:
        self.call(_async(self.sandbox.compact))

    def cut_watches(self, path: str = "*") -> int:
        return self.call(_async(lambda: self.sandbox.cut_watches(path)))


async def _async(function: Callable[[], T]) -> T:
    return function()
