"""The place and the look of the logs: plain or full text lines, or JSON documents.

It configures Python's own logging, once for the process. The messages of the operator and of users
go the same way. Both can be tuned further with the usual means of :mod:`logging`.
"""

from __future__ import annotations

import contextlib
import datetime
import enum
import json
import logging
import os
import re
import sys
from collections.abc import Iterator
from typing import IO, Any

DEFAULT_REFKEY = "object"
"""The key of JSON logs under which the object is identified."""

SEVERITIES = {
    logging.DEBUG: "debug",
    logging.INFO: "info",
    logging.WARNING: "warn",
    logging.ERROR: "error",
    logging.CRITICAL: "fatal",
}

# The standard attributes, and the internal ones of the framework: they get no keys in JSON.
_STANDARD_ATTRIBUTES = frozenset(vars(logging.makeLogRecord({}))) | {
    "message",
    "asctime",
    "taskName",
}
_INTERNAL_ATTRIBUTES = frozenset({"settings", "k8s_skip", "k8s_ref", "k8s_cluster"})


class LogFormat(enum.Enum):
    """The look of the log records. Any format string of :mod:`logging` can be used instead."""

    PLAIN = "%(message)s"
    FULL = "[%(asctime)s] %(name)-20.20s [%(levelname)-8.8s] %(message)s"
    JSON = "-json-"


def make_prefix(record: logging.LogRecord, *, kinds: bool = False) -> str:
    """Name the object that the record is about: ``[namespace/name] ``; empty if there is none.

    With ``kinds``, it is ``[Kind namespace/name] ``, for operators that serve several kinds.
    """
    ref = getattr(record, "k8s_ref", None)
    if not ref:
        return ""
    namespace, name = ref.get("namespace"), ref.get("name", "")
    kind = f"{ref.get('kind')} " if kinds and ref.get("kind") else ""
    return f"[{kind}{namespace}/{name}] " if namespace else f"[{kind}{name}] "


def name_cluster(record: logging.LogRecord) -> str:
    """Name the cluster: ``[name] ``; empty if there is only one."""
    cluster = getattr(record, "k8s_cluster", None)
    return f"[{cluster}] " if cluster else ""


PROCESS = "KOPF_PROCESS"
"""The variable with the number of this process, if it is one of ``kopf run --processes``."""

_MESSAGE = "%(message)"


COLOURS = {
    logging.DEBUG: "\x1b[2m",  # dim
    logging.INFO: "",
    logging.WARNING: "\x1b[33m",  # yellow
    logging.ERROR: "\x1b[31m",  # red
    logging.CRITICAL: "\x1b[1;31m",
}
_RESET = "\x1b[0m"


def is_colourful(stream: IO[str] | None) -> bool:
    """Whether people see colours in the stream: it is a terminal, and they do not refuse."""
    return (
        not os.environ.get("NO_COLOR")  # see https://no-color.org
        and os.environ.get("TERM") != "dumb"
        and stream is not None  # as of daemons, which have no streams
        and stream.isatty()
    )


MAX_LENGTH = 64 * 1024
"""How many characters of a message are logged; longer ones are cut in the middle."""

_UNSAFE = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029]")
_UNSAFE_IN_TRACEBACKS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")


def shorten(text: str) -> str:
    """Cut a text of an unreasonable length, so that one message does not flood the log."""
    if len(text) <= MAX_LENGTH:
        return text
    half = MAX_LENGTH // 2
    return f"{text[:half]} ...{len(text) - 2 * half} characters are cut... {text[-half:]}"


def escape(text: str) -> str:
    """Make the text one line that changes neither other lines nor the terminal."""
    return text if text.isprintable() else _UNSAFE.sub(_escape_char, text)


def escape_traceback(text: str) -> str:
    """Keep the lines; but the texts of errors must not look like other log records."""
    return _UNSAFE_IN_TRACEBACKS.sub(_escape_char, text).replace("\n[", "\n    [")


def _escape_char(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode("ascii")


class TextFormatter(logging.Formatter):
    """Lines of text, optionally with the object's name before the message."""

    def __init__(
        self,
        fmt: str | None = None,
        *,
        prefix: bool = False,
        kinds: bool = False,
        colours: bool = False,
    ) -> None:
        super().__init__(fmt)
        self._uses_time = super().usesTime()
        self._prefix = prefix
        self._kinds = kinds
        self._colours = colours
        self._second = -1
        self._rendered = ""

    def format(self, record: logging.LogRecord) -> str:
        if record.exc_info or record.exc_text or record.stack_info:
            return super().format(record)
        record.message = record.getMessage()  # a quicker way for most of the records
        if self._uses_time:
            record.asctime = self.formatTime(record, self.datefmt)
        return self.formatMessage(record)

    def usesTime(self) -> bool:
        return self._uses_time

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:
        # Rendering the time is a noticeable share of a busy operator's work, so it is done
        # once a second; only the milliseconds differ in between.
        if datefmt:
            return super().formatTime(record, datefmt)
        second = int(record.created)
        if second != self._second:
            rendered = super().formatTime(record)
            self._second, self._rendered = second, rendered.rpartition(",")[0]
        return f"{self._rendered},{int(record.msecs):03d}"

    def formatMessage(self, record: logging.LogRecord) -> str:
        prefix = make_prefix(record, kinds=self._kinds) if self._prefix else ""
        record.message = escape(name_cluster(record) + prefix + shorten(record.message))
        line = self._style.format(record)
        colour = COLOURS.get(record.levelno) if self._colours else None
        return f"{colour}{line}{_RESET}" if colour else line

    def formatException(self, ei: Any) -> str:
        return shorten(escape_traceback(super().formatException(ei)))


class JsonFormatter(logging.Formatter):
    """One JSON document a line: message, extra fields, time, the object's reference, severity."""

    def __init__(
        self,
        *,
        prefix: bool = False,
        kinds: bool = False,
        refkey: str | None = None,
        process: str | None = None,
    ) -> None:
        super().__init__()
        self._common: dict[str, Any] = {"process": int(process)} if process else {}
        self._prefix = prefix
        self._kinds = kinds
        self._refkey = refkey or DEFAULT_REFKEY

    def format(self, record: logging.LogRecord) -> str:
        prefix = make_prefix(record, kinds=self._kinds) if self._prefix else ""
        text = prefix + shorten(record.getMessage())
        data: dict[str, Any] = {"message": text, "logger": record.name, **self._common}
        data |= self._get_failure(record)
        hidden = _STANDARD_ATTRIBUTES | _INTERNAL_ATTRIBUTES
        data |= {key: value for key, value in vars(record).items() if key not in hidden}
        created = datetime.datetime.fromtimestamp(record.created, tz=datetime.UTC)
        data["timestamp"] = created.isoformat(timespec="microseconds")
        if ref := getattr(record, "k8s_ref", None):
            data[self._refkey] = dict(ref)
        if cluster := getattr(record, "k8s_cluster", None):
            data["cluster"] = cluster
        data["severity"] = self._get_severity(record.levelno)
        return json.dumps(data, default=str, ensure_ascii=False)

    def _get_failure(self, record: logging.LogRecord) -> dict[str, str]:
        data = {}
        if record.exc_info and record.exc_info[0] is not None:
            data["exc_info"] = shorten(self.formatException(record.exc_info))
        elif record.exc_text:
            data["exc_info"] = record.exc_text
        if record.stack_info:
            data["stack_info"] = self.formatStack(record.stack_info)
        return data

    def _get_severity(self, level: int) -> str:
        """The severity of the closest level that is not above: custom levels are allowed."""
        known = [value for value in SEVERITIES if value <= level]
        return SEVERITIES[max(known, default=logging.DEBUG)]


class OperatorStreamHandler(logging.StreamHandler[Any]):
    """Our handler of the root logger: marked by its class, so that it is replaced, not repeated.

    It writes to the current ``sys.stderr``, so that redirection works also afterwards.
    """

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> IO[str] | None:
        return sys.stderr

    def emit(self, record: logging.LogRecord) -> None:
        # This works as in the base class, but with fewer calls. The lock is taken already.
        try:
            stream = sys.stderr
            stream.write(self.format(record) + self.terminator)
            stream.flush()
        except RecursionError:
            raise
        except Exception:
            self.handleError(record)


def make_formatter(
    log_format: LogFormat | str = LogFormat.FULL,
    *,
    log_prefix: bool | None = False,
    log_refkey: str | None = None,
    log_kinds: bool | None = False,
    log_color: bool | None = False,
) -> logging.Formatter:
    """Make a formatter for one of the known formats, or for a format string of one's own.

    If there are several processes, all messages name this one.
    """
    process = os.environ.get(PROCESS)
    if log_format is LogFormat.JSON:
        return JsonFormatter(
            prefix=bool(log_prefix), kinds=bool(log_kinds), refkey=log_refkey, process=process
        )
    fmt = log_format.value if isinstance(log_format, LogFormat) else log_format
    if process:
        fmt = fmt.replace(_MESSAGE, f"[process {process}] {_MESSAGE}")
    return TextFormatter(
        fmt, prefix=bool(log_prefix), kinds=bool(log_kinds), colours=bool(log_color)
    )


def configure(
    debug: bool | None = None,
    verbose: bool | None = None,
    quiet: bool | None = None,
    log_format: LogFormat | str = LogFormat.FULL,
    log_prefix: bool | None = False,
    log_refkey: str | None = None,
    log_kinds: bool | None = False,
    log_color: bool | None = None,
) -> None:
    """Configure the logs of this process, as ``kopf run`` does it; but without prefixes by default.

    The level is INFO, or DEBUG if ``verbose`` or ``debug``, or WARNING if ``quiet``;
    only with ``debug``, the messages of asyncio are shown, too. The messages go to stderr.

    :param log_format: One of :class:`LogFormat`, or a format string of :mod:`logging`.
    :param log_prefix: Whether the messages about objects begin with ``[namespace/name]``.
    :param log_refkey: The key of the object's reference in JSON logs; ``"object"`` if not set.
    :param log_kinds: Whether these prefixes have also kinds: ``[Kind namespace/name]``.
    :param log_color: Whether warnings and errors are coloured; by default, if it is a terminal,
        and there is no ``NO_COLOR`` in the environment. Never for JSON.

    It can be called again: the previous configuration is replaced.
    """
    handler = OperatorStreamHandler()
    handler.setFormatter(
        make_formatter(
            log_format,
            log_prefix=log_prefix,
            log_refkey=log_refkey,
            log_kinds=log_kinds,
            log_color=is_colourful(handler.stream) if log_color is None else log_color,
        )
    )
    root = logging.getLogger()
    for old in [h for h in root.handlers if isinstance(h, OperatorStreamHandler)]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(logging.DEBUG if debug or verbose else logging.WARNING if quiet else logging.INFO)
    # Users do not need low-level messages of asyncio, and logging must not print them by itself.
    asyncio_logger = logging.getLogger("asyncio")
    asyncio_logger.propagate = bool(debug)
    if not asyncio_logger.handlers:
        asyncio_logger.addHandler(logging.NullHandler())


@contextlib.contextmanager
def preserved_logging() -> Iterator[None]:
    """Put everything that :func:`configure` changes back at exit; for tests."""
    root, low = logging.getLogger(), logging.getLogger("asyncio")
    before = root.level, [h for h in root.handlers if isinstance(h, OperatorStreamHandler)]
    propagate = low.propagate
    try:
        yield
    finally:
        for handler in [h for h in root.handlers if isinstance(h, OperatorStreamHandler)]:
            root.removeHandler(handler)
        root.setLevel(before[0])
        for handler in before[1]:
            root.addHandler(handler)
        low.propagate = propagate
