"""Probing: a tiny HTTP server that tells whether the operator is alive."""

import asyncio
import json
import logging
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from kopf_cogs.helpers.callbacks import call
from kopf_core.actions.errors import ErrorsMode
from kopf_core.actions.retrying import safe_message
from kopf_core.engines.activities import ActivityError, ActivityRunner
from kopf_core.engines.listening import listen, parse_endpoint
from kopf_core.intents.causes import Activity
from kopf_core.intents.registries import OperatorRegistry

if TYPE_CHECKING:
    from aiohttp import web

logger = logging.getLogger("kopf._core.engines.probing")

CACHE_TIME = 10.0
"""For how long (in seconds) the results of the probe handlers are reused."""


FAILURE_CACHE_TIME = 1.0
"""For how long (in seconds) their failures are reused: a failed probe must recover soon."""

PATIENCE = 30.0
"""How long (in seconds) Kopf waits for the probe handlers.

Clients do not wait so long, but their requests must not gather while a handler hangs.
"""


class ProbeServer:
    """Serves the results of the probe handlers, each under its handler's id."""

    def __init__(
        self,
        registry: OperatorRegistry,
        activities: ActivityRunner,
        find_problems: Callable[[], Collection[str]] = tuple,
    ) -> None:
        self._registry = registry
        self._find_problems = find_problems
        self._activities = activities
        self._call: asyncio.Task[None] | None = None
        self._waiting = 0
        self._response: tuple[int, str] = (200, "{}")
        self._deadline = float("-inf")

    async def handle(self, _: "web.BaseRequest") -> "web.Response":
        """Answer one probe. The handlers are not called more often than the cache permits."""
        from aiohttp import web

        problems = self._find_problems()
        if problems:
            return web.json_response({"error": " ".join(problems)}, status=503)
        if self._activities.clock.monotonic() >= self._deadline:
            await self._share_call()
        status, text = self._response
        return web.Response(status=status, text=text, content_type="application/json")

    async def _share_call(self) -> None:
        """Wait for a call of the handlers: one for all requests of the time, until all hang up."""
        call = self._call = self._call or asyncio.create_task(self._refresh())
        self._waiting += 1
        try:
            await asyncio.shield(call)
        finally:
            self._waiting -= 1
            if not self._waiting:
                call.cancel()
                self._call = None

    async def _refresh(self) -> None:
        try:
            async with asyncio.timeout(PATIENCE):
                self._response = await self._call_handlers()
        except TimeoutError:
            self._response = 500, json.dumps({"error": "The probe handlers hang."})
        else:
            is_failed = self._response[0] != 200
            lifetime = FAILURE_CACHE_TIME if is_failed else CACHE_TIME
            self._deadline = self._activities.clock.monotonic() + lifetime

    async def _call_handlers(self) -> tuple[int, str]:
        handlers = self._registry.get_activity_handlers(Activity.PROBE)
        try:
            # The client does not wait until a probe recovers, but asks again later.
            results = await self._activities.run(
                Activity.PROBE, handlers, errors=ErrorsMode.PERMANENT
            )
            return 200, call(json.dumps, results, default=str)
        except ActivityError as e:
            failed = [id for id, outcome in e.outcomes.items() if outcome.exception is not None]
            text = f"The probes have failed, see the log: {', '.join(failed)}."
            return 500, json.dumps({"error": text})
        except Exception as e:  # e.g. of results that cannot even be strings
            return 500, json.dumps({"error": f"{type(e).__name__}: {safe_message(e)}"})


async def serve_probes(
    endpoint: str | None,
    registry: OperatorRegistry,
    activities: ActivityRunner,
    find_problems: Callable[[], Collection[str]] = tuple,
) -> None:
    """Serve the probes at the endpoint, such as ``http://0.0.0.0:8080/healthz``, until cancelled.

    Raises :class:`ValueError` if the endpoint is not understood, and :class:`ListeningError`
    if its address cannot be listened on.
    """
    if not endpoint:
        await asyncio.Event().wait()
        return
    _, _, path = parse_endpoint(endpoint)
    server = ProbeServer(registry, activities, find_problems)
    logger.debug(f"Serving health status at {endpoint}")
    await listen({path or "/": server.handle}, endpoint, title="the probes")
