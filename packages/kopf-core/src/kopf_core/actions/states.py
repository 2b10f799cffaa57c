"""The states of handlers in one handling cycle: immutable records, and their collection.

The records outlive the process: they are stored on the object (see *progress storages*), so that an
operator continues after a restart, and repeats no handlers.
"""

import datetime
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from kopf_cogs.configs.progress import ProgressRecord, ProgressStorage
from kopf_cogs.structs.bodies import Body
from kopf_cogs.structs.ids import HandlerId
from kopf_cogs.structs.patches import Patch
from kopf_core.actions.bases import BaseHandler
from kopf_core.actions.outcomes import Outcome
from kopf_core.actions.retrying import safe_message, sane_delay

NO_JUMP = datetime.timedelta(0)
"""The wall clock was not set."""

LEAST_JUMP = 5.0
"""In seconds: smaller adjustments of the wall clock are usual, and are ignored."""


class HandlerState(NamedTuple):
    """The progress of one handler in one handling cycle. All times are in UTC.

    It is a tuple: each step makes several for each object, and dataclasses are slower to make.
    """

    started: datetime.datetime
    stopped: datetime.datetime | None = None
    delayed: datetime.datetime | None = None
    purpose: str | None = None
    retries: int = 0
    success: bool = False
    failure: bool = False
    message: str | None = None
    subrefs: frozenset[HandlerId] = frozenset()
    since: float | None = None
    """The monotonic time of the start, if this process has made it; it is never stored."""
    written: datetime.datetime | None = None
    """The stored time of the start, if it is wrong: e.g. written by a clock that was ahead."""

    @property
    def finished(self) -> bool:
        return self.success or self.failure

    def is_awake(self, now: datetime.datetime) -> bool:
        """Whether the next attempt is due."""
        return not self.finished and (self.delayed is None or self.delayed <= now)

    def with_outcome(self, outcome: Outcome, now: datetime.datetime) -> "HandlerState":
        """The state after an attempt that has just ended."""
        exc = outcome.exception
        delay = sane_delay(outcome.delay)
        return HandlerState(
            started=self.started,
            purpose=self.purpose,
            since=self.since,
            stopped=now if outcome.final else None,
            delayed=now + datetime.timedelta(seconds=delay)
            if not outcome.final and delay is not None
            else None,
            retries=self.retries + outcome.is_attempt,
            success=outcome.final and exc is None,
            failure=outcome.final and exc is not None,
            message=None if exc is None else safe_message(exc),
            subrefs=self.subrefs | frozenset(outcome.subrefs),
        )

    def as_record(self) -> ProgressRecord:
        return ProgressRecord(
            started=_format_time(self.started),
            stopped=_format_time(self.stopped),
            delayed=_format_time(self.delayed),
            purpose=self.purpose,
            retries=self.retries,
            success=self.success,
            failure=self.failure,
            message=self.message,
            subrefs=sorted(self.subrefs) or None,
        )

    @classmethod
    def from_record(
        cls,
        record: ProgressRecord,
        now: datetime.datetime,
        jump: datetime.timedelta = NO_JUMP,
    ) -> "HandlerState":
        """Restore the state; unusable values in the record are replaced by sane ones.

        The ``jump`` is how far the wall clock was set forward after the record was made.
        """
        retries, subrefs = record.get("retries"), record.get("subrefs")
        message, purpose = record.get("message"), record.get("purpose")
        started = written = _parse_time(record.get("started"))
        delayed = _parse_time(record.get("delayed"))
        if jump:
            started, delayed = _shift(started, jump), _shift(delayed, jump)
        if started is not None and started > now:  # the clock was set back after that
            delayed = None if delayed is None else delayed - (started - now)
            started = now
        return cls(
            started=started or now,
            stopped=_parse_time(record.get("stopped")),
            delayed=delayed,
            written=None if started is written else written,
            purpose=purpose if isinstance(purpose, str) else None,
            retries=max(0, retries) if isinstance(retries, int) else 0,
            success=record.get("success") is True,
            failure=record.get("failure") is True,
            message=message if isinstance(message, str) else None,
            subrefs=frozenset(HandlerId(ref) for ref in subrefs if isinstance(ref, str))
            if subrefs and isinstance(subrefs, Collection) and not isinstance(subrefs, str)
            else frozenset(),
        )


class State(Mapping[HandlerId, HandlerState]):
    """The states of all handlers involved in a handling cycle. Immutable: changes make new ones.

    The *active* handlers belong to the current cause. The states of other handlers are only
    remembered as found on the object, e.g. from a cycle that another cycle has superseded.
    """

    __slots__ = ("_active", "_held", "_states", "_stored", "now", "purpose")

    def __init__(
        self,
        states: Mapping[HandlerId, HandlerState],
        *,
        now: datetime.datetime,
        active: frozenset[HandlerId] = frozenset(),
        stored: Mapping[HandlerId, HandlerState] = MappingProxyType({}),
        purpose: str | None = None,
        held: frozenset[HandlerId] = frozenset(),
    ) -> None:
        self._held = held
        self._states = states
        self._active = active
        self._stored = stored
        self.now = now
        self.purpose = purpose

    @classmethod
    def from_scratch(cls, *, now: datetime.datetime) -> "State":
        return cls({}, now=now)

    @classmethod
    def from_storage(
        cls,
        handlers: Iterable[BaseHandler],
        *,
        body: Body,
        storage: ProgressStorage,
        now: datetime.datetime,
        jump: datetime.timedelta = NO_JUMP,
    ) -> "State":
        """Read the progress of these handlers from the object."""
        records = ((handler.id, storage.fetch(key=handler.id, body=body)) for handler in handlers)
        states = {
            id: HandlerState.from_record(record, now, jump) for id, record in records if record
        }
        right = {id: state for id, state in states.items() if state.written is None}
        return cls(states, stored={} if jump else right, now=now)  # shifted times are stored again

    @property
    def is_as_stored(self) -> bool:
        """Whether the state would be the same after being stored and read again."""
        return all(state.since is None and state.written is None for state in self._states.values())

    def renew(self, now: datetime.datetime) -> "State":
        """The state as if it were stored, and then read for the next step."""
        purposes = (None, self.purpose)
        states = {
            id: state
            for id, state in self._states.items()
            if id in self._active or state.purpose in purposes
        }
        return State(states, stored=states, now=now)

    def with_purpose(self, purpose: str | None, handlers: Iterable[BaseHandler]) -> "State":
        """Activate the handlers for a purpose.

        Handlers that were started for another purpose go on. Finished handlers stay finished.
        """
        states = dict(self._states)
        active = set()
        for handler in handlers:
            known = states.get(handler.id)
            if known is None:
                states[handler.id] = HandlerState(started=self.now, purpose=purpose)
            elif known.purpose != purpose:
                states[handler.id] = known._replace(purpose=purpose)
            active.add(handler.id)
        return State(
            states, now=self.now, active=frozenset(active), stored=self._stored, purpose=purpose
        )

    def without(self, ids: Collection[HandlerId]) -> "State":
        """Let these handlers start anew: their progress belongs to another purpose."""
        if not ids:
            return self
        states = {id: state for id, state in self._states.items() if id not in ids}
        return State(states, now=self.now, stored=self._stored, purpose=self.purpose)

    def with_held(self, ids: Collection[HandlerId]) -> "State":
        """Let these handlers wait for a change of the object, not for a time. It is not stored."""
        if not ids:
            return self
        return self._with(self._states, self.now, frozenset(ids))

    def with_outcomes(
        self, outcomes: Mapping[HandlerId, Outcome], *, now: datetime.datetime
    ) -> "State":
        new = {id: self._states[id].with_outcome(outcome, now) for id, outcome in outcomes.items()}
        return self._with({**self._states, **new}, now, self._held)

    def _with(
        self,
        states: Mapping[HandlerId, HandlerState],
        now: datetime.datetime,
        held: frozenset[HandlerId],
    ) -> "State":
        active, stored, purpose = self._active, self._stored, self.purpose
        return State(states, now=now, active=active, stored=stored, purpose=purpose, held=held)

    def __getitem__(self, id: HandlerId) -> HandlerState:
        return self._states[id]

    def __iter__(self) -> Iterator[HandlerId]:
        return iter(self._states)

    def __len__(self) -> int:
        return len(self._states)

    @property
    def active(self) -> Mapping[HandlerId, HandlerState]:
        return {id: self._states[id] for id in self._states if id in self._active}

    @property
    def superseded(self) -> Mapping[str, Sequence[HandlerState]]:
        """The states found on the object from unfinished cycles of other purposes, by purpose."""
        found: dict[str, list[HandlerState]] = {}
        if not self._stored:  # the most frequent case goes first
            return found
        for state in self._stored.values():
            if state.purpose and state.purpose != self.purpose:
                found.setdefault(state.purpose, []).append(state)
        return found

    @property
    def done(self) -> bool:
        """Whether all handlers of the current cause have finished."""
        return all(self._states[id].finished for id in self._active)

    @property
    def finished(self) -> frozenset[HandlerId]:
        """The finished handlers, of any cause."""
        return frozenset(id for id, state in self._states.items() if state.finished)

    @property
    def started(self) -> datetime.datetime:
        """The time of the first start among the handlers that are or will be stored."""
        purposes = (None, self.purpose) if self.purpose else None
        return min(
            (
                state.started
                for id, state in self._states.items()
                if purposes is None or id in self._active or state.purpose in purposes
            ),
            default=self.now,
        )

    @property
    def since(self) -> datetime.datetime:
        """The stored time of the first start: a process with another clock can have written it."""
        times = (state.written or state.started for state in self._states.values())
        return min(times, default=self.now)

    @property
    def delay(self) -> float | None:
        """Seconds until the first of the unfinished handlers is due; 0 when one is due.

        It is infinite if all unfinished handlers only wait for changes.
        """
        active = self._active - self._held if self._held else self._active
        pending = [self._states[id] for id in active if not self._states[id].finished]
        if not pending:
            return None if self.done else math.inf
        return min(
            0.0 if state.delayed is None else max(0.0, (state.delayed - self.now).total_seconds())
            for state in pending
        )

    @property
    def summary(self) -> str:
        """The numbers of successes and failures of the handlers of the current cause, for logs."""
        states = self.active.values()
        return (
            f"{sum(state.success for state in states)} succeeded; "
            f"{sum(state.failure for state in states)} failed"
        )

    @property
    def all_subrefs(self) -> frozenset[HandlerId]:
        return frozenset().union(*(state.subrefs for state in self._states.values()))

    def store(self, *, body: Body, patch: Patch, storage: ProgressStorage) -> None:
        """Write the states of this cycle into the patch, except the states that are stored already.

        The states of superseded cycles are removed, unless they belong to this cycle, too.
        """
        for id, state in self._states.items():
            if id not in self._active and state.purpose not in (None, self.purpose):
                storage.purge(key=id, body=body, patch=patch)
        for id, state in self.active.items():
            if state != self._stored.get(id):
                storage.store(key=id, record=state.as_record(), body=body, patch=patch)
        storage.flush()

    def purge(
        self,
        handlers: Iterable[BaseHandler],
        *,
        body: Body,
        patch: Patch,
        storage: ProgressStorage,
    ) -> None:
        """Remove the states of this cycle from the object, as the cycle is over."""
        ids = {*self._states, *self.all_subrefs, *(handler.id for handler in handlers)}
        for id in sorted(ids):
            storage.purge(key=id, body=body, patch=patch)
        storage.flush()


def _shift(value: datetime.datetime | None, jump: datetime.timedelta) -> datetime.datetime | None:
    return value if value is None or not jump else value + jump


def _format_time(value: datetime.datetime | None) -> str | None:
    return None if value is None else value.isoformat(timespec="microseconds")


def _parse_time(value: object) -> datetime.datetime | None:
    if not isinstance(value, str):
        return None
    try:
        parsed = datetime.datetime.fromisoformat(value)
    except ValueError:
        return None
    return parsed if parsed.tzinfo is not None else parsed.replace(tzinfo=datetime.UTC)
