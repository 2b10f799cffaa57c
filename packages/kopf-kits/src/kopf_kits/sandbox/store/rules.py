"""Special rules for the objects of a kind: defaults, checks, immutability, deletion."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from kopf_kits.sandbox.base.remarks import Doubt
from kopf_kits.sandbox.base.statuses import Cause

Obj = dict[str, Any]
Complete = Callable[[Obj, Obj | None], None]
"""Completes a new state of an object in place; the old state is given if there is one."""
Check = Callable[[Obj, Obj | None], Iterable[Cause | Doubt]]
"""Finds the errors in a new state of an object, and the rules that cannot be judged."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The behaviour of one kind. By default, it behaves as custom resources do.

    ``generation``: whether ``metadata.generation`` is counted.
    ``unconditional``: whether an object can be replaced without a resource version.
    ``returns_deleted``: whether a deletion is answered with the object, not with a status.
    ``orphans``: whether the dependents survive if a deletion does not say otherwise.
    ``names``: the style of names: ``subdomain``, ``label``, ``label1035``, ``path``.
    ``status_labels``: whether labels are changed via the ``status`` subresource, too.
    ``grace``: the graceful period of a deletion in seconds, if there is one by default.
    """

    generation: bool = True
    unconditional: bool = False
    returns_deleted: bool = False
    orphans: bool = False
    create_on_update: bool = False
    names: str = "subdomain"
    complete: Complete | None = None
    check: Check | None = None
    grace: Callable[[Obj], int | None] | None = None
    fields: tuple[str, ...] = ()
    strategic: bool = False
    status_labels: bool = True
