"""Errors of expressions, besides that they are not supported."""

from __future__ import annotations


class EvaluationError(Exception):
    """An expression that has no value, e.g. because a field is absent."""
