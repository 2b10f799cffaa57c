"""The testing tools of the facade, as the users' tests would use them."""

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from kopf.testing import KopfRunner, SandboxThread

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


def test_q_fixture_starts_operators_for_the_time_of_the_test(
    kopf_sandbox: SandboxThread, kopf_operator: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    handled = threading.Event()
    monkeypatch.setitem(vars(sys), "_handled_by_tests", handled)
    (tmp_path / "handlers.py").write_text(HANDLERS)
    kopf_sandbox.apply(EXAMPLES / "crd.yaml")
    kopf_operator("-A", "--standalone", str(tmp_path / "handlers.py"))
    kopf_sandbox.apply(EXAMPLES / "obj.yaml")
    assert handled.wait(30)


PLUGGED = """
import sys

def test_nothing_is_imported():
    assert "kopf" not in sys.modules and "aiohttp" not in sys.modules

def test_sandbox(kopf_sandbox):
    assert kopf_sandbox.get("namespaces", "default")

def test_operator_that_fails(kopf_sandbox, kopf_operator):
    kopf_operator("-A", "absent.py")
"""


@pytest.mark.timeout(600)
def test_q_fixtures_need_no_imports(tmp_path: Path) -> None:
    (tmp_path / "test_plugged.py").write_text(PLUGGED)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:kmock", "."],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert "3 passed, 1 error" in done.stdout, done.stdout
    assert "absent.py" in done.stdout


BROKEN = """
import kopf

@kopf.on.login()
def login_fn(**_):
    raise kopf.PermanentError("no way in")
"""
WAITING = """
def test_operator_that_fails_later(kopf_sandbox, kopf_operator):
    kopf_operator("-A", "broken.py")
    kopf_sandbox.wait("configmaps", "never", timeout=1000)

def test_operator_that_fails_at_once(kopf_sandbox, kopf_operator):
    kopf_operator("-A", "absent.py")
    kopf_sandbox.wait("configmaps", "default", gone=True)
    kopf_sandbox.wait("configmaps", "never", timeout=1000)
"""


@pytest.mark.timeout(600)
def test_q_tests_do_not_wait_for_operators_that_have_failed(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text(BROKEN)
    (tmp_path / "test_waiting.py").write_text(WAITING)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:kmock", "."],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert "2 failed, 2 errors" in done.stdout, done.stdout
    assert "RuntimeError: The operator has failed: ActivityError: " in done.stdout
    assert "RuntimeError: The operator has failed: FileNotFoundError: " in done.stdout
