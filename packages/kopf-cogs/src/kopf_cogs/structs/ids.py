"""Identifiers of handlers, shared by all layers."""

from typing import NewType

HandlerId = NewType("HandlerId", str)
"""A handler's id: the function's name by default, with ``/``-separated suffixes
for fields and sub-handlers, e.g. ``create_fn/spec.field`` or ``parent/child``."""
