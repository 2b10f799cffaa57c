"""The elector: becomes the leader when it can, remains so while it can, and says so."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import Any

from kopf_cogs.aiokits.clocks import Clock
from kopf_cogs.clients.errors import APIConflictError, APIError, APINotFoundError
from kopf_cogs.clients.session import Client
from kopf_cogs.configs.settings import LeasingSettings
from kopf_cogs.structs.resources import LEASES
from kopf_core.engines.leasing.fences import Fence
from kopf_core.engines.leasing.records import (
    LeaseRecord,
    Observation,
    make_next,
    make_released,
)

logger = logging.getLogger("kopf.leasing")

JITTER = 0.2
"""By which share the retries are moved, so that the followers do not come all at once."""


class LeaseLostError(Exception):
    """The lease is lost, and the operator is configured to exit then."""

    expected = True


class Elector:
    """Takes part in the election of one leader, by one Lease.

    ``on_leading`` and ``on_following`` are called when it becomes and ceases to be the leader.
    The fence is open only while it surely leads. The client must not be fenced itself.
    """

    def __init__(
        self,
        client: Client,
        settings: LeasingSettings,
        *,
        identity: str,
        clock: Clock,
        fence: Fence,
        on_leading: Callable[[], Awaitable[None]],
        on_following: Callable[[], Awaitable[None]],
    ) -> None:
        self._client = client
        self._settings = settings
        self._identity = identity
        self._clock = clock
        self._fence = fence
        self._on_leading = on_leading
        self._on_following = on_following
        self._observed = Observation()
        self._version: str | None = None
        self._complaint: str | None = None
        self.is_leading = False

    @property
    def holder(self) -> str:
        """Who leads, as far as it is known; empty if nobody does."""
        record = self._observed.record
        return "" if record is None else record.holder

    async def run(self) -> None:
        """Take part for as long as the operator runs.

        Raises :class:`LeaseLostError` if the lease is lost and there is to be no second try.
        """
        while True:
            await self._acquire()
            self.is_leading = True
            logger.info(f"This operator leads now: it holds the lease {self._title}.")
            try:
                await self._lead()
            finally:
                self.is_leading = False
                self._fence.close()
            logger.warning(f"The lease {self._title} is lost: this operator does nothing now.")
            await self._on_following()
            if self._settings.exit_on_loss:
                raise LeaseLostError(f"The lease {self._title} is lost.")

    async def release(self) -> None:
        """Let others lead at once, if this one does. Not to be called while it runs."""
        record = self._observed.record
        self._fence.close()
        if record is None or record.holder != self._identity or not self._settings.release_on_exit:
            return
        try:
            await self._put(make_released(record, now=self._clock.now()))
        except APIError as e:
            logger.warning(f"The lease {self._title} cannot be released: {e}")
        else:
            logger.info(f"The lease {self._title} is released.")

    async def _acquire(self) -> None:
        told: str | None = None
        while not await self._try():
            if self.holder != told and self.holder:
                told = self.holder
                logger.info(f"Following: the lease {self._title} is held by {told!r}.")
            await asyncio.sleep(self._settings.retry_period * random.uniform(1, 1 + JITTER))

    async def _lead(self) -> None:
        """Lead until the lease cannot be renewed in time, or somebody else has it."""
        leading = asyncio.ensure_future(self._on_leading())
        try:
            while self._fence.is_open:
                await asyncio.wait([leading], timeout=0)
                if leading.done():
                    leading.result()
                await asyncio.sleep(min(self._settings.retry_period, self._fence.get_left()))
                if not await self._try() and self.holder != self._identity:
                    return
        finally:
            if not leading.done():
                leading.cancel()
                await asyncio.wait([leading])

    async def _try(self) -> bool:
        """Acquire or renew the lease, if possible. It is never waited for longer than it lasts."""
        limit = self._fence.get_left() if self._fence.is_open else self._settings.renew_deadline
        try:
            async with asyncio.timeout(max(limit, 0.1)):
                held = await self._acquire_or_renew()
        except APIConflictError:
            self._version = None  # somebody else was faster, or our earlier reply was lost
            return False
        except (APIError, TimeoutError) as e:
            self._version = None
            self._complain(f"The lease {self._title} is out of reach: {e or 'no reply in time'}")
            return False
        self._complaint = None
        return held

    async def _acquire_or_renew(self) -> bool:
        started = self._clock.monotonic()
        if self._version is None or not self._fence.is_open:
            await self._look(started)
        if self._observed.is_held_by_other(self._identity, started):
            return False
        record = make_next(
            self._observed.record,
            self._identity,
            duration=self._settings.duration,
            now=self._clock.now(),
        )
        await self._put(record)
        self._observed.observe(record, started)
        self._fence.extend(started + self._settings.renew_deadline)
        return True

    async def _look(self, now: float) -> None:
        url = LEASES.get_url(namespace=self._settings.namespace, name=self._settings.name)
        try:
            body = await self._client.get(url, backoffs=())
        except APINotFoundError:
            self._observed, self._version = Observation(), None
        else:
            self._observed.observe(LeaseRecord.parse(body), now)
            self._version = body["metadata"].get("resourceVersion")

    async def _put(self, record: LeaseRecord) -> None:
        """Write the record, unless it was changed by others since it was seen."""
        namespace, name = self._settings.namespace, self._settings.name
        body: dict[str, Any] = {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {"name": name, "namespace": namespace},
            "spec": record.as_spec(),
        }
        if self._version is None:
            url = LEASES.get_url(namespace=namespace)
            stored = await self._client.post(url, body, backoffs=())
        else:
            body["metadata"]["resourceVersion"] = self._version
            url = LEASES.get_url(namespace=namespace, name=name)
            stored = await self._client.put(url, body, backoffs=())
        self._version = stored["metadata"].get("resourceVersion")

    @property
    def _title(self) -> str:
        return f"{self._settings.namespace}/{self._settings.name}"

    def _complain(self, text: str) -> None:
        """Log the problem, but only once while it lasts."""
        level = logging.DEBUG if text == self._complaint else logging.WARNING
        logger.log(level, text)
        self._complaint = text
