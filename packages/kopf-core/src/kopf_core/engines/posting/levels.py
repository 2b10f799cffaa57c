"""Types of events by the levels of logging."""

import logging

TYPES_BY_LEVEL = (
    (logging.DEBUG, "Debug"),
    (logging.INFO, "Normal"),
    (logging.WARNING, "Warning"),
    (logging.ERROR, "Error"),
)


def type_of_level(level: int) -> str:
    """The type of events of this level of importance."""
    return next((name for limit, name in TYPES_BY_LEVEL if level <= limit), "Fatal")
