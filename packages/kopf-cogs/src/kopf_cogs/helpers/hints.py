"""Hints of errors, besides their messages. This module needs no networking, unlike the errors."""


class HintedError(Exception):
    """An error that can know what would help: a base class for others."""

    role_hint = ""
    """The rule that would permit it, a sentence to go on the message with; empty if unknown."""
