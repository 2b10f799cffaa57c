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
from kopf_cogs.clients.rights import hint_at_role
from kopf_cogs.clients.session import Client
from kopf_cogs.clients.streams import StreamBroken
from kopf_cogs.clients.watching import StreamStalled, watch
from kopf_cogs.configs.settings import LeasingSettings
from kopf_cogs.structs.resources import LEASES
from kopf_core.engines.sharding.roll import MEMBERS

logger = logging.getLogger("kopf.sharding")

RETRY = 0.5
"""How long (in seconds) until the Leases are watched again after a stream has ended or failed."""


class Lookout:
    """Watches the Leases of the replicas, and gives each change to ``on_change``.

    Before each stream, it calls ``look`` to look at all Leases, and to return the version of the
    list. ``on_change`` gets the Lease, and whether it is deleted.
    """

    def __init__(
        self,
        client: Client,
        settings: LeasingSettings,
        *,
        look: Callable[[], Awaitable[str]],
        on_change: Callable[[Mapping[str, Any], bool], None],
    ) -> None:
        self._client = client
        self._settings = settings
        self._look = look
        self._on_change = on_change
        self._is_refused = False

    async def run(self) -> None:
        """Watch until cancelled, even if the streams fail."""
        while True:
            delay = RETRY
            try:
                await self._watch()
            except APIForbiddenError as e:
                self._complain(e)
                delay = self._settings.duration
            except (APIError, StreamBroken, StreamStalled, TimeoutError) as e:
                logger.debug(f"The leases of the replicas are watched anew soon: {e!r}")
            await asyncio.sleep(delay)

    async def _watch(self) -> None:
        """Watch once. Members renew their Leases all the time, so a silent stream is broken."""
        async with asyncio.timeout(self._settings.renew_deadline):
            version = await self._look()
        selector = f"{MEMBERS}={self._settings.name}"
        watching = self._client.settings.watching
        await watch(
            self._client,
            LEASES.get_url(namespace=self._settings.namespace),
            params={"watch": "true", "labelSelector": selector, "resourceVersion": version},
            settings=replace(watching, inactivity_timeout=self._settings.renew_deadline),
            on_open=self._notice_access,
            on_batch=self._take,
        )

    async def _take(self, batch: list[Any]) -> None:
        for event in batch:
            match event:
                case {
                    "type": "ADDED" | "MODIFIED" | "DELETED" as happening,
                    "object": {"metadata": {"name": str()}} as lease,
                }:
                    self._on_change(lease, happening == "DELETED")

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
