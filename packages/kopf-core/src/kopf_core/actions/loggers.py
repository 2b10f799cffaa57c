"""Loggers of single objects.

All messages about objects go through the logger named ``kopf.objects``. The records carry the
reference of the object (``k8s_ref``) for prefixes, for JSON logs, and for Kubernetes events made of
log messages. If ``k8s_skip`` is set, the message stays in the log only.
"""

import asyncio
import functools
import logging
import os
import sys
import threading
import time
from collections.abc import Mapping, MutableMapping
from types import CodeType, FrameType
from typing import Any, ClassVar

from kopf_cogs.configs.settings import OperatorSettings
from kopf_cogs.structs.bodies import Body, ObjectReference, build_object_reference

AnyLogger = logging.Logger | logging.LoggerAdapter[Any]

objects_logger = logging.getLogger("kopf.objects")

_LOGGING = logging.LoggerAdapter.log.__code__.co_filename


class ObjectLogger(logging.LoggerAdapter[logging.Logger]):
    """A logger for one object: its messages can also become Kubernetes events of that object.

    They do if ``settings.posting.loggers`` is on. The reference of the object is only made
    when a message is really logged, and only once: the identity of an object never changes.
    """

    is_local: ClassVar[bool] = False

    def __init__(self, *, body: Body, settings: OperatorSettings) -> None:
        super().__init__(objects_logger, {})
        self._body = body
        self._settings = settings
        self._ref: ObjectReference | None = None

    # As in the base class, but with fewer calls: these methods run several times for every event.

    def debug(self, msg: object, *args: object, **kwargs: Any) -> None:
        if self.logger.isEnabledFor(logging.DEBUG):
            kwargs["stacklevel"] = kwargs.get("stacklevel", 1) + 1  # this very method
            self.log(logging.DEBUG, msg, *args, **kwargs)

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        if not self.logger.isEnabledFor(level):
            return
        if kwargs:
            kwargs["stacklevel"] = kwargs.get("stacklevel", 1) + 1  # this very method
            msg, processed = self.process(msg, kwargs)
            self.logger._log(level, msg, args, **processed)
            return
        msg, processed = self.process(msg, kwargs)
        frame: FrameType = sys._getframe(1)
        while frame.f_code.co_filename == _LOGGING and frame.f_back is not None:
            frame = frame.f_back  # e.g. ``info()`` of the base class
        self.logger.handle(self._make_record(level, frame, msg, args, processed["extra"]))

    def _make_record(
        self, level: int, frame: FrameType, msg: Any, args: Any, extra: Mapping[str, Any]
    ) -> logging.LogRecord:
        """Make the record as the base class does, but several times quicker for ready texts.

        There is one record for each call of a handler, from a few places in the code.
        """
        code = frame.f_code
        if args or logging.getLogRecordFactory() is not logging.LogRecord:
            where = code.co_filename, frame.f_lineno
            return self.logger.makeRecord(
                self.logger.name, level, *where, msg, args, None, code.co_name, extra=extra
            )
        record = logging.LogRecord.__new__(logging.LogRecord)
        place = _describe_place(level, code, frame.f_lineno, os.getpid())
        record.__dict__ = fields = {**place, **extra, "msg": msg}
        _set_moment(fields, place)
        return record

    def process(
        self,
        msg: Any,
        kwargs: MutableMapping[str, Any],
    ) -> tuple[Any, MutableMapping[str, Any]]:
        if self._ref is None:
            self._ref = build_object_reference(self._body)
        extra = {
            "settings": self._settings,
            "k8s_skip": self.is_local,
            "k8s_ref": self._ref,
        }
        if "extra" in kwargs:
            extra.update(kwargs["extra"] or {})
        kwargs["extra"] = extra
        return msg, kwargs


@functools.lru_cache(maxsize=200)
def _describe_place(level: int, code: CodeType, line: int, pid: int) -> Mapping[str, Any]:
    """The fields that are the same in all records from this line in this process."""
    where = code.co_filename, line
    return vars(logging.LogRecord(objects_logger.name, level, *where, "", (), None, code.co_name))


def _set_moment(fields: dict[str, Any], place: Mapping[str, Any]) -> None:
    """Set the fields that differ in each record, unless the application has switched them off."""
    fields["created"] = now = time.time()  # noqa: TID251 -- as in usual records
    fields["msecs"] = int((now - int(now)) * 1000) + 0.0
    fields["relativeCreated"] = place["relativeCreated"] + (now - place["created"]) * 1000
    if logging.logThreads:
        fields["thread"] = threading.get_ident()
        fields["threadName"] = threading.current_thread().name
    if getattr(logging, "logAsyncioTasks", False):  # since Python 3.12
        fields["taskName"] = _get_task_name()


def _get_task_name() -> str | None:
    try:
        task = asyncio.current_task()
    except RuntimeError:  # in threads, there are no tasks
        return None
    return None if task is None else task.get_name()


class LocalObjectLogger(ObjectLogger):
    """A logger for one object whose messages stay in the log, and never become events."""

    is_local = True
