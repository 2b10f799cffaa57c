"""Checks of CronJobs: their names, schedules, and the templates of their jobs."""

from __future__ import annotations

import re
import zoneinfo
from collections.abc import Iterator

from kopf_kits.sandbox.base.statuses import Cause
from kopf_kits.sandbox.schemas.validation import invalid_value
from kopf_kits.sandbox.store.rules import Obj

from .kindchecks import check_job_template, section, unsupported

MAX_NAME = 52
"""The longest name: a job has the name of its CronJob, a dash, and ten digits."""

_POLICIES = ("Allow", "Forbid", "Replace")
_LIMITS = ("successfulJobsHistoryLimit", "failedJobsHistoryLimit")
_NICKNAMES = {"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"}
_BOUNDS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))
_NUMBERS = re.compile(r"(\d+)(?:-(\d+))?(?:/\d+)?")


def check_cronjob(obj: Obj, old: Obj | None) -> Iterator[Cause]:
    spec, name = section(obj), obj["metadata"].get("name") or ""
    if old is None and len(name) > MAX_NAME:
        text = f"must be no more than {MAX_NAME} characters"
        yield invalid_value("metadata.name", name, text)
    schedule = spec.get("schedule") or ""
    if schedule and (problem := _find_problem(schedule)):
        yield invalid_value("spec.schedule", schedule, problem)
    zone = spec.get("timeZone")
    if zone is not None and not _is_zone(zone) and _is_zone("Europe/Berlin"):
        yield invalid_value("spec.timeZone", zone, f"unknown time zone {zone}")
    if spec.get("concurrencyPolicy") not in _POLICIES:
        yield unsupported("spec.concurrencyPolicy", spec.get("concurrencyPolicy"), _POLICIES)
    for limit in _LIMITS:
        if (spec.get(limit) or 0) < 0:
            text = "must be greater than or equal to 0"
            yield invalid_value(f"spec.{limit}", spec[limit], text)
    job = section(section(spec, "jobTemplate"))
    yield from check_job_template(section(job, "template"), "spec.jobTemplate.spec.template")


def _is_zone(name: str) -> bool:
    """Whether the zone is known. This machine can have no zones at all."""
    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError):
        return False
    return True


def _find_problem(schedule: str) -> str | None:
    """Find the problem of the schedule, in the words of the server.

    The sandbox accepts wrong names of months and days, and wrong steps; the server refuses them.
    """
    if "TZ=" in schedule:
        return "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
    if schedule.startswith("@every "):
        return None
    if schedule.startswith("@"):
        return None if schedule in _NICKNAMES else f"unrecognized descriptor: {schedule}"
    fields = schedule.split()
    if len(fields) != len(_BOUNDS):
        return f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]"
    for field, (least, most) in zip(fields, _BOUNDS, strict=True):
        for part in field.split(","):
            if problem := _find_problem_in_range(part, least, most):
                return problem
    return None


def _find_problem_in_range(part: str, least: int, most: int) -> str | None:
    found = _NUMBERS.fullmatch(part)
    if found is None:
        return None
    start, end = int(found[1]), int(found[2] or found[1])
    if start < least:
        return f"beginning of range ({start}) below minimum ({least}): {part}"
    if end > most:
        return f"end of range ({end}) above maximum ({most}): {part}"
    if start > end:
        return f"beginning of range ({start}) beyond end of range ({end}): {part}"
    return None
