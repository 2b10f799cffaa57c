"""The log of simulated operators, in the virtual time."""

from __future__ import annotations

import logging

from kopf_kits.simulation import World


class Log(logging.Handler):
    """The log of the operators, and the moments of requests, in the virtual time."""

    def __init__(self, world: World) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.exc_info and record.exc_info[0] is not None:
            text += f" Traceback: {record.exc_info[1]!r}"
        self.lines.append(f"{record.levelname} {text}")
        self._world.tell(f"log: {record.levelname} {text[:300]}")

    def __enter__(self) -> Log:
        logging.getLogger().addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger().removeHandler(self)
