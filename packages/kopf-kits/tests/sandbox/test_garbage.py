import pytest

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"


def owned_by(owner, name, **reference):
    meta = owner["metadata"]
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": meta["name"],
        "uid": meta["uid"],
        **reference,
    }
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "ownerReferences": [reference]},
    }


@pytest.fixture
async def owner(sandbox, crd, make_object):
    return await sandbox.create(make_object("owner"))


async def names(client):
    answer = await client.get(CONFIGMAPS)
    return [item["metadata"]["name"] for item in answer.json["items"]]


@pytest.mark.parametrize("policy", [None, "Background", "Foreground"])
async def test_dependents_are_deleted(client, sandbox, owner, policy):
    child = await sandbox.create(owned_by(owner, "child", blockOwnerDeletion=True))
    await sandbox.create(owned_by(child, "grandchild"))
    await sandbox.delete("kex", "owner", policy=policy)
    assert await names(client) == []
    assert await sandbox.list("kex") == []


async def test_dependents_are_orphaned(client, sandbox, owner):
    await sandbox.create(owned_by(owner, "child"))
    assert await sandbox.delete("kex", "owner", policy="Orphan") is False
    assert await names(client) == ["child"]
    assert await sandbox.list("kex") == []
    assert "ownerReferences" not in (await sandbox.get("cm", "child"))["metadata"]


async def test_dependents_with_other_owners_stay(client, sandbox, owner, make_object):
    other = await sandbox.create(make_object("other"))
    child = owned_by(owner, "child")
    child["metadata"]["ownerReferences"] += owned_by(other, "x")["metadata"]["ownerReferences"]
    await sandbox.create(child)
    await sandbox.delete("kex", "owner")
    assert await names(client) == ["child"]
    [left] = (await sandbox.get("cm", "child"))["metadata"]["ownerReferences"]
    assert left["name"] == "other"


async def test_foreground_deletion_waits_for_the_blocking_dependents(client, sandbox, owner):
    child = owned_by(owner, "child", blockOwnerDeletion=True)
    child["metadata"]["finalizers"] = ["a/b"]
    await sandbox.create(child)
    await sandbox.delete("kex", "owner", policy="Foreground")
    await client.get("/healthz")
    waiting = await sandbox.get("kex", "owner")
    assert waiting["metadata"]["finalizers"] == ["foregroundDeletion"]
    assert (await sandbox.get("cm", "child"))["metadata"]["deletionTimestamp"]
    await client.merge(f"{CONFIGMAPS}/child", {"metadata": {"finalizers": None}})
    assert await names(client) == []
    assert await sandbox.list("kex") == []


async def test_dependents_of_absent_owners(client, sandbox, owner):
    await sandbox.delete("kex", "owner")
    await sandbox.create(owned_by(owner, "child"))
    assert await names(client) == []


async def test_namespaces_are_emptied(client, sandbox, crd, make_object):
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "space"}}
    created = await sandbox.create(space)
    assert created["spec"] == {"finalizers": ["kubernetes"]}
    assert created["status"] == {"phase": "Active"}
    assert created["metadata"]["labels"] == {"kubernetes.io/metadata.name": "space"}
    meta = {"namespace": "space"}
    await sandbox.create(make_object(metadata={**meta, "finalizers": ["a/b"]}))
    await sandbox.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "y", **meta}})
    answer = await client.delete("/api/v1/namespaces/space")
    assert answer.json["status"]["phase"] == "Terminating"
    assert (await client.get("/api/v1/namespaces/space/secrets")).json["items"] == []
    assert (await client.get("/api/v1/namespaces/space")).json["metadata"]["deletionTimestamp"]
    assert (await client.delete("/api/v1/namespaces/space")).status == 409

    answer = await client.post("/api/v1/namespaces/space/secrets", {"metadata": {"name": "z"}})
    assert answer.status == 403
    assert answer.json["details"]["causes"][0]["reason"] == "NamespaceTerminating"

    objects = "/apis/kopf.dev/v1/namespaces/space/kopfexamples"
    await client.merge(f"{objects}/x", {"metadata": {"finalizers": None}})
    assert (await client.get("/api/v1/namespaces/space")).status == 404


async def test_empty_namespaces_are_deleted(client, sandbox):
    await sandbox.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "space"}})
    await client.delete("/api/v1/namespaces/space")
    assert (await client.get("/api/v1/namespaces/space")).status == 404
