"""The real servers, where their binaries are at hand."""

import shutil
import subprocess
from pathlib import Path

import pytest

from kopf_kits.envtest import Assets, Envtest

pytestmark = pytest.mark.envtest


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
@pytest.mark.usefixtures("cryptography")
def test_real_control_plane(real_assets: Assets, tmp_path: Path, tempdir: Path) -> None:
    with Envtest(assets=real_assets) as envtest:
        assert envtest.version.startswith("v1.")
        kubeconfig = envtest.write_kubeconfig(tmp_path / "kubeconfig.yaml")
        command = ["kubectl", f"--kubeconfig={kubeconfig}"]
        version = subprocess.check_output([*command, "version"], text=True)
        assert f"Server Version: {envtest.version}" in version
        subprocess.check_call([*command, "create", "namespace", "sample"])
        subprocess.check_call([*command, "auth", "can-i", "*", "*", "-A"])
    assert not list(tempdir.iterdir())


@pytest.mark.usefixtures("cryptography")
def test_real_port_in_use(real_assets: Assets, tempdir: Path) -> None:
    """The words of the real servers about a port in use are recognised: another one is tried."""
    import socket

    from kopf_kits.envtest import EnvtestError, cluster

    with pytest.MonkeyPatch.context() as mp, socket.create_server(("127.0.0.1", 0)) as sock:
        mp.setattr(cluster, "is_port_free", lambda _: True)
        port = sock.getsockname()[1]
        with pytest.raises(EnvtestError, match=rf"^Port {port} is in use"):
            Envtest(assets=real_assets, port=port).start()
    assert not list(tempdir.iterdir())


@pytest.mark.usefixtures("cryptography")
def test_real_restart(real_assets: Assets, tempdir: Path) -> None:
    """The API server is another process then, with the same data at the same address."""
    with Envtest(assets=real_assets) as envtest:
        before, url = dict(envtest.pids), envtest.url
        envtest.restart()
        after = dict(envtest.pids)
        assert envtest.url == url
    assert before.pop("kube-apiserver") != after.pop("kube-apiserver")
    assert before == after
    assert not list(tempdir.iterdir())
