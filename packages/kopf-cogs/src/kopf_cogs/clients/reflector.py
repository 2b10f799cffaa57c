"""Reflecting a kind of objects: list them, watch them, and recover from all failures.

Kubernetes has two requests for this: the list gives all objects and a version,
the watch gives the changes since that version. Both can fail in many ways, and versions expire.
The reflector makes of them one sequence of events, with nothing lost::

    LISTING ──listed──→ WATCHING ──ended, broken, refused──→ WATCHING (since the last version)
       ↑                   │
       └──version is gone──┘

The reflector compares the lists to find the objects that were deleted in between, and reports them.

Big lists are read as fast as their objects are handled. If that takes long, the reflector watches
the changes meanwhile. Otherwise, changes would wait until the last of the objects is listed.
"""

import asyncio
import contextlib
import dataclasses
import logging
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from kopf_cogs.clients import (
    errors,
    progress,
    retries,
    rights,
    session,
    stream_state,
    streams,
    watching,
)
from kopf_cogs.clients.forming import FormedState
from kopf_cogs.clients.queries import Query
from kopf_cogs.clients.stream_state import EventSink as EventSink
from kopf_cogs.clients.stream_state import Phase
from kopf_cogs.configs.forms import WHOLE, Form
from kopf_cogs.structs import bodies, credentials, parts, resources

if TYPE_CHECKING:
    from kopf_cogs.configs.settings import OperatorSettings

logger = logging.getLogger("kopf._cogs.clients.watching")

# If the stream lives so long (in seconds), it works, even if it has brought nothing.
_HEALTHY_LIFETIME = 1.0

LONG_LIST = 0.25
"""After how many seconds of listing the reflector watches the changes, too."""

# How many times to be refused or ignored before doubting in the resource version.
_DOUBTS_LIMIT = 3
_SILENCE_LIMIT = 1000


@dataclasses.dataclass(slots=True)
class Traffic:
    """The counters of one list-and-watch since its start: only for people to look at."""

    lists: int = 0
    """How many times the reflector has listed the objects, or has tried to."""

    connects: int = 0
    """How many times the changes were streamed; every stream ends sooner or later."""

    events: int = 0
    """How many changes have come, with bookmarks and alike."""


@dataclasses.dataclass(slots=True)
class Suspicion:
    """How often in a row the server has seemed to be in an older state than the reflector."""

    doubts: int = 0
    """How many times the server did not know our version yet."""

    silences: int = 0
    """How many times the stream was silent."""

    patience: int = _DOUBTS_LIMIT
    """How many silent streams are enough to list again."""


class Reflector:
    """A never-ending list-and-watch of one resource kind: in one namespace or in the whole cluster.

    The selectors, timeouts, and chunk sizes are in ``settings.watching``;
    ``selector`` is one more label selector for this stream only.
    ``form`` is the form that the objects get before anything else is done with them.
    With ``name``, only that object is reflected.
    ``choose_part`` gives the part of the objects for each request.
    To get more objects than before, run the reflector anew.
    ``on_reversed`` is called when the versions go back, as after a restoration from a backup:
    before any of the older objects come, if they are listed.
    ``on_forbidden`` gets the refusals (403) instead of the log, each one once while it lasts.
    """

    synced = False
    """Whether the initial list is over, and the stream is the only source of events now."""

    complaint: str | None = None
    """The current problem of the reflector, which retries until it is solved."""

    _connection: asyncio.Timeout | None = None
    _opened: float | None = None
    _was_unreachable = False

    def __init__(
        self,
        client: session.Client,
        resource: resources.Resource,
        namespace: str | None,
        *,
        sink: EventSink,
        settings: "OperatorSettings | None" = None,
        selector: str | None = None,
        form: Form = WHOLE,
        name: str | None = None,
        choose_part: Callable[[], parts.Part] = lambda: parts.ALL_OBJECTS,
        on_reversed: Callable[[], None] = lambda: None,
        on_forbidden: Callable[[errors.APIForbiddenError], None] | None = None,
        logger: stream_state.Logger = logger,
    ) -> None:
        super().__init__()
        self.freshness = client.clock.monotonic()
        """When the last sign of life was seen, in the monotonic time of the client's clock."""
        self.traffic = Traffic()
        """How much has come so far."""
        self._client = client
        self._sink = sink
        self._on_forbidden = on_forbidden
        self._logger = logger
        self._settings = (client.settings if settings is None else settings).watching
        self._query = Query(
            client,
            resource,
            namespace,
            settings=self._settings,
            form=form,
            selector=selector,
            name=name,
            choose_part=choose_part,
        )
        self._title = title = self._query.title
        make_state = stream_state.StreamState if form == WHOLE else partial(FormedState, form)
        self._state = make_state(
            resource,
            sink,
            title=title,
            logger=logger,
            on_reversed=on_reversed,
            get_filter=lambda: self._query.filter,
        )
        self._backoff = retries.Backoff(self._settings.reconnect_backoff)
        self._suspicion = Suspicion()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self._title}>"

    @property
    def known(self) -> Collection[stream_state.KnownKey]:
        """All objects that exist, as far as it is known: by uids, or by namespaces & names."""
        return self._state.known.keys()

    @property
    def names(self) -> Mapping[stream_state.KnownKey, stream_state.KnownName]:
        """The same with their namespaces & names."""
        return self._state.known

    @property
    def version(self) -> str | None:
        """The resource version, if any, up to which all objects are known: the unknown are gone."""
        return self._state.reached

    @property
    def problem(self) -> str | None:
        """The complaint, unless the server has accepted the stream since: its events come later."""
        is_open = self._connection is not None and self._opened is not None
        return None if is_open else self.complaint

    @property
    def is_outdated(self) -> bool:
        """Whether the last requested part differs from the part to request now."""
        return self._query.is_outdated

    def report_absence(self) -> None:
        """Report the deletions of all known objects. Not to be called while it runs."""
        self._state.report_absence()

    def forget(self, key: stream_state.KnownKey) -> None:
        """Do not report when this object is deleted: it is in a part that is not requested."""
        self._state.forget(key)

    def reconnect(self) -> None:
        """End the current stream, so that the next one continues it with other selectors."""
        if self._connection is not None:
            self._connection.reschedule(asyncio.get_running_loop().time())

    async def run(self) -> NoReturn:
        """Reflect until cancelled. When run again after that, it begins with listing.

        Raises :class:`APINotFoundError` if there is no such resource kind anymore.
        Raises :class:`LoginError` if there are no credentials and there will be none.
        After all other errors, it retries forever, with growing delays. This includes the failures
        of the sink, and cancellations inside the sink that are not for the reflector itself.
        """
        self._relist()
        self._backoff = retries.Backoff(self._settings.reconnect_backoff)
        self._logger.debug(f"Starting the watch-stream for {self._title}.")
        try:
            while True:
                delay = await self._step()
                await asyncio.sleep(delay)
        finally:
            self.synced = False
            self._logger.debug(f"Stopping the watch-stream for {self._title}.")

    # The events of other streams, while this reflector sends no requests.

    def begin_list(self) -> None:
        """All objects will be taken, and then ``finish_list()`` will be called."""
        self._state.restart()

    def take(self, event: bodies.RawEvent) -> None:
        """Report an event that another stream has brought, in the form of this one."""
        self.traffic.events += 1
        self._state.take(event)

    def finish_list(self, version: str | None) -> None:
        self._state.finish_list(version)

    async def _step(self) -> float:
        """List or watch, until its good or bad end. Return the delay after it."""
        requested: float | None = None
        version: str | None = None
        self._opened = None
        try:
            if self._was_unreachable and self._state.phase is Phase.WATCHING:
                await self._verify_version()
            if self._state.phase is Phase.LISTING:
                await self._list()
            if self._state.phase is Phase.WATCHING:
                version = self._state.resource_version
                await self._stream()
        except errors.APIStatusError as e:
            self._handle_status(e)
            requested = retries.parse_retry_after(e.retry_after, self._client.clock)
        except watching.StreamStalled as e:
            self._handle_silence(e)
        except (errors.APIError, streams.StreamBroken) as e:
            self._complain(f"The watch-stream for {self._title} is broken: {e}")
            self._was_unreachable |= self._opened is None
        except stream_state.VersionsReversed as e:
            self._handle_reversal(e)
        except credentials.LoginError as e:
            if not self._client.can_log_in_later:
                raise
            self._complain(f"The watch-stream for {self._title} has no credentials: {e}")
        except asyncio.CancelledError as e:
            if _is_cancelled():
                raise
            self._handle_failure(e)
        except Exception as e:
            self._handle_failure(e)
        if self._was_healthy(version):
            self._backoff.reset()
        delay = self._backoff.advance()
        return delay if requested is None else max(delay, requested)

    def _was_healthy(self, version: str | None) -> bool:
        """Whether the stream was working before it ended, i.e. whether to reconnect at once."""
        if self._state.phase is Phase.LISTING or self._opened is None:
            return False
        lifetime = self._client.clock.monotonic() - self._opened
        return lifetime >= _HEALTHY_LIFETIME or self._state.resource_version != version

    # Requests.

    async def _list(self) -> None:
        self.traffic.lists += 1
        self._state.restart()
        if self._query.is_streaming:
            await self._stream()
            return
        with contextlib.ExitStack() as stack:
            version = await self._list_pages(stack)
        self._state.finish_list(version)
        self.synced = True
        await self._sink.drain()

    async def _list_pages(self, stack: contextlib.ExitStack) -> str | None:
        version: str | None = None
        told = progress.ListingProgress(self._title, self._client.clock, self._logger)
        async for page in self._query.list_pages():
            if version is None and page.resource_version is not None:
                task = asyncio.create_task(self._look_ahead(page.resource_version))
                stack.callback(task.cancel)  # no early changes after the list
            version = page.resource_version
            self._state.check_version(version)
            self._see_life()
            self._state.add_page(page.items, page.quarantined)
            await self._sink.drain()
            self._see_success()
            told.add_page(len(page.items), page.remaining)
            del page  # not in memory while the next one is being requested
        told.finish()
        return version

    async def _look_ahead(self, version: str) -> None:
        """Report the changes since that version, if the list takes long.

        If an event cannot be reported here, the usual stream begins with it.
        """
        backoff = retries.Backoff(LONG_LIST)
        while True:
            await asyncio.sleep(backoff.advance())
            reached = self._state.ahead_version or version
            try:
                await self._query.watch(reached, lambda: None, self._on_early_batch)
            except Exception as e:
                self._logger.debug(f"The changes of {self._title} wait until it is listed: {e!r}")

    async def _on_early_batch(self, batch: list[Any]) -> None:
        self.traffic.events += len(batch)
        self._see_life()
        self._state.add_ahead(batch)

    async def _verify_version(self) -> None:
        """Check that the server, which was unreachable for some time, is not a restored backup.

        A restored backup would accept our resource version, and would be silent until it gets
        that far again.
        """
        version = await self._query.find_version()
        self._was_unreachable = False
        self._state.verify(version)

    async def _stream(self) -> None:
        self._connection = connection = asyncio.timeout(None)
        try:
            async with connection:
                await self._query.watch(
                    self._state.resource_version,
                    self._on_open,
                    self._on_batch,
                    is_initial=self._state.phase is Phase.LISTING,
                )
        except TimeoutError:
            if not connection.expired():
                raise
            self._backoff.reset()  # ``reconnect()`` has ended it
        finally:
            self._connection = None

    # Incoming data.

    def _on_open(self) -> None:
        self._opened = self._client.clock.monotonic()
        self.freshness = self._opened
        self.traffic.connects += 1

    async def _on_batch(self, batch: list[Any]) -> None:
        self._state.add_batch(batch)
        self.traffic.events += len(batch)
        self._see_life()
        self._suspicion = Suspicion()
        self.synced = self._state.phase is Phase.WATCHING
        await self._sink.drain()
        self._see_success()

    def _see_life(self) -> None:
        self.freshness = self._client.clock.monotonic()

    def _see_success(self) -> None:
        """The sink has processed the data that has come."""
        if self.complaint is not None:
            self.complaint = None
            self._logger.info(f"The watch-stream for {self._title} works again.")

    # Problems.

    def _relist(self) -> None:
        self.synced = False
        self._suspicion = Suspicion(patience=self._suspicion.patience)
        self._state.restart()

    def _handle_status(self, exc: errors.APIStatusError) -> None:
        match exc:
            case errors.APIGoneError():
                self._logger.debug(f"The resource version of {self._title} is too old: {exc}")
                self._relist()
            case errors.APINotFoundError() if self._state.phase is Phase.LISTING:
                raise exc
            case errors.APINotFoundError():
                self._relist()
            case errors.APIForbiddenError():
                self._handle_refusal(exc)
            case _ if text := self._query.give_up(exc):
                self._complain(text)
            case _ if _is_version_unknown(exc):
                self._handle_doubt(exc)
            case _:
                self._complain(f"The watch-stream for {self._title} has failed: {exc}")

    def _handle_refusal(self, exc: errors.APIForbiddenError) -> None:
        hint = rights.hint_at_role(exc)
        text = f"Cannot watch {self._title}, will retry until permitted: {exc}{hint}"
        if self._on_forbidden is None or text == self.complaint:
            self._complain(text)
        else:
            self.complaint = text
            self._on_forbidden(exc)

    def _handle_doubt(self, exc: errors.APIStatusError) -> None:
        """The server is behind the reflector: it lags, or it was restored from a backup."""
        self._complain(f"The resource version of {self._title} is from the future: {exc}")
        self._suspicion.doubts += 1
        if self._suspicion.doubts >= _DOUBTS_LIMIT:
            self._relist()

    def _handle_reversal(self, exc: stream_state.VersionsReversed) -> None:
        self._complain(f"The resource versions of {self._title} went back, listing anew: {exc}")
        self._relist()
        self._backoff.reset()

    def _handle_failure(self, exc: BaseException) -> None:
        """The server has sent wrong data, or the sink has failed to process the data.

        The reflector cannot know which events are lost, so it lists everything anew.
        """
        self._complain(f"The watch-stream for {self._title} cannot be processed: {exc!r}")
        self._relist()

    def _handle_silence(self, exc: watching.StreamStalled) -> None:
        """Nothing happens, or the server waits for the resource version which will never come.

        Waiting servers are rare, and servers without bookmarks do exist. So the reflector lists
        the objects ever rarer to check this.
        """
        self._logger.debug(f"The watch-stream for {self._title} is silent, reconnecting: {exc}")
        suspicion = self._suspicion
        suspicion.silences += 1
        self._backoff.reset()  # the reflector has waited for long enough already
        if self._state.phase is Phase.LISTING:
            # The server ignores the request for the initial streaming, or it is overloaded.
            if suspicion.silences >= _DOUBTS_LIMIT:
                self._query.give_up_streaming()
        elif suspicion.silences >= suspicion.patience:
            suspicion.patience = min(suspicion.patience * 2, _SILENCE_LIMIT)
            self._relist()

    def _complain(self, text: str) -> None:
        """Log the problem, but only once while it lasts."""
        level = logging.DEBUG if text == self.complaint else logging.WARNING
        self._logger.log(level, text)
        self.complaint = text


def _is_cancelled() -> bool:
    """Whether the current task itself is cancelled, and not something inside of it."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def _is_version_unknown(exc: errors.APIStatusError) -> bool:
    """Whether the server says, after a while, that it has not reached the resource version yet."""
    return any(cause.get("reason") == "ResourceVersionTooLarge" for cause in exc.causes) or (
        "too large resource version" in (exc.message or "").lower()
    )
