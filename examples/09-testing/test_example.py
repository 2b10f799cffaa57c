"""Test the operator in the same process, with a local API: no cluster, no mocks, by pytest."""

import time
from pathlib import Path

import pytest

from kopf.testing import KopfRunner

FOLDER = Path(__file__).parent


@pytest.fixture
def sandbox(kopf_sandbox):
    kopf_sandbox.apply(FOLDER.parent / "crd.yaml")
    return kopf_sandbox


def wait_for(check, timeout=10):
    deadline = time.monotonic() + timeout
    while not check():
        assert time.monotonic() < deadline, "It has not happened in time."
        time.sleep(0.05)


def test_object_is_handled(sandbox):
    with KopfRunner(["run", "-A", "--verbose", str(FOLDER / "example.py")], timeout=10) as runner:
        sandbox.apply(FOLDER.parent / "obj.yaml")
        wait_for(lambda: "status" in sandbox.get("kopfexamples", "kopf-example-1"))

        sandbox.delete("kopfexamples", "kopf-example-1")
        wait_for(lambda: not sandbox.list("kopfexamples"))

    assert runner.exit_code == 0
    assert runner.exception is None
    assert "Something was logged here." in runner.output
    assert "Deleted, really deleted" in runner.output
