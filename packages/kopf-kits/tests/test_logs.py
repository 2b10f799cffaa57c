"""The looks and the destinations of the logs."""

import io
import json
import logging
import re
import sys
from collections.abc import Iterator

import pytest

from kopf_kits.logs import LogFormat, OperatorStreamHandler, configure, make_formatter

REF = {
    "apiVersion": "kopf.dev/v1",
    "kind": "KopfExample",
    "name": "n1",
    "uid": "u1",
    "namespace": "ns1",
}
EXTRA = {"k8s_ref": REF, "k8s_skip": False, "settings": object()}
logger = logging.getLogger("kopf.objects")


@pytest.fixture(autouse=True)
def _logging_restored() -> Iterator[None]:
    root, low = logging.getLogger(), logging.getLogger("asyncio")
    before = root.level, list(root.handlers), low.propagate, list(low.handlers)
    yield
    root.level, root.handlers[:], low.propagate, low.handlers[:] = before


def get_json(capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    line: dict[str, object] = json.loads(capsys.readouterr().err)
    return line


def test_full_format_has_time_logger_and_level(capsys: pytest.CaptureFixture[str]) -> None:
    configure()
    logger.info("hello %s", "world", extra=EXTRA)
    pattern = (
        r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\] kopf\.objects         \[INFO    \] hello world\n"
    )
    assert re.fullmatch(pattern, capsys.readouterr().err)


def test_plain_format_has_the_message_only(capsys: pytest.CaptureFixture[str]) -> None:
    configure(log_format=LogFormat.PLAIN)
    logger.info("hello", extra=EXTRA)
    assert capsys.readouterr().err == "hello\n"


def test_custom_format(capsys: pytest.CaptureFixture[str]) -> None:
    configure(log_format="%(levelname)s! %(message)s", log_prefix=True)
    logger.info("hello", extra=EXTRA)
    assert capsys.readouterr().err == "INFO! [ns1/n1] hello\n"


@pytest.mark.parametrize(
    ("ref", "prefix"),
    [(REF, "[ns1/n1] "), ({"name": "n1"}, "[n1] "), ({}, ""), (None, "")],
)
def test_prefix_names_the_object(
    capsys: pytest.CaptureFixture[str], ref: dict[str, str] | None, prefix: str
) -> None:
    configure(log_format=LogFormat.PLAIN, log_prefix=True)
    logger.info("hello", extra={"k8s_ref": ref})
    assert capsys.readouterr().err == f"{prefix}hello\n"


def test_prefix_is_put_once_for_several_handlers(capsys: pytest.CaptureFixture[str]) -> None:
    configure(log_format=LogFormat.PLAIN, log_prefix=True)
    [ours] = [h for h in logging.getLogger().handlers if isinstance(h, OperatorStreamHandler)]
    second = OperatorStreamHandler()
    second.setFormatter(ours.formatter)
    logging.getLogger().addHandler(second)
    logger.info("hello", extra=EXTRA)
    assert capsys.readouterr().err == "[ns1/n1] hello\n[ns1/n1] hello\n"


def test_json_has_the_reference_and_severity(capsys: pytest.CaptureFixture[str]) -> None:
    configure(log_format=LogFormat.JSON)
    logger.info("hello %s", "world", extra=EXTRA)
    data = get_json(capsys)
    timestamp = str(data.pop("timestamp"))
    assert data.pop("logger") == logger.name
    assert data == {"message": "hello world", "object": REF, "severity": "info"}
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00", timestamp)


def test_json_with_refkey_and_prefix(capsys: pytest.CaptureFixture[str]) -> None:
    configure(log_format=LogFormat.JSON, log_refkey="k8s-obj", log_prefix=True)
    logger.info("hello", extra=EXTRA)
    data = get_json(capsys)
    assert data["message"] == "[ns1/n1] hello"
    assert data["k8s-obj"] == REF
    assert "object" not in data


def test_json_without_objects_has_no_reference(capsys: pytest.CaptureFixture[str]) -> None:
    configure(log_format=LogFormat.JSON)
    logging.getLogger("my").info("hello")
    assert set(get_json(capsys)) == {"message", "logger", "timestamp", "severity"}


def test_k31_json_has_the_name_of_the_logger(capsys: pytest.CaptureFixture[str]) -> None:
    configure(log_format=LogFormat.JSON)
    logging.getLogger("my.own").info("hello")
    assert get_json(capsys)["logger"] == "my.own"
    logging.getLogger("my.own").info("hello", extra={"logger": "as said by the user"})
    assert get_json(capsys)["logger"] == "as said by the user"


def test_json_keeps_extra_fields_of_any_type(capsys: pytest.CaptureFixture[str]) -> None:
    configure(log_format=LogFormat.JSON)
    logging.getLogger("my").info("hello", extra={"code": 123, "what": ValueError("x")})
    data = get_json(capsys)
    assert (data["code"], data["what"]) == (123, "x")


def test_json_keeps_failures_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    configure(log_format=LogFormat.JSON)
    try:
        raise ValueError("boo!")
    except ValueError:
        logging.getLogger("my").exception("failed")
    assert str(get_json(capsys)["exc_info"]).endswith("ValueError: boo!")


@pytest.mark.parametrize(
    ("level", "severity"),
    [
        (10, "debug"),
        (20, "info"),
        (30, "warn"),
        (40, "error"),
        (50, "fatal"),
        (5, "debug"),
        (25, "info"),
        (99, "fatal"),
    ],
)
def test_json_severities(capsys: pytest.CaptureFixture[str], level: int, severity: str) -> None:
    configure(log_format=LogFormat.JSON)
    logging.getLogger().setLevel(1)
    logging.getLogger("my").log(level, "hello")
    assert get_json(capsys)["severity"] == severity


@pytest.mark.parametrize(
    ("options", "level", "low_level"),
    [
        ({}, logging.INFO, False),
        ({"verbose": True}, logging.DEBUG, False),
        ({"debug": True}, logging.DEBUG, True),
        ({"quiet": True}, logging.WARNING, False),
    ],
)
def test_levels(options: dict[str, bool], level: int, low_level: bool) -> None:
    configure(**options)  # type: ignore[arg-type]
    assert logging.getLogger().level == level
    assert logging.getLogger("asyncio").propagate == low_level


def test_configuring_again_replaces(capsys: pytest.CaptureFixture[str]) -> None:
    configure(log_format=LogFormat.FULL)
    configure(log_format=LogFormat.PLAIN)
    logger.info("hello", extra=EXTRA)
    assert capsys.readouterr().err == "hello\n"


def make_record(msg, name="obj", exc=None):
    ref = {"namespace": "ns", "name": name}
    info = None if exc is None else (type(exc), exc, exc.__traceback__)
    record = logging.LogRecord("kopf.objects", logging.INFO, __file__, 1, msg, (), info)
    record.k8s_ref = ref
    return record


FORGED = "[2020-01-01 00:00:00,000] kopf.objects         [ERROR   ] [ns/obj] forged"


@pytest.mark.parametrize("log_format", [LogFormat.FULL, LogFormat.PLAIN])
@pytest.mark.parametrize(
    "evil", ["x\n" + FORGED, "\x1b[31mred", "a\rb", "a\x9bb", "a\u2028b", "\0"], ids=ascii
)
def test_e7_r23_lines_of_text_cannot_be_forged(log_format, evil):
    formatter = make_formatter(log_format, log_prefix=True)
    for record in make_record(evil), make_record("x", name=evil):
        line = formatter.format(record)
        assert len(line.splitlines()) == 1
        assert line.isprintable()


def test_e7_tracebacks_keep_their_lines_but_forge_nothing():
    try:
        raise ValueError("x\n" + FORGED + "\x1b[31m")
    except ValueError as e:
        text = make_formatter(LogFormat.FULL).format(make_record("failed", exc=e))
    lines = text.splitlines()
    assert "Traceback (most recent call last):" in lines
    assert [line for line in lines if line.startswith("[")] == lines[:1]
    assert "\x1b" not in text


def test_ordinary_texts_are_as_they_are():
    formatter = make_formatter(LogFormat.PLAIN, log_prefix=True)
    assert formatter.format(make_record("ünïcode\tand tabs")) == "[ns/obj] ünïcode\tand tabs"


@pytest.mark.parametrize("log_format", [LogFormat.FULL, LogFormat.JSON])
def test_d12_r23_huge_messages_are_cut(log_format):
    line = make_formatter(log_format).format(make_record("x" * 5_000_000))
    assert len(line) < 100_000
    assert "characters are cut" in line


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("kopf.objects", "kopf.objects         "),
        ("kopf.activities.authentication", "kopf.activities.auth "),
        ("kopf._core.reactor.running", "kopf._core.reactor.r "),
    ],
)
def test_k43_names_of_loggers_are_cut_as_they_were(name, expected):
    record = logging.LogRecord(name, logging.INFO, "", 1, "x", None, None)
    line = make_formatter().format(record)
    assert line.partition("] ")[2] == f"{expected}[INFO    ] x"


@pytest.mark.parametrize(
    ("ref", "expected"),
    [
        (REF, "[KopfExample ns1/n1] x"),
        ({"kind": "Node", "name": "n1"}, "[Node n1] x"),
        ({"name": "n1", "namespace": "ns1"}, "[ns1/n1] x"),
        (None, "x"),
    ],
)
def test_prefix_names_the_kinds_if_so_wanted(ref, expected):
    record = make_record("x")
    record.k8s_ref = ref
    for log_format in (LogFormat.PLAIN, LogFormat.JSON):
        line = make_formatter(log_format, log_prefix=True, log_kinds=True).format(record)
        assert expected in (line, json.loads(line)["message"] if line[0] == "{" else "")


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("stream", "env", "options", "is_colourful"),
    [
        (Terminal, {}, {}, True),
        (Terminal, {"NO_COLOR": "1"}, {}, False),
        (Terminal, {"NO_COLOR": ""}, {}, True),
        (Terminal, {"TERM": "dumb"}, {}, False),
        (Terminal, {}, {"log_color": False}, False),
        (Terminal, {}, {"log_format": LogFormat.JSON}, False),
        (io.StringIO, {}, {}, False),
        (io.StringIO, {"NO_COLOR": "1"}, {"log_color": True}, True),
    ],
)
def test_colours_are_for_terminals(monkeypatch, stream, env, options, is_colourful):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "stderr", stream())
    configure(**options)
    logger.info("usual")
    logger.error("broken")
    usual, broken = sys.stderr.getvalue().splitlines()
    assert "\x1b" not in usual
    assert broken.startswith("\x1b[31m") == broken.endswith("\x1b[0m") == is_colourful
    assert ("\x1b" in broken) == is_colourful


@pytest.mark.parametrize("log_format", [LogFormat.PLAIN, "%(message)s"])
@pytest.mark.parametrize(("prefix", "expected"), [(True, "[east] [ns1/n1] "), (False, "[east] ")])
def test_o_lines_name_one_of_several_clusters(
    capsys: pytest.CaptureFixture[str], log_format: LogFormat | str, prefix: bool, expected: str
) -> None:
    configure(log_format=log_format, log_prefix=prefix)
    logger.info("hello", extra={**EXTRA, "k8s_cluster": "east"})
    assert capsys.readouterr().err == f"{expected}hello\n"


def test_o_json_names_one_of_several_clusters(capsys: pytest.CaptureFixture[str]) -> None:
    configure(log_format=LogFormat.JSON)
    logger.info("hello", extra={**EXTRA, "k8s_cluster": "east"})
    line = get_json(capsys)
    assert (line["message"], line["cluster"]) == ("hello", "east")
    assert "k8s_cluster" not in line
    logger.info("hello", extra=EXTRA)
    assert "cluster" not in get_json(capsys)
