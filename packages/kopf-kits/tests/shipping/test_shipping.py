"""The deployment of an operator: rendering of our chart, its values, and the forms of files."""

import dataclasses
import hashlib
import json
import pathlib
import shutil
import subprocess
from collections.abc import Collection, Iterator
from typing import Any

import click.testing
import pytest
import yaml

from kopf_cogs.clients.rights import Right, is_permitted
from kopf_cogs.structs.resources import Resource
from kopf_core.intents import decorators as on
from kopf_core.intents.registries import (
    OperatorRegistry,
    get_default_registry,
    set_default_registry,
)
from kopf_core.reactor.life.essentials import OperatorOptions
from kopf_kits.cli.controls import CLIControls
from kopf_kits.cli.groups import main
from kopf_kits.roles.usage import Usage
from kopf_kits.shipping.choosing import make_permissions
from kopf_kits.shipping.expressions import RenderingError
from kopf_kits.shipping.rendering import Templates, render_chart
from kopf_kits.shipping.writing import Deployment, write_chart, write_kustomize, write_plain

SERVED = ["run", "--serve=http://0.0.0.0:8080"]
VERBS = frozenset({"list", "watch", "get", "patch", "create", "delete"})
KINDS = [
    Resource(group, "v1", plural, namespaced=True, verbs=VERBS)
    for group, plural in [("example.com", "websites"), ("", "secrets"), ("", "pods")]
]


@pytest.fixture(autouse=True)
def _registry() -> Iterator[None]:
    """The commands replace the default one, or add handlers to it."""
    default = get_default_registry()
    set_default_registry(OperatorRegistry())
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


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"peering": "default", "replicas": 2}, "either peering or several replicas"),
        ({"peering": "default", "processes": 2}, "either several processes"),
        ({"replicas": 2, "processes": 2}, "either several processes"),
        ({"shards": True, "processes": 2}, "either several processes"),
        ({"peering": "default", "shards": True}, "either peering or shards"),
        ({"clusters": {"contexts": ["a"]}}, "set clusters.secret"),
        ({"clusters": {"secret": "s"}}, "set clusters.contexts"),
        ({"clusters": {"secret": "s", "contexts": ["a"]}, "processes": 2}, "neither webhooks nor"),
        (
            {"clusters": {"secret": "s", "contexts": ["a"]}, "webhooks": {"enabled": True}},
            "neither webhooks nor",
        ),
        ({"ring": "web", "shards": True}, "either a ring"),
        ({"ring": "web", "peering": "default"}, "either a ring"),
        ({"ring": "web", "processes": 2}, "either a ring"),
    ],
)
def test_n_the_chart_refuses_senseless_values(values: dict[str, Any], text: str) -> None:
    with pytest.raises(RenderingError, match=text):
        render_chart(values, name="x", namespace="ns")


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, ["--all-namespaces"]),
        ({"namespaceSelector": "a in (b, c)"}, ["--namespace-selector=a in (b, c)"]),
        (
            {"namespaces": ["x"], "namespaceSelector": "a"},
            ["--namespace=x", "--namespace-selector=a"],
        ),
        ({"processes": 3}, ["--all-namespaces", "--processes=3"]),
    ],
)
def test_o_charts_say_what_is_served_and_by_how_many_processes(
    values: dict[str, Any], expected: list[str]
) -> None:
    bodies = render_chart(values, name="x", namespace="ns")
    (deployment,) = [body for body in bodies if body["kind"] == "Deployment"]
    command = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    assert command == [*SERVED, *expected, "/app/main.py"]
    assert deployment["spec"]["strategy"] == {"type": "Recreate"}


def get_pod(values: dict[str, Any]) -> Any:
    bodies = render_chart(values, name="x", namespace="ns")
    (deployment,) = [body for body in bodies if body["kind"] == "Deployment"]
    return deployment["spec"]["template"]["spec"]


def test_o_charts_of_several_clusters_mount_their_kubeconfig() -> None:
    pod = get_pod({"clusters": {"secret": "all", "contexts": ["east", "west"]}})
    expected = ["--kubeconfig=/etc/clusters/config", "--context=east", "--context=west"]
    assert pod["containers"][0]["args"][3:-1] == expected
    assert {"name": "clusters", "secret": {"secretName": "all"}} in pod["volumes"]
    mount = {"name": "clusters", "mountPath": "/etc/clusters", "readOnly": True}
    assert mount in pod["containers"][0]["volumeMounts"]


@pytest.mark.parametrize(("qps", "shown"), [(20, "20"), (0.5, "0.5")])
def test_o_charts_limit_the_requests(qps: float, shown: str) -> None:
    args = get_pod({"requests": {"qps": qps, "burst": 40}})["containers"][0]["args"]
    assert args[3:-1] == [f"--qps={shown}", "--burst=40"]


@pytest.mark.parametrize(
    ("values", "requests", "limit"),
    [
        ({}, {"cpu": "50m", "memory": "64Mi"}, "256Mi"),
        ({"processes": 4}, {"cpu": 4, "memory": "512Mi"}, "1024Mi"),
    ],
)
def test_o_charts_give_memory_to_each_process(
    values: dict[str, Any], requests: dict[str, Any], limit: str
) -> None:
    resources = get_pod(values)["containers"][0]["resources"]
    assert resources == {"requests": requests, "limits": {"memory": limit}}


def test_o_resources_of_charts_can_be_chosen() -> None:
    chosen = {"limits": {"memory": "2Gi"}}
    pod = get_pod({"processes": 4, "resources": chosen})
    assert pod["containers"][0]["resources"] == chosen


def test_o_peering_objects_of_selected_namespaces_are_permitted() -> None:
    values = {"namespaceSelector": "a", "peering": "default"}
    bodies = render_chart(values, name="x", namespace="ns")
    (role,) = [body for body in bodies if body["kind"] == "ClusterRole"]
    resources = [name for rule in role["rules"] for name in rule["resources"]]
    assert "kopfpeerings" in resources
    assert "clusterkopfpeerings" not in resources


def test_o_namespaces_can_be_selected_with_the_rights_of_the_chart() -> None:
    bodies = render_chart({"namespaceSelector": "a"}, name="x", namespace="ns")
    (role,) = [body for body in bodies if body["kind"] == "ClusterRole"]
    (rule,) = [rule for rule in role["rules"] if rule["resources"] == ["namespaces"]]
    assert rule == {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["list", "watch"]}


@pytest.mark.parametrize("replicas", [1, 3])
def test_o_replicas_of_the_chart_can_share_the_objects(replicas: int) -> None:
    objects = render_chart({"shards": True, "replicas": replicas}, name="mine", namespace="ns")
    [deployment] = [one for one in objects if one["kind"] == "Deployment"]
    args = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    assert "--shards=mine" in args
    assert not [arg for arg in args if "lease" in arg]
    assert deployment["spec"]["strategy"] == {"type": "RollingUpdate"}
    [role] = [one for one in objects if one["metadata"]["name"] == "mine-own" and "rules" in one]
    verbs = ["get", "list", "watch", "create", "update", "delete"]
    group, kinds = ["coordination.k8s.io"], ["leases"]
    assert role["rules"] == [{"apiGroups": group, "resources": kinds, "verbs": verbs}]


@pytest.mark.parametrize("replicas", [1, 3])
def test_o_replicas_of_the_chart_can_be_shards_of_a_ring(replicas: int) -> None:
    objects = render_chart({"ring": "web", "replicas": replicas}, name="mine", namespace="ns")
    [deployment] = [one for one in objects if one["kind"] == "Deployment"]
    args = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    assert "--ring=web" in args
    assert not [arg for arg in args if "lease" in arg]
    assert deployment["spec"]["strategy"] == {"type": "RollingUpdate"}
    [role] = [one for one in objects if one["metadata"]["name"] == "mine-own" and "rules" in one]
    verbs = ["get", "create", "update"]
    group, kinds = ["coordination.k8s.io"], ["leases"]
    assert role["rules"] == [{"apiGroups": group, "resources": kinds, "verbs": verbs}]


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


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, None),
        ({"podAnnotations": {"a": "b"}}, {"a": "b"}),
        (
            {"source": "x", "podAnnotations": {"a": "b"}},
            {"a": "b", "checksum/source": hashlib.sha256(b"x").hexdigest()},
        ),
    ],
)
def test_n_only_a_source_has_a_checksum(values: dict[str, Any], expected: Any) -> None:
    bodies = render_chart(values, name="x", namespace="ns")
    (deployment,) = [body for body in bodies if body["kind"] == "Deployment"]
    assert deployment["spec"]["template"]["metadata"].get("annotations") == expected


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


def make_values(registry: OperatorRegistry, kinds: Collection[Resource]) -> dict[str, Any]:
    return make_permissions(OperatorOptions(registry=registry, clusterwide=True), kinds)


def test_n_kinds_of_webhooks_only_need_no_rights() -> None:
    registry = OperatorRegistry()
    on.validate("pods", id="judging", registry=registry)(lambda **_: None)
    assert make_values(registry, KINDS) == {"rules": [], "webhooks": {"enabled": True}}


def test_n_conversions_get_their_service_and_rights() -> None:
    registry = OperatorRegistry()
    convert = on.convert("v1", "v2", kind="websites.example.com", registry=registry)
    convert(lambda **_: None)
    bodies = render_chart(make_values(registry, KINDS), name="x", namespace="ns")
    assert "Service" in [body["kind"] for body in bodies]
    [role] = [body for body in bodies if body["kind"] == "ClusterRole"]
    rules = [rule for rule in role["rules"] if rule["resources"] == ["customresourcedefinitions"]]
    assert [rule["verbs"] for rule in rules] == [["list", "watch"], ["get", "patch"]]


def test_n_rights_to_create_secrets_are_not_only_for_the_certificate_of_webhooks() -> None:
    registry = OperatorRegistry()
    on.validate("websites", id="judging", registry=registry)(lambda **_: None)
    on.reconcile("websites", id="fn", registry=registry, owns=["secrets"])(lambda **_: [])
    values = make_values(registry, KINDS)
    [rule] = [rule for rule in values["rules"] if "secrets" in rule["resources"]]
    assert "create" in rule["verbs"]


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
    command += ["--namespace-selector=a in (b)", "--processes=2"]
    controls = CLIControls(registry=OperatorRegistry())
    result = click.testing.CliRunner().invoke(main, command, obj=controls)
    assert result.exit_code == 0, result.output
    text = "".join(path.read_text() for path in (tmp_path / "out").rglob("*.yaml"))
    assert "kopfexamples" in text
    assert "example.com/web" in text
    if form == "helm":
        values = yaml.safe_load((tmp_path / "out" / "values.yaml").read_text())
        assert (values["namespaceSelector"], values["processes"]) == ("a in (b)", 2)
    else:
        assert "--namespace-selector=a in (b)" in text
        assert "--processes=2" in text


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ([], ["/app/main.py"]),
        (["--verbose"], ["--verbose", "/app/main.py"]),
        (["--verbose", "/my.py"], ["--verbose", "/my.py"]),
        (["-m", "my.handlers"], ["-m", "my.handlers"]),
        (["--module=my.handlers"], ["--module=my.handlers"]),
    ],
)
def test_man1_options_alone_keep_the_usual_file(
    args: list[str], expected: list[str], tmp_path: pathlib.Path, crd_path: pathlib.Path
) -> None:
    code = tmp_path / "handlers.py"
    code.write_text("import kopf\n@kopf.on.create('kopfexamples')\ndef fn(**_): ...\n")
    command = ["manifests", "--name=web", "--image=example.com/web:1.0", f"--file={crd_path}"]
    text = run(*command, *(f"--arg={arg}" for arg in args), str(code))
    (deployment,) = (body for body in yaml.safe_load_all(text) if body["kind"] == "Deployment")
    told = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    assert told[-len(expected) :] == expected
    assert ("/app/main.py" in told) == ("/app/main.py" in expected)


@pytest.mark.parametrize(
    "extra",
    [
        {"webhooks": {"enabled": True}},
        {"clusters": {"secret": "NAME", "contexts": ["c"], "kubeconfigNamespaces": ["NAMESPACE"]}},
    ],
    ids=["webhooks", "clusters"],
)
@pytest.mark.parametrize(
    ("name", "namespace"), [("yes", "123"), ("1e3", "null"), ("01", "2026-11")]
)
def test_man2_names_remain_strings_even_if_they_look_otherwise(
    name: str, namespace: str, extra: dict[str, Any]
) -> None:
    values = {"replicas": 3, "source": "x", "namespaces": ["NAMESPACE"], **extra}
    values |= {"monitor": {"enabled": True}, "networkPolicy": {"enabled": True}}

    def use(text: str) -> Any:
        return json.loads(text.replace("NAMESPACE", namespace).replace("NAME", name))

    usual = render_chart(values, name="NAME", namespace="NAMESPACE", chart="NAME")
    bodies = render_chart(use(json.dumps(values)), name=name, namespace=namespace, chart=name)
    assert bodies == use(json.dumps(usual))


MODEL = """
import dataclasses, kopf
@kopf.resource("kopfexamples.kopf.dev/v1", kind="KopfExample")
@dataclasses.dataclass
class KopfExample: ...
@kopf.on.create(KopfExample)
def fn(**_): ...
"""


@pytest.mark.parametrize("option", ["--name", "--into"])
@pytest.mark.parametrize("name", ["Web_X", "web.x", "-web", "web-", "w" * 64, "", "web\n"])
def test_names_that_kubernetes_refuses_are_wrong_options(option: str, name: str) -> None:
    names = {"--name": "web", "--into": "default", option: name}
    options = [part for pair in names.items() for part in pair]
    result = click.testing.CliRunner().invoke(
        main, ["manifests", *options, "--image", "a:1", "x.py"]
    )
    assert result.exit_code == 2
    assert f"Invalid value for '{option}': {name!r} is no name in Kubernetes: " in result.output


@pytest.mark.parametrize("is_applied", [True, False])
def test_man3_manifests_have_the_rights_to_apply_definitions(
    is_applied: bool, tmp_path: pathlib.Path
) -> None:
    code = tmp_path / "handlers.py"
    code.write_text(MODEL)
    command = ["manifests", "--name=web", "--image=example.com/web:1.0", str(code)]
    text = run(*command, *(["--arg=--apply-crds"] if is_applied else []))
    rules = [one for body in yaml.safe_load_all(text) for one in body.get("rules") or ()]
    right = Right("apiextensions.k8s.io", "customresourcedefinitions", "patch")
    assert any(is_permitted(rule, right) for rule in rules) is is_applied


def test_man3_manifests_have_the_rights_that_handlers_used(
    tmp_path: pathlib.Path, crd_path: pathlib.Path
) -> None:
    code, used = tmp_path / "handlers.py", tmp_path / "used.json"
    code.write_text("import kopf\n@kopf.on.create('kopfexamples')\ndef fn(**_): ...\n")
    usage = Usage()
    usage.note("POST", "/api/v1/namespaces/default/pods", "application/json", "fn")
    usage.save(used)
    command = ["manifests", "--name=web", "--image=example.com/web:1.0", f"--file={crd_path}"]
    text = run(*command, f"--used={used}", str(code))
    rules = [one for body in yaml.safe_load_all(text) for one in body.get("rules") or ()]
    assert any(is_permitted(rule, Right("", "pods", "create")) for rule in rules)


@pytest.mark.parametrize(("decorator", "told"), [("validate", True), ("create", False)])
def test_q_manifests_tell_which_server_their_webhooks_need(
    decorator: str, told: bool, tmp_path: pathlib.Path, crd_path: pathlib.Path
) -> None:
    code = tmp_path / "handlers.py"
    code.write_text(f"import kopf\n@kopf.on.{decorator}('kopfexamples')\ndef fn(**_): ...\n")
    command = ["manifests", "--name=web", "--image=example.com/web:1.0", f"--file={crd_path}"]
    controls = CLIControls(registry=OperatorRegistry())
    result = click.testing.CliRunner().invoke(main, [*command, str(code)], obj=controls)
    assert result.exit_code == 0, result.output
    line = (
        'The webhooks need kopf.WebhookServiceServer("web") in the pod: set it if you have not yet.'
    )
    assert (line in result.stderr.splitlines()) is told
    assert line not in result.stdout


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--processes=2", "--replicas=2"], "either --processes or --replicas, not both"),
        (["--processes=2", "--shards"], "either --processes or --shards, not both"),
        (["--processes=2", "--ring=web"], "either --processes or --ring, not both"),
        (["--shards", "--ring=web"], "either --shards or --ring, not both"),
        (["--ring=web@ns"], "the Leases are where the pods are"),
    ],
)
def test_o_manifests_share_the_objects_in_one_way(options: list[str], text: str) -> None:
    command = ["manifests", "--name=web", "--image=x", *options]
    result = click.testing.CliRunner().invoke(main, command)
    assert result.exit_code == 2
    assert text in result.output


def write_shared(tmp_path: pathlib.Path, crd_path: pathlib.Path, *options: str) -> dict[str, Any]:
    """Write manifests for replicas that share the objects; get the objects by their kinds."""
    code = tmp_path / "handlers.py"
    code.write_text("import kopf\n@kopf.on.event('kopfexamples')\ndef fn(**_): ...\n")
    command = ["manifests", "--name=web", "--into=ns", "--image=x", f"--file={crd_path}"]
    controls = CLIControls(registry=OperatorRegistry())
    result = click.testing.CliRunner().invoke(main, [*command, *options, str(code)], obj=controls)
    assert result.exit_code == 0, result.output
    return {body["kind"]: body for body in yaml.safe_load_all(result.stdout)}


@pytest.mark.parametrize("options", [["--shards"], ["--ring=sites"]])
def test_manifests_of_shards_have_two_replicas_by_default(
    options: list[str], tmp_path: pathlib.Path, crd_path: pathlib.Path
) -> None:
    assert write_shared(tmp_path, crd_path, *options)["Deployment"]["spec"]["replicas"] == 2
    assert write_shared(tmp_path, crd_path)["Deployment"]["spec"]["replicas"] == 1


@pytest.mark.parametrize("replicas", [1, 3])
@pytest.mark.parametrize(
    ("option", "expected", "verbs"),
    [
        ("--shards", "--shards=web", ["get", "list", "watch", "create", "update", "delete"]),
        ("--ring=sites", "--ring=sites", ["get", "create", "update"]),
    ],
)
def test_q_manifests_of_shards_have_their_rights(
    replicas: int,
    option: str,
    expected: str,
    verbs: list[str],
    tmp_path: pathlib.Path,
    crd_path: pathlib.Path,
) -> None:
    bodies = write_shared(tmp_path, crd_path, option, f"--replicas={replicas}")
    spec = bodies["Deployment"]["spec"]
    assert spec["replicas"] == replicas
    assert spec["strategy"] == {"type": "RollingUpdate"}
    assert expected in spec["template"]["spec"]["containers"][0]["args"]
    assert "--lease=web" not in spec["template"]["spec"]["containers"][0]["args"]
    assert bodies["Role"]["metadata"]["namespace"] == "ns"
    assert bodies["Role"]["rules"] == [
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": verbs}
    ]


@pytest.mark.parametrize(
    ("options", "verbs"),
    [(["--ring=web"], ["list", "patch", "watch"]), (["--shards"], ["list", "watch"])],
)
def test_o_manifests_of_a_ring_permit_to_give_objects_back(
    options: list[str], verbs: list[str], tmp_path: pathlib.Path, crd_path: pathlib.Path
) -> None:
    rules = write_shared(tmp_path, crd_path, *options)["ClusterRole"]["rules"]
    (rule,) = [one for one in rules if one["resources"] == ["kopfexamples"]]
    assert rule["verbs"] == verbs


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


def test_n_definitions_of_models_are_deployed(tmp_path: pathlib.Path) -> None:
    code, other = tmp_path / "models.py", tmp_path / "crd.yaml"
    code.write_text(MODELS)
    command = ["manifests", "--name=box", "--image=example.com/box:1.0", str(code)]
    bodies = [*yaml.safe_load_all(run(*command))]
    made = [*yaml.safe_load_all(run("crds", str(code)))]
    assert len(made) == 3  # with the policy and its binding
    assert bodies[: len(made)] == made
    definition = {**made[0], "metadata": {**made[0]["metadata"], "labels": {"mine": "yes"}}}
    other.write_text(yaml.safe_dump(definition))
    bodies = [*yaml.safe_load_all(run(*command, f"--file={other}"))]
    definitions = [body for body in bodies if body["kind"] == "CustomResourceDefinition"]
    assert definitions == [definition]


HANDLERS = {
    "handlers": "@kopf.on.create('kopfexamples')",
    "everything": "@kopf.on.create(kopf.EVERYTHING)",
    "index": "@kopf.index('secrets')",
    "event": "@kopf.on.event('nodes')",
    "cluster-scoped": "@kopf.on.create('namespaces')",
    "reconciler": "@kopf.reconcile('kopfexamples', owns=['pods'], related={'nodes': 'spec.node'})",
    "keeping": "@kopf.reconcile('kopfexamples', owns=['secrets', 'nodes'], prune=False)",
    "kubeconfigs": "S = kopf.KubeconfigSecrets('a=b', namespace='c')\n@kopf.on.event('nodes')",
    "presumed": "@kopf.timer('widgets.example.com', interval=1)",
}


@pytest.mark.parametrize("scope", [[], ["-n", "one", "-n", "two"]])
@pytest.mark.parametrize("name", HANDLERS)
def test_n_rights_are_those_of_the_least_roles(
    name: str, scope: list[str], tmp_path: pathlib.Path, crd_path: pathlib.Path
) -> None:
    code = tmp_path / "handlers.py"
    code.write_text(f"import kopf\n{HANDLERS[name]}\ndef fn(**_): ...\n")
    options = [*scope, f"--file={crd_path}", str(code)]
    least = run("rbac", *options, *([] if scope else ["-A"]))
    deployed = run("manifests", "--name=x", "--image=example.com/x:1.0", *options)
    assert list_rights(deployed) == list_rights(least)


@pytest.mark.parametrize("form", ["plain", "helm"])
def test_o_manifests_permit_to_read_the_kubeconfigs_of_clusters(
    form: str, tmp_path: pathlib.Path
) -> None:
    """By default, they are in the namespace of the pod: in that of the release, with Helm."""
    code, folder = tmp_path / "handlers.py", tmp_path / "out"
    sources = "kopf.KubeconfigSecrets('a=b'), kopf.KubeconfigSecrets('a=b', namespace='clusters')"
    code.write_text(f"import kopf\nhere, there = {sources}\nagain = here\n")
    command = ["manifests", "--name=x", "--into=ns", "--image=example.com/x:1.0", str(code)]
    run(*command, f"--directory={folder}", f"--format={form}")
    if form == "helm":
        values = yaml.safe_load((folder / "values.yaml").read_text())
        assert values["clusters"]["kubeconfigNamespaces"] == ["", "clusters"]
        assert values["clusters"]["secret"] == ""
    else:
        rights = list_rights((folder / "operator.yaml").read_text())
        read = {(place, verb) for place in ("ns", "clusters") for verb in ("list", "watch")}
        assert {one[::3] for one in rights if one[2] == "secrets"} == read


def list_rights(text: str) -> set[tuple[str | None, str, str, str]]:
    """Each verb for each resource, and where, except for events: charts permit them everywhere."""
    roles = [one for one in yaml.safe_load_all(text) if one["kind"] in ("Role", "ClusterRole")]
    return {
        (resource != "events" and role["metadata"].get("namespace"), group, resource, verb)
        for role in roles
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_n_events_of_cluster_scoped_objects_are_permitted_where_they_are() -> None:
    registry = OperatorRegistry()
    on.event("planets", id="fn", registry=registry)(lambda **_: None)
    operator = OperatorOptions(registry=registry, namespaces=["apps"])
    kinds = [Resource("example.com", "v1", "planets", namespaced=False, verbs=VERBS)]
    events = {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]}
    assert events in make_permissions(operator, kinds)["clusterRules"]
    operator = OperatorOptions(registry=registry, namespaces=["apps", "default"])
    assert events not in make_permissions(operator, kinds)["clusterRules"]


def test_n_presumed_and_unknown_kinds_are_told(tmp_path: pathlib.Path) -> None:
    code = tmp_path / "handlers.py"
    code.write_text("import kopf\n@kopf.on.create('widgets.example.com')\ndef fn(**_): ...\n")
    command = ["manifests", "--name=x", "--image=example.com/x:1.0", str(code)]
    controls = CLIControls(registry=OperatorRegistry())
    result = click.testing.CliRunner().invoke(main, command, obj=controls)
    assert "Warning: " in result.stderr
    assert "it presumes both: widgets.example.com. Name their definitions by -f" in result.stderr
    code.write_text(code.read_text().replace("widgets.example.com", "gadgets"))
    controls = CLIControls(registry=OperatorRegistry())
    result = click.testing.CliRunner().invoke(main, command, obj=controls)
    assert "the group of 'gadgets' of Handler 'fn'" in str(result.exception)


def test_n_roles_cannot_be_for_patterns_of_namespaces(tmp_path: pathlib.Path) -> None:
    code = tmp_path / "handlers.py"
    code.write_text("import kopf\n@kopf.on.create('pods')\ndef fn(**_): ...\n")
    command = ["manifests", "--name=x", "--image=example.com/x:1.0", "-n", "app-*", str(code)]
    result = click.testing.CliRunner().invoke(main, command)
    assert result.exit_code == 2
    assert "'app-*' is a pattern: name the namespaces" in result.stderr
