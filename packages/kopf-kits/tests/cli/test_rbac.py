"""``kopf rbac``: the least roles for what is declared, or what is missing of them."""

import json
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import click.testing
import pytest
import yaml

from kopf_core.intents.registries import OperatorRegistry, set_default_registry
from kopf_kits.cli import CLIControls, main
from kopf_kits.logs import preserved_logging
from kopf_kits.sandbox import ClusterOptions, SandboxThread

HEAD = "import kopf\n"
CREATION = '@kopf.on.create("kopfexamples.kopf.dev")\ndef create_fn(**_): ...\n'
CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "things.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Cluster",
        "names": {"plural": "things", "kind": "Thing", "shortNames": ["th"]},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object"}},
            }
        ],
    },
}

Rules = dict[str, list[str]]


@pytest.fixture(autouse=True)
def _preserved() -> Iterator[None]:
    with preserved_logging():
        yield
    set_default_registry(OperatorRegistry())


@pytest.fixture
def call(tmp_path: pathlib.Path) -> Callable[..., click.testing.Result]:
    """Call the command for a file of this code."""

    def call(code: str, *args: str) -> click.testing.Result:
        path = tmp_path / "handlers.py"
        path.write_text(HEAD + code)
        controls = CLIControls(registry=OperatorRegistry())
        return click.testing.CliRunner().invoke(main, ["rbac", *args, str(path)], obj=controls)

    return call


@pytest.fixture
def write(call: Callable[..., click.testing.Result]) -> Callable[..., list[dict[str, Any]]]:
    def write(code: str, *args: str) -> list[dict[str, Any]]:
        result = call(code, *args)
        assert result.exit_code == 0, (result.output, result.exception)
        return list(yaml.safe_load_all(result.stdout))

    return write


def get_rules(role: dict[str, Any]) -> Rules:
    """The verbs by resources: ``plural.group``."""
    found: Rules = {}
    for rule in role["rules"]:
        for resource in rule["resources"]:
            for group in rule["apiGroups"]:
                plural, slash, subresource = resource.partition("/")
                name = f"{plural}.{group}".rstrip(".") + slash + subresource
                found.setdefault(name, []).extend(rule["verbs"])
    return found


COMMON = {
    "customresourcedefinitions.apiextensions.k8s.io": ["list", "watch"],
    "events": ["create", "patch"],
}


def test_n_role_of_builtin_kinds_is_known_with_no_cluster(write):
    [role] = write(
        '@kopf.on.create("pods")\ndef a(**_): ...\n'
        '@kopf.on.event("deploy")\ndef b(**_): ...\n'
        '@kopf.index("Secret")\ndef c(**_): ...\n',
        "-A",
    )
    assert (role["kind"], role["metadata"]["name"]) == ("ClusterRole", "operator")
    assert get_rules(role) == {
        **COMMON,
        "deployments.apps": ["list", "watch"],
        "pods": ["list", "watch", "get", "patch"],
        "pods/status": ["patch"],
        "secrets": ["list", "watch"],
    }


def test_n_definitions_tell_the_scope_and_the_subresources(write, tmp_path):
    path = tmp_path / "crd.yaml"
    path.write_text(yaml.safe_dump(CRD))
    code = '@kopf.on.update("th")\ndef update_fn(**_): ...\n'
    [role] = write(code, "-A", "-f", str(path))
    assert get_rules(role)["things.example.com/status"] == ["patch"]
    [cluster, local] = write(code, "-n", "ns", "-f", str(path))
    assert get_rules(cluster).keys() == {
        "things.example.com",
        "things.example.com/status",
        "customresourcedefinitions.apiextensions.k8s.io",
    }
    # Events of cluster-scoped objects are in that namespace.
    assert (local["kind"], local["metadata"]["namespace"]) == ("Role", "default")
    assert get_rules(local) == {"events": ["create", "patch"]}


SELECTED = ["--namespace-selector", "tenant in (a, b)"]


@pytest.mark.parametrize("scope", [["-A"], ["-n", "one", "-n", "two"], ["-n", "t*"], SELECTED])
def test_n_scope_is_that_of_the_options(write, scope):
    roles = write(CREATION, *scope)
    places = [role["metadata"].get("namespace") for role in roles]
    assert places == ([None, "one", "two"] if "one" in scope else [None])
    assert get_rules(roles[-1])["kopfexamples.kopf.dev"] == ["list", "watch", "get", "patch"]
    assert ("namespaces" in get_rules(roles[0])) is ("t*" in scope or scope == SELECTED)


def test_n_what_is_only_presumed_is_told(call):
    result = call(CREATION, "-A")
    text = " ".join(line.removeprefix("# ") for line in result.stdout.splitlines())
    assert "it presumes both: kopfexamples.kopf.dev. Name their definitions by -f" in text
    assert "kopfexamples/status" in text


@pytest.mark.parametrize(
    ("selector", "problem"),
    [
        ('"kopfexamples"', "the group of 'kopfexamples' of Handler 'fn': write 'kopfexamples."),
        ('kind="Thing"', "the plural name of kind='Thing' of Handler 'fn': write it"),
        ('"example.com", "Thing"', "the plural name of group='example.com', 'Thing' of"),
        ('category="mine"', "which kinds are meant by category='mine' of Handler 'fn'"),
        ("lambda resource: False", "which kinds are meant by any_name=<function"),
    ],
)
def test_n_selectors_that_say_too_little_are_named(call, selector, problem):
    result = call(f"@kopf.on.create({selector})\ndef fn(**_): ...\n", "-A")
    assert result.exit_code == 1
    assert problem in str(result.exception)
    assert "--context" in str(result.exception)


def test_n_everything_is_everything(write):
    [role] = write("@kopf.on.event(kopf.EVERYTHING)\ndef fn(**_): ...\n", "-A")
    assert get_rules(role) == {**COMMON, "*.*": ["list", "watch"]}
    [role] = write('@kopf.on.event("apps", kopf.EVERYTHING)\ndef fn(**_): ...\n', "-A")
    assert get_rules(role) == {**COMMON, "*.apps": ["list", "watch"]}


def test_n_children_and_related_kinds_are_permitted(write):
    code = (
        '@kopf.reconcile("workers.example.com", owns=["deployments"], '
        'related={"secrets": "spec.secret"}, prune=False)\ndef worker(**_): yield from ()\n'
    )
    [role] = write(code, "-A", "--no-startup")
    rules = get_rules(role)
    assert rules["deployments.apps"] == ["list", "watch", "create", "patch"]
    assert rules["secrets"] == ["list", "watch"]


def test_n_lease_peering_and_webhooks_are_permitted(write):
    code = CREATION + (
        "@kopf.on.startup()\n"
        "def configure(settings, **_): settings.admission.managed = 'hooks.example.com'\n"
        "@kopf.on.startup()\n"
        "def connect(**_): raise Exception('it is not to be called')\n"
        '@kopf.on.validate("kopfexamples.kopf.dev")\ndef judge(**_): ...\n'
    )
    role, lease = write(code, "-A", "--lease", "mine@ns")
    hooks = "validatingwebhookconfigurations.admissionregistration.k8s.io"
    assert get_rules(role)[hooks] == ["list", "watch", "create", "patch"]
    assert get_rules(role)[hooks.replace("validating", "mutating")] == get_rules(role)[hooks]
    assert lease["metadata"]["namespace"] == "ns"
    assert [(rule["verbs"], rule.get("resourceNames")) for rule in lease["rules"]] == [
        (["get", "update"], ["mine"]),
        (["create"], None),
    ]
    _, leases = write(code, "-A", "--shards", "mine@ns")
    assert leases["metadata"]["namespace"] == "ns"
    verbs = ["get", "list", "watch", "create", "update", "delete"]
    assert get_rules(leases) == {"leases.coordination.k8s.io": verbs}
    role, leases = write(code, "-A", "--ring", "mine@ns")
    assert leases["metadata"]["namespace"] == "ns"
    assert get_rules(leases) == {"leases.coordination.k8s.io": ["get", "create", "update"]}
    assert "patch" in get_rules(role)["kopfexamples.kopf.dev"]
    [role] = write(code, "-A", "--peering", "mine", "--no-startup")
    assert get_rules(role)["clusterkopfpeerings.kopf.dev"] == ["list", "watch", "patch"]
    assert hooks not in get_rules(role)
    roles = write(code, "-n", "ns", "--peering", "mine")
    assert get_rules(roles[1])["kopfpeerings.kopf.dev"] == ["list", "watch", "patch"]


SERVICE = CREATION + (
    "@kopf.on.startup()\n"
    "def configure(settings, **_): settings.admission.server = kopf.{}\n"
    '@kopf.on.validate("kopfexamples.kopf.dev")\ndef judge(**_): ...\n'
)


@pytest.mark.parametrize(
    ("server", "options", "place", "secret"),
    [
        ("WebhookServiceServer('svc')", ["-A", "--account", "me@home"], "home", "svc-certificate"),
        ("WebhookServiceServer('svc')", ["-A"], "default", "svc-certificate"),
        (
            "WebhookServiceServer('svc', namespace='other')",
            ["-A", "--account", "me@home"],
            "other",
            "svc-certificate",
        ),
        (
            "WebhookServiceServer('svc', secret='mine')",
            ["-A", "--account", "me@home"],
            "home",
            "mine",
        ),
    ],
)
def test_n_shared_certificates_of_webhooks_are_permitted(write, server, options, place, secret):
    [role] = [doc for doc in write(SERVICE.format(server), *options) if doc["kind"] == "Role"]
    assert role["metadata"]["namespace"] == place
    assert [
        (rule["resources"], rule["verbs"], rule.get("resourceNames")) for rule in role["rules"]
    ] == [
        (["secrets"], ["get", "update"], [secret]),
        (["secrets"], ["create"], None),
    ]


@pytest.mark.parametrize(
    "server", ["WebhookServiceServer('svc', folder='/certificates')", "WebhookServer()"]
)
def test_n_certificates_that_are_not_shared_need_no_rights(write, server):
    documents = write(SERVICE.format(server), "-A", "--account", "me@home")
    roles = [doc for doc in documents if doc["kind"].endswith("Role")]
    assert len(roles) == 1
    assert "secrets" not in get_rules(roles[0])


@pytest.mark.parametrize(
    ("namespace", "options", "place"),
    [
        (None, ["-A", "--account", "me@home"], "home"),
        (None, ["-A"], "default"),
        ("clusters", ["-A", "--account", "me@home"], "clusters"),
    ],
)
def test_o_kubeconfigs_of_clusters_can_be_read(write, namespace, options, place):
    code = CREATION + f"SECRETS = kopf.KubeconfigSecrets('a=b', namespace={namespace!r})\n"
    [role] = [doc for doc in write(code, *options) if doc["kind"] == "Role"]
    assert role["metadata"]["namespace"] == place
    assert get_rules(role) == {"secrets": ["list", "watch"]}


def test_n_failed_startup_is_explained(call):
    code = CREATION + (
        "@kopf.on.startup()\ndef configure(settings, **_): raise Exception('oops')\n"
    )
    result = call(code, "-A")
    assert result.exit_code == 1
    assert "oops" in result.output
    assert "Use --no-startup to go on without it." in result.output
    assert call(code, "-A", "--no-startup").exit_code == 0


def test_n_account_is_bound(write):
    documents = write(CREATION, "-n", "ns", "--account", "me@home")
    assert [doc["kind"] for doc in documents] == [
        "ServiceAccount",
        "ClusterRole",
        "ClusterRoleBinding",
        "Role",
        "RoleBinding",
    ]
    assert documents[0]["metadata"] == {"name": "me", "namespace": "home"}
    subjects = [doc["subjects"] for doc in documents if "subjects" in doc]
    assert subjects == [[{"kind": "ServiceAccount", "name": "me", "namespace": "home"}]] * 2


def test_used_rights_are_in_one_rule_for_each_resource(write, tmp_path):
    used = [
        ("kopf.dev", "kopfexamples", "patch", ["a"]),
        ("", "services", "create", ["a"]),
        ("", "services", "get", ["b"]),
    ]
    names = "group", "resource", "verb", "handlers"
    items = [{**dict(zip(names, one, strict=True)), "namespaced": True} for one in used]
    path = tmp_path / "used.json"
    path.write_text(json.dumps({"used": items}))
    (role,) = write(CREATION, "-A", "--used", str(path))
    rules = [(rule["resources"], rule["verbs"]) for rule in role["rules"]]
    assert (["services"], ["create", "get"]) in rules
    assert (["kopfexamples"], ["list", "watch", "get", "patch"]) in rules


def test_n_wrong_options_are_refused(call):
    assert call(CREATION, "-A", "-n", "ns").exit_code == 2
    result = click.testing.CliRunner().invoke(main, ["rbac", "-A"])
    assert (result.exit_code, "Name a file" in result.output) == (2, True)


@pytest.fixture
def sandbox(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SandboxThread]:
    with SandboxThread() as sandbox:
        path = sandbox.write_kubeconfig(tmp_path / "config")
        monkeypatch.setenv("KUBECONFIG", str(path))
        yield sandbox


def test_n_cluster_tells_what_is_not_known(sandbox, write):
    sandbox.apply(CRD)
    for name in ("t1", "t2", "other"):
        sandbox.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    code = (
        '@kopf.on.update("th")\ndef update_fn(**_): ...\n'
        '@kopf.on.event("pods")\ndef event_fn(**_): ...\n'
    )
    roles = write(code, "-n", "t*", "--context", "sandbox")
    rules = {role["metadata"].get("namespace"): get_rules(role) for role in roles}
    assert rules[None]["things.example.com/status"] == ["patch"]
    assert rules["t1"] == rules["t2"] == {"pods": ["list", "watch"], "events": ["create", "patch"]}
    assert rules.keys() == {None, "default", "t1", "t2"}


def test_n_nothing_is_missing_if_everything_is_permitted(sandbox, call):
    result = call(CREATION, "-A", "--verify")
    assert (result.exit_code, result.output) == (0, "Nothing is missing.\n")


PLACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}}
CHILDREN = (
    '@kopf.reconcile("websites.example.com", owns=["configmaps"])\n'
    "def website(**_): yield from ()\n"
    '@kopf.index("secrets")\ndef index_fn(**_): ...\n'
)


@pytest.fixture
def strict(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SandboxThread]:
    """A cluster with RBAC, and a service account which is the current user."""
    with SandboxThread(options=ClusterOptions(rbac=True)) as sandbox:
        path = sandbox.write_kubeconfig(tmp_path / "config", namespace="ns", account="me")
        monkeypatch.setenv("KUBECONFIG", str(path))
        sandbox.apply(PLACE)
        yield sandbox


@pytest.mark.parametrize("scope", [["-A"], ["-n", "ns"]])
def test_n_written_roles_are_enough_and_each_missing_right_is_named(strict, write, call, scope):
    documents = write(CHILDREN, *scope, "--account", "me@ns", "--lease", "mine")
    for document in documents:
        strict.apply(document)
    args = [*scope, "--verify", "--lease", "mine@ns"]
    result = call(CHILDREN, *args)
    assert (result.exit_code, result.output) == (0, "Nothing is missing.\n")
    for role in [doc for doc in documents if doc["kind"].endswith("Role")]:
        for number, rule in enumerate(role["rules"]):
            others = [other for other in role["rules"] if other is not rule]
            strict.apply({**role, "rules": others})
            result = call(CHILDREN, *args)
            assert result.exit_code == 1, (number, result.output)
            where = role["metadata"].get("namespace")
            place = f"in the namespace {where!r}" if where else "cluster-wide"
            names = "".join(f" named {name!r}" for name in rule.get("resourceNames", ()))
            assert result.output.startswith(
                f"Missing: {', '.join(rule['verbs'])} of {', '.join(rule['resources'])}{names} "
                f"in the API group {rule['apiGroups'][0]!r}, {place}: "
            )
            assert len(result.output.splitlines()) == 1
        strict.apply(role)


def test_o_missing_rights_to_kubeconfigs_of_clusters_are_named(strict, write, call):
    code = CREATION + "SECRETS = kopf.KubeconfigSecrets('a=b', namespace='clusters')\n"
    strict.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "clusters"}})
    *documents, role, binding = write(code, "-A", "--account", "me@ns")
    for document in [*documents, binding]:
        strict.apply(document)
    result = call(code, "-A", "--verify")
    assert (result.exit_code, result.output) == (
        1,
        "Missing: list, watch of secrets in the API group '', in the namespace 'clusters': "
        "The kubeconfigs of clusters are read.\n",
    )
    strict.apply(role)
    assert call(code, "-A", "--verify").exit_code == 0


def test_n_rights_of_other_accounts_are_verified(strict, call, tmp_path, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", str(strict.write_kubeconfig(tmp_path / "admin")))
    result = call(CREATION, "-A", "--verify", "--account", "me@ns")
    assert result.exit_code == 1
    lines = result.output.splitlines()
    assert (
        "Missing: list, watch, get, patch of kopfexamples in the API group 'kopf.dev', "
        "cluster-wide: Handler 'create_fn'."
    ) in lines
    assert call(CREATION, "-A", "--verify").exit_code == 0


def test_n_nothing_is_verified_if_the_cluster_does_not_tell(strict, call):
    strict.sandbox.faults.fail(500, method="POST", path="*/selfsubjectaccessreviews")
    result = call(CREATION, "-A", "--verify")
    assert result.exit_code == 1
    assert "Nothing is missing" not in result.output


MODELS = """
import dataclasses

@dataclasses.dataclass
class Spec:
    name: str
    size: int = 1

@kopf.resource("boxes.example.com/v1", policies=[kopf.schema.Policy("object.spec.size < 9")])
@dataclasses.dataclass
class Box:
    spec: Spec

@kopf.on.event(Box)
def see(**_): ...
"""
MUTATED = MODELS.replace("name: str", "name: Annotated[str, kopf.schema.DefaultFrom(\"'x'\")]")
MUTATED = f"from typing import Annotated\n{MUTATED}"
APPLYING = ["create", "patch"]


def test_n_models_tell_the_scope_and_the_subresources(call):
    code = MODELS.replace("@kopf.on.event", "@kopf.on.create").replace("v1", 'v1", scope="Cluster')
    result = call(code, "-n", "ns")
    assert not result.stdout.startswith("#")
    cluster, _ = yaml.safe_load_all(result.stdout)
    assert get_rules(cluster)["boxes.example.com"] == ["list", "watch", "get", "patch"]
    assert "boxes.example.com/status" not in get_rules(cluster)


def test_n_definitions_in_files_prevail_over_the_models(write, tmp_path):
    path = tmp_path / "crd.yaml"
    path.write_text(yaml.safe_dump(CRD))
    code = (
        "class Unknown: ...\n"
        '@kopf.resource("things.example.com/v1")\nclass Thing:\n    spec: Unknown\n'
        "@kopf.on.create(Thing)\ndef fn(**_): ...\n"
    )
    [role] = write(code, "-A", "-f", str(path))
    assert get_rules(role)["things.example.com/status"] == ["patch"]


def test_n_rights_to_apply_definitions_and_policies_are_only_on_demand(write):
    [role] = write(MODELS, "-A")
    assert get_rules(role) == {**COMMON, "boxes.example.com": ["list", "watch"]}
    [role] = write(MODELS, "-A", "--apply-crds")
    policies = "validatingadmissionpolic{}.admissionregistration.k8s.io"
    assert {name: sorted(verbs) for name, verbs in get_rules(role).items()} == {
        "events": ["create", "patch"],
        "boxes.example.com": ["list", "watch"],
        "customresourcedefinitions.apiextensions.k8s.io": [
            *("create", "get", "list", "patch", "watch")
        ],
        policies.format("ies"): APPLYING,
        policies.format("ybindings"): APPLYING,
    }
    [role] = write(MUTATED, "-A", "--apply-crds")
    assert get_rules(role)[policies.format("ies").replace("validating", "mutating")] == APPLYING
    [role] = write(CREATION, "-A", "--apply-crds")
    assert get_rules(role).keys() == get_rules(write(CREATION, "-A")[0]).keys()


DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"
POLICIES = "validatingadmissionpolicies.admissionregistration.k8s.io"
BINDINGS = "validatingadmissionpolicybindings.admissionregistration.k8s.io"


@pytest.fixture
def start(strict, write, tmp_path) -> Callable[..., str]:
    """Start the operator with its least role, maybe without one right; get the error, if any."""
    documents = write(MODELS, "-A", "--account", "me@ns", "--apply-crds")
    [role] = [doc for doc in documents if doc["kind"] == "ClusterRole"]
    for document in documents:
        strict.apply(document)

    def start(lacking: tuple[str, str] | None = None) -> str:
        rules = [
            {"apiGroups": [group], "resources": [plural], "verbs": [verb]}
            for name, verbs in get_rules(role).items()
            for plural, _, group in [name.partition(".")]
            for verb in verbs
            if (name, verb) != lacking
        ]
        strict.apply({**role, "rules": rules})
        args = ["run", "-A", "--standalone", "--once", "--apply-crds"]
        controls = CLIControls(registry=OperatorRegistry())
        path = str(tmp_path / "handlers.py")
        result = click.testing.CliRunner().invoke(main, [*args, path], obj=controls)
        return str(result.exception) if result.exit_code else ""

    return start


@pytest.mark.parametrize(
    "lacking",
    [
        *((DEFINITIONS, verb) for verb in ("get", *APPLYING)),
        *((kind, verb) for kind in (POLICIES, BINDINGS) for verb in APPLYING),
    ],
)
def test_n_start_names_the_right_that_is_missing_to_apply(start, lacking):
    (plural, _, group), verb = lacking[0].partition("."), lacking[1]
    rule = f'{{apiGroups: ["{group}"], resources: [{plural}], verbs: [{verb}]}}'
    assert start(lacking).endswith(f"Add this rule to the role of the operator: {rule}.)")
    assert start() == ""


def test_n_start_names_the_right_that_is_missing_to_compare(start, strict, tmp_path):
    assert start() == ""
    path = tmp_path / "handlers.py"
    path.write_text(path.read_text().replace("size: int = 1", "size: int = 2"))
    assert "resources: [boxes], verbs: [list]}." in start(("boxes.example.com", "list"))
    assert "default is changed from 1 to 2" in start()


@pytest.mark.parametrize(
    ("kind", "told"), [("roles.rbac.authorization.k8s.io", True), ("secrets.v1", False)]
)
def test_man3_owned_roles_need_the_rights_that_they_grant(call, kind, told):
    code = f'@kopf.reconcile("kopfexamples.kopf.dev", owns=["{kind}"])\ndef fn(**_): ...\n'
    result = call(code, "-A")
    assert result.exit_code == 0
    assert ("lets an operator grant only the rights which it has itself" in result.output) is told
