"""Events made of the log messages about objects."""

import logging

from kopf_cogs.structs.bodies import ObjectReference
from kopf_core.actions.context import operator_var
from kopf_core.actions.loggers import objects_logger
from kopf_core.engines.posting.functions import type_of_level


class EventPostingHandler(logging.Handler):
    """Makes Kubernetes events of the log messages about objects.

    It takes the operator from the context in which the message is logged.
    """

    def handle(self, record: logging.LogRecord) -> bool:
        # Most messages stay in the logs only, and are not worth the lock and the filters.
        if getattr(record, "k8s_skip", False) or getattr(record, "k8s_ref", None) is None:
            return False
        operator = operator_var.get(None)
        if operator is None:
            return False
        posting = operator.settings.posting
        if not posting.enabled or not posting.loggers or record.levelno < posting.level:
            return False
        return bool(super().handle(record))

    def emit(self, record: logging.LogRecord) -> None:
        operator = operator_var.get()
        posting = operator.settings.posting
        ref: ObjectReference = record.k8s_ref  # type: ignore[attr-defined]
        try:
            message = self.format(record)
        except Exception:  # e.g. errors of formats that do not fit, or of ``__repr__()``
            self.handleError(record)
            return
        operator.recorder.record(
            ref,
            type=type_of_level(record.levelno),
            reason="Logging",
            message=message,
            backoffs=posting.logging_backoffs,
        )


def post_log_messages() -> None:
    """Post the messages about objects as events from now on.

    Outside of operators, nothing is posted. So this is never undone, and operators are not counted.
    """
    if not any(isinstance(handler, EventPostingHandler) for handler in objects_logger.handlers):
        objects_logger.addHandler(EventPostingHandler())
