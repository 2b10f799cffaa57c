"""Kubeconfigs that point to the sandbox."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from kopf_kits.sandbox.access.users import make_token

NAME = "sandbox"


def make_kubeconfig(
    url: str, *, namespace: str = "default", token: str = NAME, authority: bytes | None = None
) -> dict[str, Any]:
    """A kubeconfig with the only context: the sandbox at that URL, and its authority."""
    cluster = {"server": url}
    if authority is not None:
        cluster["certificate-authority-data"] = base64.b64encode(authority).decode()
    context = {"cluster": NAME, "user": NAME, "namespace": namespace}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": NAME,
        "clusters": [{"name": NAME, "cluster": cluster}],
        "users": [{"name": NAME, "user": {"token": token}}],
        "contexts": [{"name": NAME, "context": context}],
    }


def write_kubeconfig(path: str | os.PathLike[str], content: dict[str, Any]) -> Path:
    """Write a kubeconfig to a file, readable only by its owner; returns the path."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    temporary.touch(mode=0o600)
    temporary.write_text(yaml.safe_dump(content, sort_keys=False))
    temporary.replace(target)
    return target


def add_accounts(path: Path, objects: Iterable[Mapping[str, Any]]) -> list[str]:
    """Add a context for each service account of these objects; get the names of the contexts."""
    content = yaml.safe_load(path.read_text("utf-8"))
    added = []
    for obj in objects:
        if obj["kind"] == "ServiceAccount":
            meta = obj["metadata"]
            namespace = meta.get("namespace") or "default"
            title, token = f"{meta['name']}@{namespace}", make_token(namespace, meta["name"])
            context = {"cluster": NAME, "user": title, "namespace": namespace}
            content["users"].append({"name": title, "user": {"token": token}})
            content["contexts"].append({"name": title, "context": context})
            added.append(title)
    if added:
        write_kubeconfig(path, content)
    return added
