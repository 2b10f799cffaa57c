"""Errors in the descriptions of kinds; the messages are for users."""

from __future__ import annotations


class TypedError(Exception):
    """The kinds cannot be written as typed dictionaries: the message says which and why."""

    expected = True
