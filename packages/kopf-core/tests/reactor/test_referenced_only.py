"""Only those related objects are watched and kept that are referenced by somebody."""

import asyncio
import logging
from typing import Any

import pytest
from idleness import until

from kopf_core.intents import decorators as on
from kopf_core.reactor.streams import referenced
from kopf_core.reactor.streams.modes import Mode

KEX = "kopfexamples"
SECRETS = "/api/v1/namespaces/default/secrets"


async def make_secret(cluster: Any, name: str, value: str = "eA==") -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}}
    await cluster.client.post(SECRETS, {**secret, "data": {"value": value}})


async def change_secret(cluster: Any, name: str, value: str) -> None:
    await cluster.sandbox.patch("secrets", name, {"data": {"value": value}})


def get_watched(operator: Any) -> set[str | None]:
    """The names of secrets which are watched; none stands for all of them."""
    keys = operator.handling.pool.informers
    return {key.name for key in keys if key.resource.plural == "secrets"}


def get_kept(operator: Any) -> set[str]:
    return {
        body["metadata"]["name"]
        for key, stream in operator.handling.pool._streams.items()
        if key.resource.plural == "secrets" and stream.store is not None
        for body in stream.store.values()
    }


@pytest.fixture
def reconcile(registry: Any, settings: Any, journal: Any) -> Any:
    settings.watching.referenced_only = True

    @on.reconcile(KEX, related={"secrets": "spec.secret"}, registry=registry)
    async def fn(name: str, related: Any, **_: Any) -> None:
        journal((name, {key: one["data"]["value"] for key, one in related["Secret"].items()}))


@pytest.mark.usefixtures("reconcile")
async def test_o_only_referenced_objects_are_watched_and_kept(cluster, operate, journal):
    for name in ("needed", "other"):
        await make_secret(cluster, name)
    await cluster.create("a", secret="needed")
    async with operate() as operator:
        await journal.until(lambda calls: ("a", {"needed": "eA=="}) in calls)
        assert get_watched(operator) == get_kept(operator) == {"needed"}
        await change_secret(cluster, "other", "eg==")
        await change_secret(cluster, "needed", "eQ==")
        await journal.until(lambda calls: ("a", {"needed": "eQ=="}) in calls)
        await cluster.client.delete(f"{SECRETS}/needed")
        await journal.until(lambda calls: ("a", {}) in calls)
    assert [*journal] == [("a", {"needed": "eA=="}), ("a", {"needed": "eQ=="}), ("a", {})]
    requests = cluster.sandbox.journal.select("GET", SECRETS)
    assert {entry.query.get("fieldSelector") for entry in requests} == {"metadata.name=needed"}


@pytest.mark.usefixtures("reconcile")
async def test_o_no_pass_is_made_before_what_is_referenced_is_known(cluster, operate, journal):
    await make_secret(cluster, "late")
    async with operate():
        with cluster.sandbox.faults.hang(method="GET", path=SECRETS) as fault:
            await cluster.create("a", secret="late")
            await cluster.create("b", secret="late")
            await cluster.create("c")
            await journal.until(lambda calls: ("c", {}) in calls)
            fault.release()
        await journal.until(lambda calls: len(calls) == 3)
    assert sorted(name for name, _ in journal) == ["a", "b", "c"]
    assert {str(found) for name, found in journal if name != "c"} == {str({"late": "eA=="})}


@pytest.mark.usefixtures("reconcile")
async def test_o_what_nobody_references_anymore_is_forgotten(cluster, operate, journal):
    for name in ("one", "two"):
        await make_secret(cluster, name)
    await cluster.create("a", secret="one")
    await cluster.create("b", secret="one")
    async with operate() as operator:
        await journal.until(lambda calls: len(calls) == 2)
        assert get_watched(operator) == {"one"}
        await cluster.patch("a", secret="two")
        await journal.until(lambda calls: ("a", {"two": "eA=="}) in calls)
        assert get_watched(operator) == {"one", "two"}
        await cluster.delete("b")
        await until(lambda: get_watched(operator) == {"two"})
        await cluster.patch("a", secret=None)
        await journal.until(lambda calls: ("a", {}) in calls)
        await until(lambda: get_watched(operator) == set())
        await cluster.patch("a", secret="one")
        await journal.until(lambda calls: calls.count(("a", {"one": "eA=="})) == 2)
        assert get_watched(operator) == get_kept(operator) == {"one"}


@pytest.mark.usefixtures("reconcile")
async def test_o_absent_objects_are_noticed_when_they_are_created(cluster, operate, journal):
    await cluster.create("a", secret="coming")
    async with operate():
        await journal.until(lambda calls: ("a", {}) in calls)
        await make_secret(cluster, "coming")
        await journal.until(lambda calls: len(calls) == 2)
    assert [*journal] == [("a", {}), ("a", {"coming": "eA=="})]


@pytest.mark.usefixtures("reconcile")
async def test_o_the_metadata_of_the_kind_is_watched_where_many_objects_are_referenced(
    cluster, operate, journal, monkeypatch
):
    monkeypatch.setattr(referenced, "MANY", 2)
    names = ["s1", "s2", "s3"]
    for name in [*names, "other"]:
        await make_secret(cluster, name)
    async with operate() as operator:
        await cluster.create("a", secret=["s1", "s2"])
        await journal.until(lambda calls: len(calls) == 1)
        assert get_watched(operator) == {"s1", "s2"}
        await cluster.create("b", secret=[*names, "absent"])
        await journal.until(lambda calls: ("b", dict.fromkeys(names, "eA==")) in calls)
        await until(lambda: get_watched(operator) == {None})
        for name in ("other", "s1", "s3"):
            await change_secret(cluster, name, "eQ==")
        await journal.until(lambda calls: ("a", {"s1": "eQ==", "s2": "eA=="}) in calls)
        changed = {"s1": "eQ==", "s2": "eA==", "s3": "eQ=="}
        await journal.until(lambda calls: ("b", changed) in calls)
        await cluster.client.delete(f"{SECRETS}/s3")
        await journal.until(lambda calls: ("b", {"s1": "eQ==", "s2": "eA=="}) in calls)
        await make_secret(cluster, "absent")
        whole = {"s1": "eQ==", "s2": "eA==", "absent": "eA=="}
        await journal.until(lambda calls: ("b", whole) in calls)
        await cluster.delete("b")
        await cluster.patch("a", secret="s1")
        await until(lambda: get_watched(operator) == {"s1"})
        await change_secret(cluster, "s1", "eg==")
        await journal.until(lambda calls: ("a", {"s1": "eg=="}) in calls)
    lists = cluster.sandbox.journal.select("GET", "/api/v1/secrets")
    assert {"as=PartialObjectMetadata" in entry.accept for entry in lists} == {True}
    assert not cluster.sandbox.journal.select("GET", f"{SECRETS}/other")
    assert next(found for name, found in journal if name == "b") == dict.fromkeys(names, "eA==")


@pytest.mark.usefixtures("reconcile")
async def test_o_deletions_are_noticed_while_the_way_of_following_is_changed(
    cluster, operate, journal, monkeypatch
):
    monkeypatch.setattr(referenced, "MANY", 2)
    for name in ("s1", "s2", "s3"):
        await make_secret(cluster, name)
        await cluster.create(f"of-{name}", secret=[] if name == "s3" else name)
    async with operate() as operator:
        await journal.until(lambda calls: len(calls) == 3)
        with cluster.sandbox.faults.hang(method="GET", path=f"{SECRETS}/s1") as fault:
            await cluster.patch("of-s3", secret="s3")
            await cluster.sandbox.journal.arrived("GET", f"{SECRETS}/s1")
            await cluster.client.delete(f"{SECRETS}/s1")
            fault.release()
        await journal.until(lambda calls: ("of-s1", {}) in calls)
        with cluster.sandbox.faults.hang(method="GET", path=SECRETS) as fault:
            await cluster.delete("of-s3")
            await cluster.patch("of-s1", secret=None)
            await until(lambda: get_watched(operator) == {"s2"})
            await cluster.client.delete(f"{SECRETS}/s2")
            fault.release()
        await journal.until(lambda calls: ("of-s2", {}) in calls)


@pytest.mark.usefixtures("reconcile")
async def test_o_passes_wait_for_objects_that_cannot_be_read_for_now(
    cluster, operate, journal, monkeypatch, logged
):
    monkeypatch.setattr(referenced, "MANY", 0)
    monkeypatch.setattr(referenced, "READING_BACKOFF", 0.001)
    await make_secret(cluster, "s")
    await cluster.create("a", secret="s")
    await cluster.create("b")
    with cluster.sandbox.faults.fail(403, method="GET", path=f"{SECRETS}/s") as fault:
        async with operate():
            await journal.until(lambda calls: ("b", {}) in calls)
            await until(lambda: logged(logging.WARNING, prefix="kopf.reactor.informers"))
            fault.release()
            await journal.until(lambda calls: len(calls) == 2)
    assert [*journal] == [("b", {}), ("a", {"s": "eA=="})]
    (text,) = [text for text in logged(logging.WARNING) if "cannot be read" in text]
    assert "will be retried: 403" in text


@pytest.mark.usefixtures("reconcile")
async def test_o_objects_deleted_before_the_kind_is_listed_are_gone(
    cluster, operate, journal, monkeypatch
):
    monkeypatch.setattr(referenced, "MANY", 0)
    await make_secret(cluster, "s")
    await cluster.create("a", secret="s")
    with cluster.sandbox.faults.hang(method="GET", path="/api/v1/secrets") as fault:
        async with operate(clusterwide=True):
            await journal.until(lambda calls: ("a", {"s": "eA=="}) in calls)
            await cluster.client.delete(f"{SECRETS}/s")
            fault.release()
            await journal.until(lambda calls: ("a", {}) in calls)
    assert [*journal] == [("a", {"s": "eA=="}), ("a", {})]


@pytest.mark.usefixtures("reconcile")
async def test_o_the_refused_kind_is_named_once_for_all_of_its_objects(cluster, operate, logged):
    for name in ("s1", "s2", "s3"):
        await cluster.create(f"of-{name}", secret=name)
    cluster.sandbox.faults.fail(403, method="GET", path=SECRETS)
    async with operate():
        await until(lambda: logged(logging.WARNING, prefix="kopf.reactor.rights"))
    (text,) = logged(logging.WARNING, prefix="kopf.reactor.rights")
    assert text.startswith("Cannot watch secrets.v1 in 'default', will retry until permitted: 403")


@pytest.mark.usefixtures("reconcile")
async def test_o_nothing_is_requested_after_the_exit(cluster, operate, monkeypatch, logged):
    monkeypatch.setattr(referenced, "MANY", 0)
    await cluster.create("a", secret="s")
    cluster.sandbox.faults.fail(403, method="GET", path=f"{SECRETS}/s")
    async with operate():
        await until(lambda: logged(logging.WARNING, prefix="kopf.reactor.informers"))
    await asyncio.sleep(0)
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "kopf-referenced"]


@pytest.mark.parametrize("is_referenced_only", [False, True])
@pytest.mark.parametrize(
    "options",
    [
        {"related": {"secrets": lambda body: "a"}},
        {"related": {"secrets": "spec.secret"}, "owns": ["secrets"]},
    ],
    ids=["by-function", "owned"],
)
async def test_o_kinds_that_are_needed_otherwise_are_watched_as_a_whole(
    cluster, operate, registry, settings, journal, options, is_referenced_only
):
    settings.watching.referenced_only = is_referenced_only

    @on.reconcile(KEX, registry=registry, prune=False, **options)
    async def fn(name: str, **_: Any) -> None:
        journal(name)

    await cluster.create("a", secret="one")
    async with operate() as operator:
        await journal.until(len)
        assert get_watched(operator) == {None}


@pytest.mark.usefixtures("reconcile")
async def test_o_references_in_other_namespaces_are_followed_as_far_as_they_are_served(
    cluster, operate, journal
):
    for name in ("ns1", "ns2"):
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        await cluster.client.post("/api/v1/namespaces", body)
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}
        url = f"/api/v1/namespaces/{name}/secrets"
        await cluster.client.post(url, {**secret, "data": {"value": "eA=="}})
    await cluster.create("a", secret=["ns1/s", "ns2/s"])
    async with operate(namespaces=["default", "ns1"]) as operator:
        await journal.until(len)
        operator.essentials.insights.set_namespaces({"default", "ns1", "ns2"})
        await journal.until(lambda calls: len(calls[-1][1]) == 2)
        operator.essentials.insights.set_namespaces({"default"})
        await until(lambda: get_watched(operator) == set())
    assert journal[0] == ("a", {"ns1/s": "eA=="})


@pytest.mark.usefixtures("reconcile")
async def test_o_references_are_followed_after_pauses(cluster, operate, journal):
    await make_secret(cluster, "one")
    await cluster.create("a", secret="one")
    async with operate() as operator:
        await journal.until(len)
        governor = operator.handling.governor
        await governor.impose("test", Mode.COLD)
        await change_secret(cluster, "one", "eQ==")
        governor.lift("test")
        await journal.until(lambda calls: ("a", {"one": "eQ=="}) in calls)
    assert [*journal] == [("a", {"one": "eA=="}), ("a", {"one": "eQ=="})]
