"""Field managers: who set which fields of an object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import jsons
from .resources import Endpoint

if TYPE_CHECKING:
    from .writes import WriteOptions

Obj = dict[str, Any]


def track(endpoint: Endpoint, old: Obj | None, new: Obj, options: WriteOptions, sub: str) -> None:
    """Update ``metadata.managedFields`` of the new state in place."""


def same(old: Obj, new: Obj) -> bool:
    """Whether two states are the same for all but the times of their managed fields."""
    return old == new and jsons.dumps(old) == jsons.dumps(new)
