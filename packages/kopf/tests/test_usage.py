"""What handlers use by themselves: collected in tests, compared with roles, written to roles."""

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

import kopf
from kopf.testing import KopfRunner, SandboxThread
from kopf_kits.cli import CLIControls, main
from kopf_kits.logs import preserved_logging
from kopf_kits.roles.usage import Usage, UsageFileError, load_usage

EXAMPLES = Path(__file__).parents[3] / "examples"
CODE = """
import kopf

@kopf.on.create("kopfexamples.kopf.dev")
async def create_fn(namespace, **_):
    meta = {"name": "child"}
    await kopf.api.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})
    async for one in kopf.api.list("nodes"):
        pass
    return "done"

@kopf.on.create("kopfexamples.kopf.dev")
def sync_fn(namespace, **_):
    list(kopf.sync_api.list("v1/pods", namespace=namespace))
    return "done"
"""
PERMITTED = """
kind: Role
apiVersion: rbac.authorization.k8s.io/v1
metadata: {name: it}
rules:
- {apiGroups: [""], resources: [configmaps, nodes], verbs: ["*"]}
"""


def run(sandbox: SandboxThread, path: Path) -> None:
    path.write_text(CODE)
    sandbox.apply(EXAMPLES / "crd.yaml")
    with KopfRunner(["run", "-A", "--standalone", str(path)], timeout=60):
        sandbox.apply(EXAMPLES / "obj.yaml")
        for name in ("create_fn", "sync_fn"):
            sandbox.wait(
                "kex", "kopf-example-1", jsonpath=f"status.{name}", value="done", timeout=600
            )


def test_n_requests_of_handlers_are_collected(
    kopf_sandbox: SandboxThread,
    kopf_usage: Usage,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("KOPF_USED", raising=False)
    path = tmp_path / "handlers.py"
    run(kopf_sandbox, path)
    found = {(r.resource, r.verb): (ns, users) for (r, ns), users in kopf_usage.used.items()}
    one, other = {"Handler 'create_fn'"}, {"Handler 'sync_fn'"}
    assert found == {
        ("configmaps", "create"): (True, one),
        ("configmaps", "patch"): (True, one),
        ("nodes", "list"): (False, one),
        ("pods", "list"): (True, other),
    }
    role = tmp_path / "role.yaml"
    role.write_text(PERMITTED)
    with pytest.raises(AssertionError) as info:
        kopf_usage.check(role)
    assert str(info.value) == (
        "These rights are used by Handler 'sync_fn', but are not in the roles: "
        '{apiGroups: [""], resources: [pods], verbs: [list]}'
    )
    role.write_text(PERMITTED.replace("nodes", "nodes, pods"))
    kopf_usage.check(role)

    used = tmp_path / "used.json"
    kopf_usage.save(used)
    kopf_usage.save(used)  # nothing is repeated
    assert load_usage(used).used == kopf_usage.used
    controls = CLIControls(registry=kopf.OperatorRegistry())
    args = ["rbac", "-n", "ns", "--used", str(used), str(path)]
    with preserved_logging():
        result = CliRunner().invoke(main, args, obj=controls)
    assert result.exit_code == 0, result.output
    cluster, local = yaml.safe_load_all(result.stdout)
    nodes, pods = (
        {"apiGroups": [""], "resources": [name], "verbs": ["list"]} for name in ("nodes", "pods")
    )
    assert nodes in cluster["rules"]
    assert pods in local["rules"]
    assert "Handler 'sync_fn' uses them." in result.stdout


MODEL = """
import dataclasses, kopf
@kopf.resource("things.example.com/v1", kind="Thing")
@dataclasses.dataclass
class Thing: ...
@kopf.on.create(Thing)
def fn(**_): ...
"""


def test_man3_requests_of_applied_definitions_are_not_of_handlers(
    kopf_sandbox: SandboxThread, kopf_usage: Usage, tmp_path: Path
) -> None:
    path = tmp_path / "handlers.py"
    path.write_text(MODEL)
    with KopfRunner(["run", "-A", "--standalone", "--apply-crds", str(path)], timeout=60) as runner:
        kopf_sandbox.wait("crd", "things.example.com", condition="Established", timeout=60)
    assert runner.exit_code == 0
    assert kopf_usage.used == {}


def test_n_files_of_usage_are_checked(tmp_path: Path) -> None:
    path = tmp_path / "used.json"
    path.write_text("[]")
    with pytest.raises(UsageFileError, match="not a file of used rights"):
        load_usage(path)
    with pytest.raises(UsageFileError, match="No such file"):
        load_usage(tmp_path / "absent.json")
