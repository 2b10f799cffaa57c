from pathlib import Path

from example import website

from kopf.testing import ClusterOptions, KopfRunner, SandboxThread, reconcile

HERE = Path(__file__).parent
BODY = {
    "apiVersion": "example.com/v1",
    "kind": "Website",
    "metadata": {"name": "hello", "namespace": "default", "uid": "1"},
    "spec": {"replicas": 2, "pages": {"index.html": "hi"}},
}


def test_one_pass():
    child = {"kind": "Deployment", "metadata": {"name": "hello"}, "status": {"readyReplicas": 1}}
    result = reconcile(website, BODY, children=[child])
    assert result["ConfigMap"]["data"] == {"index.html": "hi"}
    assert result.conditions["Ready"]["message"] == "1 of 2 are ready"


def test_whole_life(monkeypatch, tmp_path):
    with SandboxThread(options=ClusterOptions(ready=True)) as sandbox:
        config = sandbox.write_kubeconfig(tmp_path / "config")
        monkeypatch.setenv("KUBECONFIG", str(config))
        sandbox.apply(HERE / "crd.yaml")
        sandbox.apply(HERE / "obj.yaml")
        with KopfRunner(["run", "-A", "--standalone", str(HERE / "example.py")], timeout=60):
            sandbox.wait("websites", "hello", condition="Ready")
            sandbox.delete("deployments.apps", "hello")
            sandbox.wait("deployments.apps", "hello", jsonpath="status.readyReplicas", value=2)
            sandbox.delete("websites", "hello")
            sandbox.wait("deployments.apps", "hello", gone=True)
