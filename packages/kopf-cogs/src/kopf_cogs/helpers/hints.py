"""Hints of errors, besides their messages. This module needs no networking, unlike the errors."""


class HintedError(Exception):
    """The base class of errors that can have a hint."""

    role_hint = ""
    """The rule that would permit the request, as the end of the message; empty if unknown."""
