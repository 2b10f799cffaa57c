"""The runs of one timer of one object by the calendar: the next run, and the missed ones."""

import datetime
import zlib

from kopf_cogs.configs.progress import ProgressRecord
from kopf_cogs.configs.settings import PersistenceSettings
from kopf_cogs.structs.bodies import Body
from kopf_cogs.structs.ids import HandlerId
from kopf_core.actions.marks import Marks
from kopf_core.intents.crons import Cron

LATE = datetime.timedelta(seconds=60)
"""How late (in seconds) a run must be to count as missed."""

MOST_MISSED = 100
"""The largest number of missed runs to make up for. Older ones are dropped."""

NAP = 60.0
"""In seconds: longer waits are halved, to notice that the wall clock was set forward."""


class Calendar:
    """The runs of one timer of one object. All times are by the wall clock."""

    __slots__ = ("_cron", "_done", "_key", "_offset", "_persistence", "scheduled")

    def __init__(
        self,
        cron: Cron,
        id: HandlerId,
        body: Body,
        persistence: PersistenceSettings,
        *,
        since: datetime.datetime,
    ) -> None:
        self._cron = cron
        self._key = HandlerId(f"{id}/schedule")
        self._persistence = persistence
        self._offset = _get_offset(cron, f"{body.metadata.uid}/{id}")
        self._done = self._fetch(body) or since
        self.scheduled = self._done
        """The planned time of the run that waits, or that goes on."""

    def plan(self, now: datetime.datetime) -> datetime.datetime:
        """Choose when the next run starts: in the past, if it makes up for a missed one."""
        self.scheduled = run = self._cron.get_next(self._done)
        if run + self._offset < now - LATE:
            self.scheduled = self._make_up(run, now - self._offset)
        return self.scheduled + self._offset

    def is_due(self, now: datetime.datetime) -> bool:
        """Whether the run can start. Event loops can wake up slightly too early."""
        return self.scheduled + self._offset <= now

    def finish(self) -> None:
        """The run has ended, with success or without."""
        self._done = self.scheduled

    def store(self, body: Body, marks: Marks) -> None:
        """Store the finished run on the object, if missed runs are made up for."""
        if self._cron.is_kept:
            moment = self.scheduled.isoformat(timespec="seconds")
            record = ProgressRecord(started=moment, stopped=moment, success=True)
            storage = self._persistence.progress_storage
            storage.store(key=self._key, record=record, body=body, patch=marks)

    def _fetch(self, body: Body) -> datetime.datetime | None:
        if not self._cron.is_kept:
            return None
        record = self._persistence.progress_storage.fetch(key=self._key, body=body)
        try:
            moment = datetime.datetime.fromisoformat((record or {}).get("stopped") or "")
        except ValueError:
            return None
        return moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)

    def _make_up(self, run: datetime.datetime, now: datetime.datetime) -> datetime.datetime:
        match self._cron.missed:
            case "all":
                return max(run, self._cron.get_latest(now, MOST_MISSED))
            case "one":
                return max(run, self._cron.get_latest(now))
            case _:
                return self._cron.get_next(now)


def get_nap(left: float) -> float:
    """Choose for how many seconds to wait at once, if that many are left."""
    return left if left <= NAP else max(NAP, left / 2)


def _get_offset(cron: Cron, identity: str) -> datetime.timedelta:
    """Choose by how much the runs are late: a different delay for each object, so that they do not
    come all at once.
    """
    share = zlib.crc32(identity.encode()) / 2**32
    return datetime.timedelta(seconds=share * cron.jitter)
