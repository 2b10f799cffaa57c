"""The least role of each example: with exactly that, it works; each rule that is absent is named.

With RBAC in the emulator, too: see `e2e/clusters.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import logging
import pathlib
import queue
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import click.testing
import pytest
import yaml

from e2e.clusters import Cluster, open_cluster
from e2e.tests.harness import PATIENCE
from kopf_cogs.clients.errors import APIError, APINotFoundError
from kopf_cogs.clients.kubeconfig import read_kubeconfig
from kopf_cogs.clients.session import Client
from kopf_core.intents.registries import OperatorRegistry
from kopf_kits.cli import CLIControls, main
from kopf_kits.manifests import apply_manifests
from kopf_kits.runner import KopfRunner

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"
NAMES = [
    *("01-minimal", "03-exceptions", "04-events", "05-handlers", "06-peering"),
    *("07-subhandlers", "08-watching", "10-builtins", "11-filtering", "13-hooks"),
    *("14-daemons", "15-timers", "16-indexing", "17-admission", "18-website"),
    *("19-secret", "20-typed-website", "99-all-at-once"),
]
"""All but those that need other client libraries, or are not run by the command."""

ACCOUNT, NAMESPACE = "least", "default"
ROLES = "/apis/rbac.authorization.k8s.io/v1"
MERGE = "application/merge-patch+json"
PEERS = "/apis/kopf.dev/v1/clusterkopfpeerings/default"
LACKS = "The operator lacks rights for what is declared in it. Add them: "
Obj = dict[str, Any]


# Connections with TLS are closed in the background, and the loops of operators end before that.
CLOSED_LATER = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


class Messages(logging.Handler):
    """What the framework says."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.queue: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.warnings: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.queue.put(record.getMessage())
        if record.levelno >= logging.WARNING:
            self.warnings.append(record.getMessage())

    def wait(self, text: str) -> str:
        """Get the next message with this text."""
        while text not in (message := self.queue.get(timeout=PATIENCE)):
            pass
        return message


@pytest.fixture
def messages() -> Iterator[Messages]:
    handler = Messages()
    logger = logging.getLogger("kopf")
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)


@dataclass
class World:
    """A cluster with all the definitions of the examples, and one account with some role."""

    cluster: Cluster
    account: pathlib.Path
    created: list[str] = field(default_factory=list)

    def run(self, work: Any) -> Any:
        async def connected() -> Any:
            async with Client(read_kubeconfig([self.cluster.kubeconfig_path])) as client:
                return await work(client)

        return asyncio.run(connected())

    def apply(self, *paths: pathlib.Path) -> None:
        self.run(lambda client: apply_manifests(client, paths))

    def permit(self, documents: list[Obj], folder: pathlib.Path) -> None:
        path = folder / "role.yaml"
        path.write_text(yaml.safe_dump_all(documents))
        self.apply(path)

    def restrict(self, role: Obj, rules: list[Obj]) -> None:
        url = f"{ROLES}/clusterroles/{role['metadata']['name']}"
        self.run(lambda client: client.patch(url, {"rules": rules}, content_type=MERGE))

    def forget_peers(self) -> None:
        """An operator that may not remove its record at exit pauses those that come after it."""
        self.run(lambda client: client.patch(PEERS, {"status": None}, content_type=MERGE))


@pytest.fixture(scope="module")
def world(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("least")
    with contextlib.ExitStack() as stack:
        if cluster.name == "emulator":
            cluster = stack.enter_context(open_cluster(cluster.name, folder, rbac=True))
        world = World(cluster, folder / "account.config")
        world.apply(*list_definitions())
        world.account.write_text(json.dumps(world.run(lambda client: log_in(client, cluster))))
        yield world
        world.run(clean_up)


def list_definitions() -> list[pathlib.Path]:
    found = [path for path in EXAMPLES.glob("*/crd.yaml") if path.parent.name in NAMES]
    return [EXAMPLES / "crd.yaml", EXAMPLES / "peering.yaml", *found]


async def log_in(client: Client, cluster: Cluster) -> Obj:
    """The kubeconfig of a new account."""
    url = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
    with contextlib.suppress(APIError):
        await client.post(url, {"metadata": {"name": ACCOUNT}})
    issued = await client.post(f"{url}/{ACCOUNT}/token", {"spec": {}})
    user = {"token": issued["status"]["token"]}
    users = [{**cluster.kubeconfig["users"][0], "user": user}]
    return {**cluster.kubeconfig, "users": users}


async def clean_up(client: Client) -> None:
    for kind in ("clusterrolebindings", "clusterroles"):
        with contextlib.suppress(APIError):
            await client.delete(f"{ROLES}/{kind}/{ACCOUNT}")
    for path in list_definitions():
        for document in yaml.safe_load_all(path.read_text("utf-8")):
            if document["kind"] == "CustomResourceDefinition":
                url = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
                with contextlib.suppress(APIError):
                    await client.delete(f"{url}/{document['metadata']['name']}")


@pytest.fixture(params=NAMES)
def documents(request: pytest.FixtureRequest) -> list[Obj]:
    """What `kopf rbac` writes for the example."""
    files = [part for path in list_definitions() for part in ("-f", str(path))]
    args = ["rbac", "-A", *files, "--account", f"{ACCOUNT}@{NAMESPACE}"]
    controls = CLIControls(registry=OperatorRegistry())
    command = [*args, "--name", ACCOUNT, str(EXAMPLES / request.param / "example.py")]
    result = click.testing.CliRunner().invoke(main, command, obj=controls)
    assert result.exit_code == 0, result.output
    return [*yaml.safe_load_all(result.stdout)]


@pytest.fixture
def path(request: pytest.FixtureRequest) -> str:
    name = request.node.callspec.params["documents"]
    return str(EXAMPLES / name / "example.py")


def get_role(documents: list[Obj]) -> Obj:
    [role] = [document for document in documents if document["kind"] == "ClusterRole"]
    return role


def split(rules: list[Obj]) -> list[Obj]:
    """One rule for each right."""
    return [
        {**rule, "resources": [resource], "verbs": [verb]}
        for rule in rules
        for resource in rule["resources"]
        for verb in rule["verbs"]
    ]


@contextlib.contextmanager
def run(path: str) -> Iterator[None]:
    arguments = ["run", "-A", "--verbose", path]
    with KopfRunner(arguments, timeout=60, registry=OperatorRegistry()) as runner:
        yield
    assert runner.exit_code == 0
    gc.collect()  # of the connections that are left by its loop, nothing is told in other tests


@pytest.mark.long
@CLOSED_LATER
@pytest.mark.timeout(1800)
def test_n4_each_absent_rule_is_named_at_the_start(
    world, documents, path, messages, tmp_path, monkeypatch
):
    monkeypatch.setenv("KUBECONFIG", str(world.account))
    world.permit(documents, tmp_path)
    role = get_role(documents)
    rules = split(role["rules"])
    assert rules
    for absent in rules:
        world.restrict(role, [rule for rule in rules if rule is not absent])
        world.forget_peers()
        with run(path):
            line = messages.wait(LACKS)
        [told] = json.loads(line.partition(LACKS)[2])["items"]
        assert (told["kind"], told["rules"]) == ("ClusterRole", [absent])


@CLOSED_LATER
@pytest.mark.timeout(900)
@pytest.mark.parametrize("documents", ["01-minimal"], indirect=True)
def test_n4_rights_in_one_namespace_are_missing_in_the_whole_cluster(
    world, documents, path, messages, tmp_path, monkeypatch
):
    """The rules are asked for in a namespace that cannot be: those of the whole cluster only."""
    monkeypatch.setenv("KUBECONFIG", str(world.account))
    world.permit([*documents, *narrow(documents)], tmp_path)
    role = get_role(documents)
    local = [rule for rule in role["rules"] if rule["resources"] == ["kopfexamples"]]
    assert local
    world.restrict(role, [rule for rule in role["rules"] if rule not in local])
    world.forget_peers()
    with run(path):
        line = messages.wait(LACKS)
    [told] = json.loads(line.partition(LACKS)[2])["items"]
    assert (told["kind"], told["rules"]) == ("ClusterRole", local)
    world.run(clean_up_in_namespace)


def narrow(documents: list[Obj]) -> list[Obj]:
    """The same role and binding, but in one namespace."""
    metadata = {"name": ACCOUNT, "namespace": NAMESPACE}
    roles = [one for one in documents if one["kind"] in ("ClusterRole", "ClusterRoleBinding")]
    result = []
    for one in roles:
        kind = one["kind"].removeprefix("Cluster")
        result.append({**one, "kind": kind, "metadata": metadata})
        if kind == "RoleBinding":
            result[-1]["roleRef"] = {**one["roleRef"], "kind": "Role"}
    return result


async def clean_up_in_namespace(client: Client) -> None:
    for kind in ("rolebindings", "roles"):
        await client.delete(f"{ROLES}/namespaces/{NAMESPACE}/{kind}/{ACCOUNT}")


@pytest.mark.long
@CLOSED_LATER
@pytest.mark.timeout(900)
def test_n4_least_role_is_enough(world, documents, path, messages, tmp_path, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", str(world.account))
    world.permit(documents, tmp_path)
    manifest = pathlib.Path(path).parent / "obj.yaml"
    manifest = manifest if manifest.exists() else EXAMPLES / "obj.yaml"
    body = [*yaml.safe_load_all(manifest.read_text("utf-8"))][-1]
    plural = f"{body['kind'].lower()}s"
    world.forget_peers()
    with run(path):
        messages.wait("Starting the watch-stream for")
        world.apply(manifest)
        if any(
            plural in rule["resources"] and "patch" in rule["verbs"]
            for rule in get_role(documents)["rules"]
        ):
            url = f"/apis/{body['apiVersion']}/namespaces/{NAMESPACE}/{plural}"
            world.run(lambda client: until_handled(client, f"{url}/{body['metadata']['name']}"))
    assert not [text for text in messages.warnings if "forbidden" in text or LACKS in text]


TYPED = """
import dataclasses
from typing import Annotated
import kopf

@dataclasses.dataclass
class Spec:
    name: Annotated[str, kopf.schema.DefaultFrom("object.metadata.name")]
    size: int = 1

@kopf.resource("boxes.least.kopf.dev/v1", policies=[kopf.schema.Policy("object.spec.size < 9")])
@dataclasses.dataclass
class Box:
    spec: Spec

@kopf.on.event(Box)
def see(**_): ...
"""
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
POLICIES = "/apis/admissionregistration.k8s.io/v1"


def start_typed(path: pathlib.Path) -> str:
    """Start the operator that applies its definition; get the error, if any."""
    args = ["run", "-A", "--standalone", "--once", "--apply-crds", str(path)]
    controls = CLIControls(registry=OperatorRegistry())
    result = click.testing.CliRunner().invoke(main, args, obj=controls)
    gc.collect()
    return str(result.exception) if result.exit_code else ""


async def forget_typed(client: Client) -> None:
    """Make the next start the first one again."""
    kinds = ("validatingadmissionpolicies", "mutatingadmissionpolicies")
    kinds += ("validatingadmissionpolicybindings", "mutatingadmissionpolicybindings")
    urls = [f"{POLICIES}/{kind}/v1.boxes.least.kopf.dev" for kind in kinds]
    for url in [*urls, f"{DEFINITIONS}/boxes.least.kopf.dev"]:
        with contextlib.suppress(APINotFoundError):
            await client.delete(url)
        with contextlib.suppress(APINotFoundError):
            # The API server can retry the deletion of a definition only after a minute.
            async with asyncio.timeout(2 * PATIENCE):
                while await client.get(url):  # noqa: ASYNC110
                    await asyncio.sleep(0.1)


@pytest.mark.long
@CLOSED_LATER
@pytest.mark.timeout(1200)
def test_n4_least_role_applies_definitions_and_each_absent_rule_is_named(
    world, tmp_path, monkeypatch
):
    path = tmp_path / "typed.py"
    path.write_text(TYPED)
    command = ["rbac", "-A", "--apply-crds", "--account", f"{ACCOUNT}@{NAMESPACE}"]
    controls = CLIControls(registry=OperatorRegistry())
    result = click.testing.CliRunner().invoke(
        main, [*command, "--name", ACCOUNT, str(path)], obj=controls
    )
    documents = [*yaml.safe_load_all(result.stdout)]
    monkeypatch.setenv("KUBECONFIG", str(world.account))
    world.permit(documents, tmp_path)
    role = get_role(documents)
    rules = split(role["rules"])
    used = {"customresourcedefinitions": {"get", "create", "patch"}}
    for kind in ("validatingadmissionpolic", "mutatingadmissionpolic"):
        used |= {f"{kind}{suffix}": {"create", "patch"} for suffix in ("ies", "ybindings")}
    named = 0
    for absent in rules:
        ([plural], [verb]) = absent["resources"], absent["verbs"]
        if verb in used.get(plural, ()):
            world.run(forget_typed)
            world.restrict(role, [rule for rule in rules if rule is not absent])
            told = f'["{absent["apiGroups"][0]}"], resources: [{plural}], verbs: [{verb}]'
            assert start_typed(path).endswith(f"{{apiGroups: {told}}}.)")
            named += 1
    assert named == sum(map(len, used.values()))
    world.run(forget_typed)
    world.restrict(role, rules)
    assert start_typed(path) == ""
    world.run(forget_typed)


async def until_handled(client: Client, url: str) -> None:
    """Wait for the marks of the framework, and leave nothing behind."""
    async with asyncio.timeout(PATIENCE):
        while not is_marked(await client.get(url)):  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    await client.delete(url)
    with contextlib.suppress(APINotFoundError):
        async with asyncio.timeout(PATIENCE):
            while await client.get(url):  # noqa: ASYNC110
                await asyncio.sleep(0.1)


def is_marked(body: Obj) -> bool:
    meta = body["metadata"]
    names = [*meta.get("annotations", ()), *meta.get("finalizers", ())]
    return bool(body.get("status")) or any("kopf" in name for name in names)
