"""The elector: becomes the leader when it can, remains so while it can, and reports that."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from kopf_cogs.aiokits.clocks import Clock, TimeLimit
from kopf_cogs.aiokits.surroundings import get_chance
from kopf_cogs.clients.errors import (
    APIConflictError,
    APIError,
    APINotFoundError,
    APIResponseError,
)
from kopf_cogs.clients.retries import choose_delay, is_retriable
from kopf_cogs.clients.rights import hint_at_role
from kopf_cogs.clients.session import Client
from kopf_cogs.configs.settings import LeasingSettings
from kopf_cogs.structs.resources import LEASES
from kopf_cogs.structs.versions import parse_version
from kopf_core.engines.leasing.fences import Fence
from kopf_core.engines.leasing.lease_records import (
    LeaseRecord,
    Observation,
    as_mapping,
    make_next,
    make_released,
)

logger = logging.getLogger("kopf.leasing")

JITTER = 0.2
"""By which share the retries come earlier, so that the followers do not come all at once."""

RELEASE_TIMEOUT = 5.0
"""How long (in seconds) the exiting operator tries to release the lease."""

RELEASE_DELAY = 0.25
"""How long (in seconds) it waits before it tries that again."""

LEAST_PATIENCE = 0.1
"""The least time (in seconds) to wait for a reply."""


class LeaseLostError(Exception):
    """The lease is lost, and the operator is configured to exit then."""

    expected = True


class Cargo(Protocol):
    """The additional data in the object of a lease: in its metadata."""

    def load(self, metadata: Mapping[str, Any]) -> None:
        """Notice how the object is stored now; it has no metadata if there is no object."""

    def stow(self, metadata: Mapping[str, Any]) -> Mapping[str, Any]:
        """Make the metadata for the next renewal out of the metadata that are stored now."""


class Elector:
    """Takes part in the election of one leader, by one Lease.

    It calls ``on_leading`` when it becomes the leader, and ``on_following`` when it ceases to be
    the leader. The fence is open only while it surely leads. The client must not have that fence.
    The elector reads and writes the cargo in the same requests as the lease.
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
        cargo: Cargo | None = None,
    ) -> None:
        self._client = client
        self._settings = settings
        self._identity = identity
        self._clock = clock
        self._fence = fence
        self._on_leading = on_leading
        self._on_following = on_following
        self._cargo = cargo
        self._hastened = asyncio.Event()
        self._observed = Observation(duration=settings.duration)
        self._stored: dict[str, Any] | None = None
        self._complaint: str | None = None
        self._has_joined = False
        self._is_leading = False

    @property
    def identity(self) -> str:
        """The identity of this operator among the candidates."""
        return self._identity

    @property
    def is_leading(self) -> bool:
        """Whether this operator can act right now."""
        return self._is_leading and self._fence.is_open

    @property
    def obstacle(self) -> str:
        """Why it takes no part in the election yet; empty after the first successful request."""
        return "" if self._has_joined else self._complaint or "the lease is not read yet"

    @property
    def holder(self) -> str:
        """The identity of the known leader; empty if there is none."""
        record = self._observed.record
        return "" if record is None else record.holder

    async def run(self) -> None:
        """Take part for as long as the operator runs.

        Raises :class:`LeaseLostError` if the lease is lost and the settings allow no second try.
        """
        while True:
            await self._acquire()
            self._is_leading = True
            try:
                await self._lead()
            finally:
                self._is_leading = False
            await self._on_following()
            if self._settings.exit_on_loss:
                raise LeaseLostError(f"The lease {self._title} is lost.")

    def hasten(self) -> None:
        """Renew the lease now if this operator leads, as there is new cargo; or else, read it."""
        self._hastened.set()

    def announce(self, lease: Mapping[str, Any]) -> bool:
        """Notice that a stream has brought this state of the lease; return whether it is news.

        So this operator knows better since when the holder is silent. But it decides everything
        by looks of its own: if there is another holder, or none, it looks now.
        """
        record, now = LeaseRecord.parse(lease), self._clock.monotonic()
        is_news = self._observed.announce(record, now, parse_version(lease) or 0)
        if is_news and record.holder != self.holder:
            self.hasten()
        return is_news

    async def release(self, limit: TimeLimit = asyncio.timeout) -> None:
        """Let other operators lead at once, if this one leads.

        Call this only after :meth:`run` has ended.
        """
        self._fence.close()
        if self.holder != self._identity or not self._settings.release_on_exit:
            return
        error: APIError | None = None
        try:
            async with limit(RELEASE_TIMEOUT):
                error = await self._try_to_release()
                while error is not None:
                    await asyncio.sleep(choose_delay(error, RELEASE_DELAY, clock=self._clock))
                    error = await self._try_to_release()
        except (APIError, TimeoutError) as e:
            reason = str(error or e) or "there is no reply in time"
            logger.warning(f"The lease {self._title} cannot be released: {reason}")

    async def _try_to_release(self) -> APIError | None:
        """Release the lease if it is still ours; get the error if it can be tried again."""
        try:
            await self._look()  # the latest request could be interrupted with no result known
            if self._observed.record is not None and self.holder == self._identity:
                await self._put(make_released(self._observed.record, now=self._clock.now()))
                logger.info(f"The lease {self._title} is released.")
        except APIError as e:
            if not is_retriable(e) and not isinstance(e, APIConflictError):
                raise
            return e
        return None

    async def _acquire(self) -> None:
        told: str | None = None
        while not await self._try(self._settings.renew_deadline):
            if self.holder not in (told, self._identity, ""):
                told = self.holder
                logger.info(f"Following: the lease {self._title} is held by {told!r}.")
            await self._wait(self._choose_delay())

    def _choose_delay(self) -> float:
        """Choose when to try again: regularly, and as soon as a silent holder is surely dead."""
        delay = self._settings.retry_period * get_chance().uniform(1 - JITTER, 1)
        left = self._observed.get_left(self._identity, self._clock.monotonic())
        return min(delay, left) if left else delay

    async def _lead(self) -> None:
        """Lead until the lease cannot be renewed in time, or another operator has it."""
        leading = asyncio.ensure_future(self._on_leading())
        try:
            while self._fence.is_open:
                if leading.done():
                    leading.result()
                await self._wait(min(self._settings.retry_period, self._fence.get_left()))
                if not await self._renew():
                    return
        finally:
            self._fence.close()
            if not leading.done():
                leading.cancel()
                await asyncio.wait([leading])

    async def _wait(self, seconds: float) -> None:
        """Wait for the time of the next request; only cargo can be in a hurry."""
        if self._cargo is None:
            return await asyncio.sleep(seconds)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._hastened.wait()
        self._hastened.clear()

    async def _renew(self) -> bool:
        """Renew the lease if it is time; return whether it is still ours, as far as is known.

        A request does not wait too long for its reply: there must be time to try again by another
        connection.
        """
        left = self._fence.get_left()
        if left <= 0:
            return False
        patience = max(left / 2, min(left, self._settings.retry_period), LEAST_PATIENCE)
        return await self._try(patience) or self.holder == self._identity

    async def _try(self, patience: float) -> bool:
        """Acquire or renew the lease, if possible within that many seconds."""
        try:
            async with asyncio.timeout(patience):
                held = await self._acquire_or_renew()
        except APIConflictError:
            self._stored = None  # another operator was faster
            return False
        except (APIError, TimeoutError) as e:
            self._stored = None
            reason = f"{e}{hint_at_role(e)}" or "there is no reply in time"
            self._complain(f"The lease {self._title} is out of reach: {reason}")
            return False
        self._complaint = None
        self._has_joined = True
        return held

    async def _acquire_or_renew(self) -> bool:
        if self._stored is not None and self._fence.is_open:
            with contextlib.suppress(APIConflictError, APINotFoundError):
                await self._hold()
                return True
            # Another client has changed or deleted it, or our earlier reply was lost: read it.
        await self._look()
        if self._observed.is_held_by_other(self._identity, self._clock.monotonic()):
            return False
        await self._hold()
        return True

    async def _look(self) -> None:
        """Read the lease. It counts as seen when the reply has come, not earlier.

        If another client has deleted it, its holder does not know that yet, and still acts.
        """
        url = LEASES.get_url(namespace=self._settings.namespace, name=self._settings.name)
        try:
            body = await self._client.get(url, backoffs=())
        except APINotFoundError:
            self._keep(None)
        else:
            self._keep(_check(body))
            record, version = LeaseRecord.parse(body), parse_version(body) or 0
            self._observed.observe(record, self._clock.monotonic(), version)

    async def _hold(self) -> None:
        """Write that this operator holds the lease since the request, not since the reply."""
        since = self._clock.monotonic()
        record = make_next(
            self._observed.record,
            self._identity,
            duration=self._settings.duration,
            now=self._clock.now(),
        )
        await self._put(record)
        self._observed.observe(record, since)
        self._fence.extend(since + self._settings.renew_deadline)

    async def _put(self, record: LeaseRecord) -> None:
        """Write the record, unless another client has changed it after this operator read it.

        All other fields of the object stay as they are.
        """
        namespace, name = self._settings.namespace, self._settings.name
        known = self._stored or {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {"name": name, "namespace": namespace},
        }
        metadata = known["metadata"] if self._cargo is None else self._cargo.stow(known["metadata"])
        spec = {**as_mapping(known.get("spec")), **record.as_spec()}
        body = {**known, "metadata": metadata, "spec": spec}
        if self._stored is None:
            url = LEASES.get_url(namespace=namespace)
            self._keep(_check(await self._client.post(url, body, backoffs=())))
        else:
            url = LEASES.get_url(namespace=namespace, name=name)
            self._keep(_check(await self._client.put(url, body, backoffs=())))

    def _keep(self, stored: dict[str, Any] | None) -> None:
        """Remember how the object is stored."""
        self._stored = stored
        if self._cargo is not None:
            self._cargo.load({} if stored is None else stored["metadata"])

    @property
    def _title(self) -> str:
        return f"{self._settings.namespace}/{self._settings.name}"

    def _complain(self, text: str) -> None:
        """Log the problem, but only once while it lasts."""
        level = logging.DEBUG if text == self._complaint else logging.WARNING
        logger.log(level, text)
        self._complaint = text


def _check(body: object) -> dict[str, Any]:
    """Raise :class:`APIResponseError` if the response is not an object of Kubernetes."""
    if isinstance(body, dict) and isinstance(body.get("metadata"), dict):
        return body
    raise APIResponseError("the reply is not a lease")
