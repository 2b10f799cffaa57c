"""``kopf migrate``: stored objects are rewritten to the storage version, over HTTP."""

import json

import pytest

KIND = "websites.example.com"
OBJECTS = f"/apis/example.com/*/namespaces/*/{KIND.partition('.')[0]}/*"
STATUS = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{KIND}/status"
REQUESTS = "storageversionmigrations.storagemigration.k8s.io"
OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def make_definition(name, kind, storage, versions, served=None, **spec):
    plural, _, group = name.partition(".")
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name, **spec.pop("metadata", {})},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind},
            "versions": [
                {
                    "name": version,
                    "served": served is None or version in served,
                    "storage": version == storage,
                    "schema": {"openAPIV3Schema": OPEN},
                    "subresources": {"status": {}},
                }
                for version in versions
            ],
            **spec,
        },
    }


class Websites:
    """A kind of several versions in the cluster, whose storage version has just been changed."""

    def __init__(self, world):
        self.world = world
        self.sandbox = world.sandbox

    def define(self, storage, served=None, versions=("v1beta1", "v1")):
        definition = make_definition(KIND, "Website", storage, versions, served)
        self.world.call(self.sandbox.apply([definition]))

    def create(self, name, version="v1beta1", **meta):
        body = {
            "apiVersion": f"example.com/{version}",
            "kind": "Website",
            "metadata": {"name": name, "namespace": "default", **meta},
            "spec": {"n": 1},
        }
        return self.world.call(self.sandbox.create(body))

    def get(self, name):
        return self.world.call(self.sandbox.get("websites", name, namespace="default"))

    def get_stored(self):
        definition = self.world.call(self.sandbox.get("customresourcedefinitions", KIND))
        return definition["status"]["storedVersions"]

    def count_patches(self):
        return len(self.sandbox.journal.select("PATCH", OBJECTS))


@pytest.fixture
def websites(world):
    websites = Websites(world)
    websites.define("v1beta1")
    for number in range(20):
        websites.create(f"w{number:02}")
    websites.define("v1")
    assert websites.get_stored() == ["v1beta1", "v1"]
    return websites


@pytest.fixture
def serve_requests(world):
    """Accept the requests for the migrator of the cluster; nobody executes them."""
    annotations = {"api-approved.kubernetes.io": "https://example.com/"}
    definition = make_definition(
        REQUESTS, "StorageVersionMigration", "v1beta1", ["v1beta1"], scope="Cluster",
        metadata={"annotations": annotations},
    )  # fmt: skip
    world.call(world.sandbox.apply([definition]))


@pytest.mark.docs("cli/migrate")
def test_n9_objects_are_rewritten_and_older_versions_are_dropped(websites, invoke):
    before = websites.get("w00")
    result = invoke("migrate", "websites", answer="y\n")
    assert result.exit_code == 0, result.output
    assert f"20 objects of {KIND} can be stored in v1beta1 and v1: rewrite to v1." in result.stderr
    assert "Then, leave only v1 in status.storedVersions." in result.stderr
    assert f"Migrate {KIND} at http://" in result.stderr
    assert result.stdout == f"20 rewritten: all of {KIND} is stored in v1.\n"
    assert websites.get_stored() == ["v1"]
    after = websites.get("w00")
    assert after["metadata"].pop("resourceVersion") != before["metadata"].pop("resourceVersion")
    assert after == before
    count = websites.count_patches()
    result = invoke("migrate", "websites", "--yes")
    assert (result.exit_code, result.stdout) == (0, "")
    assert f"There is nothing to do: all of {KIND} is stored in v1." in result.stderr
    assert websites.count_patches() == count


def test_n9_nothing_is_changed_without_consent(websites, invoke):
    for args in (["--dry-run"], ["--dry-run", "-o", "json"]):
        result = invoke("migrate", "websites", *args)
        assert result.exit_code == 0, result.output
    assert json.loads(result.stdout) == {
        "dryRun": True,
        "kind": KIND,
        "storageVersion": "v1",
        "storedVersions": ["v1beta1", "v1"],
        "objects": 20,
        "staleManagers": 0,
        "lostFields": {},
        "clusterMigrator": None,
        "result": "planned",
        "doneBy": None,
        "rewritten": 0,
        "problems": [],
    }
    assert invoke("migrate", "websites", answer="n\n").exit_code == 1
    assert invoke("migrate", "websites").exit_code == 1
    assert websites.count_patches() == 0
    assert websites.get_stored() == ["v1beta1", "v1"]


@pytest.fixture
def narrowed(websites):
    """The storage version has fewer fields, and no webhook converts the objects."""
    definition = make_definition(KIND, "Website", "v1", ["v1beta1", "v1"])
    for version, fields in zip(definition["spec"]["versions"], (["n", "old"], ["n"]), strict=True):
        spec = {"type": "object", "properties": {field: {"type": "integer"} for field in fields}}
        if "old" in fields:
            keys = {"type": "object", "additionalProperties": {"type": "string"}}
            spec["properties"]["map"] = keys
        version["schema"] = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    websites.world.call(websites.sandbox.apply([definition]))
    return websites


@pytest.mark.parametrize("args", [["--yes"], []], ids=["scripts", "people"])
def test_n_objects_lose_no_fields_without_consent(narrowed, invoke, args):
    result = invoke("migrate", "websites", *args, answer="y\n")
    assert result.exit_code == 1
    assert "The objects lose these fields of v1beta1" in result.stderr
    assert ".spec.map, .spec.old." in result.stderr
    assert "--drop-fields" in str(result.exception)
    assert narrowed.count_patches() == 0
    assert narrowed.get_stored() == ["v1beta1", "v1"]


def test_n_objects_lose_fields_with_consent(narrowed, invoke):
    result = invoke("migrate", "websites", "--drop-fields", "--yes")
    assert result.exit_code == 0, result.output
    assert "The objects do not change." not in result.output
    assert narrowed.get_stored() == ["v1"]


def test_n9_scripts_get_the_result(websites, invoke):
    result = invoke("migrate", "Website", "--yes", "-o", "json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert (found["result"], found["doneBy"], found["rewritten"]) == ("migrated", "kopf", 20)


def test_n9_it_goes_on_after_a_failure_in_the_middle(websites, invoke):
    with websites.sandbox.faults.fail(403, method="PATCH", path=OBJECTS, skip=11):
        result = invoke("migrate", "websites", "--yes")
    assert result.exit_code == 1
    assert "Error: websites default/w" in result.stderr
    assert "start the command again" in result.stderr
    assert websites.get_stored() == ["v1beta1", "v1"]
    result = invoke("migrate", "websites", "--yes", "-o", "json")
    assert json.loads(result.stdout)["rewritten"] == 9
    assert websites.get_stored() == ["v1"]


def test_n9_it_stops_if_everything_fails(websites, invoke):
    for number in range(20, 40):
        websites.create(f"w{number:02}", version="v1")
    with websites.sandbox.faults.fail(403, method="PATCH", path=OBJECTS):
        result = invoke("migrate", "websites", "--yes")
    assert "16 more objects are not tried after that." in result.stderr
    assert websites.count_patches() == 24


def test_n9_changes_by_others_are_no_obstacle(websites, invoke):
    faults = websites.sandbox.faults
    with faults.fail(409, method="PATCH", path=OBJECTS, skip=3, times=2):
        result = invoke("migrate", "websites", "--yes", "-o", "json")
    assert json.loads(result.stdout)["rewritten"] == 20
    assert websites.get_stored() == ["v1"]


def test_n9_deleted_and_recreated_objects_are_no_obstacle(websites, invoke):
    world = websites.world
    body_of_another = {"apiVersion": "example.com/v1", "kind": "Website", "spec": {"new": True}}

    def recreate(call):
        if call.method == "PATCH" and call.path.endswith("/w03"):
            world.sandbox.faults.remove(fault)
            delete = world.sandbox.delete("websites", "w03", namespace="default")
            again = world.sandbox.delete("websites", "w04", namespace="default")
            body = {**body_of_another, "metadata": {"name": "w04", "namespace": "default"}}
            for step in (delete, again, world.sandbox.create(body)):
                with pytest.raises(StopIteration):
                    step.send(None)
        return False

    fault = world.sandbox.faults.fail(500, match=recreate)
    result = invoke("migrate", "websites", "--yes", "-o", "json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["rewritten"] == 18
    assert websites.get("w04")["spec"] == {"new": True}


def test_n9_a_kind_that_is_not_served_yet_is_not_taken_for_empty(websites, invoke):
    with websites.sandbox.faults.fail(404, method="GET", path="/apis/example.com/v1/websites"):
        result = invoke("migrate", "websites", "--yes")
    assert result.exit_code == 1
    assert websites.get_stored() == ["v1beta1", "v1"]


def test_n9_a_changed_definition_is_noticed(websites, invoke):
    with websites.sandbox.faults.fail(409, method="PATCH", path=STATUS, times=1):
        assert invoke("migrate", "websites", "--yes").exit_code == 0

    def change(call):
        if call.method == "PATCH" and call.path == STATUS:
            websites.sandbox.faults.remove(fault)
            definition = make_definition(KIND, "Website", "v1", ["v1beta1", "v1"])
            with pytest.raises(StopIteration):
                websites.sandbox.apply([definition]).send(None)
        return False

    websites.define("v1beta1")
    fault = websites.sandbox.faults.fail(500, match=change)
    result = invoke("migrate", "websites", "--yes")
    assert result.exit_code == 1
    assert f"{KIND} is changed during the migration: start it again." in str(result.exception)
    assert websites.get_stored() == ["v1", "v1beta1"]


def test_n9_managers_of_versions_that_are_not_served_keep_their_fields(websites, invoke):
    fields = {"f:spec": {"f:n": {}}}
    others = {"f:spec": {"f:m": {}}}
    entry = {"manager": "m", "operation": "Update", "fieldsType": "FieldsV1"}
    time = "2020-01-01T00:00:00Z"
    entries = [
        {**entry, "apiVersion": "example.com/v1beta1", "fieldsV1": fields, "time": time},
        {**entry, "apiVersion": "example.com/v1", "fieldsV1": others, "time": time},
        {**entry, "apiVersion": "example.com/v0", "fieldsV1": fields, "time": time,
         "operation": "Apply"},
    ]  # fmt: skip
    patch = {"metadata": {"managedFields": entries}}
    patching = websites.sandbox.patch("websites", "w07", patch, namespace="default")
    websites.world.call(patching)
    websites.define("v1", served=["v1"])
    result = invoke("migrate", "websites", "--yes")
    assert result.exit_code == 0, result.output
    assert "Of them, 20 have managed fields of versions that are not served" in result.stderr
    found = websites.get("w07")["metadata"]["managedFields"]
    assert {item["apiVersion"] for item in found} == {"example.com/v1"}
    kept = {item["operation"]: item["fieldsV1"] for item in found if item["manager"] == "m"}
    assert kept == {"Apply": fields, "Update": {"f:spec": {"f:n": {}, "f:m": {}}}}
    assert "There is nothing to do" in invoke("migrate", "websites", "--yes").stderr


def test_n9_a_request_that_nobody_executes_is_withdrawn(websites, serve_requests, invoke):
    result = invoke("migrate", "websites", "--yes", "--patience", "0.01")
    assert result.exit_code == 0, result.output
    assert "storagemigration.k8s.io/v1beta1 is served, so it is tried first." in result.stderr
    assert "has not done it: there is no progress for 0.01 seconds. Kopf does." in result.stderr
    assert result.stdout == f"20 rewritten: all of {KIND} is stored in v1.\n"
    assert websites.world.call(websites.sandbox.list(REQUESTS.partition(".")[0])) == []


@pytest.mark.parametrize("type", ["Succeeded", "Failed"])
def test_n9_requests_executed_by_the_cluster(websites, serve_requests, invoke, type):
    """The sandbox does not execute them, so the status is written by the test."""
    sandbox = websites.sandbox
    condition = {"type": type, "status": "True", "message": "as the cluster says"}

    def execute(call):
        if call.method == "GET" and call.path.endswith(f"/kopf.{KIND}"):
            patch = sandbox.patch(
                "storageversionmigrations", f"kopf.{KIND}",
                {"status": {"conditions": [condition]}}, subresource="status",
            )  # fmt: skip
            try:
                patch.send(None)
            except StopIteration:
                sandbox.faults.remove(fault)
            except Exception:
                pass  # it is not requested yet
        return False

    fault = sandbox.faults.fail(500, match=execute)
    result = invoke("migrate", "websites", "--yes", "--patience", "20")
    assert result.exit_code == 0, result.output
    assert websites.get_stored() == ["v1"]
    if type == "Succeeded":
        assert result.stdout == f"The cluster has migrated {KIND} to v1.\n"
        assert websites.count_patches() == 0
    else:
        assert "has not done it: as the cluster says. Kopf does." in result.stderr
        assert result.stdout == f"20 rewritten: all of {KIND} is stored in v1.\n"


def test_n9_a_left_request_means_that_the_migration_is_not_over(websites, serve_requests, invoke):
    """Some clusters drop the versions from the definition even if they have failed."""
    websites.world.call(
        websites.sandbox.patch(
            "customresourcedefinitions",
            KIND,
            {"status": {"storedVersions": ["v1"]}},
            subresource="status",
        )
    )
    body = {
        "apiVersion": "storagemigration.k8s.io/v1beta1",
        "kind": "StorageVersionMigration",
        "metadata": {"name": f"kopf.{KIND}"},
        "spec": {},
    }
    websites.world.call(websites.sandbox.create(body))
    result = invoke("migrate", "websites", "--yes", "--patience", "0.01")
    assert result.stdout == f"20 rewritten: all of {KIND} is stored in v1.\n"


def test_n_a_request_for_another_definition_is_not_trusted(websites, serve_requests, invoke):
    """An interrupted run asked for another storage version: it tells nothing of this one."""
    sandbox = websites.sandbox
    body = {
        "apiVersion": "storagemigration.k8s.io/v1beta1",
        "kind": "StorageVersionMigration",
        "metadata": {"name": f"kopf.{KIND}"},
        "spec": {},
    }
    left = websites.world.call(sandbox.create(body))

    reads = []

    def finish(call):
        if call.method == "GET" and call.path.endswith(f"/kopf.{KIND}"):
            reads.append(call)
            if len(reads) == 3 and run(sandbox.get(*place))["metadata"]["uid"] == uid:
                condition = {"type": "Succeeded", "status": "True"}
                status = {"status": {"conditions": [condition]}}
                run(sandbox.patch(*place, status, subresource="status"))
        return False

    def run(step):
        with pytest.raises(StopIteration) as info:
            step.send(None)
        return info.value.value

    place = ("storageversionmigrations", f"kopf.{KIND}")
    uid = left["metadata"]["uid"]
    sandbox.faults.fail(500, match=finish)
    result = invoke("migrate", "websites", "--yes", "--patience", "0.01")
    assert result.exit_code == 0, result.output
    assert result.stdout == f"20 rewritten: all of {KIND} is stored in v1.\n"


def test_n_lists_whose_pages_expire_are_continued(websites, invoke, monkeypatch):
    """If a kind is too big to be listed before its pages expire, starting again is no help."""
    monkeypatch.setattr("kopf_kits.definitions.stored.CHUNK", "8")
    journal = websites.sandbox.journal
    expired = {
        "kind": "Status", "code": 410, "reason": "Expired", "metadata": {"continue": "?"},
    }  # fmt: skip

    def expires(call):
        token = call.query.get("continue")
        if token is None or token in known:
            return False
        known.add(token)
        expired["metadata"]["continue"] = token
        fault.reply.body = json.dumps(expired).encode()
        return True

    known = set()
    fault = websites.sandbox.faults.fail(410, match=expires)
    result = invoke("migrate", "websites", "--yes", "-o", "json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["rewritten"] == 20
    assert len(known) >= 2
    firsts = [one for one in journal.select("GET", "*/websites") if "continue" not in one.query]
    assert len(firsts) == 3  # for the plan, to rewrite, to verify


@pytest.mark.parametrize("body", [b"{}", b'{"metadata": {}, "items": null}', b"[]"])
def test_n_garbage_is_not_taken_for_an_empty_list(websites, invoke, body):
    with websites.sandbox.faults.fail(200, path="/apis/example.com/v1/websites", body=body):
        result = invoke("migrate", "websites", "--yes")
    assert result.exit_code == 1
    assert "there is no list of objects in the response" in str(result.exception)
    assert websites.get_stored() == ["v1beta1", "v1"]


def test_n9_builtin_kinds_are_not_migrated(world, invoke):
    result = invoke("migrate", "pods", "--yes")
    assert result.exit_code == 1
    assert "only objects of custom kinds can be migrated" in str(result.exception)
