"""Observation: finds the existing resources and namespaces, and the served ones of them."""

import asyncio
import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from kopf_cogs.clients.discovery import scan
from kopf_cogs.clients.errors import (
    APIClientError,
    APIError,
    APIForbiddenError,
    APINotFoundError,
    APIUnauthorizedError,
)
from kopf_cogs.clients.reflector import Reflector
from kopf_cogs.clients.retries import Backoff
from kopf_cogs.clients.rights import hint_at_role
from kopf_cogs.clients.session import Client
from kopf_cogs.configs.checks import SettingError
from kopf_cogs.configs.settings import OperatorSettings
from kopf_cogs.structs.bodies import RawEvent
from kopf_cogs.structs.namespaces import (
    NamespacePattern,
    match_namespace,
    select_specific_namespaces,
)
from kopf_cogs.structs.resources import CRDS, NAMESPACES, Resource
from kopf_cogs.structs.selectors import Selector
from kopf_core.actions.retrying import jittered
from kopf_core.intents.registries import OperatorRegistry
from kopf_core.reactor.shape.declared_fields import FieldChecker
from kopf_core.reactor.shape.definitions import Definitions

logger = logging.getLogger("kopf._core.reactor.observation")

BROKEN_GROUPS_DELAY = 30.0
"""How soon (in seconds) to retry the API groups that could not be discovered."""

PERMISSIONS_DELAY = 60.0
"""The longest delay (in seconds) before a missing permission is checked again."""

FIRST_DOUBT_DELAY = 0.1
"""How soon (in seconds) to scan again when the discovery contradicts other signs.

The delay is doubled each time, up to the delay for broken groups.
"""

Notify = Callable[[], None]


class Insights:
    """The known resources and namespaces of the cluster. Waiters are told of changes."""

    def __init__(self) -> None:
        self.resources: frozenset[Resource] = frozenset()
        self.broken_groups: frozenset[str] = frozenset()
        """The API groups that could not be discovered."""

        self.namespaces: frozenset[str | None] = frozenset()
        self.deleted: set[str] = set()
        """The deleted namespaces that can be served still. Deselected namespaces are not here."""

        self.known = asyncio.Event()
        """Set when both resources and namespaces are known, as far as possible."""

        self._revised = asyncio.Event()
        self._pending = {"resources", "namespaces"}
        self._listeners: list[Callable[[Collection[Resource]], None]] = []
        self._namespace_listeners: list[Callable[[Collection[str | None]], None]] = []

    @property
    def is_complete(self) -> bool:
        """Whether the resources and namespaces were discovered for the first time."""
        return not self._pending

    def listen(self, listener: Callable[[Collection[Resource]], None]) -> None:
        """Call the listener with the resources after every discovery."""
        self._listeners.append(listener)

    def listen_namespaces(self, listener: Callable[[Collection[str | None]], None]) -> None:
        """Call the listener with the namespaces when they change, before they are served."""
        self._namespace_listeners.append(listener)

    async def wait(self) -> None:
        """Wait for a change since the previous call. The first one comes when all is known."""
        await self._revised.wait()
        self._revised.clear()

    def revise(self) -> None:
        """Report a change, though there is none, so that everything is checked again."""
        self._revised.set()

    def set_resources(
        self, resources: Collection[Resource], broken_groups: Collection[str] = ()
    ) -> None:
        self.resources = frozenset(resources)
        self.broken_groups = frozenset(broken_groups)
        for listener in self._listeners:
            listener(self.resources)
        self._notify("resources")

    def set_namespaces(self, namespaces: Collection[str | None]) -> None:
        self.namespaces = frozenset(namespaces)
        for listener in self._namespace_listeners:
            listener(self.namespaces)
        self._notify("namespaces")

    def _notify(self, kind: str) -> None:
        self._pending.discard(kind)
        if not self._pending:
            self.known.set()
            self._revised.set()


@dataclass(slots=True)
class _Sink:
    """Remembers the accepted names of objects, and reports when they come and go.

    If an object is deleted and created again unseen, the new one comes before the deletion.
    """

    notify: Notify
    accepts: Callable[[str], bool]
    is_selected: bool
    deleted: set[str]
    """The names of deleted objects, but not of deselected ones."""

    is_listed: bool = False
    uids: dict[str, str | None] = field(default_factory=dict)

    @property
    def names(self) -> Collection[str]:
        return self.uids.keys()

    def on_event(self, event: RawEvent) -> None:
        metadata = event["object"]["metadata"]
        name, uid = metadata["name"], metadata.get("uid")
        count = len(self.uids)
        if event["type"] == "DELETED":
            if self.uids.get(name) == uid:
                self.uids.pop(name, None)
                if not self.is_selected or "deletionTimestamp" in metadata:
                    self.deleted.add(name)
        elif name in self.uids or self.accepts(name):
            self.uids[name] = uid
        if self.is_listed and len(self.uids) != count:
            self.notify()

    def on_listed(self) -> None:
        self.is_listed = True
        self.notify()

    async def drain(self) -> None:
        pass


class ResourceObserver:
    """Discovers the resources: at the start, and when custom resources come and go."""

    def __init__(
        self,
        *,
        client: Client,
        settings: OperatorSettings,
        registry: OperatorRegistry,
        insights: Insights,
    ) -> None:
        self._client = client
        self._settings = settings
        self._groups = _get_groups(registry.selectors)
        self._insights = insights
        self._wakeup = asyncio.Event()
        self._definitions = Definitions(notify=self._revise, look=FieldChecker(registry).look)
        self._doubts = 0
        self._complaints: dict[str, str] = {}
        self._failure: str | None = None

    def include(self, groups: Collection[str]) -> None:
        """Discover these API groups, too. Call this before :meth:`run`."""
        if self._groups is not None:
            self._groups = {*self._groups, *groups}

    def doubt(self) -> None:
        """Scan again soon, as the discovered resources differ from the real ones."""
        self._doubts += 1
        delay = min(FIRST_DOUBT_DELAY * 2 ** min(self._doubts - 1, 20), BROKEN_GROUPS_DELAY)
        asyncio.get_running_loop().call_later(jittered(delay), self._wakeup.set)

    def _revise(self) -> None:
        self._doubts = 0
        self._wakeup.set()

    async def run(self) -> None:
        """Discover resources for as long as the operator runs.

        Raises the errors of the first discovery if there is no API, or if it rejects the
        credentials. A refusal to list the resources is not raised: it can be permitted later.
        """
        broken = await self._discover_first()
        watcher: asyncio.Task[None] | None = None
        if not self._settings.scanning.disabled:
            watcher = asyncio.create_task(self._watch(), name="kopf-crd-watcher")
        try:
            while True:
                await self._wait(watcher, BROKEN_GROUPS_DELAY if broken else None)
                try:
                    broken = await self._discover()
                except APIError as e:
                    self._complain(e)
                    broken = True
        finally:
            if watcher is not None:
                watcher.cancel()
                await asyncio.wait([watcher])

    async def _wait(self, watcher: asyncio.Task[None] | None, timeout: float | None) -> None:
        waiter = asyncio.create_task(self._wakeup.wait())
        pool: set[asyncio.Task[object]] = {waiter} if watcher is None else {waiter, watcher}
        try:
            await asyncio.wait(
                pool,
                timeout=None if timeout is None else jittered(timeout),
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            waiter.cancel()
        if watcher is not None and watcher.done():
            await watcher  # raise its error: without it, new resources would go unnoticed
        self._wakeup.clear()

    async def _watch(self) -> None:
        if not await _is_permitted(self._client, CRDS, "new custom resources are not noticed"):
            await _until_permitted(self._client, CRDS)
        await _reflect_forever(
            Reflector(self._client, CRDS, None, settings=self._settings, sink=self._definitions)
        )

    async def _discover_first(self) -> bool:
        backoff = Backoff(FIRST_DOUBT_DELAY, limit=BROKEN_GROUPS_DELAY)
        while True:
            try:
                return await self._discover()
            except APIUnauthorizedError:
                raise
            except APIClientError as e:
                self._complain(e)
            await asyncio.sleep(backoff.advance())

    def _complain(self, error: APIError) -> None:
        """Warn when the whole discovery fails; once while it fails in the same way."""
        is_known, self._failure = self._failure == str(error), str(error)
        level = logging.DEBUG if is_known else logging.WARNING
        text = "The resources of the cluster cannot be discovered, will be retried"
        logger.log(level, f"{text}: {error}{hint_at_role(error)}")

    async def _discover(self) -> bool:
        """Scan the cluster; return whether some API groups must be scanned again."""
        found = await scan(self._client, groups=self._groups)
        self._failure = None
        for group, error in found.broken_groups.items():
            if self._complaints.get(group) != str(error):
                logger.warning(
                    f"The API group {group!r} cannot be discovered, so its resources "
                    f"are not served until it recovers: {error}{hint_at_role(error)}"
                )
        self._complaints = {group: str(exc) for group, exc in found.broken_groups.items()}
        kept = {res for res in self._insights.resources if res.group in found.broken_groups}
        resources = found.resources | kept
        if resources != self._insights.resources:
            self._doubts = 0
        self._insights.set_resources(resources, found.broken_groups)
        if not self._definitions.agree_with(self._insights.resources, self._groups):
            self.doubt()
        return bool(found.broken_groups)


class NamespaceObserver:
    """Watches which namespaces match the patterns."""

    def __init__(
        self,
        *,
        client: Client,
        settings: OperatorSettings,
        patterns: Collection[NamespacePattern],
        insights: Insights,
    ) -> None:
        self._client = client
        self._settings = settings
        self._patterns = patterns
        self._insights = insights
        self._selector = settings.scanning.namespace_selector
        self._specific = select_specific_namespaces(patterns) if self._selector is None else set()
        self._is_reported = False
        self._sink = _Sink(
            notify=self._revise,
            accepts=self._matches,
            is_selected=self._selector is not None,
            deleted=insights.deleted,
        )

    async def run(self) -> None:
        """Watch the namespaces for as long as the operator runs, unless it is pointless or
        forbidden.
        """
        if self._settings.scanning.disabled:
            if self._selector is not None:
                raise SettingError(
                    "settings.scanning.namespace_selector needs the namespaces to be watched: "
                    "it cannot be used with settings.scanning.disabled = True."
                )
            self._insights.set_namespaces({*self._specific})
            await asyncio.Event().wait()
        if not await _is_permitted(self._client, NAMESPACES, self._describe_restriction()):
            self._insights.set_namespaces({*self._specific})
            await _until_permitted(self._client, NAMESPACES)
        reflector = Reflector(
            self._client,
            NAMESPACES,
            None,
            settings=self._settings,
            sink=self._sink,
            selector=self._selector,
        )
        await _reflect_forever(reflector)

    def _describe_restriction(self) -> str | None:
        """The restriction without the rights to list namespaces; ``None`` if there is none."""
        if self._selector is not None:
            return f"no namespaces are served (their labels are not known: {self._selector!r})"
        patterns = [repr(p) for p in self._patterns if p not in self._specific]
        if not patterns:
            return None
        ignored = f"(these patterns are ignored: {', '.join(patterns)})"
        return f"only the namespaces with exact names are served {ignored}"

    def _report_absent(self) -> None:
        """Log the absent namespaces: they can come later, or there is a typo."""
        absent = {*self._specific}.difference(self._sink.names)
        if absent and not self._is_reported:
            names = ", ".join(repr(name) for name in sorted(absent))
            logger.warning(
                f"There are no such namespaces: {names}. They will be served when they are created."
            )
        self._is_reported = True

    def _matches(self, name: str) -> bool:
        return any(match_namespace(name, pattern) for pattern in self._patterns)

    def _revise(self) -> None:
        self._report_absent()
        names = {*self._sink.names}
        if self._insights.namespaces != names or not names:
            self._insights.set_namespaces(names)


async def _reflect_forever(reflector: Reflector) -> None:
    """Watch, even if the kind is not served for some time, e.g. in upgrades."""
    backoff = Backoff(FIRST_DOUBT_DELAY, limit=BROKEN_GROUPS_DELAY)
    while True:
        try:
            await reflector.run()
        except APINotFoundError as e:
            level = logging.DEBUG if backoff.failures else logging.WARNING
            logger.log(level, f"It is not served by the cluster for now, will be retried: {e}")
        await asyncio.sleep(backoff.advance())


async def _is_permitted(client: Client, resource: Resource, consequence: str | None) -> bool:
    """Whether the objects may be listed. Other errors are left to the watch-stream."""
    try:
        await _try_listing(client, resource)
    except APIForbiddenError as e:
        if consequence is None:
            logger.debug(f"{resource} cannot be listed & watched, and need not be: {e}")
            return False
        logger.warning(
            f"Not enough permissions to list & watch {resource} cluster-wide; so, {consequence} "
            f"until they are granted. If it is meant so, set settings.scanning.disabled = True. "
            f"The reason: {e}{hint_at_role(e)}"
        )
        return False
    except APINotFoundError:
        return False
    except APIError:
        return True
    return True


async def _until_permitted(client: Client, resource: Resource) -> None:
    """Wait for the permission, and check it ever more rarely: it can be granted at any time."""
    backoff = Backoff(FIRST_DOUBT_DELAY, limit=PERMISSIONS_DELAY)
    while True:
        await asyncio.sleep(backoff.advance())
        try:
            await _try_listing(client, resource)
        except APIError as e:
            logger.debug(f"It is still not possible to list {resource} cluster-wide: {e}")
        else:
            logger.info(f"It is possible to list & watch {resource} cluster-wide now.")
            return


async def _try_listing(client: Client, resource: Resource) -> None:
    await client.get(resource.get_url(), params={"limit": "1"})


def _get_groups(selectors: Collection[Selector]) -> Collection[str] | None:
    """The API groups to scan; ``None`` for all of them, if some handlers need all."""
    groups = {selector.group for selector in selectors}
    return None if None in groups else {group for group in groups if group is not None}
