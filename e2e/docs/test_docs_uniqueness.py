"""What is documented to make values unique does so, however many objects come at once."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import snippets

from kopf_kits.runner import KopfRunner
from kopf_kits.sandbox import SandboxThread

ROOT = Path(__file__).resolve().parents[2]
COUNT = 6
PREFIX = "kopf.zalando.org/"
HANDLED = f"{PREFIX}last-handled-configuration"
HINT = "courtesy to users, not a guarantee"


def is_claimed(body: Any) -> bool:
    return HANDLED in body["metadata"].get("annotations", {})


def is_refused(body: Any) -> bool:
    record = json.loads(body["metadata"].get("annotations", {}).get(f"{PREFIX}claim_host", "{}"))
    return bool(record.get("message") == "example.com is taken already.")


def test_k35_one_of_those_who_come_at_once_has_the_claimed_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = ROOT / "docs" / "admission.md"
    assert HINT in " ".join(page.read_text("utf-8").split())
    [block] = [block for block in snippets.read_blocks(page) if "claim_host" in block.code]
    (tmp_path / "handlers.py").write_text(block.code)
    names = [f"web{number}" for number in range(COUNT)]
    with SandboxThread() as cluster, ThreadPoolExecutor(COUNT) as pool:
        path = cluster.write_kubeconfig(tmp_path / "kubeconfig")
        monkeypatch.setenv("KUBECONFIG", str(path))
        cluster.apply(ROOT / "examples" / "crd.yaml")
        cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "claims"}})

        def create(name: str) -> None:
            body = {"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": {"name": name}}
            cluster.create({**body, "spec": {"host": "example.com"}})

        def settle(name: str) -> Any:
            return cluster.wait(
                "kopfexamples", name, check=lambda body: is_claimed(body) or is_refused(body)
            )

        with KopfRunner(["run", "-A", str(tmp_path / "handlers.py")], timeout=60):
            [*pool.map(create, names)]
            bodies = [*pool.map(settle, names)]
        [claim] = cluster.list("configmaps", namespace="claims")
    [owner] = [body for body in bodies if is_claimed(body)]
    assert claim["data"] == {"owner": owner["metadata"]["uid"]}
