"""What makes a case."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from e2e.compat.steps import Step


@dataclasses.dataclass(frozen=True)
class Case:
    """One operator with the script of changes to its objects."""

    name: str
    operator: str
    """The source; ``helpers.py`` and the usual modules are imported already."""
    steps: Sequence[Step]
    plurals: Sequence[str] = ("compatexamples",)
    options: Sequence[str] = ()
    """Extra options of ``kopf run``."""
    is_started_later: bool = False
    """The operator is started by the script."""
    is_handed_over: bool = False
    """Each restart switches from one generation to another, in both directions."""
    required: Sequence[str] = ()
    """Regular expressions for the calls that ours must make, whatever the predecessor does."""
