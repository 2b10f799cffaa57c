"""Refusals by RBAC: all missing permissions are logged at once, with the rules to add."""

import asyncio
import logging
from collections.abc import Callable, Collection

from kopf_cogs.clients.errors import APIForbiddenError
from kopf_cogs.clients.rights import Right, find_missing, parse_refusal, suggest_rules
from kopf_cogs.clients.session import Client
from kopf_cogs.structs.resources import Resource
from kopf_core.intents.registries import ResourceHandlers
from kopf_core.reactor.streams.informers import StreamKey

logger = logging.getLogger("kopf.reactor.rights")

PAUSE = 0.5
"""How long (in seconds) to wait for refusals of other kinds: they usually come together."""


def list_rights(resource: Resource, handlers: ResourceHandlers) -> Collection[Right]:
    """The permissions that are needed to serve the resource."""
    group, plural = resource.group, resource.plural
    verbs = ["list", "watch"]
    if handlers.requires_patching:
        verbs += ["get", "patch"]
    rights = [Right(group, plural, verb) for verb in verbs]
    if handlers.requires_patching and "status" in resource.subresources:
        rights.append(Right(group, f"{plural}/status", "patch"))
    return rights


class Refusals:
    """Logs which kinds may not be watched, and which of their needed permissions are missing."""

    def __init__(
        self, client: Client, find_handlers: Callable[[Resource], ResourceHandlers]
    ) -> None:
        self._client = client
        self._find_handlers = find_handlers
        self._refused: dict[StreamKey, APIForbiddenError] = {}
        self._telling: asyncio.Task[None] | None = None

    def add(self, stream: StreamKey, exc: APIForbiddenError) -> None:
        """Log the refusal soon, together with others of the same moment."""
        kind = StreamKey(stream.resource, stream.namespace)  # its objects can have own streams
        self._refused[kind] = exc
        if self._telling is None:
            self._telling = asyncio.create_task(self._tell_soon(), name="kopf-refusals")

    async def close(self) -> None:
        """Log the remaining refusals at once, with no more requests for them."""
        if self._telling is not None:
            self._telling.cancel()
            await asyncio.wait([self._telling])
        if self._refused:
            refusals = map(parse_refusal, self._refused.values())
            self._tell(self._refused, [right for right in refusals if right is not None])

    async def _tell_soon(self) -> None:
        await asyncio.sleep(PAUSE)
        asked: dict[StreamKey, Collection[Right]] = {}
        while streams := [stream for stream in self._refused if stream not in asked]:
            found = await asyncio.gather(*map(self._find_missing, streams))
            asked |= dict(zip(streams, found, strict=True))
        refused, self._refused = self._refused, {}
        self._telling = None
        self._tell(refused, [right for rights in asked.values() for right in rights])

    async def _find_missing(self, stream: StreamKey) -> Collection[Right]:
        rights = list_rights(stream.resource, self._find_handlers(stream.resource))
        missing = await find_missing(self._client, rights, stream.namespace)
        refused = parse_refusal(self._refused[stream])
        return missing or ([] if refused is None else [refused])

    def _tell(
        self, refused: dict[StreamKey, APIForbiddenError], missing: Collection[Right]
    ) -> None:
        titles = [
            f"{stream.resource} in {stream.namespace!r}"
            if stream.namespace
            else f"{stream.resource} cluster-wide"
            for stream in refused
        ]
        exc = next(iter(refused.values()))
        what = titles[0] if len(titles) == 1 else f"{len(titles)} kinds ({', '.join(titles)})"
        hint = suggest_rules([*dict.fromkeys(missing)], exc) if missing else ""
        logger.warning(f"Cannot watch {what}, will retry until permitted: {exc}{hint}")
