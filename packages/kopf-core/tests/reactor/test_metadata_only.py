"""Only the metadata is watched where nobody looks at anything else, and no change is imagined."""

import logging
from functools import partial
from typing import Any

import pytest

from kopf_cogs.configs.diffbase import StatusDiffBaseStorage
from kopf_core.intents import decorators as on
from kopf_core.intents.metadata import is_metadata_enough
from kopf_core.intents.registries import OperatorRegistry

KEX = "kopfexamples"
HANDLED = r"{.metadata.annotations.kopf\.zalando\.org/last-handled-configuration}"


def get_forms(cluster: Any, path: str = "/apis/kopf.dev/v1/kopfexamples") -> set[tuple[bool, str]]:
    """What was asked for: in watches or in lists, and in what form."""
    entries = cluster.sandbox.journal.select("GET", path)
    return {(entry.watch, entry.accept.partition(";as=")[2].partition(";")[0]) for entry in entries}


METADATA = {(False, "PartialObjectMetadataList"), (True, "PartialObjectMetadata")}
WHOLE = {(False, ""), (True, "")}


async def test_o_handlers_with_metadata_only_get_nothing_else(cluster, operate, registry, journal):
    @on.event(KEX, registry=registry, metadata_only=True)
    async def see(type: Any, body: Any, **_: Any) -> None:
        journal((type, {**body, "metadata": body.metadata.name}))

    @on.create(KEX, registry=registry, metadata_only=True)
    @on.delete(KEX, registry=registry, metadata_only=True)
    async def fn(reason: Any, body: Any, patch: Any, **_: Any) -> None:
        journal((str(reason), {**body, "metadata": body.metadata.name}))
        patch.status["seen"] = str(reason)

    kind = {"apiVersion": "kopf.dev/v1", "kind": "KopfExample"}
    await cluster.create("a", n=1)
    async with operate():
        await cluster.sandbox.wait(KEX, "a", jsonpath="{.status.seen}", value="create")
        await cluster.create("b", n=1)
        await cluster.sandbox.wait(KEX, "b", jsonpath="{.status.seen}", value="create")
        await cluster.delete("b")
        await journal.until(lambda calls: ("DELETED", {**kind, "metadata": "b"}) in calls)
    assert ("delete", {**kind, "metadata": "b"}) in journal
    assert {tuple(sorted(body)) for _, body in journal} == {("apiVersion", "kind", "metadata")}
    assert get_forms(cluster) == METADATA
    assert (await cluster.get("a"))["spec"] == {"n": 1}


async def test_o_changes_are_those_of_labels_and_annotations_and_of_declared_fields(
    cluster, operate, registry, journal
):
    @on.update(KEX, registry=registry, metadata_only=True)
    async def update(diff: Any, **_: Any) -> None:
        journal(("update", [field for _, field, _, _ in diff]))

    async with operate():
        await cluster.create("a", n=0)
        await cluster.sandbox.wait(KEX, "a", jsonpath=HANDLED)
        await cluster.patch("a", n=1)
        await cluster.sandbox.patch(KEX, "a", {"metadata": {"labels": {"x": "y"}}})
        await journal.until(lambda calls: len(calls) == 1)
    assert [*journal] == [("update", [("metadata",)])]


async def test_o_generations_tell_of_changes_in_specs_if_they_are_declared(
    cluster, operate, registry, journal, make_definition
):
    await cluster.redefine(make_definition("v1", subresources={"status": {}}))

    @on.update(KEX, registry=registry, metadata_only=True, field="metadata.generation")
    async def update(old: Any, new: Any, patch: Any, **_: Any) -> None:
        journal((old, new))
        patch.status["seen"] = new

    async with operate():
        await cluster.create("a", n=0)
        await cluster.sandbox.wait(KEX, "a", jsonpath=HANDLED)
        for n in (1, 2):
            await cluster.patch("a", n=n)
            await cluster.sandbox.wait(KEX, "a", jsonpath="{.status.seen}", value=n + 1)
    assert [*journal] == [(1, 2), (2, 3)]
    assert get_forms(cluster) == METADATA


async def test_o_it_is_no_change_of_objects_that_only_their_metadata_is_watched_since_now(
    cluster, operate, registry, journal
):
    def declare(registry: Any, **options: Any) -> Any:
        @on.create(KEX, registry=registry, **options)
        @on.update(KEX, registry=registry, **options)
        async def fn(reason: Any, name: str, diff: Any, **_: Any) -> None:
            journal((str(reason), name, [op for op, *_ in diff][:1]))

    declare(registry)
    async with operate():
        await cluster.create("a", n=1)
        await cluster.sandbox.wait(KEX, "a", jsonpath=HANDLED)
    declare(frugal := OperatorRegistry(), metadata_only=True)
    async with operate(registry=frugal):
        await cluster.create("b", n=1)
        await cluster.sandbox.wait(KEX, "b", jsonpath=HANDLED)
        await cluster.sandbox.patch(KEX, "a", {"metadata": {"labels": {"x": "y"}}})
        await journal.until(lambda calls: len(calls) == 3)
    assert [call[:2] for call in journal] == [("create", "a"), ("create", "b"), ("update", "a")]
    assert journal[-1][2] == ["add"]


async def test_o_one_handler_of_whole_objects_makes_all_of_them_whole(
    cluster, operate, registry, journal, logged
):
    @on.event(KEX, registry=registry, metadata_only=True)
    async def frugal(body: Any, **_: Any) -> None:
        journal(("frugal", dict(body.spec)))

    @on.event(KEX, registry=registry)
    async def greedy(spec: Any, **_: Any) -> None:
        journal(("greedy", dict(spec)))

    await cluster.create("a", n=1)
    async with operate():
        await journal.until(lambda calls: len(calls) == 2)
    assert {*map(str, journal)} == {str(("frugal", {"n": 1})), str(("greedy", {"n": 1}))}
    assert get_forms(cluster) == WHOLE
    (text,) = [text for text in logged(logging.WARNING) if "only their metadata" in text]
    assert "frugal'" in text
    assert "greedy' can look at the rest" in text


async def test_o_objects_are_whole_if_the_state_is_in_their_status(
    cluster, operate, registry, settings, journal, logged
):
    settings.persistence.diffbase_storage = StatusDiffBaseStorage()

    @on.create(KEX, registry=registry, metadata_only=True)
    async def create(name: str, **_: Any) -> None:
        journal(name)

    await cluster.create("a")
    async with operate():
        await cluster.sandbox.wait(KEX, "a", jsonpath="{.status.kopf.last-handled-configuration}")
        await cluster.create("b")
        await journal.until(lambda calls: "b" in calls)
    assert [*journal] == ["a", "b"]
    assert get_forms(cluster) == WHOLE
    assert [text for text in logged(logging.WARNING) if "is kept in the status" in text]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"owns": ["configmaps"]}, "they are owned by"),
        ({"related": {"configmaps": lambda _: "a"}}, "they are related objects of"),
    ],
    ids=["owned", "related"],
)
async def test_o_objects_are_whole_if_reconcilers_own_or_relate_to_them(
    cluster, operate, registry, journal, logged, options, reason
):
    @on.event("configmaps", registry=registry, metadata_only=True, id="frugal")
    async def frugal(body: Any, **_: Any) -> None:
        journal(dict(body["data"]))

    @on.reconcile(KEX, registry=registry, id="reconcile", **options)
    async def reconcile(**_: Any) -> None:
        pass

    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"n": "1"}}
    await cluster.client.post("/api/v1/namespaces/default/configmaps", body)
    async with operate():
        await journal.until(lambda calls: calls)
    assert [*journal] == [{"n": "1"}]
    assert get_forms(cluster, "/api/v1/configmaps") == WHOLE
    (text,) = [text for text in logged(logging.WARNING) if "only their metadata" in text]
    assert text.endswith(f"as declared for Handler 'frugal': {reason} Reconciler 'reconcile'.")


async def test_o_handlers_get_the_metadata_of_a_kind_whose_referenced_objects_are_whole(
    cluster, operate, registry, settings, journal, logged
):
    settings.watching.referenced_only = True

    @on.event("secrets", registry=registry, metadata_only=True)
    async def frugal(body: Any, **_: Any) -> None:
        journal(("frugal", "data" in body))

    @on.reconcile(KEX, registry=registry, related={"secrets": "spec.secret"})
    async def reconcile(related: Any, **_: Any) -> None:
        journal(("reconcile", {name: one["data"] for name, one in related["Secret"].items()}))

    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}
    await cluster.client.post("/api/v1/namespaces/default/secrets", {**body, "data": {"x": "eA=="}})
    await cluster.create("a", secret="s")
    async with operate():
        await journal.until(lambda calls: {"frugal", "reconcile"} <= {name for name, _ in calls})
    assert ("frugal", False) in journal
    assert ("reconcile", {"s": {"x": "eA=="}}) in journal
    assert get_forms(cluster, "/api/v1/secrets") == METADATA
    assert get_forms(cluster, "/api/v1/namespaces/default/secrets") == WHOLE
    assert not [text for text in logged(logging.WARNING) if "only their metadata" in text]


@pytest.mark.parametrize("is_sought", [False, True])
async def test_o_it_is_found_out_that_the_metadata_is_enough_if_that_is_wanted(
    cluster, operate, registry, settings, journal, is_sought
):
    settings.watching.metadata_if_enough = is_sought

    @on.index(KEX, registry=registry, id="known")
    async def known(name: str, labels: Any, **_: Any) -> Any:
        return {name: dict(labels)}

    @on.event(KEX, registry=registry, labels={"x": "y"})
    async def see(name: str, known: Any, **_: Any) -> None:
        journal((name, [*known]))

    await cluster.create("a")
    await cluster.sandbox.patch(KEX, "a", {"metadata": {"labels": {"x": "y"}}})
    async with operate():
        await journal.until(lambda calls: calls)
    assert [*journal] == [("a", ["a"])]
    assert get_forms(cluster) == (METADATA if is_sought else WHOLE)


async def test_o_transforms_are_applied_to_the_metadata(
    cluster, operate, registry, settings, journal
):
    def drop_labels(body: Any) -> None:
        journal([*body])
        body["metadata"].pop("labels")

    settings.watching.transforms[KEX] = drop_labels

    @on.event(KEX, registry=registry, metadata_only=True)
    async def see(labels: Any, **_: Any) -> None:
        journal(dict(labels))

    await cluster.create("a")
    await cluster.sandbox.patch(KEX, "a", {"metadata": {"labels": {"x": "y"}}})
    async with operate():
        await journal.until(lambda calls: {} in calls)
    assert [*journal] == [["metadata"], {}]


def test_o_arguments_that_would_be_empty_are_refused(registry) -> None:
    with pytest.raises(TypeError, match="there is nothing for spec, status"):

        @on.create(KEX, registry=registry, metadata_only=True)
        def fn(status: Any, spec: Any, **_: Any) -> None:
            pass


def test_o_reconcilers_compare_whole_objects(registry) -> None:
    with pytest.raises(TypeError, match="metadata_only"):
        on.reconcile(KEX, registry=registry, metadata_only=True)  # type: ignore[call-arg]


def plain(name: Any, meta: Any, known: Any = None, **_: Any) -> Any:
    return [name for _ in meta] or known


def greedy(spec: Any, **_: Any) -> None:
    pass


def peeking(name: Any, **kwargs: Any) -> None:
    str(kwargs)


def hiding(name: Any, **kwargs: Any) -> Any:
    return lambda: kwargs


def sneaking(name: Any, **_: Any) -> None:
    str(locals())


@pytest.mark.parametrize(
    ("decorator", "fn", "options", "is_enough"),
    [
        (on.event, plain, {}, True),
        (on.index, plain, {}, True),
        (on.daemon, plain, {}, True),
        (on.timer, plain, {"interval": 1}, True),
        (on.timer, plain, {"interval": 1, "idle": 1}, False),
        (on.event, greedy, {}, False),
        (on.event, peeking, {}, False),
        (on.event, hiding, {}, False),
        (on.event, sneaking, {}, False),
        (on.create, plain, {}, False),  # it can have sub-handlers
        (on.update, plain, {}, False),
        (on.event, plain, {"field": "metadata.labels"}, True),
        (on.event, plain, {"field": "spec.n"}, False),
        (on.event, plain, {"when": lambda name, **_: True}, True),
        (on.event, plain, {"when": lambda spec, **_: True}, False),
        (on.event, plain, {"when": lambda **kw: bool(kw)}, False),
        (on.event, plain, {"labels": {"x": lambda value, spec, **_: True}}, False),
        (on.event, plain, {"annotations": {"x": "y"}}, True),
        (on.daemon, plain, {"initial_delay": lambda body, **_: 1}, False),
        (on.event, partial(plain), {"id": "x"}, False),
    ],
)
def test_o_metadata_is_enough_only_if_that_is_certain(
    registry, decorator, fn, options, is_enough
) -> None:
    decorator(KEX, registry=registry, **options)(fn)
    (handler,) = registry.resource_handlers
    assert is_metadata_enough(handler) is is_enough


async def test_o_the_managed_fields_are_not_kept_with_the_metadata(
    cluster, operate, registry, journal
):
    """They are the biggest part of it, and hardly anybody reads them."""

    @on.event(KEX, registry=registry, metadata_only=True)
    async def see(type: Any, meta: Any, **_: Any) -> None:
        journal((type, "managedFields" in meta))

    whole = await cluster.create("a", n=1)
    assert whole["metadata"]["managedFields"]
    async with operate():
        await journal.until(len)
        await cluster.patch("a", n=2)
        await journal.until(lambda calls: len(calls) == 2)
    assert [*journal] == [(None, False), ("MODIFIED", False)]
