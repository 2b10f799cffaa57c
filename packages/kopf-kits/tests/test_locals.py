"""Local clusters: what is said when they cannot be started."""

import errno
import os
from pathlib import Path

import pytest

from kopf_kits.locals import LocalClusterError, local_cluster
from kopf_kits.sandbox import SandboxThread


def test_kubeconfig_without_permissions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: SandboxThread, path: Path) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr(SandboxThread, "write_kubeconfig", refuse)
    path = tmp_path / "kubeconfig"
    with pytest.raises(LocalClusterError) as err, local_cluster(kubeconfig=path):
        pass
    assert str(err.value) == f"Cannot write the kubeconfig {path}: permission denied"


def test_failures_inside_of_the_block_are_not_of_the_cluster() -> None:
    with pytest.raises(BrokenPipeError), local_cluster():
        raise BrokenPipeError
