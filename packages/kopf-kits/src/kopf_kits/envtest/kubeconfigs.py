"""The admin's kubeconfig of a control plane."""

from __future__ import annotations

import base64
import os
import pathlib
from typing import Any

import yaml

NAME = "kopf-envtest"


def make_kubeconfig(folder: pathlib.Path, url: str) -> dict[str, Any]:
    """Make a kubeconfig that carries all it needs, so that it can be copied anywhere."""
    cluster = {"server": url, "certificate-authority-data": _embed(folder / "ca.crt")}
    user = {
        "client-certificate-data": _embed(folder / "admin.crt"),
        "client-key-data": _embed(folder / "admin.key"),
    }
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": NAME,
        "clusters": [{"name": NAME, "cluster": cluster}],
        "users": [{"name": NAME, "user": user}],
        "contexts": [{"name": NAME, "context": {"cluster": NAME, "user": NAME}}],
    }


def write_kubeconfig(path: pathlib.Path, kubeconfig: dict[str, Any]) -> None:
    """Write a kubeconfig, readable only by its owner from the first byte on."""
    with open(path, "w", encoding="utf-8", opener=_open_privately) as file:
        yaml.safe_dump(kubeconfig, file, sort_keys=False)


def _open_privately(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _embed(path: pathlib.Path) -> str:
    return base64.b64encode(path.read_bytes()).decode("ascii")
