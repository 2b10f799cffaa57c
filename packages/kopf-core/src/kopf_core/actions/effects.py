"""Effects of handlers: their results and patches, put together and applied to the object.

The marks of the framework (progress, last handled state, results) and the changes of users are kept
apart until the very end. If Kopf cannot send the changes of users, it still sends the marks, so
that it does not call successful handlers again.
"""

import asyncio
import json
import logging
from collections.abc import Collection, Iterator, Mapping
from itertools import combinations
from typing import Any, NamedTuple

from kopf_cogs.clients.errors import APIClientError, APIError
from kopf_cogs.clients.patching import PatchResult, patch_object
from kopf_cogs.clients.session import Client
from kopf_cogs.configs.forms import WHOLE, Form
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
from kopf_core.actions.forming import get_whole
from kopf_core.actions.loggers import AnyLogger
from kopf_core.actions.marks import Marks
from kopf_core.actions.retrying import describe, safe_message

MAX_RESULT_SIZE = 512 * 1024
"""In bytes of JSON. API servers reject objects over about 1.5 MB as a whole."""

PLAIN_DEPTH = 10
"""The depth of usual patches, such as patches with conditions."""

REJECTIONS = frozenset({400, 413, 422})
"""The statuses of replies to patches that can never be applied."""

CONDITIONS = "The conditions are rejected"
"""The prefix of messages about rejected conditions, and the topic of these warnings."""

NO_REQUESTS = PatchResult(body=None, remaining=Patch())
"""The result of no requests."""


class Applied(NamedTuple):
    """The outcome of a patch."""

    body: RawBody | None = None
    """The object after the patch, if it was patched and still exists."""

    carried: tuple[PatchFn, ...] = ()
    """The transformation functions to be tried again on a fresher body."""

    is_refused: bool = False
    """Whether some functions were not applied, as the object has changed since their calls."""

    refusal: str | None = None
    """The explanation of the server."""

    is_gone: bool = False
    """Whether the API does not know the object, as it is deleted."""

    rejections: tuple[str, ...] = ()
    """The dropped changes of handlers, with the reasons: the API will never accept them."""

    inconsistencies: Diff = EMPTY
    """The requested changes that are not in the object, e.g. pruned by its schema."""

    @property
    def version(self) -> str | None:
        return None if self.body is None else self.body["metadata"].get("resourceVersion")


def deliver_results(
    results: Mapping[HandlerId, Any],
    *,
    marks: Marks,
    logger: AnyLogger,
) -> None:
    """Put the results of handlers into the status, under the ids of the handlers.

    Results that cannot be stored are dropped with an error. The handlers have succeeded
    nevertheless.
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
    form: Form = WHOLE,
) -> Applied:
    """Apply the framework's marks and the user's patch in the least number of requests.

    Both the given body and the body in the result have this form.

    If the API will never accept the patch, retry without the conditions, then without the rest of
    the user's patch, then without the results, and then without all of these.
    """
    usable = _drop_unusable(patch, logger)
    if form != WHOLE and (usable.fns or find_planned(usable) is not None):
        whole = await get_whole(client, resource, body)
        if whole is None:
            return Applied(is_gone=True)
        body = whole
    result = NO_REQUESTS
    rejection: Exception | None = None
    rejections: tuple[str, ...] = ()
    for kept, dropped in _relent(usable, marks.results):
        joint = merge_patches(*kept, marks)
        wanted = {*joint}
        try:
            result = await _send(client, resource, body, joint, logger)
        except asyncio.CancelledError:  # there is no time to send the applied fields again
            _forget(wanted - joint.keys(), patch, marks, marks.results)
            raise
        except Exception as e:
            if not kept or not _is_hopeless(e):
                raise
            rejection = rejection or e
        else:
            if rejection is not None:
                why = describe(rejection)
                rejections = tuple(f"{what} and dropped: {why}" for what in dropped)
            break
    return _summarize(result, form, usable, rejections)


def _summarize(
    result: PatchResult, form: Form, patch: Patch, rejections: tuple[str, ...]
) -> Applied:
    remaining = result.remaining.fns
    return Applied(
        result.body if form == WHOLE or result.body is None else form.apply(result.body),
        carried=tuple(fn for fn in remaining if fn in patch.fns) if remaining else (),
        is_refused=bool(remaining),
        refusal=result.refusal,
        is_gone=result.gone,
        rejections=rejections,
        inconsistencies=result.inconsistencies,
    )


def tell_of_losses(
    applied: Applied, resource: Resource, warned: frozenset[str], logger: AnyLogger
) -> frozenset[str]:
    """Log which sent changes are not in the object.

    Takes the topics of earlier warnings; returns them with the new ones. Handlers set
    conditions again and again, so their rejection is logged once, until the API accepts them.
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
    """Log what the API has ignored in the patch: once for every field, not for every attempt.

    Takes the topics of earlier warnings; returns them with the new ones.
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
    """Explain the usual reason why a sent field is absent: a diff alone does not show it."""
    absent = [".".join(item.field) for item in inconsistencies if item.operation == "remove"]
    if not absent:
        return ""
    fields = ", ".join(absent)
    return f". Not stored: {fields}; most likely, the schema of the resource does not declare that."


def _is_hopeless(exc: Exception) -> bool:
    """Whether the patch can never be applied; other errors of the API can go away.

    Errors that are not of the API come from the transformation functions of users.
    """
    if not isinstance(exc, APIError):
        return not isinstance(exc, LoginError)
    if not isinstance(exc, APIClientError):
        return False
    return exc.status in REJECTIONS or exc.status >= 500  # e.g. an object too large


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
    """The parts to send, and the names of the dropped parts: first everything, then less and less.

    The conditions are dropped first, then the rest of the patch. The results are dropped last.
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
    """Split the patch into its other changes and its conditions."""
    status = patch.get("status")
    if not isinstance(status, Mapping) or "conditions" not in status:
        return patch, Patch()
    own = {key: status[key] for key in ("conditions", "observedGeneration") if key in status}
    others = {key: value for key, value in status.items() if key not in own}
    rest = Patch({key: value for key, value in patch.items() if key != "status"}, fns=patch.fns)
    if others:
        rest["status"] = others
    return rest, Patch({"status": own})


def _forget(fields: Collection[str], *patches: Patch) -> None:
    for patch in patches:
        for field in fields:
            patch.pop(field, None)


def merge_patches(*patches: Patch) -> Patch:
    """Combine several patches into one. The last ones win where they change the same fields.

    The functions of the last ones go first, so that finalizers are managed before anything else. If
    only one patch has any changes, it is returned itself.
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
    usable = Patch(_select_usable(patch, logger), fns=list(patch.fns))
    planned = find_planned(patch)
    if planned is not None and find_planned(usable) is None:
        status = usable.get("status", {})
        if "conditions" in status:
            status["conditions"] = PlannedConditions(status["conditions"], base=planned.base)
    return usable


def _select_usable(
    fields: dict[str, Any],
    logger: AnyLogger,
    path: tuple[Any, ...] = (),
    parents: tuple[dict[str, Any], ...] = (),
) -> dict[str, Any]:
    """The fields that are JSON. Lists are taken or dropped as a whole, as they are sent so."""
    usable: dict[str, Any] = {}
    for key, value in fields.items():
        if type(key) is str and _is_plain(value):
            usable[key] = value
            continue
        try:
            usable |= call(_to_json, {key: value})[0]
        except Exception as e:
            field, above = (*path, key), (*parents, fields)
            is_endless = isinstance(e, RecursionError) or any(value is one for one in above)
            if isinstance(value, dict) and isinstance(key, str) and not is_endless:
                if kept := _select_usable(value, logger, field, above):
                    usable[key] = kept
                continue
            logger.error(
                f"The patch made by the handlers cannot be sent, so its field "
                f"{'.'.join(map(str, field))!r} is dropped: {type(e).__name__}: {safe_message(e)}"
            )
    return usable


def _is_plain(value: Any, depth: int = PLAIN_DEPTH) -> bool:
    """Whether the value is surely as JSON would return it, and needs no conversion."""
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

    E.g. keys become strings, and views become dictionaries. Raises errors on values that API
    servers would not accept.
    """
    text = json.dumps(value, allow_nan=False, ensure_ascii=False, default=_plain)
    return json.loads(text), len(text.encode("utf-8"))


def _plain(value: Any) -> Any:
    """Serialise views of objects (such as ``spec``) as the values that they show."""
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")
