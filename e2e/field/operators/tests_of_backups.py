"""The tests of that operator, by the tools of the framework, as they are written out there."""

import os
import subprocess
import time

import pykube
import pytest

import kopf
from kopf.testing import KopfRunner

NAMESPACE = os.environ["FIELD_NAMESPACE"]
OPERATOR = os.path.relpath(os.path.join(os.path.dirname(__file__), "backups.py"))


@pytest.fixture
def api():
    return pykube.HTTPClient(pykube.KubeConfig.from_env())


def make(api, name, **spec):
    body = {
        "apiVersion": "example.com/v1",
        "kind": "Backup",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": spec,
    }
    return pykube.object_factory(api, "example.com/v1", "Backup")(api, body)


def wait_for(check, timeout=30):
    for _ in range(timeout * 10):
        if check():
            return
        time.sleep(0.1)
    pytest.fail("It has not happened.")


def test_lines_of_logs(api):
    with KopfRunner(["run", "-n", NAMESPACE, "--verbose", OPERATOR], timeout=60) as runner:
        obj = make(api, "logged", size="1G", schedule="daily")
        obj.create()
        wait_for(lambda: "backed-up" in (obj.reload() or obj.labels))
        obj.reload()
        obj.delete()
        wait_for(lambda: not obj.exists())

    assert runner.exit_code == 0
    assert runner.exception is None
    assert "The backup operator is configured." in runner.output
    assert f"[{NAMESPACE}/logged] Handler 'create_claim' succeeded." in runner.output
    assert "failed temporarily: The storage is not ready yet." in runner.output
    assert "Creation is processed: 3 succeeded; 0 failed." in runner.output
    assert "Deletion is processed: 1 succeeded; 0 failed." in runner.output
    assert "Config maps on deletion: " in runner.output
    assert "The backup operator says goodbye." in runner.output


def test_errors_of_handlers(api):
    settings = kopf.OperatorSettings()
    settings.scanning.disabled = True
    args = ["run", "-n", NAMESPACE, OPERATOR]
    with KopfRunner(args, settings=settings, timeout=60) as runner:
        obj = make(api, "sizeless", schedule="daily")
        obj.create()
        wait_for(lambda: "backed-up" in (obj.reload() or obj.labels))
        obj.delete()
        wait_for(lambda: not obj.exists())
    assert "Handler 'create_claim' failed permanently: Size must be set; got None." in runner.output


def test_failing_to_start(tmp_path):
    (tmp_path / "broken.py").write_text("import kopf\nraise SystemExit('Not today.')\n")
    with pytest.raises(SystemExit), KopfRunner(["run", str(tmp_path / "broken.py")]) as runner:
        pass
    assert runner.exit_code == 1


def test_command_line():
    done = subprocess.run(["kopf", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("kopf, version ")
