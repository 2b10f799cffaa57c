"""The latest errors from the logs, to be shown on the page."""

import datetime
import logging
from collections import deque
from collections.abc import Mapping

from kopf_core.engines.serving.snapshots import NOT_SHOWN, ErrorSnapshot

MAX_ERRORS = 20
"""How many of the errors are remembered."""

MAX_LENGTH = 500
"""How long the remembered messages can be."""


class LatestErrors(logging.Handler):
    """Remembers the errors that are logged by the framework and its handlers, while entered."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self._items: deque[ErrorSnapshot] = deque(maxlen=MAX_ERRORS)
        self._logger = logging.getLogger("kopf")

    def __enter__(self) -> "LatestErrors":
        self._logger.addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._logger.removeHandler(self)

    @property
    def items(self) -> tuple[ErrorSnapshot, ...]:
        """The newest ones go first."""
        return tuple(reversed(self._items))

    def emit(self, record: logging.LogRecord) -> None:
        time = datetime.datetime.fromtimestamp(record.created, datetime.UTC)
        try:
            message = record.getMessage()
        except Exception:
            return  # a wrong format of a message is told of by other handlers
        self._items.append(
            ErrorSnapshot(
                time=time.isoformat(timespec="seconds"),
                logger=record.name,
                message=(_name_object(record) + (NOT_SHOWN if _is_secret(record) else message))[
                    :MAX_LENGTH
                ],
            )
        )


def _is_secret(record: logging.LogRecord) -> bool:
    ref = getattr(record, "k8s_ref", None)
    return isinstance(ref, Mapping) and ref.get("kind") == "Secret"


def _name_object(record: logging.LogRecord) -> str:
    """Which object it is about, if about any."""
    ref = getattr(record, "k8s_ref", None)
    if not isinstance(ref, Mapping):
        return ""
    path = "/".join(str(ref[key]) for key in ("namespace", "name") if ref.get(key))
    return f"{ref.get('kind') or 'object'} {path}: "
