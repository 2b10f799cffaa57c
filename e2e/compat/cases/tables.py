"""All the cases by their topics."""

from __future__ import annotations

from . import (
    admission,
    background,
    causes,
    deletions,
    errors,
    filters,
    handovers,
    patches,
    resuming,
    storages,
    subhandlers,
)

CASES = (
    *causes.CASES,
    *deletions.CASES,
    *resuming.CASES,
    *filters.CASES,
    *errors.CASES,
    *subhandlers.CASES,
    *patches.CASES,
    *storages.CASES,
    *background.CASES,
    *handovers.CASES,
    *admission.CASES,
)
