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
from kopf_core.intents.pauses import get_pause

_SUFFIX = len("-abcdef")
_LONGEST = 63
"""In characters: how long can be the names of annotations; or, by the old scheme, with prefixes."""


AGENT = "kopf"
"""The field manager of operators, as API servers make it of the name of the client."""

NAMED_FINALIZER = "/finalizer"
"""How the finalizers of named operators end; before that, it is the name."""

OTHERS_MARKS = ("last-handled-configuration", "kopf-managed")
"""The annotations that all operators leave, after the prefixes of their own."""


class Phase(enum.StrEnum):
    """What is going on with an object. The first one that fits, in this order."""

    BLOCKED = "blocked"
    """It is being deleted, and waits only for finalizers of others."""

    PAUSED = "paused"
    """Nothing is handled for it, as people have asked; if the operator allows them to."""

    RETRIED = "retried"
    """Some of the handlers have failed, and will be called again."""

    DELETING = "deleting"
    """It is being deleted, and waits for its operator."""

    PROGRESSING = "in progress"
    """Some of the handlers have started, and not all of them are over."""

    SERVED = "served"
    """Operators have been there, but no change handlers: those leave the only marks that last.

    What reconcilers, timers, and daemons do is not on the object when all is well; what timers
    and daemons do is never there.
    """

    UNKNOWN = "unknown"
    """There are no signs of operators: they have not noticed it, or have nothing to do with it.

    Or it is served by those who leave no signs: timers, daemons with no finalizer, and
    reconcilers that are over and set no conditions.
    """

    CHANGED = "changed"
    """It differs from its last handled state, and no handler has started for that."""

    HANDLED = "handled"
    """All handlers are over, and nothing has changed since then."""


class HandlerPhase(enum.StrEnum):
    """How far one handler has got."""

    RETRIED = "retried"
    STARTED = "started"
    FAILED = "failed"
    SUCCEEDED = "succeeded"


@dataclass(frozen=True, slots=True)
class HandlerProgress:
    """How far one handler has got, and what is known of it."""

    id: str
    """As it is stored: what was too long is cut, and slashes can be dots."""

    state: HandlerState

    @property
    def phase(self) -> HandlerPhase:
        if self.state.success:
            return HandlerPhase.SUCCEEDED
        if self.state.failure:
            return HandlerPhase.FAILED
        return HandlerPhase.RETRIED if self.state.retries else HandlerPhase.STARTED


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectState:
    """All that the framework can tell of one object."""

    body: Body
    phase: Phase
    pause: str | None
    """Why it is paused; ``None`` if it is not."""

    is_held: bool
    """Whether our finalizer is there."""

    other_finalizers: tuple[str, ...]
    handlers: tuple[HandlerProgress, ...]
    """Those that are stored: it is so until the handling cycle is over."""

    last_handled: BodyEssence | None
    differences: Diff
    """What has changed since the last handled state."""

    @property
    def conditions(self) -> tuple[Mapping[str, Any], ...]:
        """What operators say of the object in its status; those of reconcilers say it there."""
        found = self.body.status.get("conditions") or ()
        return tuple(item for item in found if isinstance(item, Mapping) and item.get("type"))

    @property
    def is_outdated(self) -> bool:
        """Whether what is said in the status is of an earlier generation of the object."""
        observed = self.body.status.get("observedGeneration")
        return observed is not None and observed != self.body.metadata.get("generation")

    @property
    def deleted_at(self) -> str | None:
        """When the deletion was requested, if it was."""
        value = self.body.metadata.get("deletionTimestamp")
        return None if value is None else str(value)

    @property
    def unfinished(self) -> tuple[HandlerProgress, ...]:
        """The handlers that the object waits for; those that fail are the first.

        Not those that only wait for their sub-handlers.
        """
        unfinished = [handler for handler in self.handlers if not handler.state.finished]
        ids = {handler.id for handler in unfinished}
        awaited = [handler for handler in unfinished if not ids & {*handler.state.subrefs}]
        return tuple(sorted(awaited, key=lambda handler: handler.state.retries == 0))

    @property
    def current(self) -> HandlerProgress | None:
        """The handler that the object waits for: rather the one that fails."""
        return next(iter(self.unfinished), None)


def inspect(body: Body, persistence: PersistenceSettings, now: datetime.datetime) -> ObjectState:
    """Read everything that is left on the object by an operator with such settings."""
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
    """Whether operators have written something here, be it only in the status."""
    if is_deletion_blocked(body, persistence.finalizer):
        return True
    entries = body.metadata.get("managedFields") or ()
    managers = [
        entry.get("manager")
        for entry in entries
        if isinstance(entry, Mapping) and entry.get("operation") != "Apply"  # as of children
    ]
    own = persistence.finalizer.partition("/")[0]  # named operators have it by their names
    return any(manager in (AGENT, own) for manager in managers)


def _read_progress(
    body: Body, persistence: PersistenceSettings, now: datetime.datetime
) -> Iterator[HandlerProgress]:
    found = persistence.progress_storage.find(body=body)
    ids = _restore_ids(found)
    for name, record in sorted(found.items()):
        if not _is_copy(name, record, found) and not _is_of_calendar(record):
            yield HandlerProgress(ids.get(name, name), HandlerState.from_record(record, now))


def _restore_ids(found: Mapping[str, ProgressRecord]) -> Mapping[str, str]:
    """The ids with slashes of those stored with dots: as far as their sub-handlers tell that."""
    ids: dict[str, str] = {}
    for name, record in found.items():
        for ref in record.get("subrefs") or ():
            stored = ref.replace("/", ".")
            ids[stored] = ref
            if stored.startswith(f"{name}."):
                ids.setdefault(name, ref[: len(name)])
    return ids


def _is_copy(name: str, record: ProgressRecord, found: Mapping[str, Any]) -> bool:
    """Whether it is the same under a name by the old scheme: this one is shorter.

    See :class:`kopf_cogs.configs.conventions.StorageKeyFormingConvention`.
    """
    stem = name[:-_SUFFIX]
    return bool(stem) and any(
        len(other) > len(name) and other.startswith(stem) and found[other] == record
        for other in found
        if name[-_SUFFIX] == "-" and len(name) < _LONGEST
    )


def _is_of_calendar(record: ProgressRecord) -> bool:
    """Whether it is the latest call of a timer by the calendar, which is there for ever.

    Handlers have attempts when they succeed.
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

    It is not known which of the fields of the status are of interest for the handlers. So
    only those are compared that are in the last handled state. It is also not known which values
    are stored as hashes, but it can be seen.
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
