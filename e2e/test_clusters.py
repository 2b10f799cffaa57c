"""The clusters are had as requested, or the reason is told in one line."""

from __future__ import annotations

import json
import pathlib
import ssl
import urllib.request
from typing import Any

import pytest

from e2e.clusters import NAMES, Cluster, ClusterError, open_cluster

KUBECONFIG: dict[str, Any] = {
    "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1/"}}],
    "users": [{"name": "u", "user": {"token": "secret"}}],
}


def add_program(folder: pathlib.Path, name: str, text: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


@pytest.fixture
def bin(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """The only folder on the path."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def test_requested_cluster_is_running(cluster: Cluster, pytestconfig: pytest.Config) -> None:
    assert cluster.name == pytestconfig.getoption("--cluster")
    assert cluster.name in NAMES
    assert cluster.kubeconfig_path.exists()
    request = urllib.request.Request(f"{cluster.url}/version", headers=cluster.make_headers())
    with urllib.request.urlopen(request, context=cluster.make_ssl_context()) as response:
        assert json.loads(response.read())["gitVersion"].startswith("v1.")


def test_no_k3d(bin: pathlib.Path, tmp_path: pathlib.Path) -> None:
    with (
        pytest.raises(ClusterError, match=r"^k3d is not found on PATH"),
        open_cluster("k3d", tmp_path),
    ):
        pass


def test_k3d_is_created_and_deleted(
    bin: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = tmp_path / "trace"
    script = (
        f"""echo "$*" >>{trace}; test "$1" = kubeconfig && echo '{json.dumps(KUBECONFIG)}'; :"""
    )
    add_program(bin, "k3d", script)
    monkeypatch.setenv("K3S_VERSION", "v1.33.1+k3s1")
    with open_cluster("k3d", tmp_path) as cluster:
        assert cluster.url == "https://127.0.0.1:1/"
    first, *_, last = trace.read_text().splitlines()
    assert first.startswith("cluster create kopf-e2e ")
    assert first.endswith(" --image rancher/k3s:v1.33.1-k3s1")
    assert last == "cluster delete kopf-e2e"


def test_current_cluster(bin: pathlib.Path, tmp_path: pathlib.Path) -> None:
    add_program(bin, "kubectl", f"echo '{json.dumps(KUBECONFIG)}'")
    with open_cluster("current", tmp_path) as cluster:
        assert cluster.url == "https://127.0.0.1:1"
        assert cluster.make_headers() == {"Authorization": "Bearer secret"}
        context = cluster.make_ssl_context()
        assert context is not None
        assert context.verify_mode is ssl.CERT_REQUIRED
        assert not cluster.is_local


@pytest.mark.parametrize("script", ["exit 1", "echo '{}'", """echo '{"clusters": null}'"""])
def test_no_current_cluster(bin: pathlib.Path, tmp_path: pathlib.Path, script: str) -> None:
    add_program(bin, "kubectl", script)
    with (
        pytest.raises(ClusterError, match="There is no current cluster in the kubeconfig"),
        open_cluster("current", tmp_path),
    ):
        pass


def test_no_assets(
    bin: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(ClusterError, match="make e2e-assets"), open_cluster("envtest", tmp_path):
        pass


def test_insecure_and_plain_connections() -> None:
    path = pathlib.Path("unused")
    insecure = {"clusters": [{"cluster": {"insecure-skip-tls-verify": True}}]}
    context = Cluster("x", "https://localhost", insecure, path).make_ssl_context()
    assert context is not None
    assert context.verify_mode is ssl.CERT_NONE
    assert Cluster("x", "http://localhost", {}, path).make_ssl_context() is None
    assert Cluster("x", "http://localhost", {}, path).make_headers() == {}
