"""The lookout: tells of the changes of the Leases of the replicas as soon as they are made.

It only makes the replicas quicker. They look at the Leases regularly, too, and they decide nothing
without a look of their own: the events of a stream can be old.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

from kopf_cogs.clients.errors import APIError, APIForbiddenError
from kopf_cogs.clients.retries import Backoff
from kopf_cogs.clients.rights import hint_at_role
from kopf_cogs.clients.session import Client
from kopf_cogs.clients.streams import StreamBroken
from kopf_cogs.clients.watching import StreamStalled, watch
from kopf_cogs.configs.settings import LeasingSettings
from kopf_cogs.structs.resources import LEASES
from kopf_core.engines.sharding.roll import MEMBERS

logger = logging.getLogger("kopf.sharding")

RETRY, MAX_RETRY = 0.25, 1.0
"""How long (in seconds) until the Leases are watched again after a stream has ended or failed."""

SILENT_PERIODS = 3
"""After how many periods of renewals a silent stream is broken."""


class Lookout:
    """Watches the Leases of the replicas, and gives each new state of them to ``on_state``.

    ``look`` must look at all Leases, and return the version of their list. It is called before each
    stream. It is also called when a Lease is deleted, because the last state says nothing then.
    """

    def __init__(
        self,
        client: Client,
        settings: LeasingSettings,
        *,
        look: Callable[[], Awaitable[str]],
        on_state: Callable[[Mapping[str, Any]], None],
    ) -> None:
        self._client = client
        self._settings = settings
        self._look = look
        self._on_state = on_state
        self._backoff = Backoff(RETRY, limit=MAX_RETRY)
        self._is_refused = False

    async def run(self) -> None:
        """Watch until cancelled, even if the streams fail."""
        while True:
            least = 0.0
            try:
                await self._watch()
            except APIForbiddenError as e:
                self._complain(e)
                least = self._settings.retry_period
            except (APIError, StreamBroken, StreamStalled, TimeoutError) as e:
                logger.debug(f"The leases of the replicas are watched anew soon: {e!r}")
            await asyncio.sleep(max(least, self._backoff.advance()))

    async def _watch(self) -> None:
        """Watch once. This member renews its Lease all the time, so a silent stream is broken."""
        version = await self._look_in_time()
        patience = min(SILENT_PERIODS * self._settings.retry_period, self._settings.renew_deadline)
        selector = f"{MEMBERS}={self._settings.name}"
        await watch(
            self._client,
            LEASES.get_url(namespace=self._settings.namespace),
            params={"watch": "true", "labelSelector": selector, "resourceVersion": version},
            settings=replace(self._client.settings.watching, inactivity_timeout=patience),
            on_open=self._notice_access,
            on_batch=self._take,
        )

    async def _look_in_time(self) -> str:
        async with asyncio.timeout(self._settings.renew_deadline):
            return await self._look()

    async def _take(self, batch: list[Any]) -> None:
        self._backoff.reset()
        for event in batch:
            match event:
                case {"type": "ADDED" | "MODIFIED", "object": {"metadata": {"name": str()}}}:
                    self._on_state(event["object"])
                case {"type": "DELETED"}:
                    await self._look_in_time()

    def _notice_access(self) -> None:
        self._is_refused = False

    def _complain(self, error: APIForbiddenError) -> None:
        """Log the refusal, but only once while it lasts."""
        level = logging.DEBUG if self._is_refused else logging.WARNING
        self._is_refused = True
        period = f"{self._settings.retry_period:g} seconds"
        reason = f"{error}{hint_at_role(error)}"
        text = "Kopf cannot watch the leases of the replicas, and looks at them only every"
        logger.log(level, f"{text} {period}: {reason}")
