"""Reading manifests and applying them to a cluster."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kopf_cogs.clients.discovery import ScanResult, scan
from kopf_cogs.clients.session import Client
from kopf_cogs.structs.credentials import ConnectionInfo
from kopf_kits import manifests
from kopf_kits.manifests import ManifestError, apply_manifests, describe_applied, read_manifests
from kopf_kits.sandbox import Sandbox

EXAMPLES = Path(__file__).parents[3] / "examples"
CRD = EXAMPLES / "crd.yaml"
EMPTY = ScanResult(frozenset(), {})
OBJ = "apiVersion: kopf.dev/v1\nkind: KopfExample\nmetadata: {name: a}\nspec: {field: %s}\n"


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    async with Sandbox() as sandbox:
        yield sandbox


@pytest.fixture
async def client(sandbox: Sandbox) -> AsyncIterator[Client]:
    async with Client(ConnectionInfo(server=sandbox.url)) as client:
        yield client


async def test_definitions_are_applied_with_their_objects(
    sandbox: Sandbox, client: Client, tmp_path: Path
) -> None:
    (tmp_path / "obj.yaml").write_text(OBJ % "v1")
    applied = await apply_manifests(client, [CRD, tmp_path / "obj.yaml"])
    assert applied == ["customresourcedefinition/kopfexamples.kopf.dev", "kopfexample/a"]
    obj = await sandbox.get("kex", "a")
    assert obj["spec"] == {"field": "v1"}


async def test_applied_again_it_updates(sandbox: Sandbox, client: Client, tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text(OBJ % "v1")
    (tmp_path / "two.yaml").write_text(OBJ % "v2")
    await apply_manifests(client, [CRD, tmp_path / "one.yaml", tmp_path / "two.yaml"])
    assert (await sandbox.get("kex", "a"))["spec"] == {"field": "v2"}


async def test_exported_objects_are_applied_without_what_the_server_has_set(
    sandbox: Sandbox, client: Client, tmp_path: Path
) -> None:
    path = tmp_path / "obj.yaml"
    path.write_text(OBJ % "v1")
    await apply_manifests(client, [CRD, path])
    exported = await sandbox.get("kex", "a")
    assert {"resourceVersion", "uid", "managedFields"} <= exported["metadata"].keys()
    await sandbox.delete("kex", "a")
    path.write_text(json.dumps(exported))
    await apply_manifests(client, [path])
    applied = await sandbox.get("kex", "a")
    assert applied["spec"] == {"field": "v1"}
    assert applied["metadata"]["uid"] != exported["metadata"]["uid"]


async def test_generated_names_are_created_every_time(
    sandbox: Sandbox, client: Client, tmp_path: Path
) -> None:
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: a-, namespace: default}\n"
    (tmp_path / "obj.yaml").write_text(text)
    assert await apply_manifests(client, [tmp_path / "obj.yaml"] * 2) == ["configmap/a-"] * 2
    assert len(await sandbox.list("configmaps", namespace="default")) >= 2


async def test_several_documents_lists_and_emptiness(tmp_path: Path) -> None:
    item = "{apiVersion: v1, kind: Pod, metadata: {name: %s}}"
    listed = "apiVersion: v1\nkind: List\nitems: [" + item % "b" + "," + item % "c" + "]"
    path = tmp_path / "objs.yaml"
    path.write_text("\n---\n".join([item % "a", "", listed, "# nothing"]))
    names = [obj["metadata"]["name"] for _, obj in read_manifests([path])]
    assert names == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "not a YAML file"),
        ("a: b", "not a Kubernetes object"),
        ("- a", "not a Kubernetes object"),
        (None, "No such file"),
    ],
)
def test_unreadable_manifests(tmp_path: Path, text: str | None, message: str) -> None:
    path = tmp_path / "bad.yaml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ManifestError, match=rf"bad\.yaml: {message}"):
        list(read_manifests([path]))


async def test_items_of_lists_must_be_objects(tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text("{apiVersion: v1, kind: List, items: [abc]}")
    with pytest.raises(ManifestError, match=r"bad\.yaml: not a Kubernetes object"):
        list(read_manifests([path]))


async def test_definitions_and_namespaces_go_first(
    sandbox: Sandbox, client: Client, tmp_path: Path
) -> None:
    (tmp_path / "obj.yaml").write_text(
        (OBJ % "v1").replace("{name: a}", "{name: a, namespace: ns}")
        + "\n---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: b, namespace: ns}}"
    )
    (tmp_path / "ns.yaml").write_text("{apiVersion: v1, kind: Namespace, metadata: {name: ns}}")
    applied = await apply_manifests(client, [tmp_path / "obj.yaml", tmp_path / "ns.yaml", CRD])
    assert applied == [
        "namespace/ns",
        "customresourcedefinition/kopfexamples.kopf.dev",
        "kopfexample/a",
        "configmap/b",
    ]
    assert (await sandbox.get("kex", "a", namespace="ns"))["spec"] == {"field": "v1"}


async def test_kinds_that_are_just_defined_are_waited_for(
    sandbox: Sandbox, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "obj.yaml").write_text(OBJ % "v1")
    results = iter([EMPTY, EMPTY])

    async def late_scan(client: Client, *, groups: list[str]) -> ScanResult:
        found = await scan(client, groups=groups)
        return found if groups != ["kopf.dev"] else next(results, found)

    monkeypatch.setattr(manifests, "scan", late_scan)
    monkeypatch.setattr(manifests, "POLLING", 0)
    await apply_manifests(client, [CRD, tmp_path / "obj.yaml"])
    assert (await sandbox.get("kex", "a"))["spec"] == {"field": "v1"}


async def test_kinds_that_are_defined_but_never_served(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def blind_scan(client: Client, *, groups: list[str]) -> ScanResult:
        return EMPTY if groups == ["kopf.dev"] else await scan(client, groups=groups)

    monkeypatch.setattr(manifests, "scan", blind_scan)
    monkeypatch.setattr(manifests, "POLLING", 0)
    (tmp_path / "obj.yaml").write_text(OBJ % "v1")
    with pytest.raises(ManifestError, match=r"v1 KopfExample is defined, but is not served"):
        await apply_manifests(client, [CRD, tmp_path / "obj.yaml"])


async def test_kinds_with_no_definition_are_not_waited_for(
    sandbox: Sandbox, client: Client, tmp_path: Path
) -> None:
    (tmp_path / "obj.yaml").write_text(OBJ % "v1")
    with pytest.raises(ManifestError) as err:
        await apply_manifests(client, [tmp_path / "obj.yaml"])
    reason = (
        "kopf.dev/v1 has no kind KopfExample: add the file with its CRD by -f "
        "(for models, `kopf crds` writes it)."
    )
    assert str(err.value) == f"{tmp_path / 'obj.yaml'}: {reason}"
    assert [entry.path for entry in sandbox.journal] == ["/apis/kopf.dev"]


async def test_versions_that_are_not_in_the_definition(client: Client, tmp_path: Path) -> None:
    (tmp_path / "obj.yaml").write_text((OBJ % "v1").replace("kopf.dev/v1", "kopf.dev/v2"))
    with pytest.raises(ManifestError, match=r"v2 has no kind KopfExample: its CRD serves only v1"):
        await apply_manifests(client, [CRD, tmp_path / "obj.yaml"])


async def test_unknown_kinds(client: Client, tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text("apiVersion: v1\nkind: Unknown\nmetadata: {name: a}")
    with pytest.raises(ManifestError, match=r"bad\.yaml: v1 has no kind Unknown\.$"):
        await apply_manifests(client, [path])


async def test_refused_objects(client: Client, tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: nosuch}")
    with pytest.raises(ManifestError, match=r"bad\.yaml: pod/a is not applied: "):
        await apply_manifests(client, [path])


async def test_many_objects_of_one_kind_are_discovered_once(
    sandbox: Sandbox, client: Client, tmp_path: Path
) -> None:
    item = "{apiVersion: v1, kind: ConfigMap, metadata: {name: cm-%d}}"
    (tmp_path / "many.yaml").write_text("\n---\n".join(item % i for i in range(50)))
    applied = await apply_manifests(client, [tmp_path / "many.yaml"])
    assert len(applied) == 50
    assert len(sandbox.journal.select("PATCH", "*/configmaps/*")) == 50
    assert len(sandbox.journal) < 60


def test_few_objects_are_told_one_by_one_and_many_in_one_line() -> None:
    assert describe_applied(["namespace/a", "pod/b"]) == ["Applied namespace/a", "Applied pod/b"]
    titles = ["namespace/a", *(f"pod/{i}" for i in range(1000))]
    assert describe_applied(titles) == ["Applied 1,001 objects: 1 namespace, 1,000 pod"]
