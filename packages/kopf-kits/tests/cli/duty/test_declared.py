"""``kopf handlers``: what is declared in files."""

import json

import pytest

from kopf_core.intents.registries import OperatorRegistry
from kopf_kits.cli.controls import CLIControls

CODE = """
import kopf

@kopf.on.startup()
def configure(**_): ...

@kopf.on.create("kopfexamples", id="made", labels={"a": "b", "c": kopf.PRESENT}, retries=3)
def create_fn(**_): ...

@kopf.on.resume("kopf.dev", "v1", "kopfexamples")
def resume_fn(**_): ...

@kopf.on.field("kopfexamples", field="spec.x", when=lambda **_: True)
def field_fn(**_): ...

@kopf.timer(category="all", interval=5)
def timer_fn(**_): ...

@kopf.index(kopf.EVERYTHING)
def index_fn(**_): ...

@kopf.on.validate("kopfexamples", operations=["CREATE", "UPDATE"])
def judge(**_): ...

@kopf.timer("kopfexamples", schedule="0 3 * * *", missed="one")
def daily(**_): ...

@kopf.reconcile("kopfexamples", owns=["configmaps"], related={"secrets": "spec.secret"}, every=9)
def children(**_): ...

@kopf.on.convert("v1", "v2", kind="kopfexamples.kopf.dev")
def upgrade(**_): ...
"""


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "handlers.py"
    path.write_text(CODE)
    return str(path)


@pytest.fixture
def invoke(invoke_with):
    return lambda *args: invoke_with(CLIControls(registry=OperatorRegistry()), *args)


@pytest.mark.docs("cli/handlers")
def test_table_of_handlers(invoke, path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    result = invoke("handlers", path)
    assert result.exit_code == 0, result.output
    lines = [line.split() for line in result.stdout.splitlines()]
    assert lines[0] == ["RESOURCE", "TYPE", "ID", "FILTERS", "AND", "TIMES"]
    assert ["on.startup", "configure"] in lines
    assert ["kopfexamples", "on.create", "made", "labels:", "a=b,", "c=PRESENT"] in lines
    assert ["kopfexamples.v1.kopf.dev", "on.resume", "resume_fn"] in lines
    assert ["category=all", "timer", "timer_fn", "interval:", "5"] in lines
    assert ["kopfexamples", "timer", "daily", "schedule:", "0", "3", "*", "*", "*"] in lines
    assert ["kopfexamples", "reconcile", "children", "every:", "9"] in lines
    assert ["EVERYTHING", "index", "index_fn"] in lines
    validating = ["kopfexamples", "on.validate", "judge", "operations:", "CREATE,", "UPDATE"]
    assert validating in lines
    converting = ["kopfexamples.kopf.dev", "on.convert", "upgrade", "source:", "v1;"]
    assert [*converting, "target:", "v2"] in lines


@pytest.mark.docs("cli/handlers")
def test_json_of_handlers_is_stable(invoke, path):
    items = json.loads(invoke("handlers", path, "-o", "json").stdout)["items"]
    assert items[1] == {
        "id": "made",
        "type": "on.create",
        "resource": "kopfexamples",
        "filters": {"labels": "a=b, c=PRESENT"},
        "options": {"retries": "3"},
        "function": "create_fn",
        "place": f"{path}:7",
    }
    assert items[3]["filters"] == {"field": "spec.x", "when": "<lambda>"}
    assert items[4]["options"] == {"interval": "5"}
    assert items[6]["options"] == {"operations": "CREATE, UPDATE"}
    assert items[7]["options"] == {"schedule": "0 3 * * *"}
    assert items[8]["options"] == {"every": "9", "owns": "configmaps", "related": "secrets"}


@pytest.mark.docs("cli/handlers")
def test_q_conversions_are_listed(invoke, path):
    items = json.loads(invoke("handlers", path, "-o", "json").stdout)["items"]
    assert items[-1] == {
        "id": "upgrade",
        "type": "on.convert",
        "resource": "kopfexamples.kopf.dev",
        "filters": {},
        "options": {"source": "v1", "target": "v2"},
        "function": "upgrade",
        "place": f"{path}:31",
    }


def test_nothing_declared(invoke, tmp_path):
    path = tmp_path / "empty.py"
    path.write_text("")
    result = invoke("handlers", str(path))
    assert (result.exit_code, result.stdout) == (0, "")
    assert "No handlers are declared there." in result.stderr
    assert invoke("handlers").exit_code == 2
