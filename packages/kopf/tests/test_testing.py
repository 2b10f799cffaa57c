"""The testing tools of the facade, as the users' tests would use them."""

import os
import sys
import threading
from pathlib import Path

import pytest

from kopf.testing import KopfRunner, SandboxThread, kopf_sandbox

__all__ = ["kopf_sandbox"]

EXAMPLES = Path(__file__).parents[3] / "examples"
HANDLERS = """
import kopf
import sys

@kopf.on.event("kopfexamples")
def event_fn(type, status, **_):
    if type is not None and "create_fn" in status:
        vars(sys)["_handled_by_tests"].set()

@kopf.on.create("kopfexamples")
def create_fn(name, **_):
    return {"message": f"hello, {name}"}
"""


def test_operator_in_a_sandbox(
    kopf_sandbox: SandboxThread, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    handled = threading.Event()
    monkeypatch.setitem(vars(sys), "_handled_by_tests", handled)
    (tmp_path / "handlers.py").write_text(HANDLERS)
    kopf_sandbox.apply(EXAMPLES / "crd.yaml")
    args = ["run", "-A", "--standalone", "--verbose", str(tmp_path / "handlers.py")]
    with KopfRunner(args, timeout=30) as runner:
        kopf_sandbox.apply(EXAMPLES / "obj.yaml")
        assert handled.wait(30)
    assert runner.exit_code == 0
    assert "Handler 'create_fn' succeeded." in runner.output
    obj = kopf_sandbox.get("kex", "kopf-example-1")
    assert obj["status"] == {"create_fn": {"message": "hello, kopf-example-1"}}


def test_sandbox_is_the_current_cluster(kopf_sandbox: SandboxThread) -> None:
    assert kopf_sandbox.url in Path(os.environ["KUBECONFIG"]).read_text()
