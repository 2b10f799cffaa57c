"""The state of an object in its handling cycle, as it can be read from the object itself."""

import datetime
import enum
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from kopf_cogs.configs.diffbase import HashingDiffBaseStorage
from kopf_cogs.configs.packing import Digests
from kopf_cogs.configs.progress import ProgressRecord
from kopf_cogs.configs.settings import PersistenceSettings
from kopf_cogs.structs.bodies import Body, BodyEssence
from kopf_cogs.structs.dicts import FieldPath, ensure, resolve
from kopf_cogs.structs.diffs import EMPTY, Diff, DiffScope, diff
from kopf_cogs.structs.finalizers import is_deletion_blocked
from kopf_core.actions.states import HandlerState
from kopf_core.intents.causes import Reason
from kopf_core.intents.pauses import get_pause

_SUFFIX = len("-abcdef")
_LONGEST = 63
"""The longest name of an annotation, in characters; by the old scheme, with its prefix."""


AGENT = "kopf"
"""The field manager of operators, as API servers make it of the name of the client."""

NAMED_FINALIZER = "/finalizer"
"""The end of the finalizers of named operators, after the name of the operator."""

_SUPERSEDED = frozenset({Reason.CREATE.value, Reason.UPDATE.value, Reason.RESUME.value})
"""The purposes of the handlers that are not called anymore when the object is being deleted."""

_NO_MESSAGE = "None"
"""The message that Kopf stores for a handler that waits for its sub-handlers."""

OTHERS_MARKS = ("last-handled-configuration", "kopf-managed")
"""The names of annotations that all operators leave, each with a prefix of its own."""


class Phase(enum.StrEnum):
    """The phase of an object: the first one that fits, in this order."""

    BLOCKED = "blocked"
    """It is being deleted, and waits only for finalizers of other controllers."""

    PAUSED = "paused"
    """Users have paused it. The operator does not handle it, if the settings permit pauses."""

    RETRIED = "retried"
    """Some of the handlers have failed, and will be called again."""

    DELETING = "deleting"
    """It is being deleted, and its operator has not finished."""

    PROGRESSING = "in progress"
    """Some of the handlers have started, and not all of them have finished."""

    SERVED = "served"
    """Operators have served it, but not by change handlers, which leave the only lasting marks.

    Reconcilers keep their progress on the object only until they succeed. Timers and daemons
    never keep their attempts there.
    """

    UNKNOWN = "unknown"
    """There are no signs of operators: they have not noticed it, or have no handlers for it.

    Or its handlers leave no signs: event handlers, and reconcilers that have succeeded and set no
    conditions.
    """

    CHANGED = "changed"
    """It differs from its last handled state, and no handler has started for that change."""

    HANDLED = "handled"
    """All handlers have finished, and nothing has changed since then."""


class HandlerPhase(enum.StrEnum):
    """The phase of one handler."""

    RETRIED = "retried"
    STARTED = "started"
    FAILED = "failed"
    SUCCEEDED = "succeeded"
    SUPERSEDED = "superseded"
    """It has not finished, and the deletion of the object is handled instead."""


@dataclass(frozen=True, slots=True)
class HandlerProgress:
    """The progress of one handler: its id and its stored state."""

    id: str
    """The id as it is stored: long ids are cut, and slashes can be dots."""

    state: HandlerState
    is_of_deleted: bool = False
    """Whether the object is being deleted."""

    @property
    def waits_for_subhandlers(self) -> bool:
        """Whether its latest attempt has not failed, but only begun its sub-handlers."""
        return bool(self.state.subrefs) and self.state.message == _NO_MESSAGE

    @property
    def is_unfinished(self) -> bool:
        """Whether the operator has to call the handler."""
        return self.phase in (HandlerPhase.RETRIED, HandlerPhase.STARTED)

    @property
    def phase(self) -> HandlerPhase:
        if self.state.success:
            return HandlerPhase.SUCCEEDED
        if self.state.failure:
            return HandlerPhase.FAILED
        if self.is_of_deleted and self.state.purpose in _SUPERSEDED:
            return HandlerPhase.SUPERSEDED
        has_failed = self.state.retries and not self.waits_for_subhandlers
        return HandlerPhase.RETRIED if has_failed else HandlerPhase.STARTED


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectState:
    """All that the framework can tell of one object."""

    body: Body
    phase: Phase
    pause: str | None
    """The reason of the pause; ``None`` if the object is not paused."""

    is_held: bool
    """Whether our finalizer is there."""

    other_finalizers: tuple[str, ...]
    handlers: tuple[HandlerProgress, ...]
    """The handlers with stored progress: it is stored until the end of the handling cycle."""

    last_handled: BodyEssence | None
    differences: Diff
    """The changes since the last handled state."""

    @property
    def conditions(self) -> tuple[Mapping[str, Any], ...]:
        """The conditions in the status of the object, where reconcilers report its state."""
        found = self.body.status.get("conditions") or ()
        return tuple(item for item in found if isinstance(item, Mapping) and item.get("type"))

    @property
    def is_outdated(self) -> bool:
        """Whether the status describes an earlier generation of the object."""
        observed = self.body.status.get("observedGeneration")
        generation = self.body.metadata.get("generation") or 0
        if self.deleted_at is not None and observed == generation - 1:
            return False  # API servers count the request of the deletion as a change
        return observed is not None and observed != generation

    @property
    def deleted_at(self) -> str | None:
        """When the deletion was requested, if it was."""
        value = self.body.metadata.get("deletionTimestamp")
        return None if value is None else str(value)

    @property
    def unfinished(self) -> tuple[HandlerProgress, ...]:
        """The handlers that the object waits for; the failing handlers are the first.

        Handlers that only wait for their sub-handlers are not included.
        """
        unfinished = [handler for handler in self.handlers if handler.is_unfinished]
        ids = {handler.id for handler in unfinished}
        awaited = [handler for handler in unfinished if not ids & {*handler.state.subrefs}]
        return tuple(sorted(awaited, key=lambda handler: handler.state.retries == 0))

    @property
    def current(self) -> HandlerProgress | None:
        """The handler that the object waits for: a failing one, if there is any."""
        return next(iter(self.unfinished), None)


def inspect(body: Body, persistence: PersistenceSettings, now: datetime.datetime) -> ObjectState:
    """Read all marks that an operator with such settings has left on the object."""
    finalizers = [str(name) for name in body.metadata.get("finalizers") or ()]
    handlers = tuple(_read_progress(body, persistence, now))
    last_handled = persistence.diffbase_storage.fetch(body=body)
    differences = find_differences(body, last_handled, persistence)
    pause = get_pause(body)
    return ObjectState(
        body=body,
        phase=_detect_phase(body, persistence, pause, handlers, last_handled, differences),
        pause=pause,
        is_held=persistence.finalizer in finalizers,
        other_finalizers=tuple(name for name in finalizers if name != persistence.finalizer),
        handlers=handlers,
        last_handled=last_handled,
        differences=differences,
    )


def _detect_phase(
    body: Body,
    persistence: PersistenceSettings,
    pause: str | None,
    handlers: tuple[HandlerProgress, ...],
    last_handled: BodyEssence | None,
    differences: Diff,
) -> Phase:
    is_deleting = body.metadata.get("deletionTimestamp") is not None
    if is_deleting and not is_deletion_blocked(body, persistence.finalizer):
        return Phase.BLOCKED
    if pause is not None:
        return Phase.PAUSED
    if any(handler.phase is HandlerPhase.RETRIED for handler in handlers):
        return Phase.RETRIED
    if is_deleting:
        return Phase.DELETING
    if handlers:
        return Phase.PROGRESSING
    if last_handled is None:
        return Phase.SERVED if _has_signs(body, persistence) else Phase.UNKNOWN
    return Phase.CHANGED if differences else Phase.HANDLED


def _has_signs(body: Body, persistence: PersistenceSettings) -> bool:
    """Whether operators have written to the object, even if only to its status."""
    if is_deletion_blocked(body, persistence.finalizer):
        return True
    entries = body.metadata.get("managedFields") or ()
    managers = [
        entry.get("manager")
        for entry in entries
        if isinstance(entry, Mapping) and entry.get("operation") != "Apply"  # children are applied
    ]
    own = persistence.finalizer.partition("/")[0]  # the field manager of a named operator
    return any(manager in (AGENT, own) for manager in managers)


def _read_progress(
    body: Body, persistence: PersistenceSettings, now: datetime.datetime
) -> Iterator[HandlerProgress]:
    found = persistence.progress_storage.find(body=body)
    is_deleted = body.metadata.get("deletionTimestamp") is not None
    ids = _restore_ids(found)
    for name, record in sorted(found.items()):
        if not _is_copy(name, record, found) and not _is_of_calendar(record):
            state = HandlerState.from_record(record, now)
            yield HandlerProgress(ids.get(name, name), state, is_deleted)


def _restore_ids(found: Mapping[str, ProgressRecord]) -> Mapping[str, str]:
    """Restore the slashes of ids that are stored with dots, as far as sub-handlers tell them."""
    ids: dict[str, str] = {}
    for name, record in found.items():
        for ref in record.get("subrefs") or ():
            stored = ref.replace("/", ".")
            ids[stored] = ref
            if stored.startswith(f"{name}."):
                ids.setdefault(name, ref[: len(name)])
    return ids


def _is_copy(name: str, record: ProgressRecord, found: Mapping[str, Any]) -> bool:
    """Whether the record is a copy under the name of the old scheme: this name is shorter.

    See :class:`kopf_cogs.configs.conventions.StorageKeyFormingConvention`.
    """
    stem = name[:-_SUFFIX]
    return bool(stem) and any(
        len(other) > len(name) and other.startswith(stem) and found[other] == record
        for other in found
        if name[-_SUFFIX] == "-" and len(name) < _LONGEST
    )


def _is_of_calendar(record: ProgressRecord) -> bool:
    """Whether the record is the latest run of a timer by the calendar, which is kept for ever.

    Records of succeeded handlers have attempts.
    """
    return bool(record.get("success")) and not record.get("retries") and not record.get("purpose")


def find_others(state: ObjectState) -> Collection[str]:
    """The prefixes of other operators that have handled the object, if this one has not."""
    if state.last_handled is not None or state.handlers or state.is_held:
        return ()
    pairs = [str(name).partition("/") for name in state.body.metadata.annotations]
    marked = {prefix for prefix, _, name in pairs if name in OTHERS_MARKS}
    ends = [name for name in state.other_finalizers if name.endswith(NAMED_FINALIZER)]
    return marked | {name.removesuffix(NAMED_FINALIZER) for name in ends}


def find_doubtful(state: ObjectState, persistence: PersistenceSettings) -> Collection[str]:
    """Finalizers with the prefix of ours, if ours is absent: the operator can have set its own."""
    own, _, _ = persistence.finalizer.partition("/")
    names = () if state.is_held else state.other_finalizers
    return {name for name in names if name.partition("/")[0] == own}


_HASHED = "blake2b:"


def find_differences(
    body: Body, last_handled: BodyEssence | None, persistence: PersistenceSettings
) -> Diff:
    """Compare the object with its last handled state, if it has any.

    This function does not know which fields of the status the handlers need. So it compares only
    the fields of the last handled state. The prefixes of values show which values are hashes.
    """
    if last_handled is None:
        return EMPTY
    if isinstance(last_handled, Digests):
        current = _build(body, persistence)
        return _compare(last_handled.reveal(cast("dict[str, Any]", current)), current)
    changes = _compare(last_handled, _build(body, persistence))
    hashed = [item.field for item in changes if str(item.old).startswith(_HASHED)]
    if hashed:
        changes = _compare(last_handled, _build_hashed(body, persistence, hashed))
    return changes


def _compare(last_handled: BodyEssence, current: BodyEssence) -> Diff:
    old, new = cast("dict[str, Any]", dict(last_handled)), cast("dict[str, Any]", dict(current))
    old_status, new_status = old.pop("status", None), new.pop("status", None)
    status = diff({"status": old_status}, {"status": new_status}, scope=DiffScope.LEFT)
    return Diff([*diff(old, new), *(status if old_status is not None else ())])


def _build(body: Body, persistence: PersistenceSettings) -> BodyEssence:
    extra = [("status",)] if "status" in body else []
    essence = persistence.diffbase_storage.build(body=body, extra_fields=extra)
    return persistence.progress_storage.clear(essence=essence)


def _build_hashed(
    body: Body, persistence: PersistenceSettings, fields: list[FieldPath]
) -> BodyEssence:
    essence = cast("dict[str, Any]", _build(body, persistence))
    hashed = HashingDiffBaseStorage(hashed_fields=fields).build(body=body, extra_fields=fields)
    for field in fields:
        value = resolve(hashed, field, None)
        if value is not None:
            ensure(essence, field, value)
    return cast("BodyEssence", essence)
