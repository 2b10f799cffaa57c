"""Authentication: the vault of credentials is filled by login handlers whenever it is empty."""

import asyncio
import contextlib
import dataclasses
import logging
import math
import os
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from kopf_cogs.clients import incluster, kubeconfig, piggyback
from kopf_cogs.clients.leashes import leashed
from kopf_cogs.clients.vault import Vault
from kopf_cogs.structs.credentials import KubeContext, LoginError
from kopf_cogs.structs.ids import HandlerId
from kopf_core.actions.errors import ErrorsMode, PermanentError
from kopf_core.actions.outcomes import Outcome
from kopf_core.actions.retrying import ExponentialBackoff
from kopf_core.engines.activities import ActivityError, ActivityRunner
from kopf_core.intents.causes import Activity
from kopf_core.intents.handlers import ActivityHandler
from kopf_core.intents.registries import OperatorRegistry

# The name is known to users: it is documented as a way to silence the frequent re-logins.
logger = logging.getLogger("kopf._core.engines.activities")


INITIAL = "Initial authentication"

BACKOFF = ExponentialBackoff(initial=0.5, maximum=30.0)
"""When to try again if a login handler fails and has no ``backoff`` of its own.

All requests wait for it, and the usual reason is a file that is being written right now.
"""

PATIENCE = 30.0
"""How long (in seconds) Kopf waits for all login handlers; then, it goes on without the late ones.

If there are no credentials by then, Kopf logs that it waits for them, and the probes fail.
"""

Call = asyncio.Task[dict[HandlerId, Any]]


class Authenticator:
    """Keeps the vault filled for as long as the operator runs."""

    def __init__(
        self,
        *,
        vault: Vault,
        registry: OperatorRegistry,
        activities: ActivityRunner,
    ) -> None:
        self._vault = vault
        self._registry = registry
        self._activities = activities
        self._calls: dict[HandlerId, Call] = {}
        """The login handlers that work now, including the late ones of the previous logins."""
        self._counter = 0
        self._since: float | None = None
        """When the login handlers were called, if they have not finished yet: monotonic."""

    def find_problems(self) -> list[str]:
        """The problem, if the requests wait for the login handlers for too long."""
        if self._since is None or not self._vault.is_empty():
            return []
        passed = self._activities.clock.monotonic() - self._since
        if passed < PATIENCE:
            return []
        return [f"{self._title} has not succeeded in {passed:.0f} seconds; all requests wait."]

    @property
    def _title(self) -> str:
        return INITIAL if self._counter <= 1 else "Re-authentication"

    async def run(self, limit: float = math.inf) -> None:
        """Log in every time the credentials run out. Never ends on its own.

        Raises :class:`ActivityError` if logging in fails for good, and :class:`LoginError`
        if the credentials have run out more times than the limit.
        """
        with leashed():  # for the plugins that the login handlers run
            try:
                await self._run(limit)
            finally:
                await self._cancel_calls()

    async def _run(self, limit: float) -> None:
        while True:
            await self._vault.wait_for_emptiness()
            if self._counter >= limit:
                raise LoginError("The server refuses the credentials: log in anew.")
            self._counter += 1
            self._since = self._activities.clock.monotonic()
            await self._authenticate(self._title)
            self._since = None

    async def run_on_demand(self) -> None:
        """Do the same as :meth:`run`, but only since the first request.


        Startup handlers can make the first request. Usually, they set up how to log in, so Kopf
        must not log in before them.
        """
        await self._vault.wait_for_demand()
        await self.run()

    async def _authenticate(self, title: str) -> None:
        logger.info(f"{title} has been initiated.")
        handlers = self._registry.get_activity_handlers(Activity.AUTHENTICATION)
        handlers = handlers or get_default_logins(title == INITIAL)
        await self._call_handlers([_with_backoff(handler) for handler in handlers], title)
        outcomes = self._collect_results()
        results = _select_credentials(outcomes)
        if results:
            logger.info(f"{title} has finished.")
        else:
            logger.error(
                f"{title} has failed: no credentials were retrieved from the login handlers."
            )
        self._vault.populate(results, hints=() if results else piggyback.find_broken_clients())

    async def _call_handlers(self, handlers: list[ActivityHandler], title: str) -> None:
        """Call the handlers in parallel, and wait for all of them, or for some credentials."""
        for call in self._calls.values():
            call.remove_done_callback(self._take_late)
        fresh = list(dict.fromkeys(h.id for h in handlers if h.id not in self._calls))
        for id in fresh:
            same = [handler for handler in handlers if handler.id == id]
            activity = self._activities.run(Activity.AUTHENTICATION, same)
            self._calls[id] = asyncio.create_task(activity, name=f"kopf-login-{id}")
        if fresh:
            await asyncio.wait([self._calls[id] for id in fresh], timeout=PATIENCE)
        if not self._is_enough():
            async with _impatience(title):
                while not self._is_enough():
                    working = [call for call in self._calls.values() if not call.done()]
                    await asyncio.wait(working, return_when=asyncio.FIRST_COMPLETED)

    def _is_enough(self) -> bool:
        """Whether there are any credentials, or there will be none."""
        done = [call for call in self._calls.values() if call.done()]
        values = [value for call in done for value in _get_results(call).values()]
        is_any = any(isinstance(value, KubeContext) for value in values)
        return is_any or len(done) == len(self._calls)

    def _collect_results(self) -> dict[HandlerId, Any]:
        """Take the results so far; the late handlers bring their results whenever they can."""
        results: dict[HandlerId, Any] = {}
        failures: dict[HandlerId, Outcome] = {}
        for id, call in list(self._calls.items()):
            if not call.done():
                logger.warning(f"Login handler {id!r} is late; it is not waited for.")
                call.add_done_callback(self._take_late)
                continue
            del self._calls[id]
            results |= _get_results(call)
            if isinstance(error := call.exception(), ActivityError):
                failures |= error.outcomes
        if failures and not results:
            raise ActivityError(Activity.AUTHENTICATION, failures)
        return results  # some credentials are enough, wherever they are from

    def _take_late(self, call: Call) -> None:
        self._calls = {id: other for id, other in self._calls.items() if other is not call}
        credentials = {} if call.cancelled() else _select_credentials(_get_results(call))
        if credentials:
            self._vault.populate(credentials)

    async def _cancel_calls(self) -> None:
        calls, self._calls = [*self._calls.values()], {}
        for call in calls:
            call.remove_done_callback(self._take_late)
            call.cancel()
        if calls:
            await asyncio.wait(calls)


def _get_results(call: Call) -> dict[HandlerId, Any]:
    """The results of the finished call: from all of its handlers, or only from some."""
    try:
        return call.result()
    except ActivityError as e:
        return e.results


def _with_backoff(handler: ActivityHandler) -> ActivityHandler:
    return handler if handler.backoff is not None else dataclasses.replace(handler, backoff=BACKOFF)


def _select_credentials(outcomes: Mapping[HandlerId, Any]) -> dict[str, KubeContext]:
    """The credentials only, since users' functions can return anything."""
    for id, value in outcomes.items():
        if not isinstance(value, KubeContext):
            logger.error(
                f"Login handler {id!r} has returned an object of type {type(value).__name__}, "
                "which is ignored; it must be kopf.ConnectionInfo or kopf.AiohttpSession."
            )
    return {str(id): value for id, value in outcomes.items() if isinstance(value, KubeContext)}


@contextlib.asynccontextmanager
async def _impatience(title: str) -> AsyncIterator[None]:
    """Log warnings while the login takes long, since all requests wait for it."""

    async def complain() -> None:
        delay = PATIENCE
        while True:
            logger.warning(f"{title} takes long: all requests wait for the login handlers.")
            await asyncio.sleep(delay)
            delay *= 2

    task = asyncio.create_task(complain(), name="kopf-impatience")
    try:
        yield
    finally:
        task.cancel()


def get_default_logins(is_initial: bool = False) -> list[ActivityHandler]:
    """How to log in if there are no login handlers: via the client libraries if installed.

    Without the libraries, Kopf itself tries the service account and the kubeconfig.
    At the start, a failure is final: it is better to see it than to wait for a miracle.
    """
    errors = ErrorsMode.PERMANENT if is_initial else ErrorsMode.TEMPORARY
    fns: list[Callable[..., Any]] = []
    if piggyback.has_client():
        fns.append(piggyback.login_via_client)
    is_one_file = os.pathsep not in os.environ.get("KUBECONFIG", "")
    if piggyback.has_pykube() and is_one_file:  # pykube supports no lists of files
        fns.append(piggyback.login_via_pykube)
    return [
        ActivityHandler(
            fn=fn,
            id=HandlerId(fn.__name__.lstrip("_")),
            activity=Activity.AUTHENTICATION,
            errors=errors,
        )
        for fn in fns or [_login_with_files]
    ]


def _login_with_files(**kwargs: Any) -> Any:
    is_elsewhere = "KUBECONFIG" in os.environ and "KUBERNETES_SERVICE_HOST" not in os.environ
    connection = None if is_elsewhere else incluster.login_with_service_account(**kwargs)
    if connection is not None:
        kwargs["logger"].debug("Client is configured in cluster with service account.")
        return connection
    connection = kubeconfig.login_with_kubeconfig(**kwargs)
    if connection is not None:
        kwargs["logger"].debug("Client is configured via kubeconfig file.")
        return connection
    raise PermanentError(
        "Cannot log in: there is neither a service account (not in a cluster?), nor a "
        "kubeconfig file (see $KUBECONFIG and ~/.kube/config), nor a login handler."
    )
