"""Runs that end by themselves: their options and their results."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kopf_cogs.aiokits.sleeps import sleep
from kopf_core.actions.bases import BaseCause, BaseHandler
from kopf_core.actions.errors import SubhandlersPending
from kopf_core.actions.instruments import Instruments
from kopf_core.actions.outcomes import Outcome
from kopf_core.actions.retrying import safe_message

if TYPE_CHECKING:  # its import takes time, and few operators need it
    from kopf_cogs.clients.rehearsal.overlay import Difference


@dataclass(slots=True)
class Once:
    """Handle existing objects until all is quiet, and exit: an option of :func:`kopf.operator`."""

    dry_run: bool = False
    """Whether this is a rehearsal: the server checks all writes, but commits none of them."""

    patience: float = 5.0
    """In seconds: the run waits for retries and other delays that are not longer than that."""

    settle: float = 1.0
    """In seconds: the cluster is quiet if nothing has happened for so long."""

    timeout: float | None = 300.0
    """In seconds: how long the run may have something to do; ``None`` is for no limit."""

    is_quiet: bool = False
    """A result of any run: whether it has ended by itself, with nothing left to do."""

    differences: "list[Difference]" = field(default_factory=list)
    """The result of a rehearsal: how the objects would change."""

    unfinished: list[str] = field(default_factory=list)
    """The result of any run: failed handlers, later retries, and unhandled objects, each with its
    reason.
    """

    async def limit_start(self) -> None:
        """Wait until the time is out, and note that the operator has not started in that time."""
        await sleep(math.inf if self.timeout is None else self.timeout)
        self.unfinished.append("Time is out: the startup handlers have not finished")


class Failures(Instruments):
    """Remembers the handlers whose latest attempts have not succeeded."""

    def __init__(self) -> None:
        self._failures: dict[tuple[str | None, str], str] = {}

    def describe(self) -> list[str]:
        return sorted(self._failures.values())

    def on_outcome(self, handler: BaseHandler, cause: BaseCause, outcome: Outcome) -> None:
        meta: Mapping[str, str | None] = cause.kwargs.get("meta") or {}
        key = meta.get("uid"), str(handler.id)
        if outcome.verdict == "success":
            self._failures.pop(key, None)
        elif outcome.verdict in ("failure", "retry"):
            place = "/".join(filter(None, (meta.get("namespace"), meta.get("name"))))
            what = "has failed" if outcome.final else "is to be retried"
            self._failures[key] = f"{handler} {what} for {place}{_explain(outcome.exception)}"


def _explain(error: BaseException | None) -> str:
    if isinstance(error, SubhandlersPending):  # it has no text
        return ": its sub-handlers have not finished"
    return f": {safe_message(error)}" if error is not None else ""
