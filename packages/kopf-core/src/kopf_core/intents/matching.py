"""Matching: decides whether a cause calls a handler. Pure functions, the cheapest checks first."""

import traceback
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from kopf_cogs.helpers.callbacks import Interrupted, call
from kopf_cogs.structs.bodies import Body
from kopf_cogs.structs.dicts import FieldPath, resolve
from kopf_cogs.structs.ids import HandlerId
from kopf_core.actions.errors import ErrorsMode
from kopf_core.actions.retrying import safe_message
from kopf_core.intents.causes import ChangingCause, Reason, ResourceCause
from kopf_core.intents.filters import ABSENT, MISSING, PRESENT, MetaFilter, value_matches
from kopf_core.intents.handlers import ChangingHandler, ResourceHandler
from kopf_core.intents.views import InvalidObjectError

H = TypeVar("H", bound=ResourceHandler)
C = TypeVar("C", bound=ResourceCause)


class FilterError(Exception):
    """A filter of a handler has failed, so it is unknown whether the handler matches."""

    expected = True

    def __init__(self, handler: ResourceHandler, exc: Exception) -> None:
        cause = (isinstance(exc, Interrupted) and exc.__cause__) or exc
        super().__init__(
            f"The filters of handler {str(handler.id)!r} have failed: "
            f"{type(cause).__name__}: {safe_message(cause)}{_locate(cause)}"
        )


def _locate(cause: BaseException) -> str:
    """Locate the origin of the error, unless it is in the call of the filter itself."""
    place = ""
    for frame, line in traceback.walk_tb(cause.__traceback__):
        is_ours = frame.f_globals.get("__name__", "").startswith("kopf_")
        place = "" if is_ours else f" ({frame.f_code.co_filename}:{line})"
    return place


def matches(handler: ResourceHandler, cause: ResourceCause) -> bool:
    """Whether this cause calls the handler."""
    if isinstance(handler, ChangingHandler) and isinstance(cause, ChangingCause):
        return (
            _matches_reason(handler, cause)
            and prematches(handler, cause)
            and (not handler.field or _ask(handler, _matches_change, cause))
        )
    return prematches(handler, cause)


def select(
    handlers: Iterable[H],
    cause: ResourceCause,
    *,
    running: Collection[HandlerId] = (),
) -> list[H]:
    """Select the handlers for this cause. A failing filter affects only its own handler.

    If a filter fails, a change handler is selected in order to fail, and so to be tried again. For
    a deletion, that handler fails for good, so that the deletion ends. Other handlers stay as they
    are: they are selected only if they are ``running`` already.

    If the object is invalid for the model of a handler, only change handlers are selected. They are
    ``unmatched`` until the object changes.
    """
    selected: list[H] = []
    for handler in handlers:
        try:
            if matches(handler, cause):
                selected.append(handler)
        except (FilterError, InvalidObjectError) as e:
            if isinstance(handler, ChangingHandler):
                is_deletion = isinstance(cause, ChangingCause) and cause.reason is Reason.DELETE
                errors = ErrorsMode.PERMANENT if is_deletion else handler.errors
                selected.append(replace(handler, unmatched=e, errors=errors))
                continue
            if isinstance(e, InvalidObjectError):
                continue  # it is logged for the object, not for each of its handlers
            cause.logger.error(f"{e}")
            if handler.id in running:
                selected.append(handler)
    return selected


def may_be_interested(handler: ResourceHandler, cause: ResourceCause) -> bool:
    """Whether the handler is, or may be, interested in the object: true if its filters fail."""
    try:
        return prematches(handler, cause)
    except (FilterError, InvalidObjectError):
        return True


def prematches(handler: ResourceHandler, cause: ResourceCause) -> bool:
    """Whether the filters of the handler match the object, apart from the event or change."""
    if handler.labels or handler.annotations or handler.field or handler.when or handler.views:
        return _ask(handler, _matches_object, cause)
    return True


def _ask(handler: H, check: Callable[[H, C], bool], cause: C) -> bool:
    """Check the filters that can be functions of users, and so can fail."""
    try:
        return call(check, handler, cause)
    except InvalidObjectError:
        raise
    except Exception as e:
        raise FilterError(handler, e) from e


def _matches_object(handler: ResourceHandler, cause: ResourceCause) -> bool:
    def kwargs() -> Mapping[str, Any]:
        return cause.kwargs

    meta = cause.body.metadata
    return (
        _matches_meta(handler.labels, meta.labels, kwargs)
        and _matches_meta(handler.annotations, meta.annotations, kwargs)
        and _matches_field(handler, cause, kwargs)
        and (handler.views is None or handler.views.fits(cause.kwargs))
        and (handler.when is None or bool(handler.when(**kwargs())))
    )


def may_match(handler: ResourceHandler, body: Body) -> bool:
    """Check quickly, by the metadata alone; false only if the handler surely does not match."""
    if handler.labels and not _may_match_meta(handler.labels, body.metadata.labels):
        return False
    return not handler.annotations or _may_match_meta(
        handler.annotations, body.metadata.annotations
    )


def _may_match_meta(criteria: MetaFilter, content: Mapping[str, str]) -> bool:
    return all(
        value_matches(criterion, content.get(key, MISSING), dict)
        for key, criterion in criteria.items()
        if criterion is PRESENT or criterion is ABSENT or not callable(criterion)
    )


def _matches_meta(
    criteria: MetaFilter | None,
    content: Mapping[str, str],
    kwargs: Callable[[], Mapping[str, Any]],
) -> bool:
    return not criteria or all(
        value_matches(criterion, content.get(key, MISSING), kwargs)
        for key, criterion in criteria.items()
    )


def _matches_field(
    handler: ResourceHandler,
    cause: ResourceCause,
    kwargs: Callable[[], Mapping[str, Any]],
) -> bool:
    if not handler.field:
        return True
    criterion = PRESENT if handler.value is None else handler.value
    if isinstance(handler, ChangingHandler) and handler.field_needs_change:
        if handler.value is None and (handler.old is not None or handler.new is not None):
            return True
        # Updates concern both states: the one before the change, and the one after it.
        assert isinstance(cause, ChangingCause)
        return any(
            value_matches(criterion, get_field(state, handler.field), kwargs)
            for state in (cause.old, cause.new)
        )
    return value_matches(criterion, get_field(cause.body, handler.field), kwargs)


def _matches_reason(handler: ChangingHandler, cause: ChangingCause) -> bool:
    if handler.initial and (not cause.initial or cause.reason == Reason.CREATE):
        return False  # an object that was never handled cannot be resumed
    if handler.initial and cause.reason == Reason.DELETE and not handler.deleted:
        return False
    return handler.reason is None or handler.reason == cause.reason


def _matches_change(handler: ChangingHandler, cause: ChangingCause) -> bool:
    if not handler.field or not handler.field_needs_change:
        return True
    old = get_field(cause.old, handler.field)
    new = get_field(cause.new, handler.field)
    if old == new:
        return False

    def kwargs() -> Mapping[str, Any]:
        return cause.kwargs

    return (handler.old is None or value_matches(handler.old, old, kwargs)) and (
        handler.new is None or value_matches(handler.new, new, kwargs)
    )


def get_field(content: Mapping[str, Any] | None, path: FieldPath) -> Any:
    """The value of the field or :data:`MISSING`. For Kubernetes, null means absence."""
    value = None if content is None else resolve(content, path, None)
    return MISSING if value is None else value
