"""Instruments: those who measure what the operator does; nobody, by default."""

from dataclasses import dataclass
from typing import Protocol

from kopf_core.actions.bases import BaseHandler
from kopf_core.actions.outcomes import Outcome


class Instruments(Protocol):
    """Whoever measures the attempts of handlers. Called in the event loop; must be fast."""

    def on_attempt(self, handler: BaseHandler, outcome: Outcome, seconds: float) -> None:
        """An attempt has ended, in whatever way but cancellation."""


@dataclass(slots=True)
class Panel:
    """Where the instruments are plugged in: once the settings say so, after all parts are made."""

    instruments: Instruments | None = None
