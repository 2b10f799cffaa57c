"""A connection to a cluster for the code of handlers outside of operators: for unit tests."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Mapping
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any, Self

from kopf_cogs.clients.kubeconfig import login_with_kubeconfig
from kopf_cogs.clients.objects import ObjectsAPI
from kopf_cogs.clients.session import Client
from kopf_cogs.configs.settings import OperatorSettings
from kopf_cogs.structs.bodies import Body
from kopf_cogs.structs.credentials import ConnectionInfo, KubeContext, LoginError
from kopf_cogs.structs.ids import HandlerId
from kopf_cogs.structs.patches import Patch
from kopf_core.actions.bases import BaseHandler
from kopf_core.actions.context import (
    Invocation,
    OperatorContext,
    invocation_var,
    operator_var,
)


class Connected:
    """Makes ``kopf.api`` and ``kopf.sync_api`` work in the block, as they do in handlers.

    ``server`` is the URL of the API (e.g. of a sandbox), or credentials; by default, it is
    the current cluster of kubectl (``KUBECONFIG``). ``body`` is the object that is handled:
    it owns what is adopted, and its namespace is the default one. ``kopf.update_status()`` puts
    its changes into the attribute ``patch``.

    In ``async with``, it is for async functions; in ``with``, for sync ones. Nothing is posted
    by ``kopf.event()`` and the like. Raises :class:`LoginError` if there are no credentials.
    """

    def __init__(
        self,
        server: str | KubeContext | None = None,
        *,
        body: Mapping[str, Any] | None = None,
        settings: OperatorSettings | None = None,
    ) -> None:
        self.patch = Patch(body=body)
        """The changes of the handled object. They are not sent: the test looks at them."""

        self._server = server
        self._body = body
        self._settings = settings or OperatorSettings()
        self._stack = contextlib.ExitStack()
        self._async_stack = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Self:
        context = await self._async_stack.enter_async_context(self._connect())
        self._enter(context)
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.close()
        await self._async_stack.aclose()

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._stack.close()  # the thread and its loop: there is no exit after a failed entry
            raise
        return self

    def _start(self) -> None:
        """Connect in the event loop of a thread of its own."""
        loop = asyncio.new_event_loop()
        self._stack.callback(loop.close)
        thread = threading.Thread(target=loop.run_forever, name="kopf-connected", daemon=True)
        thread.start()
        self._stack.callback(thread.join)
        self._stack.callback(loop.call_soon_threadsafe, loop.stop)

        def run(coro: Any) -> Any:
            return asyncio.run_coroutine_threadsafe(coro, loop).result()

        context = run(self._async_stack.enter_async_context(self._connect()))
        self._stack.callback(lambda: run(self._async_stack.aclose()))
        self._enter(context)

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.close()

    @contextlib.asynccontextmanager
    async def _connect(self) -> AsyncIterator[OperatorContext]:
        async with Client(self._get_credentials(), self._settings) as client:
            api = ObjectsAPI(client, manager=self._settings.name or "kopf")
            yield OperatorContext(
                self._settings,
                _NoRecorder(),
                client=client,
                api=api,
                loop=asyncio.get_running_loop(),
            )

    def _get_credentials(self) -> KubeContext:
        if isinstance(self._server, str):
            return ConnectionInfo(server=self._server)
        found = self._server or login_with_kubeconfig(settings=self._settings)
        if found is None:
            raise LoginError("There is no current cluster: set $KUBECONFIG, or name the server.")
        return found

    def _enter(self, context: OperatorContext) -> None:
        self._set(operator_var, context)
        if self._body is not None:
            handler = BaseHandler(fn=_do_nothing, id=HandlerId("test"))
            cause: Any = _Cause(Body(self._body), self.patch)
            self._set(invocation_var, Invocation(handler, cause, execution=_NOT_EXECUTED))

    def _set(self, variable: ContextVar[Any], value: Any) -> None:
        token: Token[Any] = variable.set(value)
        self._stack.callback(variable.reset, token)


_NOT_EXECUTED: Any = None


def _do_nothing(**_: Any) -> None:
    pass


class _Cause:
    """The cause of calls outside of operators: it knows only the handled object and its patch."""

    def __init__(self, body: Body, patch: Patch) -> None:
        self.body = body
        self.patch = patch


class _NoRecorder:
    """Posts nothing: there is no operator."""

    def record(self, *_: Any, **__: Any) -> None:
        pass
