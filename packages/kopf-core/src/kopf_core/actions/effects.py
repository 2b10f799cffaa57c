"""What handlers leave behind: their results and patches, assembled and applied to the object.

The framework's own marks (progress, last handled state, results) and the users' changes are
kept apart until the very end: if what the user has put into the patch cannot be sent,
the marks still are, so that the handlers that have succeeded are not run again.
"""
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kopf_cogs.clients.errors import APIClientError, APIError
from kopf_cogs.clients.patching import PatchResult, patch_object
from kopf_cogs.clients.session import Client
from kopf_cogs.structs.bodies import Body, RawBody
from kopf_cogs.structs.credentials import LoginError
from kopf_cogs.structs.diffs import EMPTY, Diff
from kopf_cogs.structs.ids import HandlerId
from kopf_cogs.structs.patches import Patch
from kopf_cogs.structs.resources import Resource
from kopf_cogs.structs.secrecy import show
from kopf_core.actions.loggers import AnyLogger
from kopf_core.actions.retrying import describe

PatchFn = Callable[[RawBody], None]

MAX_RESULT_SIZE = 512 * 1024
"""In bytes of JSON. API servers reject objects over about 1.5 MB as a whole."""

REJECTIONS = frozenset({400, 413, 422})
"""What API servers say of patches that can never be applied, as opposed to bad moments."""


@dataclass(frozen=True, slots=True)
class Applied:
    """What has come out of a patch."""

    body: RawBody | None = None
    """The object as it is after the patch, if it was patched and still exists."""

    carried: tuple[PatchFn, ...] = ()
    """The transformation functions to be tried again on a fresher body."""

    inconsistencies: Diff = EMPTY
    """What the object has not become, though it was requested: e.g. pruned by its schema."""

    @property
    def version(self) -> str | None:
        return None if self.body is None else self.body['metadata'].get('resourceVersion')


def deliver_results(
        results: Mapping[HandlerId, Any], *, patch: Patch, logger: AnyLogger,
) -> None:
    """Put the results of handlers to the status stanza under the ids of these handlers.

    What cannot be stored there is dropped with an error: the handler has succeeded nevertheless.
    """
    for id, result in results.items():
        try:
            size = _measure(result)
        except (TypeError, ValueError, RecursionError) as e:
            logger.error(f"Handler {id!r} has returned a result that cannot be stored "
                         f"in the status, so it is dropped: {type(e).__name__}: {e}")
            continue
        if size > MAX_RESULT_SIZE:
            logger.error(f"Handler {id!r} has returned a result that is too large for the status "
                         f"({size} bytes of at most {MAX_RESULT_SIZE}), so it is dropped.")
            continue
        patch.setdefault('status', {})[id] = _plain_deep(result)


async def apply_patches(
        *,
        client: Client,
        resource: Resource,
        body: Body,
        marks: Patch,
        patch: Patch,
        logger: AnyLogger,
) -> Applied:
    """Apply the framework's marks and the user's patch in the least number of requests."""
    usable = _drop_unusable(patch, logger)
    if not marks and not usable:
        return Applied()
    try:
        result = await _send(client, resource, body, merge_patches(usable, marks), logger)
    except Exception as e:
        if not usable or not _is_hopeless(e):
            raise
        logger.error(f"The patch made by the handlers is rejected and dropped: {describe(e)}")
        if not marks:
            return Applied()
        result = await _send(client, resource, body, marks, logger)
    carried = tuple(fn for fn in result.remaining.fns if fn in usable.fns)
    return Applied(result.body, carried=carried, inconsistencies=result.inconsistencies)


def warn_of_inconsistencies(
        inconsistencies: Diff, resource: Resource, warned: frozenset[str], logger: AnyLogger,
) -> frozenset[str]:
    """Tell what the API has ignored in the patch: once for every field, not for every attempt.

    Takes the topics that were warned about already; returns those and the new ones.
    """
    if not inconsistencies:
        return warned
    topics = {f"inconsistency:{'.'.join(item.field)}" for item in inconsistencies}
    level = logging.DEBUG if topics <= warned else logging.WARNING
    shown = show(resource, inconsistencies)
    logger.log(level, f"Merge-patching finished with inconsistencies: {shown}")
    return warned | topics


def _is_hopeless(exc: Exception) -> bool:
    """Whether the patch can never be applied, as opposed to bad moments of the API.

    What is not an API error comes from the users' transformation functions.
    """
    if not isinstance(exc, APIError):
        return not isinstance(exc, LoginError)
    return isinstance(exc, APIClientError) and exc.status in REJECTIONS


async def _send(
        client: Client, resource: Resource, body: Body, patch: Patch, logger: AnyLogger,
) -> PatchResult:
    return await patch_object(
        client,
        resource=resource,
        namespace=body.metadata.namespace,
        name=body.metadata.name or '',
        patch=patch,
        body=body,
        uid=body.metadata.uid,
        logger=logger,
    )


def merge_patches(first: Patch, second: Patch) -> Patch:
    """Combine two patches into a new one; the second one wins where both change the same.

    The functions of the second one go first: finalizers are managed before anything else.
    """
    merged = Patch(fns=[*second.fns, *first.fns])
    merge_into(merged, first)
    merge_into(merged, second)
    return merged


def merge_into(target: dict[str, Any], source: Mapping[str, Any]) -> None:
    """Merge the fields of one patch into another one, deeply."""
    for key, value in source.items():
        if isinstance(value, Mapping):
            branch = target.get(key)
            if not isinstance(branch, dict):
                branch = target[key] = {}
            merge_into(branch, value)
        else:
            target[key] = value


def _drop_unusable(patch: Patch, logger: AnyLogger) -> Patch:
    """The patch without the fields that are not JSON."""
    if not patch:
        return patch
    usable = Patch(fns=list(patch.fns))
    for key, value in patch.items():
        try:
            _measure(value)
        except (TypeError, ValueError, RecursionError) as e:
            logger.error(f"The patch made by the handlers cannot be sent, so its field {key!r} "
                         f"is dropped: {type(e).__name__}: {e}")
        else:
            usable[key] = _plain_deep(value)
    return usable


def _measure(value: Any) -> int:
    """The size in bytes of JSON. Raises errors on what API servers would not accept."""
    text = json.dumps(value, allow_nan=False, ensure_ascii=False, default=_plain)
    return len(text.encode('utf-8'))


def _plain(value: Any) -> Any:
    """Let views of objects (such as ``spec``) be serialised as what they show."""
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


def _plain_deep(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain_deep(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain_deep(item) for item in value]
    return value
