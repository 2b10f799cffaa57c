"""Loggers that know which object they talk about.

All messages about objects go through the logger named ``kopf.objects``. The records carry
the reference of the object (``k8s_ref``), used for prefixes, for JSON logs, and for Kubernetes
events made of log messages (unless ``k8s_skip`` is set: the message stays in the log only).
"""

import logging
from collections.abc import MutableMapping
from typing import Any, ClassVar

from kopf_cogs.configs.settings import OperatorSettings
from kopf_cogs.structs.bodies import Body, ObjectReference, build_object_reference

AnyLogger = logging.Logger | logging.LoggerAdapter[Any]

objects_logger = logging.getLogger("kopf.objects")


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

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        # The same as of the base class, but with fewer calls: it is called for every handler.
        if self.logger.isEnabledFor(level):
            kwargs["stacklevel"] = kwargs.get("stacklevel", 1) + 1  # this very method
            msg, processed = self.process(msg, kwargs)
            self.logger._log(level, msg, args, **processed)

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


class LocalObjectLogger(ObjectLogger):
    """A logger for one object whose messages stay in the log, and never become events."""

    is_local = True
