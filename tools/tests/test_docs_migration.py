"""The page for those who come from Kopf 1.45 names what is new for their code and their logs."""

import inspect
import re
from pathlib import Path

import pytest

from kopf_core.intents import callbacks

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "migration.md").read_text("utf-8")
LOGGERS = (ROOT / "docs" / "reference" / "loggers.md").read_text("utf-8")

FORMER = {
    *("activity", "annotations", "body", "diff", "event", "labels", "logger", "memo", "meta"),
    *("name", "namespace", "new", "old", "param", "patch", "reason", "resource", "retry"),
    *("runtime", "settings", "spec", "started", "status", "stopped", "type", "uid"),
}
"""The arguments that handlers of Kopf 1.45.2 got when it was run."""

OF_FORMER_KINDS = ["ActivityFn", "WatchingFn", "ChangingFn", "IndexingFn", "TimerFn", "DaemonFn"]

OF_OUR_TOOLS = {"asyncio", "kopf", "kopf_kits.sandbox.http.server"}
"""They are not of operators in clusters, or of nothing in particular."""


def read_row(start: str) -> str:
    [row] = [line for line in PAGE.splitlines() if line.startswith(f"| {start} |")]
    return row


def find_loggers() -> set[str]:
    found = set()
    for source in ROOT.glob("packages/*/src/**/*.py"):
        text = source.read_text("utf-8")
        found |= {*re.findall(r'getLogger\("([\w.]+)"\)', text)}
        if "getLogger(__name__)" in text:
            [src] = [parent for parent in source.parents if parent.name == "src"]
            found.add(".".join(source.relative_to(src).with_suffix("").parts))
    return found


@pytest.mark.parametrize("kind", OF_FORMER_KINDS)
def test_k45_new_arguments_of_handlers_are_named(kind: str) -> None:
    parameters = inspect.signature(getattr(callbacks, kind).__call__).parameters.values()
    names = {one.name for one in parameters if one.kind is inspect.Parameter.KEYWORD_ONLY}
    named = {*re.findall(r"`(\w+)`", read_row("the arguments of handlers").partition(":")[0])}
    assert names - FORMER <= named


@pytest.mark.parametrize(
    "start",
    [
        "changes made by daemons",
        "patches by timers that change nothing",
        "a startup handler that has failed for good",
        "`kopf.spawn_tasks()`",
        "`sys.exit()` in handlers",
        "threads that handlers have started, at the exit",
        "deletion with daemons",
        "rights",
        "managed webhook configurations at the exit",
        "connections to webhook servers and to `--liveness`",
        "rejections by webhook handlers in the log",
        "lines of JSON logs",
        "long texts of Kubernetes events that are not ASCII",
        "`trust_env` with a password in `~/.netrc`",
    ],
)
def test_k45_differences_that_stay_are_in_the_table(start: str) -> None:
    before, now = (cell.strip() for cell in read_row(start).split("|")[2:4])
    assert now
    assert now != before


def test_k43_all_loggers_are_in_the_tables() -> None:
    named = {*re.findall(r"`([\w.]+)`", LOGGERS)}
    assert find_loggers() - OF_OUR_TOOLS <= named
