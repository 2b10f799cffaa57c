"""Marks of clusters in the logs: each record of one of several clusters has its name."""

import contextlib
import logging
from collections.abc import Iterator
from typing import Any

from kopf_core.actions.context import operator_var


@contextlib.contextmanager
def marked_clusters() -> Iterator[None]:
    """Put the names of clusters into the records of all loggers, inside of the block.

    The name is in the attribute ``k8s_cluster``. Records that belong to no cluster have none.
    """
    previous = logging.getLogRecordFactory()

    def make(*args: Any, **kwargs: Any) -> logging.LogRecord:
        record = previous(*args, **kwargs)
        operator = operator_var.get(None)
        if operator is not None and operator.settings.cluster is not None:
            record.k8s_cluster = operator.settings.cluster
        return record

    logging.setLogRecordFactory(make)
    try:
        yield
    finally:
        if logging.getLogRecordFactory() is make:  # others can have replaced it
            logging.setLogRecordFactory(previous)
