from pathlib import Path

from example import worker

from kopf.testing import ClusterOptions, KopfRunner, SandboxThread, reconcile

HERE = Path(__file__).parent
REVISION = "spec.template.metadata.annotations['example.com/secret']"
BODY = {
    "apiVersion": "example.com/v1",
    "kind": "Worker",
    "metadata": {"name": "mailer", "namespace": "default", "uid": "1"},
    "spec": {"image": "busybox", "secret": "smtp"},
}


def make_secret(password):
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "smtp", "namespace": "default"},
        "data": {"PASSWORD": password},
    }


def test_no_secret():
    result = reconcile(worker, BODY)
    assert result.objects == []
    assert result.conditions["Ready"]["reason"] == "NoSecret"


def test_lost_secret():
    running = reconcile(worker, BODY, related=[make_secret("bG9s")])["Deployment"]
    result = reconcile(worker, BODY, children=[running])
    assert result["Deployment"]["spec"] == running["spec"]
    assert result.conditions["Ready"]["reason"] == "NoSecret"


def test_new_secrets_are_rolled_out():
    old = reconcile(worker, BODY, related=[make_secret("bG9s")])["Deployment"]
    new = reconcile(worker, BODY, related=[make_secret("b21n")])["Deployment"]
    assert old["spec"]["template"]["metadata"] != new["spec"]["template"]["metadata"]


def test_whole_life(monkeypatch, tmp_path):
    with SandboxThread(options=ClusterOptions(ready=True)) as sandbox:
        monkeypatch.setenv("KUBECONFIG", str(sandbox.write_kubeconfig(tmp_path / "config")))
        sandbox.apply(HERE / "crd.yaml")
        sandbox.apply(HERE / "obj.yaml")
        sandbox.delete("secrets", "smtp")
        with KopfRunner(["run", "-A", "--standalone", str(HERE / "example.py")], timeout=60):
            sandbox.wait("workers", "mailer", condition="Ready=False")
            sandbox.apply(make_secret("bG9s"))
            sandbox.wait("workers", "mailer", condition="Ready")
            before = sandbox.wait("deployments.apps", "mailer", jsonpath=REVISION)
            sandbox.apply(make_secret("b21n"))
            sandbox.wait("deployments.apps", "mailer", check=lambda obj: is_newer(obj, before))
            running = sandbox.get("deployments.apps", "mailer")["metadata"]["uid"]
            sandbox.delete("secrets", "smtp")
            sandbox.wait("workers", "mailer", condition="Ready=False")
            sandbox.apply(make_secret("b21n"))
            sandbox.wait("workers", "mailer", condition="Ready")
            assert sandbox.get("deployments.apps", "mailer")["metadata"]["uid"] == running


def is_newer(obj, before):
    return obj["spec"]["template"]["metadata"] != before["spec"]["template"]["metadata"]
