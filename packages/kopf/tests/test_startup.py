"""What ``kopf run`` of a small operator does without, so that it starts quickly."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from kopf.testing import SandboxThread

OPERATOR = """
import sys
import kopf

@kopf.on.login()
def login(**kwargs):  # other clients, if they are installed, import much by themselves
    return kopf.login_with_kubeconfig(**kwargs)

@kopf.on.event("kopfexamples")
def fn(**_):
    print("modules:", *sys.modules, flush=True)
"""

UNUSED = {
    "kopf_core.engines.admission",
    "kopf_core.engines.desired.desired_states",
    "kopf_core.engines.peering.member",
    "kopf_core.engines.peering.reports",
    "kopf_core.engines.serving",
    "kopf_core.reactor.process.freezing",
    "kopf_core.reactor.life.operator_status",
    "kopf_kits.reconciling",
    "kopf_kits.webhooks",
    # Models, definitions, conversions, roles, rehearsals, new projects.
    "kopf_cogs.clients.rehearsal",
    "kopf_kits.cli.crds",
    "kopf_kits.cli.initing",
    "kopf_kits.cli.rbac",
    "kopf_kits.cli.rehearsals",
    "kopf_kits.cli.shipping",
    "kopf_kits.definitions",
    "kopf_kits.manifests",
    "kopf_kits.random_values",
    "kopf_kits.roles",
    "kopf_kits.round_trips",
    "kopf_kits.sandbox",
    "kopf_kits.scaffold",
    "kopf_kits.shipping",
    "kopf_kits.typed",
    "pydantic",
}
"""With all that is in these packages."""

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


EXAMPLE = {"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": {"name": "one"}}


def run_and_list_modules(operator: Path, kubeconfig: Path) -> set[str]:
    """Run the operator until its handler is called; get what is imported by then."""
    command = [sys.executable, "-m", "kopf", "run", "-A", str(operator)]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1", "KUBECONFIG": str(kubeconfig)},
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
    return set(lines[-1].split())


def test_an_operator_of_one_decorator_imports_nothing_of_what_it_does_not_use(
    tmp_path: Path, kopf_sandbox: SandboxThread
) -> None:
    kopf_sandbox.apply(DEFINITION)
    kopf_sandbox.create(EXAMPLE, namespace="default")
    operator = tmp_path / "operator_of_one_decorator.py"
    operator.write_text(OPERATOR)
    path = kopf_sandbox.write_kubeconfig(tmp_path / "config")
    modules = run_and_list_modules(operator, path)
    assert "kopf_core.reactor.life.operator" in modules
    unused = {module for module in modules for name in UNUSED if is_of(module, name)}
    assert sorted(unused) == []


def is_of(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")
