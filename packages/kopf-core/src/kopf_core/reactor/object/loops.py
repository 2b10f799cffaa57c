"""Loops: handlers of status fields that change these very fields, and so are called again.

A few rounds are fine: the value can settle. If it does not settle, each round waits longer than the
one before it. Changes by others are never delayed. A patch that sets the same value changes nothing
in the API, so it begins no round.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from kopf_cogs.aiokits.clocks import Clock
from kopf_cogs.structs.dicts import FieldPath, resolve
from kopf_cogs.structs.ids import HandlerId
from kopf_cogs.structs.keys import ObjectKey
from kopf_cogs.structs.patches import Patch
from kopf_core.actions.loggers import AnyLogger
from kopf_core.intents.causes import ChangingCause
from kopf_core.intents.handlers import ChangingHandler

FREE_ROUNDS = 3
"""The number of rounds in a row that are not delayed."""

MAX_DELAY = 600.0
"""In seconds: the longest delay between the rounds."""


class _Write(NamedTuple):
    """The latest values that handlers have written to the fields which they are called for."""

    values: Mapping[FieldPath, Any]
    by: HandlerId
    rounds: int
    """The number of rounds in a row that such writes have begun."""

    until: float | None = None
    """When the next round can begin; ``None`` until the object comes back with these values."""


class StatusLoops:
    """Recognises the loops for the objects of one kind; remembers only objects with such writes."""

    def __init__(self, handlers: Iterable[ChangingHandler], clock: Clock) -> None:
        self._clock = clock
        self._fields = {h.field for h in handlers if h.field and h.field[0] == "status"}
        self._writes: dict[ObjectKey, _Write] = {}

    def __bool__(self) -> bool:
        """Whether any handler is called for a field of the status; in most operators, none is."""
        return bool(self._fields)

    def get_hold(self, key: ObjectKey, cause: ChangingCause, logger: AnyLogger) -> float:
        """How many seconds to wait before the handlers are called for their own write."""
        write = self._writes.get(key)
        if write is None:
            return 0.0
        if not _is_caused_by(write, cause):
            del self._writes[key]
            return 0.0
        now = self._clock.monotonic()
        if write.until is None:
            rounds = write.rounds + 1
            delay = min(2.0 ** (rounds - FREE_ROUNDS), MAX_DELAY) if rounds > FREE_ROUNDS else 0.0
            write = write._replace(rounds=rounds, until=now + delay)
            self._writes[key] = write
            if rounds == FREE_ROUNDS + 1:
                _warn(write, logger)
        return max(0.0, (write.until or 0.0) - now)

    def watch(
        self,
        key: ObjectKey,
        cause: ChangingCause,
        handlers: Iterable[ChangingHandler],
        patches: Iterable[Patch],
    ) -> None:
        """Remember the write, if handlers have changed the fields which they are called for."""
        callees = {h.field: h.id for h in handlers if h.field in self._fields and h.field}
        if not callees:
            return
        before: Mapping[str, Any] = cause.body
        after = before
        for patch in patches:
            if patch:
                after = Patch({**patch}).transform(after)
        values = {
            field: resolve(after, field, None)
            for field in self._fields
            if resolve(after, field, None) != resolve(before, field, None)
        }
        known = self._writes.pop(key, None)
        if values:
            by = next((id for field, id in callees.items() if field in values), None)
            rounds = 0 if known is None else known.rounds
            self._writes[key] = _Write(values, by or next(iter(callees.values())), rounds)

    def forget(self, key: ObjectKey) -> None:
        """The object is gone."""
        self._writes.pop(key, None)


def _is_caused_by(write: _Write, cause: ChangingCause) -> bool:
    """Whether the change of the object consists of this write only."""
    fields = write.values
    return all(
        any(item.field[: len(field)] == field for field in fields) for item in cause.diff
    ) and all(resolve(cause.body, field, None) == value for field, value in fields.items())


def _warn(write: _Write, logger: AnyLogger) -> None:
    names = ", ".join(repr(".".join(field)) for field in write.values)
    logger.warning(
        f"Handler {write.by!r} is called for changes of the field {names}, and changes it "
        f"every time, so it is called again and again. The calls will be ever more rare."
    )
