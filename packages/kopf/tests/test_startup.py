"""What ``kopf run`` of a small operator does without, so that it starts quickly."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

OPERATOR = """
import sys
import kopf

@kopf.on.event("kopfexamples")
def fn(**_):
    print("modules:", *sys.modules, flush=True)
"""

UNUSED = {
    "kopf_core.engines.admission",
    "kopf_core.engines.desired.engine",
    "kopf_core.engines.peering.member",
    "kopf_core.engines.peering.reports",
    "kopf_core.engines.serving",
    "kopf_core.reactor.freezing",
    "kopf_core.reactor.status",
    "kopf_kits.reconciling",
    "kopf_kits.webhooks",
}

DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "kopfexamples.kopf.dev"},
    "spec": {
        "group": "kopf.dev",
        "scope": "Namespaced",
        "names": {"kind": "KopfExample", "plural": "kopfexamples", "singular": "kopfexample"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                    }
                },
            }
        ],
    },
}


def write_manifests(path: Path) -> Path:
    example = {"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": {"name": "one"}}
    documents = (json.dumps(document) for document in (DEFINITION, example))
    path.write_text("\n---\n".join(documents))
    return path


def test_an_operator_of_one_decorator_imports_nothing_of_what_it_does_not_use(
    tmp_path: Path,
) -> None:
    operator = tmp_path / "operator_of_one_decorator.py"
    operator.write_text(OPERATOR)
    manifests = write_manifests(tmp_path / "manifests.yaml")
    command = [sys.executable, "-m", "kopf", "run", "-A", "--sandbox", "-f", str(manifests)]
    with subprocess.Popen(
        [*command, str(operator)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    ) as process:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line)
            if line.startswith("modules:"):
                break
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    assert lines[-1].startswith("modules:"), "".join(lines)
    modules = set(lines[-1].split())
    assert "kopf_core.reactor.operator" in modules
    assert sorted(UNUSED & modules) == []
