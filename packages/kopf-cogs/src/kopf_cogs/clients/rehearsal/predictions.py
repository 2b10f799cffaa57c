"""Predictions: the next state of an object, though its former states are not stored.

The first change of an object is sent as it is. The next ones cannot be sent: the server would apply
them to the stored state. So they are applied here to the predicted state. Then the server checks
the sum of all changes: one patch of the stored object, or the creation of the whole object.
"""

import copy
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from kopf_cogs.clients import errors
from kopf_cogs.clients.rehearsal.addresses import Address
from kopf_cogs.clients.rehearsal.overlay import Entry, Obj
from kopf_cogs.structs import merging
from kopf_cogs.structs.bodies import SET_BY_SERVERS

MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"

Send = Callable[..., Awaitable[Any]]
"""Sends a request to the server, which checks the change but does not store it."""


class Writing:
    """One write: the request that changes the object, with all its options."""

    def __init__(
        self,
        send: Send,
        address: Address,
        method: str,
        payload: Any,
        options: Mapping[str, Any],
    ) -> None:
        super().__init__()
        self.address = address
        self._send = send
        self._method = method
        self._payload = payload
        self._options = options

    @property
    def content_type(self) -> str:
        return str(self._options.get("content_type", "application/json"))

    async def send(self) -> Any:
        """Send the request as it is."""
        return await self._send(
            self._method, self.address_url, payload=self._payload, **self._options
        )

    @property
    def address_url(self) -> str:
        sub = f"/{self.address.subresource}" if self.address.subresource else ""
        return f"{self.address.url}{sub}"

    async def predict(self, entry: Entry, *, has_status: bool) -> Obj:
        """The next state of the object; the object must have a current state.

        ``has_status`` tells whether the status is changed only by its own requests.
        """
        current = entry.current or {}
        if self.content_type == APPLY_PATCH or self.content_type.startswith("application/str"):
            return self._carry_over(entry, await self.send())
        wanted = self._make(current)
        self._check_identity(current, wanted)
        if not has_status:
            return await self._check(entry, wanted)
        if self.address.subresource == "status":
            wanted = {**current, "status": wanted.get("status")}
        elif "status" in current:
            wanted = {**wanted, "status": current["status"]}
        else:
            wanted = {key: value for key, value in wanted.items() if key != "status"}
        return await self._check(entry, wanted)

    def _make(self, current: Obj) -> Obj:
        if self._method == "PUT":
            return copy.deepcopy(self._payload)
        try:
            is_merging = self.content_type == MERGE_PATCH
            change = merging.merge if is_merging else merging.modify
            return change(current, self._payload)  # type: ignore[no-any-return]
        except merging.PatchMismatch as e:
            raise make_error(422, "Invalid", self.address, f"the patch does not fit: {e}") from e

    def _check_identity(self, current: Obj, wanted: Obj) -> None:
        """Check the uid and the version as servers do: if sent, they are conditions."""
        known, said = current["metadata"], wanted.get("metadata") or {}
        for field in ("uid", "resourceVersion"):
            if said.get(field) not in (None, known.get(field)):
                text = f"Precondition failed: {field} in precondition: {said[field]}"
                raise make_error(409, "Conflict", self.address, text)

    @property
    def _purpose(self) -> str:
        params = self._options.get("params") or {}
        return f"{params.get('fieldManager')} {self.address.subresource}"

    def remember(self, entry: Entry, reply: Obj) -> None:
        """Keep the reply to a server-side apply, to compare the next reply with it."""
        entry.applied[self._purpose] = reply

    def _carry_over(self, entry: Entry, reply: Obj) -> Obj:
        """Merge the difference of the two latest replies to this manager into the current state."""
        former = entry.applied.get(self._purpose, entry.base)
        self.remember(entry, reply)
        if former is None or entry.current is None:
            return reply
        former = {**former, "metadata": {**former["metadata"], "uid": reply["metadata"]["uid"]}}
        new = merging.merge(entry.current, merging.make_merge_patch(former, reply))
        if entry.base is None:
            new["metadata"] |= {
                field: entry.current["metadata"][field]
                for field in ("uid", "creationTimestamp")
                if field in entry.current["metadata"]
            }
        return new  # type: ignore[no-any-return]

    async def _check(self, entry: Entry, wanted: Obj) -> Obj:
        """Have the server check and complete the wanted state, as a change of the stored object."""
        if entry.base is None:
            return await self._check_new(entry, wanted)
        part = "status" if self.address.subresource == "status" else None
        patch = merging.make_merge_patch(_without_marks(entry.base), _without_marks(wanted))
        if part is not None:
            patch = {key: value for key, value in patch.items() if key == part}
        reply = await self._send(
            "PATCH",
            self.address_url,
            payload=patch,
            content_type=MERGE_PATCH,
            params=self._options.get("params"),
        )
        if part is not None:
            return {**wanted, part: reply[part]} if part in reply else wanted
        reply = _keep_lifecycle(wanted, reply)
        keeps = "status" in wanted and reply.get("status") != wanted["status"]
        return {**reply, "status": wanted["status"]} if keeps else reply

    async def _check_new(self, entry: Entry, wanted: Obj) -> Obj:
        if self.address.subresource is not None or entry.current is None:
            return wanted  # the server has no object to check the status of
        known = entry.current["metadata"]
        kept = {key: known[key] for key in ("uid", "creationTimestamp") if key in known}
        payload = {key: value for key, value in wanted.items() if key != "status"}
        metadata = {
            key: val for key, val in wanted["metadata"].items() if key not in SET_BY_SERVERS
        }
        payload["metadata"] = metadata
        reply = await self._send(
            "POST", self.address.list_url, payload=payload, params=self._options.get("params")
        )
        status = {"status": wanted["status"]} if "status" in wanted else {}
        reply = _keep_lifecycle(wanted, reply)
        return {**reply, **status, "metadata": {**reply["metadata"], **kept}}


_LIFECYCLE = frozenset({"deletionTimestamp", "deletionGracePeriodSeconds"})


def _keep_lifecycle(wanted: Obj, reply: Obj) -> Obj:
    """The reply with the marks of the predicted deletion: the server does not know them."""
    marks = {key: val for key, val in wanted["metadata"].items() if key in _LIFECYCLE}
    return {**reply, "metadata": {**reply["metadata"], **marks}}


def _without_marks(body: Mapping[str, Any]) -> dict[str, Any]:
    """The object without the metadata that servers set for themselves."""
    metadata = {key: value for key, value in body["metadata"].items() if key not in SET_BY_SERVERS}
    return {**body, "metadata": metadata}


def make_error(
    code: int, reason: str, address: Address, message: str | None = None
) -> errors.APIStatusError:
    """The error that the server would reply with, if it knew the predicted states."""
    name = address.name or ""
    text = message or {
        "NotFound": f'{address.plural} "{name}" not found',
        "AlreadyExists": f'{address.plural} "{name}" already exists',
    }.get(reason, reason)
    payload = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": text,
        "reason": reason,
        "code": code,
        "details": {"name": name, "kind": address.plural},
    }
    return errors.make_status_error(payload, status=code)
