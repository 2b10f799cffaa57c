"""What handlers leave behind: their results and patches, assembled and applied to the object.

The framework's own marks (progress, last handled state, results) and the users' changes are
kept apart until the very end: if what the user has put into the patch cannot be sent,
the marks still are, so that the handlers that have succeeded are not run again.
"""

import json
import logging
from collections.abc import Collection, Iterator, Mapping
from itertools import combinations
from typing import Any, NamedTuple

from kopf_cogs.clients.errors import APIClientError, APIError
from kopf_cogs.clients.patching import PatchResult, patch_object
from kopf_cogs.clients.session import Client
from kopf_cogs.helpers.callbacks import call
from kopf_cogs.structs.bodies import Body, RawBody
from kopf_cogs.structs.conditions import PlannedConditions, find_planned
from kopf_cogs.structs.credentials import LoginError
from kopf_cogs.structs.dicts import is_mapping
from kopf_cogs.structs.diffs import EMPTY, Diff
from kopf_cogs.structs.ids import HandlerId
from kopf_cogs.structs.patches import Patch, PatchFn
from kopf_cogs.structs.resources import Resource
from kopf_cogs.structs.secrecy import show
from kopf_core.actions.loggers import AnyLogger
from kopf_core.actions.marks import Marks
from kopf_core.actions.retrying import describe, safe_message

MAX_RESULT_SIZE = 512 * 1024
"""In bytes of JSON. API servers reject objects over about 1.5 MB as a whole."""

PLAIN_DEPTH = 10
"""How deep the usual patches are, such as those of conditions."""

REJECTIONS = frozenset({400, 413, 422})
"""What API servers say of patches that can never be applied, as opposed to bad moments."""

CONDITIONS = "The conditions are rejected"
"""How the messages about the rejected conditions begin; and the topic of these warnings."""

NO_REQUESTS = PatchResult(body=None, remaining=Patch())
"""What has come out of no requests."""


class Applied(NamedTuple):
    """What has come out of a patch."""

    body: RawBody | None = None
    """The object as it is after the patch, if it was patched and still exists."""

    carried: tuple[PatchFn, ...] = ()
    """The transformation functions to be tried again on a fresher body."""

    is_refused: bool = False
    """Whether some functions were not applied, as the object is not what they were called with."""

    refusal: str | None = None
    """What the server has said of that."""

    is_gone: bool = False
    """The API does not know the object: it is deleted."""

    rejections: tuple[str, ...] = ()
    """What of the handlers' changes is dropped, and why: the API will never accept it."""

    inconsistencies: Diff = EMPTY
    """What the object has not become, though it was requested: e.g. pruned by its schema."""

    @property
    def version(self) -> str | None:
        return None if self.body is None else self.body["metadata"].get("resourceVersion")


def deliver_results(
    results: Mapping[HandlerId, Any],
    *,
    marks: Marks,
    logger: AnyLogger,
) -> None:
    """Put the results of handlers to the status stanza under the ids of these handlers.

    What cannot be stored there is dropped with an error: the handler has succeeded nevertheless.
    """
    for id, result in results.items():
        try:
            value, size = call(_to_json, result)
        except Exception as e:
            logger.error(
                f"Handler {id!r} has returned a result that cannot be stored "
                f"in the status, so it is dropped: {type(e).__name__}: {safe_message(e)}"
            )
            continue
        if size > MAX_RESULT_SIZE:
            logger.error(
                f"Handler {id!r} has returned a result that is too large for the status "
                f"({size} bytes of at most {MAX_RESULT_SIZE}), so it is dropped."
            )
            continue
        marks.results.setdefault("status", {})[id] = value


async def apply_patches(
    *,
    client: Client,
    resource: Resource,
    body: Body,
    marks: Marks,
    patch: Patch,
    logger: AnyLogger,
) -> Applied:
    """Apply the framework's marks and the user's patch in the least number of requests.

    If they are rejected as never acceptable, it is tried without the conditions, without the rest
    of the user's patch, without the results, or without all of them.
    """
    usable = _drop_unusable(patch, logger)
    result = NO_REQUESTS
    rejection: Exception | None = None
    rejections: tuple[str, ...] = ()
    for kept, dropped in _relent(usable, marks.results):
        try:
            result = await _send(client, resource, body, merge_patches(*kept, marks), logger)
        except Exception as e:
            if not kept or not _is_hopeless(e):
                raise
            rejection = rejection or e
        else:
            if rejection is not None:
                why = describe(rejection)
                rejections = tuple(f"{what} and dropped: {why}" for what in dropped)
            break
    carried = tuple(fn for fn in result.remaining.fns if fn in usable.fns)
    return Applied(
        result.body,
        carried=carried,
        is_refused=bool(result.remaining.fns),
        refusal=result.refusal,
        is_gone=result.gone,
        rejections=rejections,
        inconsistencies=result.inconsistencies,
    )


def tell_of_losses(
    applied: Applied, resource: Resource, warned: frozenset[str], logger: AnyLogger
) -> frozenset[str]:
    """Tell what of the changes is not in the object, though it was sent.

    Takes the topics that were warned about already; returns those and the new ones. Conditions
    are set again and again, so their rejections are told of once, until they are accepted.
    """
    for message in applied.rejections:
        is_known = message.startswith(CONDITIONS) and CONDITIONS in warned
        logger.log(logging.DEBUG if is_known else logging.ERROR, message)
        if message.startswith(CONDITIONS):
            warned |= {CONDITIONS}
    if not applied.rejections and CONDITIONS in warned:
        warned -= {CONDITIONS}
    return warn_of_inconsistencies(applied.inconsistencies, resource, warned, logger)


def warn_of_inconsistencies(
    inconsistencies: Diff,
    resource: Resource,
    warned: frozenset[str],
    logger: AnyLogger,
) -> frozenset[str]:
    """Tell what the API has ignored in the patch: once for every field, not for every attempt.

    Takes the topics that were warned about already; returns those and the new ones.
    """
    if not inconsistencies:
        return warned
    topics = {f"inconsistency:{'.'.join(item.field)}" for item in inconsistencies}
    level = logging.DEBUG if topics <= warned else logging.WARNING
    shown = show(resource, inconsistencies)
    hint = _explain_absence(inconsistencies)
    logger.log(level, f"Merge-patching finished with inconsistencies: {shown}{hint}")
    return warned | topics


def _explain_absence(inconsistencies: Diff) -> str:
    """What is sent but is not there at all has its usual reason, which is not seen in a diff."""
    absent = [".".join(item.field) for item in inconsistencies if item.operation == "remove"]
    if not absent:
        return ""
    fields = ", ".join(absent)
    return f". Not stored: {fields}; most likely, the schema of the resource does not declare that."


def _is_hopeless(exc: Exception) -> bool:
    """Whether the patch can never be applied, as opposed to bad moments of the API.

    What is not an API error comes from the users' transformation functions.
    """
    if not isinstance(exc, APIError):
        return not isinstance(exc, LoginError)
    if not isinstance(exc, APIClientError):
        return False
    return exc.status in REJECTIONS or exc.status >= 500  # e.g. too large for the storage


async def _send(
    client: Client,
    resource: Resource,
    body: Body,
    patch: Patch,
    logger: AnyLogger,
) -> PatchResult:
    if not patch:
        return NO_REQUESTS
    return await patch_object(
        client,
        resource=resource,
        namespace=body.metadata.namespace,
        name=body.metadata.name or "",
        patch=patch,
        body=body,
        uid=body.metadata.uid,
        logger=logger,
    )


def _relent(patch: Patch, results: Patch) -> Iterator[tuple[Collection[Patch], Collection[str]]]:
    """What to send, and the names of what is dropped: at first everything, then less and less.

    The conditions are dropped first, then the rest of the patch; the results are kept longer.
    """
    yield [part for part in (patch, results) if part], ()
    rest, conditions = _detach_conditions(patch)
    ids = ", ".join(repr(str(id)) for id in results.get("status", ()))
    parts = {
        CONDITIONS: conditions,
        "The patch made by the handlers is rejected": rest,
        f"The results of {ids} are rejected": results,
    }
    useful = {name: part for name, part in parts.items() if part}
    for number in range(len(useful) - 1, -1, -1):
        for names in reversed([*combinations(useful, number)]):
            yield [useful[name] for name in names], [n for n in useful if n not in names]


def _detach_conditions(patch: Patch) -> tuple[Patch, Patch]:
    """The patch without what says how the object is, and that part of it alone."""
    status = patch.get("status")
    if not isinstance(status, Mapping) or "conditions" not in status:
        return patch, Patch()
    own = {key: status[key] for key in ("conditions", "observedGeneration") if key in status}
    others = {key: value for key, value in status.items() if key not in own}
    rest = Patch({key: value for key, value in patch.items() if key != "status"}, fns=patch.fns)
    if others:
        rest["status"] = others
    return rest, Patch({"status": own})


def merge_patches(*patches: Patch) -> Patch:
    """Combine several patches into one; the last ones win where they change the same.

    The functions of the last ones go first: finalizers are managed before anything else.
    It is a new one, or the only one of those that change anything.
    """
    useful = [patch for patch in patches if patch.keys() or patch.fns]
    if len(useful) == 1:
        return useful[0]
    merged = Patch(fns=[fn for patch in reversed(patches) for fn in patch.fns])
    for patch in patches:
        merge_into(merged, patch)
    return merged


def merge_into(target: dict[str, Any], source: Mapping[str, Any]) -> None:
    """Merge the fields of one patch into another one, deeply."""
    for key, value in source.items():
        if is_mapping(value):
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
            usable[key] = value if _is_plain(value) else call(_to_json, value)[0]
        except Exception as e:
            logger.error(
                f"The patch made by the handlers cannot be sent, so its field {key!r} "
                f"is dropped: {type(e).__name__}: {safe_message(e)}"
            )
    planned = find_planned(patch)
    if planned is not None and find_planned(usable) is None and "status" in usable:
        conditions = usable["status"]["conditions"]
        usable["status"]["conditions"] = PlannedConditions(conditions, base=planned.base)
    return usable


def _is_plain(value: Any, depth: int = PLAIN_DEPTH) -> bool:
    """Whether it is surely as JSON would return it, so that it need not be converted."""
    kind = type(value)
    if kind is dict:
        return depth > 0 and all(
            type(key) is str and _is_plain(item, depth - 1) for key, item in value.items()
        )
    if kind is list or kind is PlannedConditions:
        return depth > 0 and all(_is_plain(item, depth - 1) for item in value)
    return kind is str or kind is int or kind is bool or value is None


def _to_json(value: Any) -> tuple[Any, int]:
    """The value as JSON would return it, and its size in bytes.

    E.g. the keys become strings, and the views become dictionaries.
    Raises errors on what API servers would not accept.
    """
    text = json.dumps(value, allow_nan=False, ensure_ascii=False, default=_plain)
    return json.loads(text), len(text.encode("utf-8"))


def _plain(value: Any) -> Any:
    """Let views of objects (such as ``spec``) be serialised as what they show."""
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")
