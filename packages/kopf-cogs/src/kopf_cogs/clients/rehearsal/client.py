"""The client of a rehearsal: it commits nothing, but goes on as if it did."""

import asyncio
import contextlib
import copy
import uuid
from collections.abc import AsyncIterator, Mapping
from typing import Any, cast

import aiohttp

from kopf_cogs.aiokits.surroundings import get_chance
from kopf_cogs.clients import errors, session
from kopf_cogs.clients.rehearsal import overlay, predictions, replays
from kopf_cogs.clients.rehearsal.addresses import Address, ObjectKey, parse_address

DRY_RUN: Mapping[str, str] = {"dryRun": "All"}


class RehearsalClient(session.Client):
    """A client whose writes are checked by the server, but are not stored there.

    It reads, lists, and watches the objects as if they were stored: see :class:`.Overlay`. Other
    clients do not see that: the controllers of the cluster do nothing for the absent objects.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.overlay = overlay.Overlay()
        self._locks: dict[ObjectKey, asyncio.Lock] = {}
        self._kinds_with_status: dict[str, bool] = {}

    async def request(self, method: str, url: str, **options: Any) -> Any:
        params = dict(options.pop("params", None) or {})
        address = parse_address(url)
        if method == "GET":
            return await self._read(address, url, params, options)
        if address is None:
            return await super().request(method, url, params=params, **options)
        options["params"] = {**params, **DRY_RUN}
        payload = options.pop("payload", None)
        writing = predictions.Writing(super().request, address, method, payload, options)
        if address.subresource not in (None, "status"):
            return await writing.send()
        if address.name is None:
            return await self._create(writing, payload)
        async with self._locks.setdefault(address.key, asyncio.Lock()):
            if method == "DELETE":
                return await self._delete(writing, payload or {})
            return await self._change(writing)

    @contextlib.asynccontextmanager
    async def stream(self, url: str, **options: Any) -> AsyncIterator[aiohttp.ClientResponse]:
        address = parse_address(url)
        if address is None:
            async with super().stream(url, **options) as response:
                yield response
            return
        params = dict(options.pop("params", None) or {})
        reader = overlay.make_reader(address, params)
        if self.overlay.is_minted(params.get("resourceVersion")):
            params["resourceVersion"] = self.overlay.get_real_version(reader)
        if params.get("sendInitialEvents") == "true":
            self.overlay.rewind(reader)
        async with super().stream(url, params=params, **options) as response:
            replay = replays.Replay(response.content, self.overlay, reader)
            try:
                yield cast(aiohttp.ClientResponse, replays.ReplayedResponse(replay))
            finally:
                await replay.close()

    async def _read(
        self, address: Address | None, url: str, params: dict[str, str], options: dict[str, Any]
    ) -> Any:
        if address is None or address.subresource not in (None, "status"):
            return await super().request("GET", url, params=params, **options)
        if address.name is not None:
            entry = self.overlay.get(address.key)
            if entry is None:
                return await super().request("GET", url, params=params, **options)
            if entry.current is None:
                raise predictions.make_error(404, "NotFound", address)
            return copy.deepcopy(entry.current)
        page = await super().request("GET", url, params=params, **options)
        if isinstance(page, dict) and isinstance(page.get("items"), list):
            metadata = page.get("metadata") or {}
            reader = overlay.make_reader(address, params)
            self.overlay.see_list_version(reader, metadata.get("resourceVersion"))
            page["items"] = self.overlay.cover(
                reader,
                page["items"],
                is_first="continue" not in params,
                is_last=not metadata.get("continue"),
            )
        return page

    async def _create(self, writing: predictions.Writing, payload: Any) -> Any:
        address = writing.address
        name = (payload.get("metadata") or {}).get("name") if isinstance(payload, dict) else None
        named = address.named(name or "")
        known = self.overlay.get(named.key) if name else None
        if known is not None and known.current is not None:
            raise predictions.make_error(409, "AlreadyExists", named)
        try:
            reply = await writing.send()
        except errors.APIConflictError:
            if known is None:
                raise
            reply = self._imitate(payload)  # it exists, but would be deleted by now
        if not _is_object(reply):
            return reply
        key = address.named(reply["metadata"]["name"]).key
        entry = known or overlay.Entry(base=None, current=None)
        return copy.deepcopy(self.overlay.put(key, entry, reply))

    async def _change(self, writing: predictions.Writing) -> Any:
        address = writing.address
        entry = self.overlay.get(address.key)
        if entry is not None and entry.current is not None:
            has_status = await self._has_status(address)
            new = await writing.predict(entry, has_status=has_status)
        elif entry is not None and writing.content_type != predictions.APPLY_PATCH:
            raise predictions.make_error(404, "NotFound", address)
        else:
            base = None if entry is not None else await self._get_base(address)
            entry = entry or overlay.Entry(base=base, current=base)
            new = await self._apply_first(writing, entry)
        if not _is_object(new):
            return new
        return copy.deepcopy(self._finish(address, entry, new))

    async def _apply_first(self, writing: predictions.Writing, entry: overlay.Entry) -> Any:
        reply = await writing.send()
        if writing.content_type == predictions.APPLY_PATCH and _is_object(reply):
            writing.remember(entry, reply)
        return reply

    async def _delete(self, writing: predictions.Writing, payload: Mapping[str, Any]) -> Any:
        address = writing.address
        entry = self.overlay.get(address.key)
        if entry is not None and entry.current is None:
            raise predictions.make_error(404, "NotFound", address)
        if entry is None:
            base = await self._get_base(address)
            reply = await writing.send()
            entry = overlay.Entry(base=base, current=base)
        elif entry.base is not None:
            reply = await writing.send()
        else:
            reply = None
        if entry.current is None:
            return reply
        uid = (payload.get("preconditions") or {}).get("uid")
        if uid is not None and uid != entry.current["metadata"].get("uid"):
            text = "Precondition failed: UID in precondition"
            raise predictions.make_error(409, "Conflict", address, text)
        metadata = {"deletionTimestamp": self._now(), **entry.current["metadata"]}
        gone = self._finish(address, entry, {**entry.current, "metadata": metadata})
        return reply if reply is not None else copy.deepcopy(gone)

    def _finish(self, address: Address, entry: overlay.Entry, new: dict[str, Any]) -> Any:
        """Keep the new state; or the absence if the object is deleted and has no finalizers."""
        metadata = new["metadata"]
        is_gone = metadata.get("deletionTimestamp") and not metadata.get("finalizers")
        kept = self.overlay.put(address.key, entry, None if is_gone else new)
        return new if is_gone else kept

    async def _get_base(self, address: Address) -> Any:
        """The stored object; read from a list, if only the listing is permitted."""
        try:
            base = await super().request("GET", address.url)
        except errors.APINotFoundError:
            return None
        except errors.APIForbiddenError:
            params = {"fieldSelector": f"metadata.name={address.name}"}
            page = await super().request("GET", address.list_url, params=params)
            common = {"apiVersion": page["apiVersion"], "kind": page["kind"].removesuffix("List")}
            base = next((common | item for item in page["items"]), None)
        if not _is_object(base):
            return None
        self.overlay.see_version(base["metadata"].get("resourceVersion"))
        return base

    async def _has_status(self, address: Address) -> bool:
        """Whether the status is a subresource of this kind."""
        if address.collection not in self._kinds_with_status:
            found = await super().request("GET", address.root)
            names = {one.get("name") for one in (found or {}).get("resources") or ()}
            self._kinds_with_status[address.collection] = f"{address.plural}/status" in names
        return self._kinds_with_status[address.collection]

    def _imitate(self, payload: Any) -> dict[str, Any]:
        """The reply of the server, as it would be if the object did not exist there already."""
        uid = uuid.UUID(int=get_chance().getrandbits(128), version=4)
        metadata = {"uid": f"{uid}", "creationTimestamp": self._now()}
        return {**payload, "metadata": {**metadata, **payload["metadata"]}}

    def _now(self) -> str:
        return self.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")


def _is_object(body: Any) -> bool:
    metadata = body.get("metadata") if isinstance(body, dict) else None
    return isinstance(metadata, dict) and "name" in metadata and body.get("kind") != "Status"
