"""Events made of the log messages about objects."""

import logging
import threading

from kopf_cogs.structs.bodies import ObjectReference
from kopf_core.actions.context import operator_var
from kopf_core.actions.loggers import objects_logger
from kopf_core.engines.posting.levels import type_of_level


class EventPostingHandler(logging.Handler):
    """Makes Kubernetes events of the log messages about objects.

    The operator is taken from the context in which the message is logged.
    """

    def handle(self, record: logging.LogRecord) -> bool:
        # Most of the messages stay in the logs only, and are not worth the lock and the filters.
        if getattr(record, "k8s_skip", False) or getattr(record, "k8s_ref", None) is None:
            return False
        return bool(super().handle(record))

    def emit(self, record: logging.LogRecord) -> None:
        operator = operator_var.get(None)
        if operator is None:
            return
        posting = operator.settings.posting
        if not posting.enabled or not posting.loggers or record.levelno < posting.level:
            return
        ref: ObjectReference = record.k8s_ref  # type: ignore[attr-defined]
        try:
            message = self.format(record)
        except Exception:  # such as of formats that do not fit, or of ``__repr__()``
            self.handleError(record)
            return
        operator.recorder.record(
            ref,
            type=type_of_level(record.levelno),
            reason="Logging",
            message=message,
            backoffs=posting.logging_backoffs,
        )


class EventLogging:
    """Posts the log messages as events while at least one operator runs in the process."""

    def __init__(self) -> None:
        self._handler = EventPostingHandler()
        self._users = 0
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        with self._lock:
            self._users += 1
            if self._users == 1:
                objects_logger.addHandler(self._handler)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._users -= 1
            if not self._users:
                objects_logger.removeHandler(self._handler)


event_logging = EventLogging()
