"""What is in `deploy/` is accepted by the server, with no unknown fields; nothing is stored."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.clusters import Cluster
from e2e.compat.clients import Api
from kopf_kits.cli.initing import render_project
from kopf_kits.scaffold.projects import Answers, create
from kopf_kits.shipping.rendering import render_chart

from .helm import find_helm

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "deploy" / "chart"
MANIFESTS = [
    ROOT / "deploy" / "operator.yaml",
    *sorted((ROOT / "deploy" / "rbac").glob("*.yaml")),
    ROOT / "deploy" / "webhooks" / "own-certificate.yaml",
    ROOT / "deploy" / "webhooks" / "rbac.yaml",
]
NAMESPACES = ["my-namespace", "apps", "more"]
KINDS = [{"group": "example.com", "resources": ["backups", "restores"]}]
VALUES: dict[str, dict[str, Any]] = {
    "defaults": {},
    "kinds": {"kinds": KINDS, "args": ["--verbose", "-m", "my.main"]},
    "source": {"source": "import kopf\n\n\n@kopf.on.event('pods')\ndef fn(**_): ...\n"},
    "namespaces": {"kinds": KINDS, "namespaces": ["apps", "more"], "peering": "default"},
    "replicas": {"kinds": KINDS, "replicas": 3},
    "processes": {"kinds": KINDS, "processes": 3},
    "shards": {"kinds": KINDS, "shards": True, "replicas": 3},
    "ring": {"kinds": KINDS, "ring": "web", "replicas": 3},
    "clusters": {
        "clusters": {
            "secret": "kubeconfigs",
            "contexts": ["east", "west"],
            "kubeconfigNamespaces": ["", "apps"],
        },
        "requests": {"qps": 0.5, "burst": 40},
    },
    "selected": {"namespaceSelector": "tenant in (a, b)", "peering": "default"},
    "metrics": {
        "status": True,
        "networkPolicy": {"metricsFrom": [{"podSelector": {"matchLabels": {"app": "prometheus"}}}]},
    },
    "available": {
        "kinds": KINDS,
        "replicas": 2,
        "disruptionBudget": {"maxUnavailable": 1},
        "affinity": {
            "nodeAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "weight": 1,
                        "preference": {
                            "matchExpressions": [{"key": "spot", "operator": "DoesNotExist"}]
                        },
                    }
                ]
            }
        },
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": {"app.kubernetes.io/instance": "my-release"}},
            }
        ],
    },
    "least-available": {
        "kinds": KINDS,
        "replicas": 2,
        "disruptionBudget": {"minAvailable": "50%", "unhealthyPodEvictionPolicy": "AlwaysAllow"},
    },
    "monitored": {
        "monitor": {"enabled": True, "interval": "1m", "labels": {"release": "prometheus"}},
        "networkPolicy": {"enabled": True},
    },
    "definitions": {
        "kinds": KINDS,
        "definitions": [yaml.safe_load((ROOT / "examples" / "crd.yaml").read_text("utf-8"))],
    },
    "volumes": {
        "image": {
            "repository": "example.com/mine",
            "digest": f"sha256:{'0' * 64}",
            "pullPolicy": "Always",
        },
        "serviceAccount": {"annotations": {"example.com/role": "mine"}},
        "volumes": [{"name": "ca", "configMap": {"name": "ca", "optional": True}}],
        "volumeMounts": [{"name": "ca", "mountPath": "/etc/ca", "readOnly": True}],
        "resources": {"limits": {"memory": "1Gi"}},
    },
    "tagged": {"image": {"repository": "example.com/mine", "tag": "1.0"}},
    "webhooks": {
        "webhooks": {"enabled": True, "port": 9443, "conversions": True},
        "clusterRules": [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}],
        "rules": [{"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["create"]}],
        "env": [{"name": "KEY", "value": "value"}],
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [{"key": "spot", "operator": "Exists"}],
        "podLabels": {"example.com/cost-centre": "42", "on": "true"},
        "podAnnotations": {"example.com/team": "ours"},
        "imagePullSecrets": [{"name": "registry"}],
    },
}


@pytest.fixture
async def api(cluster: Cluster) -> AsyncIterator[Api]:
    async with Api(cluster) as api:
        for name in NAMESPACES:
            await api.ensure("/api/v1/namespaces", {"metadata": {"name": name}})
        yield api


@pytest.fixture(scope="session")
def helm() -> str:
    path = find_helm()
    if path is None:
        pytest.skip("There is no helm; `make deploy-check` builds it.")
    return path


async def check(api: Api, manifests: Iterable[dict[str, Any]]) -> list[str]:
    """Have the server check the objects; returns their kinds."""
    kinds = []
    for body in manifests:
        group, _, version = body["apiVersion"].rpartition("/")
        root = f"/apis/{group}/{version}" if group else f"/api/{version}"
        if body["kind"] == "PodMonitor":
            await ensure_monitors(api)
        plural = f"{body['kind'].lower()}s".replace("policys", "policies")
        namespace = body["metadata"].get("namespace")
        scope = f"/namespaces/{namespace}" if namespace else ""
        if body["kind"] != "Namespace":  # they exist, since dry runs need them
            options = "?dryRun=All&fieldValidation=Strict"
            await api.request("POST", f"{root}{scope}/{plural}{options}", body)
        kinds.append(body["kind"])
    return kinds


async def ensure_monitors(api: Api) -> None:
    """Define as much of the kind as a PodMonitor of ours has: all else is an unknown field."""
    text, labels = (
        {"type": "string"},
        {"type": "object", "additionalProperties": {"type": "string"}},
    )
    endpoint = {"type": "object", "properties": dict.fromkeys(["port", "path", "interval"], text)}
    properties = {
        "selector": {"type": "object", "properties": {"matchLabels": labels}},
        "podMetricsEndpoints": {"type": "array", "items": endpoint},
    }
    schema = {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": properties}},
    }
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    spec = {
        "group": "monitoring.coreos.com",
        "scope": "Namespaced",
        "names": {"plural": "podmonitors", "singular": "podmonitor", "kind": "PodMonitor"},
        "versions": [version],
    }
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "podmonitors.monitoring.coreos.com"},
        "spec": spec,
    }
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    await api.ensure(path, definition)
    async with asyncio.timeout(60):
        while True:
            found = await api.request("GET", f"{path}/podmonitors.monitoring.coreos.com")
            conditions = (found.get("status") or {}).get("conditions") or []
            if any(c["type"] == "Established" and c["status"] == "True" for c in conditions):
                return


def load(path: Path) -> list[dict[str, Any]]:
    return [*yaml.safe_load_all(path.read_text("utf-8"))]


def render(helm: str, values: dict[str, Any], folder: Path) -> list[dict[str, Any]]:
    path = folder / "values.yaml"
    path.write_text(yaml.safe_dump(values), encoding="utf-8")
    command = [helm, "template", "my-release", str(CHART), "--namespace", "apps", "-f", str(path)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise ValueError(done.stderr)
    return [body for body in yaml.safe_load_all(done.stdout) if body]


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: str(path.relative_to(ROOT)))
async def test_manifests(api: Api, path: Path) -> None:
    assert await check(api, load(path))


@pytest.mark.parametrize("name", VALUES)
async def test_chart(api: Api, helm: str, name: str, tmp_path: Path) -> None:
    kinds = await check(api, render(helm, VALUES[name], tmp_path))
    assert {"Deployment", "ServiceAccount", "ClusterRole", "ClusterRoleBinding"} <= {*kinds}
    assert ("ConfigMap" in kinds) == (name == "source")
    assert ("Service" in kinds) == (name == "webhooks")
    roles = {"namespaces": 2, "replicas": 1, "shards": 1, "webhooks": 1, "available": 1}
    roles |= {"ring": 1, "least-available": 1, "clusters": 2}
    assert kinds.count("Role") == roles.get(name, 0)
    assert ("PodDisruptionBudget" in kinds) == (name in ("available", "least-available"))
    assert ("PodMonitor" in kinds) == (name == "monitored")
    assert ("CustomResourceDefinition" in kinds) == (name == "definitions")


def list_values(schema: dict[str, Any]) -> set[str]:
    """All values that the chart knows, those of mappings with names of their own including."""
    return {
        f"{name}.{inner}" if inner else name
        for name, one in schema["properties"].items()
        for inner in one.get("properties", {"": None})
    }


def test_every_value_is_known_is_tried_and_is_documented() -> None:
    """What is tried by these sets of values is what the server has accepted."""
    schema = json.loads((CHART / "values.schema.json").read_text("utf-8"))
    defaults = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
    page = (ROOT / "docs" / "deployment.md").read_text("utf-8")
    assert defaults.keys() == schema["properties"].keys() - {"global"}
    tried = {
        f"{name}.{inner}" if inner else name
        for values in VALUES.values()
        for name, value in values.items()
        for inner in (value if "properties" in schema["properties"][name] else [""])
    }
    assert list_values(schema) - tried == {"global"}
    documented = {
        name for row in page.splitlines() if row.startswith("| `") for name in row.split("`")
    }
    assert {name for name in tried if not name.startswith("disruptionBudget.")} <= documented


def serialize(body: dict[str, Any]) -> str:
    """The text to be compared; it differs only by who manages the objects."""
    return json.dumps(body, sort_keys=True).replace('managed-by": "Helm"', 'managed-by": "kopf"')


@pytest.mark.parametrize("name", VALUES)
def test_n_the_chart_is_rendered_the_same_without_helm(
    helm: str, name: str, tmp_path: Path
) -> None:
    ours = render_chart(VALUES[name], name="my-release", namespace="apps")
    theirs = render(helm, VALUES[name], tmp_path)
    assert sorted(map(serialize, ours)) == sorted(map(serialize, theirs))


async def write_manifests(form: str, folder: Path, *options: str) -> Path:
    """Write the deployment of the example with websites, as a user would do that."""
    example = ROOT / "examples" / "18-website"
    command = ["manifests", "--name=web", "--into=apps", "--image=example.com/web:1.0"]
    command += [f"--format={form}", f"--directory={folder}", f"--file={example / 'crd.yaml'}"]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "kopf", *command, *options, str(example / "example.py")
    )
    assert await process.wait() == 0
    return folder


@pytest.mark.parametrize("form", ["plain", "kustomize"])
async def test_n_written_manifests_are_accepted(api: Api, form: str, tmp_path: Path) -> None:
    folder = await write_manifests(form, tmp_path)
    paths = [path for path in folder.glob("*.yaml") if path.name != "kustomization.yaml"]
    kinds = await check(api, [body for path in sorted(paths) for body in load(path)])
    assert {"CustomResourceDefinition", "Deployment", "ClusterRole"} <= {*kinds}


@pytest.mark.parametrize(
    "options",
    [
        ["--processes=4"],
        ["--replicas=2"],
        ["--replicas=2", "--shards"],
        ["--replicas=2", "--ring=web"],
        ["--namespace=apps", "--namespace=more", "--replicas=2"],
        ["--namespace-selector=tenant in (a, b)", "--arg=-m", "--arg=my.handlers"],
    ],
    ids=" ".join,
)
async def test_q_manifests_with_all_options_are_accepted(
    api: Api, options: list[str], tmp_path: Path
) -> None:
    folder = await write_manifests("plain", tmp_path, *options)
    bodies = load(folder / "operator.yaml")
    assert "Deployment" in await check(api, bodies)
    (deployment,) = [body for body in bodies if body["kind"] == "Deployment"]
    args = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    wanted = {"--replicas=2": "--lease=web", "--shards": "--shards=web"}
    told = [text.removeprefix("--arg=") for text in options]
    assert wanted.get(told[-1], told[-1]) in args


async def test_n_written_charts_are_rendered_and_accepted(
    api: Api, helm: str, tmp_path: Path
) -> None:
    folder = await write_manifests("helm", tmp_path)
    process = await asyncio.create_subprocess_exec(
        *[helm, "template", "web", str(folder), "--namespace=apps", "--include-crds"],
        stdout=asyncio.subprocess.PIPE,
    )
    text, _ = await process.communicate()
    bodies = [body for body in yaml.safe_load_all(text) if body]
    assert {"CustomResourceDefinition", "Deployment"} <= {*await check(api, bodies)}


TYPED = """
import dataclasses
from typing import Annotated
import kopf

@dataclasses.dataclass
class Spec:
    name: Annotated[str, kopf.schema.DefaultFrom("object.metadata.name")]
    size: int = 1

@kopf.resource("boxes.example.com/v1", policies=[kopf.schema.Policy("object.spec.size < 9")])
@dataclasses.dataclass
class Box:
    spec: Spec

@kopf.on.create(Box)
def fn(**_): ...
"""


async def test_n_charts_with_policies_are_rendered_and_accepted(
    api: Api, helm: str, tmp_path: Path
) -> None:
    (tmp_path / "typed.py").write_text(TYPED)
    options = "--name=box --into=apps --image=example.com/box:1.0 --format=helm --directory=chart"
    for line in (
        f"{sys.executable} -m kopf crds typed.py -o crd.yaml",
        f"{sys.executable} -m kopf manifests {options} -f crd.yaml typed.py",
        f"{helm} template box chart --namespace=apps --include-crds",
    ):
        process = await asyncio.create_subprocess_exec(
            *line.split(), cwd=tmp_path, stdout=asyncio.subprocess.PIPE
        )
        text, _ = await process.communicate()
        assert process.returncode == 0
    kinds = {*await check(api, [body for body in yaml.safe_load_all(text) if body])}
    policies = {f"{kind}AdmissionPolicy" for kind in ("Validating", "Mutating")}
    assert kinds >= {"CustomResourceDefinition", *policies, *(f"{one}Binding" for one in policies)}


@pytest.mark.parametrize("is_namespaced", [False, True])
async def test_n1_deployments_of_new_projects_are_accepted(
    api: Api, helm: str, is_namespaced: bool, tmp_path: Path
) -> None:
    answers = Answers(name="website", version="1.46.0", is_namespaced=is_namespaced)
    create(tmp_path / "website", answers, render_project(answers))
    folder = tmp_path / "website" / "deploy"
    based = [b for path in sorted((folder / "kustomize").glob("*.yaml")) for b in load(path)]
    objects = [body for body in based if body["kind"] != "Kustomization"]
    process = await asyncio.create_subprocess_exec(
        *[helm, "template", "website", str(folder / "chart"), "--namespace=website"],
        *["--include-crds"],
        stdout=asyncio.subprocess.PIPE,
    )
    text, _ = await process.communicate()
    rendered = [body for body in yaml.safe_load_all(text) if body]
    assert sorted(map(serialize, rendered)) == sorted(map(serialize, objects))
    await api.ensure("/api/v1/namespaces", {"metadata": {"name": "website"}})
    assert {"CustomResourceDefinition", "Deployment"} <= {*await check(api, objects)}


def test_arguments_of_the_chart(helm: str, tmp_path: Path) -> None:
    (deployment,) = [
        body for body in render(helm, VALUES["replicas"], tmp_path) if body["kind"] == "Deployment"
    ]
    assert deployment["spec"]["strategy"]["type"] == "RollingUpdate"
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["args"] == [
        "run",
        "--serve=http://0.0.0.0:8080",
        "--all-namespaces",
        "--lease=my-release",
        "/app/main.py",
    ]


def test_k24_nobody_but_those_selected_may_connect(helm: str, tmp_path: Path) -> None:
    def select(values: dict[str, Any]) -> Any:
        bodies = render(helm, values, tmp_path)
        policies = [body for body in bodies if body["kind"] == "NetworkPolicy"]
        assert all(policy["spec"]["policyTypes"] == ["Ingress"] for policy in policies)
        # Without rules, nobody may connect. API servers drop empty lists.
        return [policy["spec"].get("ingress", []) for policy in policies]

    peers = [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}]
    metrics = {"from": peers, "ports": [{"port": "metrics"}]}
    webhooks = {"ports": [{"port": "webhooks"}]}
    assert select({}) == [[]]
    assert select({"networkPolicy": {"enabled": False}}) == []
    assert select({"networkPolicy": {"metricsFrom": peers}}) == [[metrics]]
    assert select({"webhooks": {"enabled": True}}) == [[webhooks]]
    assert select({"webhooks": {"enabled": True}, "networkPolicy": {"metricsFrom": peers}}) == [
        [webhooks, metrics]
    ]


def test_k24_the_status_is_opt_in_and_on_loopback(helm: str, tmp_path: Path) -> None:
    for values, count in [({}, 0), ({"status": True}, 1)]:
        bodies = render(helm, values, tmp_path)
        (deployment,) = [body for body in bodies if body["kind"] == "Deployment"]
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        assert container["args"].count("--status=http://127.0.0.1:8081") == count


def test_i_leases_and_peering_are_refused_together(helm: str, tmp_path: Path) -> None:
    values = {"kinds": KINDS, "replicas": 2, "peering": "default"}
    with pytest.raises(ValueError, match="Use either peering or several replicas, not both"):
        render(helm, values, tmp_path)
    assert render(helm, {**values, "replicas": 1}, tmp_path)


@pytest.mark.parametrize(
    "values", [{"replica": 2}, {"replicas": "two"}, {"kinds": [{"group": "example.com"}]}]
)
def test_mistakes_in_values_are_refused(helm: str, values: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="don't meet the specifications of the schema"):
        render(helm, values, tmp_path)


@pytest.mark.parametrize("name", VALUES)
async def test_the_chart_is_accepted_as_we_render_it(api: Api, name: str) -> None:
    """As it is written by `kopf manifests`, and where there is no Helm."""
    assert await check(api, render_chart(VALUES[name], name="my-release", namespace="apps"))
