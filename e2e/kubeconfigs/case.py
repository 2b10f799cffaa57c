"""One line of the table: what is in a kubeconfig, what we do with it, and what kubectl does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from e2e.kubeconfigs.world import World

REFUSED = "refused"
ASKED = "asks for a username"
NOWHERE = "refused: `localhost:8080`"
"""Where kubectl goes if there is nothing to go to."""


@dataclass(frozen=True)
class Case:
    """``message`` is of our refusal. ``kubectl`` is what it does if it is not the same."""

    id: str
    title: str
    make: Callable[[World], Any]
    ours: str
    message: str = ""
    kubectl: str = ""
    reason: str = ""


OURS_ONLY = "It is better to see it at the start than to be refused by the server later."

NOBODY = "There is no user to ask."
