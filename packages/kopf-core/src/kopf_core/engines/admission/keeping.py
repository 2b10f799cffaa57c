"""One object of the cluster is kept in line with the served webhooks: the common part.

Kopf notices changes by others at once if it can watch the object, or else in a minute.
"""

import abc
import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any

from kopf_cogs.clients.errors import APIError, APINotFoundError
from kopf_cogs.clients.reflector import Reflector
from kopf_cogs.clients.rights import hint_at_role
from kopf_cogs.clients.session import Client
from kopf_cogs.structs.bodies import RawEvent
from kopf_cogs.structs.resources import Resource
from kopf_core.actions.retrying import ExponentialBackoff

logger = logging.getLogger("kopf._core.engines.admission")

POLLING_INTERVAL = 60.0
"""How often (in seconds) Kopf restores the object, and renews its mark there."""

RETRY = 1.0
"""The first delay (in seconds) before the next attempt after a failure; later ones are longer."""

Revision = tuple[str | None, int | None]
"""The part of the object that differs when the webhooks differ; without labels and marks."""


def get_revision(meta: Mapping[str, Any]) -> Revision:
    return meta.get("uid"), meta.get("generation")


class Keeper(abc.ABC):
    """Keeps one object as wanted: applies it when woken up, and from time to time."""

    verbs: tuple[str, ...] = ("patch",)
    """The verbs that the role of the operator must permit, besides watching."""

    def __init__(self, client: Client, resource: Resource, name: str) -> None:
        self._client = client
        self._resource = resource
        self._name = name
        self._revision: Revision | None = None
        self._wakeup = asyncio.Event()
        self._is_woken = True
        self._complaint: str | None = None
        self._backoff = ExponentialBackoff(initial=RETRY, maximum=POLLING_INTERVAL)

    async def run(self) -> None:
        """Keep the object for as long as the operator runs."""
        await self._wakeup.wait()
        watcher = asyncio.create_task(self._watch()) if await self._is_watchable() else None
        try:
            await self._keep()
        finally:
            if watcher is not None:
                watcher.cancel()
                await asyncio.wait([watcher])

    async def _keep(self) -> None:
        failures = 0
        while True:
            self._wakeup.clear()
            try:
                await self._apply()
                failures, self._complaint = 0, None
                delay = self._get_interval()
            except APIError as e:
                self._complain(e)
                delay = self._backoff(failures)
                failures += 1
            self._is_woken = True
            try:
                async with asyncio.timeout(delay):
                    await self._wakeup.wait()
            except TimeoutError:
                self._is_woken = False

    @abc.abstractmethod
    async def _apply(self) -> None:
        """Bring the object to the wanted state."""

    def _get_interval(self) -> float:
        return POLLING_INTERVAL

    async def _is_watchable(self) -> bool:
        return True

    async def _watch(self) -> None:
        sink = _ObjectSink(self._name, self._on_change)
        while True:
            try:
                await Reflector(self._client, self._resource, None, sink=sink, logger=logger).run()
            except APINotFoundError:  # the reflector itself retries after all other errors
                await asyncio.sleep(POLLING_INTERVAL)

    def _on_change(self, revision: Revision | None) -> None:
        if revision != self._revision:
            self._wakeup.set()

    @abc.abstractmethod
    def _explain(self, error: APIError) -> str:
        """Explain which work is not done because of the error."""

    def _complain(self, error: APIError, advice: str = "") -> None:
        """Log the problem, but only once while it lasts."""
        hint = hint_at_role(error, also=self.verbs)
        text = f"{(self._explain(error) + hint).rstrip('.')}. Will retry.{advice}"
        logger.log(logging.DEBUG if text == self._complaint else logging.WARNING, text)
        self._complaint = text


class _ObjectSink:
    """Reports the changes of one object. A deletion is reported as the absence of a revision."""

    def __init__(self, name: str, notify: Callable[[Revision | None], None]) -> None:
        self._name = name
        self._notify = notify
        self._is_present = False

    def on_event(self, event: RawEvent) -> None:
        meta = event["object"]["metadata"]
        if meta.get("name") == self._name:
            self._is_present = event["type"] != "DELETED"
            self._notify(get_revision(meta) if self._is_present else None)

    def on_listed(self) -> None:
        if not self._is_present:  # it was deleted before the list
            self._notify(None)

    async def drain(self) -> None:
        pass
