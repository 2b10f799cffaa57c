"""The deployment of an operator: rendering of our chart, its values, and the forms of files."""

import dataclasses
import json
import pathlib
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import click.testing
import pytest
import yaml

from kopf_cogs.structs.resources import Resource
from kopf_core.intents import decorators as on
from kopf_core.intents.registries import (
    OperatorRegistry,
    get_default_registry,
    set_default_registry,
)
from kopf_kits.cli.controls import CLIControls
from kopf_kits.cli.groups import main
from kopf_kits.shipping.choosing import UnknownKindError, make_permissions
from kopf_kits.shipping.expressions import RenderingError
from kopf_kits.shipping.rendering import Templates, render_chart
from kopf_kits.shipping.writing import Deployment, write_chart, write_kustomize, write_plain

KINDS = [Resource("example.com", "v1", "websites", "Website", namespaced=True)]
KINDS += [Resource("", "v1", "secrets", "Secret"), Resource("", "v1", "pods", "Pod")]


@pytest.fixture(autouse=True)
def _registry() -> Iterator[None]:
    """The commands replace the default one."""
    default = get_default_registry()
    yield
    set_default_registry(default)


def render(template: str, **values: Any) -> str:
    return "".join(Templates([template]).render({"Values": values}))


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{{ .Values.x }}", "1"),
        ("a: {{- .Values.x }}", "a:1"),
        ("{{ .Values.absent }}", ""),
        ("{{ .Values.s | quote }}", '"text"'),
        ('{{ printf "--x=%s" .Values.s | quote }}', '"--x=text"'),
        ("{{ if gt (int .Values.x) 1 }}many{{ else }}one{{ end }}", "one"),
        ("{{ if and .Values.x (not .Values.absent) }}yes{{ end }}", "yes"),
        ("{{ with .Values.s }}<{{ . }}>{{ end }}", "<text>"),
        ("{{ with .Values.absent }}<{{ . }}>{{ else }}none{{ end }}", "none"),
        ("{{ range .Values.l }}{{ . }}{{ $.Values.x }};{{ else }}-{{ end }}", "a1;b1;"),
        ("{{ range $i, $s := .Values.l }}{{ if $i }}, {{ end }}{{ $s }}{{ end }}", "a, b"),
        ("a: {{- toYaml .Values.l | nindent 2 }}", "a:\n  - a\n  - b"),
        ("{{ .Values.l | toJson }}", '["a","b"]'),
        ('{{ define "f" }}<{{ . }}>{{ end }}{{ include "f" .Values.s }}', "<text>"),
        ('{{ default "other" .Values.absent }}', "other"),
        ('{{ default "other" .Values.s | trunc 2 }}', "te"),
        ("{{/* nothing */}}x", "x"),
    ],
)
def test_n_templates_are_rendered(template: str, expected: str) -> None:
    assert render(template, x=1, s="text", l=["a", "b"]) == expected


@pytest.mark.parametrize("template", ["{{ if .x }}", "{{ upper .Values.x }}", '{{ fail "no" }}'])
def test_n_wrong_templates_are_refused(template: str) -> None:
    with pytest.raises(RenderingError):
        render(template)


def test_n_the_chart_refuses_senseless_values() -> None:
    with pytest.raises(RenderingError, match="either peering or several replicas"):
        render_chart({"peering": "default", "replicas": 2}, name="x", namespace="ns")


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ({}, "ghcr.io/nolar/kopf:9.9"),
        ({"repository": "r", "tag": "1"}, "r:1"),
        ({"digest": "sha256:0f"}, "ghcr.io/nolar/kopf@sha256:0f"),
    ],
)
def test_n_images_are_of_tags_or_digests(image: dict[str, str], expected: str) -> None:
    bodies = render_chart({"image": image}, name="x", namespace="ns", version="9.9")
    (deployment,) = [body for body in bodies if body["kind"] == "Deployment"]
    assert deployment["spec"]["template"]["spec"]["containers"][0]["image"] == expected
    assert deployment["metadata"]["labels"]["app.kubernetes.io/version"] == "9.9"
    assert "app.kubernetes.io/version" not in deployment["spec"]["selector"]["matchLabels"]


def test_n_definitions_are_kept_when_the_chart_is_uninstalled(crd_path: pathlib.Path) -> None:
    definition = yaml.safe_load(crd_path.read_text("utf-8"))
    definition["metadata"]["annotations"] = {"mine": "yes"}
    bodies = render_chart({"definitions": [definition]}, name="x", namespace="ns")
    (rendered,) = [body for body in bodies if body["kind"] == "CustomResourceDefinition"]
    assert rendered["spec"] == definition["spec"]
    assert rendered["metadata"]["annotations"] == {
        "helm.sh/resource-policy": "keep",
        "mine": "yes",
    }


def make_registry() -> OperatorRegistry:
    registry = OperatorRegistry()
    on.create("websites.example.com", registry=registry)(lambda **_: None)
    on.reconcile(
        "websites", id="fn", registry=registry, owns=["pods"], related={"secrets": "spec.name"}
    )(lambda **_: [])
    return registry


def test_n_rights_are_for_what_is_declared() -> None:
    assert make_permissions(make_registry(), KINDS) == {
        "kinds": [{"group": "example.com", "resources": ["websites"]}],
        "rules": [
            {
                "apiGroups": [""],
                "resources": ["pods"],
                "verbs": ["create", "delete", "get", "list", "patch", "watch"],
            },
            {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list", "watch"]},
        ],
    }


@pytest.mark.parametrize("decorate", [on.index, on.event])
def test_n_rights_for_kinds_that_are_only_looked_at_are_to_look(decorate: Any) -> None:
    """Nobody may change all Secrets of the cluster just because they are in an index."""
    registry = OperatorRegistry()
    on.create("websites.example.com", registry=registry)(lambda **_: None)
    decorate("secrets", id="looking", registry=registry)(lambda **_: None)
    assert make_permissions(registry, KINDS) == {
        "kinds": [{"group": "example.com", "resources": ["websites"]}],
        "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list", "watch"]}],
    }


def test_n_kinds_of_webhooks_only_need_no_rights() -> None:
    registry = OperatorRegistry()
    on.validate("pods", id="judging", registry=registry)(lambda **_: None)
    permissions = make_permissions(registry, KINDS)
    assert permissions == {"kinds": [], "rules": [], "webhooks": {"enabled": True}}


def test_n_conversions_get_their_service_and_rights() -> None:
    registry = OperatorRegistry()
    convert = on.convert("v1", "v2", kind="websites.example.com", registry=registry)
    convert(lambda **_: None)
    values = make_permissions(registry, KINDS)
    bodies = render_chart(values, name="x", namespace="ns")
    assert "Service" in [body["kind"] for body in bodies]
    [role] = [body for body in bodies if body["kind"] == "ClusterRole"]
    rules = [rule for rule in role["rules"] if rule["resources"] == ["customresourcedefinitions"]]
    assert [rule["verbs"] for rule in rules] == [["list", "watch"], ["get", "patch"]]


def test_n_rights_for_kinds_of_the_cluster_are_in_no_namespace() -> None:
    registry = OperatorRegistry()
    on.create("planets.example.com", registry=registry)(lambda **_: None)
    on.reconcile("websites", id="fn", registry=registry, owns=["moons"])(lambda **_: [])
    scopes = {"websites": True, "planets": False, "moons": False}
    kinds = [Resource("example.com", "v1", name, namespaced=yes) for name, yes in scopes.items()]
    permissions = make_permissions(registry, kinds)
    assert permissions["kinds"] == [{"group": "example.com", "resources": ["websites"]}]
    bodies = render_chart({**permissions, "namespaces": ["apps"]}, name="x", namespace="ns")
    (role,) = [body for body in bodies if body["kind"] == "ClusterRole"]
    rights = {name: rule["verbs"] for rule in role["rules"] for name in rule["resources"]}
    assert rights["planets"] == ["get", "list", "patch", "watch"]
    assert rights["planets/status"] == ["patch"]
    assert rights["moons"] == ["create", "delete", "get", "list", "patch", "watch"]


def test_n_unknown_kinds_are_named() -> None:
    with pytest.raises(UnknownKindError, match=r"websites.*by -f"):
        make_permissions(make_registry(), [])


DEPLOYMENT = Deployment(
    "web",
    "home",
    {
        "image": {"repository": "example.com/web", "tag": "1.0"},
        "kinds": [{"group": "example.com", "resources": ["websites"]}],
        "webhooks": {"enabled": True},
    },
)


def test_n_all_forms_are_of_the_same_objects() -> None:
    plain = [body for body in yaml.safe_load_all(write_plain(DEPLOYMENT)) if body]
    files = write_kustomize(DEPLOYMENT)
    (kustomization,) = yaml.safe_load_all(files["kustomization.yaml"])
    based = [b for path in kustomization["resources"] for b in yaml.safe_load_all(files[path])]
    assert plain[0]["kind"] == "Namespace"
    assert sorted(map(json.dumps, plain[1:])) == sorted(map(json.dumps, based))
    assert kustomization["images"] == [{"name": "example.com/web", "newTag": "1.0"}]
    chart = write_chart(DEPLOYMENT)
    values = yaml.safe_load(chart["values.yaml"])
    assert values["webhooks"] == {"enabled": True, "port": 9443, "conversions": False}
    rendered = render_chart(values, name="web", namespace="home", chart="web", version="1.0")
    assert sorted(map(json.dumps, plain[1:])) == sorted(map(json.dumps, rendered))
    assert "# The kinds to serve" in chart["values.yaml"]


def test_n_charts_have_the_number_of_replicas_in_their_values() -> None:
    values = {**DEPLOYMENT.values, "replicas": 2}
    written = write_chart(dataclasses.replace(DEPLOYMENT, values=values))["values.yaml"]
    assert yaml.safe_load(written)["replicas"] == 2


KUBECTL = shutil.which("kubectl")


@pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed here")
def test_n_kustomize_leaves_the_objects_in_their_namespaces(tmp_path: pathlib.Path) -> None:
    values = {**DEPLOYMENT.values, "namespaces": ["one", "two"]}
    deployment = dataclasses.replace(DEPLOYMENT, values=values)
    for path, text in write_kustomize(deployment).items():
        (tmp_path / path).write_text(text)
    command = [str(KUBECTL), "kustomize", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    built = [body for body in yaml.safe_load_all(done.stdout) if body]
    plain = [body for body in yaml.safe_load_all(write_plain(deployment)) if body][1:]
    assert sorted(map(locate, built)) == sorted(map(locate, plain))


def locate(body: dict[str, Any]) -> tuple[str, str, str]:
    return body["kind"], body["metadata"].get("namespace", ""), body["metadata"]["name"]


@pytest.mark.parametrize("form", ["plain", "kustomize", "helm"])
def test_n_manifests_are_written(form: str, tmp_path: pathlib.Path, crd_path: pathlib.Path) -> None:
    code = tmp_path / "handlers.py"
    code.write_text("import kopf\n@kopf.on.create('kopfexamples')\ndef fn(**_): ...\n")
    command = ["manifests", "--format", form, "--name=web", "--image=example.com/web:1.0"]
    command += [f"--directory={tmp_path / 'out'}", f"--file={crd_path}", str(code)]
    controls = CLIControls(registry=OperatorRegistry())
    result = click.testing.CliRunner().invoke(main, command, obj=controls)
    assert result.exit_code == 0, result.output
    text = "".join(path.read_text() for path in (tmp_path / "out").rglob("*.yaml"))
    assert "kopfexamples" in text
    assert "example.com/web" in text


MODELS = """
import dataclasses
import kopf

@dataclasses.dataclass
class Spec:
    size: int = 1

POLICY = kopf.schema.Policy("object.spec.size < 9 || {'{{': 1} == {}")

@kopf.resource("boxes.example.com/v1", policies=[POLICY])
@dataclasses.dataclass
class Box:
    spec: Spec

@kopf.on.create(Box)
def fn(**_): ...
"""


def run(*args: str) -> str:
    controls = CLIControls(registry=OperatorRegistry())
    result = click.testing.CliRunner().invoke(main, args, obj=controls)
    assert result.exit_code == 0, (result.output, result.exception)
    return result.stdout


@pytest.mark.parametrize("form", ["plain", "kustomize", "helm"])
def test_n_policies_are_deployed_with_their_definitions(form: str, tmp_path: pathlib.Path) -> None:
    code, crd, out = (str(tmp_path / name) for name in ("models.py", "crd.yaml", "out"))
    pathlib.Path(code).write_text(MODELS)
    run("crds", code, "-o", crd)
    options = ["--name=box", "--image=example.com/box:1.0", f"--format={form}"]
    run("manifests", *options, f"--directory={out}", f"--file={crd}", code)
    texts = {path.name: path.read_text() for path in pathlib.Path(out).rglob("*.yaml")}
    place = {"plain": "operator.yaml", "kustomize": "definitions.yaml", "helm": "policies.yaml"}
    text = texts[place[form]]
    rendered = render(text) if form == "helm" else text
    policy, binding = [
        body for body in yaml.safe_load_all(rendered) if "AdmissionPolicy" in body["kind"]
    ]
    assert policy["spec"]["validations"] == [
        {"expression": "object.spec.size < 9 || {'{{': 1} == {}"}
    ]
    assert binding["kind"] == "ValidatingAdmissionPolicyBinding"


def test_n_kinds_of_models_are_known(tmp_path: pathlib.Path) -> None:
    code = tmp_path / "models.py"
    code.write_text(MODELS)
    text = run("manifests", "--name=box", "--image=example.com/box:1.0", str(code))
    assert "boxes" in text
    assert "CustomResourceDefinition" not in [body["kind"] for body in yaml.safe_load_all(text)]
