"""The member: watches the object of one peering, and keeps the record of this operator there."""

import asyncio
import datetime
import logging
import math
from collections.abc import Callable, Mapping
from typing import Any, cast

from kopf_cogs.aiokits.clocks import TimeLimit
from kopf_cogs.aiokits.sleeps import sleep
from kopf_cogs.aiokits.surroundings import get_chance
from kopf_cogs.clients.errors import APIConflictError, APIError, APIForbiddenError, APINotFoundError
from kopf_cogs.clients.reflector import Reflector
from kopf_cogs.clients.retries import Backoff
from kopf_cogs.clients.session import Client
from kopf_cogs.configs.settings import OperatorSettings
from kopf_cogs.structs.bodies import RawBody, RawEvent
from kopf_cogs.structs.versions import is_newer
from kopf_core.engines.peering.membership import Membership, Moment, Standing, Verdict
from kopf_core.engines.peering.peering_objects import PeeringObject, touch
from kopf_core.engines.peering.peers import Peer, Records, make_record, parse_records
from kopf_core.engines.peering.references import measure_lead

logger = logging.getLogger("kopf._core.engines.peering")

TICK = 1.0
"""How often (in seconds) to check for how long other operators, and this one, were silent."""

RETRY = 1.0
"""How soon (in seconds) to try again if our record was not written. Each next delay is longer.

If the record was not removed, there is only one more attempt.
"""

MAX_RETRY = 10.0
"""The longest of these delays (in seconds); or a third of the lifetime, if that is shorter."""

RESTART = 0.5
"""The first delay (in seconds) before the peering object is listed and watched again."""

LEAVE_TIMEOUT = 3.0
"""How long (in seconds) the removal of our record can take at the exit."""


class NotKeptError(Exception):
    """Our record is not in the object right after the operator has written it there."""


class Member:
    """One operator in one peering. It calls ``on_verdict`` whenever its standing changes."""

    def __init__(
        self,
        *,
        client: Client,
        place: PeeringObject,
        settings: OperatorSettings,
        membership: Membership,
        on_verdict: Callable[[], None],
    ) -> None:
        self.place = place
        self.verdict = Verdict(Standing.UNKNOWN)
        self._client = client
        self._watching = settings
        self._settings = settings.peering
        self._membership = membership
        self._on_verdict = on_verdict
        self._latest: RawBody | None = None
        self._is_seen = False  # in the current run of the watch
        self._listing: asyncio.Timeout | None = None
        self._wakeup = asyncio.Event()
        self._lead = datetime.timedelta()
        self._ticking: asyncio.TimerHandle | None = None
        self._is_written = False
        self._complaint: str | None = None
        self._junk: set[str] = set()

    # The parts that run.

    async def run(self) -> None:
        """Take part until cancelled. The record stays in the object: see :meth:`leave`."""
        self._tick()
        parts = [asyncio.create_task(self._watch()), asyncio.create_task(self._keep_alive())]
        try:
            done, _ = await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
            for part in done:
                part.result()
        finally:
            for part in parts:
                part.cancel()
            await asyncio.wait(parts)
            if self._ticking is not None:
                self._ticking.cancel()

    async def leave(self, limit: TimeLimit) -> None:
        """Tell other operators that this one works no more: they need not wait for it."""
        if not self._is_written:
            return
        try:
            async with limit(math.inf):  # the requests can wait for each other
                await touch(
                    self._client,
                    self.place,
                    {self._membership.identity: None},
                    timeout=LEAVE_TIMEOUT,
                    backoffs=(RETRY,),
                )
            self._is_written = False
            self._note("left")
        except APINotFoundError:
            pass
        except (APIError, TimeoutError) as e:
            level = logging.DEBUG if self._complaint else logging.WARNING  # it is logged already
            reason = str(e) or type(e).__name__
            logger.log(level, f"The record in the peering {self.place} is not removed: {reason}")

    def reassess(self) -> None:
        """Judge the standing again: the records or the time have changed."""
        now = self._get_now()
        verdict = self._membership.judge(self._settings.priority, self._settings.lifetime, now)
        if self._membership.is_restless(now) or verdict.standing is Standing.LOST:
            self._wakeup.set()
        previous, self.verdict = self.verdict, verdict
        if verdict.standing is not previous.standing or verdict.rivals != previous.rivals:
            self._on_verdict()

    @property
    def limit(self) -> Moment | None:
        """Until when other operators surely take this one for alive, if they know of it."""
        return self._membership.get_limit(self._settings.lifetime)

    # The watch.

    def on_event(self, event: RawEvent) -> None:
        body = event["object"]
        if body["metadata"].get("name") != self.place.name:
            return
        self._is_seen = event["type"] != "DELETED"
        if not self._is_seen:
            self._lose()
        elif self._latest is None or not is_newer(self._latest, body):
            self._membership.see(self._take(body), self._get_now())
            self.reassess()

    def on_listed(self) -> None:
        if self._listing is not None:
            self._listing.reschedule(None)
        if not self._is_seen:
            self._lose()

    def _lose(self) -> None:
        """The peering object is absent."""
        self._latest = None
        self._membership.see_absence()
        self.reassess()

    async def drain(self) -> None:
        pass

    async def _watch(self) -> None:
        backoff = Backoff(RESTART)
        while True:
            try:
                await self._probe()
                await self._reflect()
            except APINotFoundError:
                self._lose()  # the kind is gone, or the namespace; it will be discovered
            except APIForbiddenError as e:
                if not self._settings.mandatory:
                    self._lose()
                self._complain(self._describe_forbidden(e))
            except (APIError, TimeoutError) as e:
                reason = str(e) or "there is no response in time"
                self._complain(f"The peering {self.place} cannot be read, retrying: {reason}")
            await asyncio.sleep(backoff.advance())

    async def _probe(self) -> None:
        """Raise an error if the objects cannot be listed: the reflector would retry for ever."""
        url = self.place.resource.get_url(namespace=self.place.namespace)
        await self._client.get(
            url, params={"limit": "1"}, timeout=self._get_patience(), backoffs=()
        )

    async def _reflect(self) -> None:
        """Watch until an error. The list must not hang: the operator handles nothing without it."""
        self._is_seen = False
        reflector = Reflector(
            self._client,
            self.place.resource,
            self.place.namespace,
            sink=self,
            settings=self._watching,
        )
        async with asyncio.timeout(self._get_patience()) as self._listing:
            await reflector.run()

    def _describe_forbidden(self, exc: APIError) -> str:
        consequence = (
            "The operator waits, as the peering is mandatory."
            if self._settings.mandatory
            else "The operator works as if there is no peering."
        )
        return (
            f"Not enough permissions to list & watch {self.place.resource}: {exc}. {consequence} "
            f"Grant the permissions, or use --standalone."
        )

    def _describe_failure(self, exc: Exception) -> str:
        if isinstance(exc, APIForbiddenError):
            return (
                f"Not enough permissions to patch {self.place.resource}: {exc}. The operator "
                f"handles nothing, as others cannot see it. "
                f"Grant the permissions, or use --standalone."
            )
        if isinstance(exc, NotKeptError):
            return (
                f"The records in the peering {self.place} are not kept by the server: "
                f"check x-kubernetes-preserve-unknown-fields in the definition of its kind. "
                f"The operator handles nothing, as others cannot see it; or use --standalone."
            )
        reason = str(exc) or type(exc).__name__
        return f"Keep-alive in {self.place} has failed, retrying: {reason}"

    # The record.

    async def _keep_alive(self) -> None:
        backoff = Backoff(RETRY, limit=MAX_RETRY)
        while True:
            try:
                if self._membership.is_present:
                    await self._announce()
                backoff.reset()
            except APINotFoundError:
                self._note("not found")
            except (APIError, TimeoutError, NotKeptError) as e:
                self._complain(self._describe_failure(e))
                await asyncio.sleep(min(backoff.advance(), self._get_period()))
                continue  # not sooner, even if woken up
            await sleep(self._get_period(), self._wakeup)
            self._wakeup.clear()

    async def _announce(self) -> None:
        """Write our own record, and read the other records in the reply."""
        requested = self._get_now()
        peer = Peer(
            identity=self._membership.identity,
            priority=self._settings.priority,
            lifetime=self._settings.lifetime,
            lastseen=requested.wall + self._lead,
        )
        self._is_written = True
        body = await self._touch({peer.identity: make_record(peer)})
        self.reassess()  # if the record has expired, it counts as lost
        records = self._take(body)
        self._membership.confirm(records, requested, self._get_now())
        self.reassess()
        if peer.identity not in records.peers:
            raise NotKeptError
        self._complaint = None
        self._note("ok")
        await self._clean()
        self._follow_clocks(body)

    async def _clean(self) -> None:
        """Remove the records of dead operators, unless the object has changed after they were
        seen.
        """
        dead = self._membership.roster.dead
        if dead and self._latest is not None:
            version = self._latest["metadata"].get("resourceVersion")
            try:
                await self._touch({peer.identity: None for peer in dead}, version=version)
            except (APIConflictError, APINotFoundError):
                pass  # try the next time

    async def _touch(
        self,
        records: Mapping[str, object],
        *,
        version: str | None = None,
    ) -> RawBody:
        timeout = self._get_patience()
        return await touch(self._client, self.place, records, version=version, timeout=timeout)

    def _take(self, body: RawBody) -> Records:
        """Parse the object. Log each record without sense, but only once."""
        self._latest = body
        records = parse_records(cast("Mapping[str, Any]", body).get("status"))
        news = records.junk - self._junk
        if news:
            self._junk |= news
            names = ", ".join(repr(name) for name in sorted(news)[:5])
            more = f" and {len(news) - 5} more" if len(news) > 5 else ""
            logger.warning(
                f"Senseless records are ignored in the peering {self.place}: {names}{more}."
            )
        return records

    def _follow_clocks(self, body: RawBody) -> None:
        today = self._get_now().wall
        lead = measure_lead(self._membership.roster.alive, cast("Mapping[str, Any]", body), today)
        if abs((lead - self._lead).total_seconds()) > RETRY:
            self._wakeup.set()
        self._lead = lead

    # The rest.

    def _tick(self) -> None:
        """Check the time. This is not a task: after a freeze of the process, it goes before all
        tasks.
        """
        self._ticking = asyncio.get_running_loop().call_later(TICK, self._tick)
        self.reassess()

    def _get_now(self) -> Moment:
        clock = self._client.clock
        return Moment(clock.monotonic(), clock.now())

    def _get_period(self) -> float:
        return self._settings.lifetime / 3 * get_chance().uniform(0.9, 1.0)

    def _get_patience(self) -> float:
        """How long (in seconds) each request can take, so that there is time for another one."""
        return max(RETRY, self._get_period())

    def _note(self, text: str) -> None:
        if not self._settings.stealth:
            logger.debug(f"Keep-alive in {self.place}: {text}.")

    def _complain(self, text: str) -> None:
        """Log the problem, but only once while it lasts."""
        logger.log(logging.DEBUG if text == self._complaint else logging.WARNING, text)
        self._complaint = text
