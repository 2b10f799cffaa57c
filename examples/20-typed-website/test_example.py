import subprocess
import sys
from pathlib import Path

import pytest
from example import website

from kopf.testing import ClusterOptions, KopfRunner, SandboxThread, reconcile

HERE = Path(__file__).parent
BODY = {"metadata": {"name": "hello", "uid": "1"}, "spec": {"pages": {"index.html": "hi"}}}


def test_one_pass():
    child = {"kind": "Deployment", "metadata": {"name": "hello"}, "status": {"readyReplicas": 1}}
    result = reconcile(website, BODY, children=[child])
    assert result["ConfigMap"]["data"] == {"index.html": "hi"}
    assert result["Deployment"]["spec"]["replicas"] == 1
    assert result.conditions["Ready"]["message"] == "1 of 1 are ready"


def test_whole_life(monkeypatch, tmp_path):
    command = [sys.executable, "-m", "kopf", "crds", "example.py", "-o", str(tmp_path / "crd.yaml")]
    subprocess.run(command, check=True, cwd=HERE)
    with SandboxThread(options=ClusterOptions(ready=True)) as sandbox:
        config = sandbox.write_kubeconfig(tmp_path / "config")
        monkeypatch.setenv("KUBECONFIG", str(config))
        sandbox.apply(tmp_path / "crd.yaml")
        sandbox.apply(HERE / "obj.yaml")
        with pytest.raises(Exception, match=r"spec.replicas"):
            sandbox.patch("websites", "hello", {"spec": {"replicas": 11}})
        with KopfRunner(["run", "-A", "--standalone", str(HERE / "example.py")], timeout=60):
            sandbox.wait("websites", "hello", condition="Ready")
            sandbox.patch("websites", "hello", {"spec": {"replicas": 3}})
            sandbox.wait("deployments.apps", "hello", jsonpath="status.readyReplicas", value=3)
            sandbox.delete("websites", "hello")
            sandbox.wait("deployments.apps", "hello", gone=True)
