"""Schedules by the calendar, as in cron: ``0 3 * * *`` in a time zone.

The library ``cronsim`` parses the expressions. Kopf imports it only if there are any expressions.
"""

import datetime
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from kopf_cogs.aiokits.surroundings import get_clock

MissedRuns: TypeAlias = Literal["none", "one", "all"]

SECOND = datetime.timedelta(seconds=1)
_CHOICES = ("none", "one", "all")
_NAMED = {
    "@yearly": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@hourly": "0 * * * *",
}


@dataclass(frozen=True, slots=True)
class Cron:
    """The schedule of a timer by the calendar, and the policy for missed runs."""

    expression: str
    timezone: datetime.tzinfo = datetime.UTC
    missed: MissedRuns = "none"
    jitter: float = 0.0
    """The largest delay of the runs of an object, in seconds."""

    def __str__(self) -> str:
        return self.expression

    @property
    def is_kept(self) -> bool:
        """Whether the latest run is stored on the object, so that a restart can make up for it."""
        return self.missed != "none"

    def get_next(self, moment: datetime.datetime) -> datetime.datetime:
        """The first run after the moment."""
        return next(self._iterate(moment))

    def get_latest(self, moment: datetime.datetime, count: int = 1) -> datetime.datetime:
        """The latest run at the moment or before it; with ``count``, the earliest of that many."""
        runs = itertools.islice(self._iterate(moment + SECOND, reverse=True), count)
        *_, earliest = runs
        return earliest

    def _iterate(
        self, moment: datetime.datetime, *, reverse: bool = False
    ) -> Iterator[datetime.datetime]:
        from cronsim import CronSim

        local = moment.astimezone(self.timezone)
        runs = CronSim(self.expression, local, reverse=reverse)
        return (run.astimezone(datetime.UTC) for run in runs)


def parse_cron(
    expression: str | None,
    *,
    timezone: str | datetime.tzinfo | None = None,
    missed: MissedRuns | None = None,
    jitter: float | None = None,
) -> Cron | None:
    """Parse the options of a schedule. Returns ``None`` if there is no schedule.

    Raises :class:`TypeError` for options that never work, and :class:`ImportError` without the
    library.
    """
    if expression is None:
        for name, value in {"timezone": timezone, "missed": missed, "jitter": jitter}.items():
            if value is not None:
                raise TypeError(f"{name}= needs schedule=, e.g. schedule='0 3 * * *'.")
        return None
    if missed is not None and missed not in _CHOICES:
        raise TypeError(f"missed= must be one of 'none', 'one', 'all', not {missed!r}.")
    if jitter is not None and not (isinstance(jitter, int | float) and jitter >= 0):
        raise TypeError(f"jitter= must be a number of seconds, not {jitter!r}.")
    if not isinstance(expression, str):
        raise TypeError(
            f"schedule= must be a text, one for all objects, e.g. '0 3 * * *', not {expression!r}."
        )
    cron = Cron(
        expression=_NAMED.get(expression, expression),
        timezone=_parse_timezone(timezone),
        missed=missed or "none",
        jitter=jitter or 0.0,
    )
    _check(cron)
    return cron


def _parse_timezone(timezone: Any) -> datetime.tzinfo:
    if timezone is None:
        return datetime.UTC
    if isinstance(timezone, datetime.tzinfo):
        return timezone
    import zoneinfo  # few operators need its import

    try:
        return zoneinfo.ZoneInfo(timezone)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, TypeError) as e:
        raise TypeError(
            f"timezone= must be a name such as 'Europe/Berlin' which this system knows, "
            f"not {timezone!r}. If the system knows none, install the package tzdata."
        ) from e


def _check(cron: Cron) -> None:
    try:
        import cronsim
    except ImportError as e:
        raise ImportError("schedule= needs the package cronsim: pip install 'kopf[cron]'.") from e
    try:
        cron.get_next(get_clock().now())
    except (cronsim.CronSimError, StopIteration) as e:
        raise TypeError(
            f"schedule= must be five fields as in crontab, e.g. '0 3 * * *', "
            f"not {cron.expression!r}: {e}"
        ) from e
