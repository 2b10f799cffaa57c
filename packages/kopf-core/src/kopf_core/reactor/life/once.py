"""A run that ends by itself: what it is to wait for, and what has come of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kopf_core.actions.bases import BaseCause, BaseHandler
from kopf_core.actions.instruments import Instruments
from kopf_core.actions.outcomes import Outcome
from kopf_core.actions.retrying import safe_message

if TYPE_CHECKING:  # it takes time to be imported, and most of the operators do without it
    from kopf_cogs.clients.rehearsal.overlay import Difference


@dataclass(slots=True)
class Once:
    """Handle what there is, until all is quiet, and exit: an option of :func:`kopf.operator`."""

    dry_run: bool = False
    """Whether it is a rehearsal: the server checks all writes, but commits none of them."""

    patience: float = 5.0
    """In seconds: retries and other delays are waited for if they are not longer than that."""

    settle: float = 1.0
    """In seconds: for how long nothing must happen in the cluster until it is taken for quiet."""

    timeout: float | None = 300.0
    """In seconds: for how long it may be restless; ``None`` is for no limit."""

    is_quiet: bool = False
    """A result of any run: whether it has ended by itself, as there was nothing more to do."""

    differences: "list[Difference]" = field(default_factory=list)
    """The result of a rehearsal: what would become of the objects."""

    unfinished: list[str] = field(default_factory=list)
    """The result of any run: what has failed, or is to be retried later, one line for each."""


class Failures(Instruments):
    """Remembers those handlers whose latest attempts have not succeeded."""

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
            why = f": {safe_message(outcome.exception)}" if outcome.exception is not None else ""
            self._failures[key] = f"{handler} {what} for {place}{why}"
