"""Drains: a shard of a ring gives objects away, and tells the sharder when nothing works on them.

Objects that are drained together are left together. Later drains do not wait for them.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping

from kopf_cogs.clients.errors import APIError, APINotFoundError
from kopf_cogs.clients.patching import JSON_PATCH
from kopf_cogs.clients.retries import Backoff
from kopf_cogs.clients.rights import hint_at_role
from kopf_cogs.clients.session import Client
from kopf_cogs.structs.keys import ObjectKey
from kopf_core.engines.leasing.fences import FencedError
from kopf_core.engines.sharding.rings import Leaving, RingShare

logger = logging.getLogger("kopf.sharding")

RETRYING = 1.0
"""How long (in seconds) until a failed request is sent again; then, twice as long each time."""

LetGo = Callable[[Callable[[ObjectKey], bool]], Awaitable[None]]
"""Wait until nothing works on the objects that are not ours, and forget these objects."""


class Drains:
    """Leaves the objects that the sharder wants back. The client must be fenced."""

    def __init__(self, share: RingShare, client: Client, let_go: LetGo) -> None:
        self._share = share
        self._client = client
        self._let_go = let_go

    async def run(self) -> None:
        """Leave objects for as long as the shard has its Lease."""
        async with asyncio.TaskGroup() as group:
            while True:
                batch = dict([await self._share.left.get()])
                while not self._share.left.empty():
                    batch |= [self._share.left.get_nowait()]
                group.create_task(self._leave(batch))

    async def _leave(self, batch: Mapping[ObjectKey, Leaving]) -> None:
        leaving = self._share.leaving  # objects that have become ours again are not in it
        await self._let_go(lambda key: key not in batch or leaving.get(key) is not batch[key])
        await asyncio.gather(*(self._finish(key, one) for key, one in batch.items()))

    async def _finish(self, key: ObjectKey, one: Leaving) -> None:
        if one.is_drained:
            await self._acknowledge(key, one)
        if self._share.leaving.get(key) is one:
            del self._share.leaving[key]
            for taker, event in one.latest.items():
                taker.resume(key, event)

    async def _acknowledge(self, key: ObjectKey, one: Leaving) -> None:
        """Tell the sharder that the object is left, unless other clients have changed labels."""
        metadata, backoff, failures = one.body["metadata"], Backoff(RETRYING), 0
        url = one.resource.get_url(namespace=metadata.get("namespace"), name=metadata["name"])
        while self._is_wanted(key, one):
            try:
                patch = self._share.make_release(one.body)
                await self._client.patch(url, patch, content_type=JSON_PATCH)
                return
            except (APINotFoundError, FencedError):
                return
            except APIError as e:
                failures += 1  # the first one is usual: the labels have changed meanwhile
                text = f"Cannot give {url} back to the sharder: {e}{hint_at_role(e)}"
                logger.log(logging.WARNING if failures == 2 else logging.DEBUG, text)
            await asyncio.sleep(backoff.advance())

    def _is_wanted(self, key: ObjectKey, one: Leaving) -> bool:
        """Whether the sharder still waits for this answer, as far as the stream has told."""
        return self._share.leaving.get(key) is one and all(
            event["type"] != "DELETED" and self._share.is_drained(event["object"])
            for event in one.latest.values()
        )
