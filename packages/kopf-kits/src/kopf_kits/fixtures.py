"""Fixtures for pytest. Nothing is enabled by itself: see :mod:`kopf.testing`."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pytest

from kopf_kits.sandbox import SandboxThread


@pytest.fixture
def kopf_sandbox(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[SandboxThread]:
    """A local API for one test; it is the current cluster (``KUBECONFIG``) of the process."""
    with SandboxThread() as sandbox:
        path = sandbox.write_kubeconfig(tmp_path / "kubeconfig")
        monkeypatch.setenv("KUBECONFIG", str(path))
        yield sandbox
