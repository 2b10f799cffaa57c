"""Patching of objects: as few requests as possible for all the changes."""

import asyncio
import logging
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias, cast

from kopf_cogs.aiokits.surroundings import get_chance
from kopf_cogs.clients import errors, session
from kopf_cogs.structs import bodies, dicts, diffs, jsonpatch, patches, resources, secrecy
from kopf_cogs.structs.conditions import find_planned, rebase_conditions

Logger: TypeAlias = logging.Logger | logging.LoggerAdapter[Any]

logger = logging.getLogger(__name__)

MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"

MAX_ATTEMPTS = 5
"""How many times to apply the functions to ever fresher bodies of an object that changes a lot."""

MAX_CONFLICTS = 4
"""How many times to merge into the known version only, if other operators can handle the object.
Then, the fields are merged into any version: busy objects must get their patches, too."""

CONFLICT_DELAY = 0.05
"""In seconds: the delay after the second conflict in a row; then it grows. With a jitter."""

_IDENTITY = frozenset({"uid", "resourceVersion"})
"""The fields that identify the object and its state; every reply with the object has these."""


class PatchResult(NamedTuple):
    """How the object has been patched."""

    body: bodies.RawBody | None
    """The object after the last of the requests; ``None`` if there were none, or it is gone."""

    remaining: patches.Patch
    """The functions that failed as the object has changed meanwhile: for the fresher body."""

    refusal: str | None = None
    """The refusal of the rest by the server. Conflicts and denials by webhooks look alike."""

    gone: bool = False
    """The object does not exist anymore."""

    inconsistencies: diffs.Diff = diffs.EMPTY
    """The requested fields that the object lacks, e.g. pruned by the schema: wishes vs. facts.

    They are not logged here: it depends on the wishes whether they are worth a warning.
    """


class _ObjectGone(Exception):
    """There is no such object anymore; or there is another one with the same name."""


class _ObjectChanged(Exception):
    """The object is not what it was when the patch was calculated."""


class _Target(NamedTuple):
    """The object to be patched."""

    client: session.Client
    resource: resources.Resource
    namespace: str | None
    name: str
    uid: str | None
    logger: Logger

    async def merge(
        self,
        payload: dict[str, Any],
        subresource: str | None,
        version: str | None = None,
    ) -> bodies.RawBody:
        """Apply the fields; if the version is specified, then only to this version."""
        wish = payload
        shown = secrecy.Shown(self.resource, payload)
        self.logger.debug("Merge-patching the %s with: %s", subresource or "resource", shown)
        identity = {"uid": self.uid} if self.uid and subresource is None else {}
        if version is not None:
            identity["resourceVersion"] = version
        if identity:
            payload = {**payload, "metadata": {**(payload.get("metadata") or {}), **identity}}
        try:
            body = await self._send(payload, MERGE_PATCH, subresource)
        except (errors.APIConflictError, errors.APIUnprocessableError) as e:
            if self.uid and _is_another_object(e):
                raise _ObjectGone from e
            raise
        return self._verify(body) if self._is_object(body) else await self._get_merged(wish, body)

    async def merge_in_time(
        self, payload: dict[str, Any], subresource: str | None, known: Any
    ) -> bodies.RawBody:
        """Apply the fields, unless the request is so late that the next leader has gone on.

        When this operator does not lead anymore, the next leader changes the objects. The server
        refuses the later requests of this operator, as their version is not the latest one.
        While this operator leads, a conflict means that another client has changed the object.
        So the object is read again, and the conditions are rebased: they must not replace newer
        conditions. The API ignores the uid in the requests for the status. There, the version
        stands for the uid: the reading notices another object with the same name.
        """
        for _ in range(MAX_CONFLICTS):
            version = _get_version(known)
            if version is None:
                break
            payload = rebase_conditions(payload, known)
            try:
                return await self.merge(payload, subresource, version)
            except errors.APIConflictError:
                known = await self.get_if_permitted()
                if _get_version(known) == version:
                    raise  # the change itself is wrong
        return await self.merge(rebase_conditions(payload, known), subresource)

    async def modify(self, ops: jsonpatch.JSONPatch, subresource: str | None) -> bodies.RawBody:
        shown = secrecy.Shown(self.resource, ops)
        self.logger.debug("JSON-patching the %s with: %s", subresource or "resource", shown)
        try:
            body = await self._send(ops, JSON_PATCH, subresource)
        except errors.APIConflictError as e:
            raise _ObjectChanged from e
        except errors.APIUnprocessableError as e:
            if e.causes:  # the object would be invalid, so its version was the expected one
                raise
            raise _ObjectChanged from e
        return self._verify(body) if self._is_object(body) else await self.get()

    async def _send(self, payload: object, content_type: str, subresource: str | None) -> Any:
        """Send the patch; to the object itself if the subresource was switched off meanwhile.

        For such a subresource, the server says that the object is absent. So the object is read.
        """
        url = self.resource.get_url(
            namespace=self.namespace, name=self.name, subresource=subresource
        )
        try:
            return await self.client.patch(url, payload, content_type=content_type)
        except errors.APIPatchReplyError:
            return None  # like an empty reply: the object will be read, and compared
        except errors.APINotFoundError as e:
            if not e.names(self.name):
                raise
            if subresource is None:
                raise _ObjectGone from e
        await self.get_if_permitted()
        return await self._send(payload, content_type, None)

    async def _get_merged(self, wish: Mapping[str, Any], reply: Any) -> bodies.RawBody:
        """Read the object if the reply is not the object; without a success, check the fields."""
        body = await self.get()
        if not _is_success(reply) and _lacks(wish, body):
            raise errors.APIResponseError(
                f"The response to the patch is not the object of {self.resource}, "
                f"and the object is not patched."
            )
        return body

    async def get(self) -> bodies.RawBody:
        """The object as it is now, right from the API."""
        url = self.resource.get_url(namespace=self.namespace, name=self.name)
        try:
            body = await self.client.get(url)
        except errors.APINotFoundError as e:
            if not e.names(self.name):
                raise
            raise _ObjectGone from e
        if not self._is_object(body):
            raise errors.APIResponseError(f"The response is not the object of {self.resource}.")
        return self._verify(body)

    async def get_if_permitted(self) -> bodies.RawBody | None:
        """The object as it is now; operators can do without the permission for this."""
        try:
            return await self.get()
        except errors.APIForbiddenError:
            return None

    def _is_object(self, body: Any) -> bool:
        """Whether it is an object of this kind: servers and proxies can reply with statuses."""
        metadata = body.get("metadata") if isinstance(body, dict) else None
        if not isinstance(metadata, dict) or not (metadata.keys() & _IDENTITY):
            return False
        if metadata.get("name") not in (None, self.name):
            return False
        return body.get("kind") in (None, self.resource.kind) or self.resource.kind is None

    def _verify(self, body: Any) -> bodies.RawBody:
        """Make sure that it is this object, and not another one with the same name."""
        uid = body["metadata"].get("uid")
        if self.uid and uid and uid != self.uid:
            raise _ObjectGone
        return cast(bodies.RawBody, body)


async def patch_object(
    client: session.Client,
    resource: resources.Resource,
    namespace: str | None,
    name: str,
    patch: patches.Patch,
    body: Mapping[str, Any] | bodies.RawBody | None = None,
    *,
    uid: str | None = None,
    logger: Logger = logger,
) -> PatchResult:
    """Apply the patch: its fields as merge-patches, its functions as JSON patches.

    If the status is a subresource, its fields are patched separately, so there are up to
    four requests; and none if there is nothing to change. The functions are called with copies
    of the freshest body: either of the response, or of the ``body`` if there were no requests.
    Their changes are applied only if that body is still the latest one.

    If the call is interrupted, the applied fields leave the ``patch``. So the patch has what
    remains to be sent.

    With ``uid``, another object with the same name, i.e. deleted and re-created meanwhile,
    is not touched. For the status as a subresource, this needs the ``body``, and the permission
    to get the object: the API ignores the uid there.

    Raises :class:`APIError`, except for absent objects: this is quiet. For Secrets, the errors
    do not have the server's explanations: those can quote the whole object.
    """
    if namespace is not None and resource.namespaced is False:
        namespace = None
    target = _Target(client, resource, namespace, name, uid, logger)
    try:
        return await _apply(target, patch, body)
    except _ObjectGone:
        return PatchResult(body=None, remaining=patches.Patch(), gone=True)
    except errors.APIStatusError as e:
        if not secrecy.is_secret(resource):
            raise
        raise e.without_quotes() from None


async def _apply(target: _Target, patch: patches.Patch, body: Any) -> PatchResult:
    inconsistencies: list[diffs.DiffItem] = []
    applied: list[str] = []
    remaining = patches.Patch()
    refusal: str | None = None
    result: Any = None
    try:
        result = await _apply_fields(target, patch, body, applied, inconsistencies)
        if patch.fns:
            result = await _apply_fns(target, patch, result or body) or result
    except asyncio.CancelledError:
        for field in applied:
            del patch[field]
        raise
    except _ObjectChanged as e:
        remaining = patches.Patch(fns=patch.fns)
        refusal = None if secrecy.is_secret(target.resource) else str(e.__cause__)
    lost = diffs.Diff(inconsistencies) if inconsistencies else diffs.EMPTY
    return PatchResult(result, remaining, refusal, inconsistencies=lost)


async def _apply_fields(
    target: _Target,
    patch: patches.Patch,
    body: Any,
    applied: list[str],
    inconsistencies: list[diffs.DiffItem],
) -> Any:
    """Merge the fields into the object; return the new object, if there are any fields."""
    result: Any = None
    for payload, subresource in _split_fields(target.resource, patch):
        is_status = subresource is not None and target.uid is not None
        if is_status or target.client.fence is not None or find_planned(payload) is not None:
            result = await target.merge_in_time(payload, subresource, result or body)
        else:
            result = await target.merge(payload, subresource)
        applied += payload
        wish = rebase_conditions(payload, result)
        _find_inconsistencies(wish, result, (), inconsistencies)
    return result


async def _apply_fns(target: _Target, patch: patches.Patch, body: Any) -> Any:
    """Apply the functions to the freshest body; return the new body, if anything has changed.

    Streams can lag behind the changes of other clients so much that their bodies are never fresh.
    So if the object has changed meanwhile, the client reads it from the API, and tries again.

    Raises :class:`_ObjectChanged` if the object changes too often, or if the server refuses
    the patch though the object has not changed.
    """
    freshest = body
    for attempt in range(MAX_ATTEMPTS):
        result: Any = None
        try:
            for ops, subresource in _split_ops(target.resource, patch, freshest):
                ops.insert(0, _make_version_test(freshest))
                result = freshest = await target.modify(ops, subresource)
            return result
        except _ObjectChanged:
            if attempt == MAX_ATTEMPTS - 1:
                raise
            if attempt:
                await asyncio.sleep(CONFLICT_DELAY * 2.0**attempt * get_chance().uniform(0.5, 1.5))
            known, freshest = freshest, await target.get_if_permitted()
            if freshest is None or _get_version(known) == _get_version(freshest):
                raise  # the change itself is wrong
    raise AssertionError("unreachable")  # pragma: no cover


def _split_fields(
    resource: resources.Resource, patch: patches.Patch
) -> Iterator[tuple[dict[str, Any], str | None]]:
    """The payloads of merge-patches, each with the subresource it goes to.

    The status goes first: if the rest never gets to the server, the change counts as not handled.
    """
    if "status" in patch and "status" in resource.subresources:
        main = {key: value for key, value in patch.items() if key != "status"}
        yield {"status": patch["status"]}, "status"
        if main:
            yield main, None
    elif patch.keys():
        yield dict(patch), None


def _split_ops(
    resource: resources.Resource, patch: patches.Patch, body: Any
) -> Iterator[tuple[jsonpatch.JSONPatch, str | None]]:
    """The payloads of JSON patches, each with the subresource it goes to."""
    if not patch.fns:
        return
    ops = patches.Patch(fns=patch.fns).as_json_patch(body)
    status_ops: jsonpatch.JSONPatch = []
    if "status" in resource.subresources:
        status_ops = [op for op in ops if _is_in_status(op["path"])]
        ops = [op for op in ops if not _is_in_status(op["path"])]
    if ops:
        yield ops, None
    if status_ops:
        yield status_ops, "status"


def _make_version_test(body: Any) -> jsonpatch.JSONPatchItem:
    return {"op": "test", "path": "/metadata/resourceVersion", "value": _get_version(body)}


def _get_version(body: Any) -> str | None:
    return None if body is None else (body.get("metadata") or {}).get("resourceVersion")


def _is_in_status(path: str) -> bool:
    return path == "/status" or path.startswith("/status/")


def _is_success(reply: Any) -> bool:
    return isinstance(reply, dict) and (reply.get("kind"), reply.get("status")) == (
        "Status",
        "Success",
    )


def _lacks(wish: Mapping[str, Any], body: Any) -> bool:
    found: list[diffs.DiffItem] = []
    _find_inconsistencies(wish, body, (), found)
    return bool(found)


def _is_another_object(exc: errors.APIStatusError) -> bool:
    """Whether the patch is refused because of the uid: the uid of an object cannot change."""
    return "Precondition failed: UID" in (exc.message or "") or any(
        cause.get("field") == "metadata.uid" for cause in exc.causes
    )


def _find_inconsistencies(
    wish: Mapping[str, Any], fact: Any, path: dicts.FieldPath, found: list[diffs.DiffItem]
) -> None:
    """Compare only the requested fields: the API servers add a lot of others."""
    for key, wished in wish.items():
        actual = fact.get(key) if isinstance(fact, dict) else None
        # Most of the values are equal strings, so this check is fast for them.
        if type(wished) is not type(actual) or wished != actual:
            field = (*path, key)
            if isinstance(actual, dict) and dicts.is_mapping(wished):
                _find_inconsistencies(wished, actual, field, found)
            elif wished is None:
                found.append(diffs.DiffItem(diffs.DiffOperation.ADD, field, None, actual))
            elif actual is None:
                if _has_values(wished):
                    found.append(diffs.DiffItem(diffs.DiffOperation.REMOVE, field, wished, None))
            elif not jsonpatch.same(wished, actual):
                found.append(diffs.DiffItem(diffs.DiffOperation.CHANGE, field, wished, actual))


def _has_values(value: Any) -> bool:
    """Whether there is anything to be set, not only to be deleted."""
    if isinstance(value, Mapping):
        return any(_has_values(item) for item in value.values())
    return value is not None
