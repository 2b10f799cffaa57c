"""Forms of objects: what users drop right after parsing is never seen, kept, nor lost."""

import logging
from typing import Any

import pytest

from kopf_core.actions.errors import TemporaryError
from kopf_core.intents import decorators as on

KEX = "kopfexamples"
HANDLED = r"{.metadata.annotations.kopf\.zalando\.org/last-handled-configuration}"


def drop_big(body: Any) -> None:
    """As users write it: in place, and absent fields are no error."""
    body.get("spec", {}).pop("big", None)


async def test_o_handlers_of_all_kinds_get_what_the_transform_has_left(
    cluster, operate, registry, settings, journal
):
    settings.watching.transforms[KEX] = drop_big

    @on.index(KEX, registry=registry)
    async def known(spec: Any, **_: Any) -> Any:
        journal(("index", dict(spec)))

    @on.event(KEX, registry=registry)
    async def see(spec: Any, **_: Any) -> None:
        journal(("event", dict(spec)))

    @on.create(KEX, registry=registry)
    async def create(spec: Any, **_: Any) -> None:
        journal(("create", dict(spec)))

    @on.daemon(KEX, registry=registry)
    async def daemon(spec: Any, stopped: Any, **_: Any) -> None:
        journal(("daemon", dict(spec)))
        await stopped.wait()

    await cluster.create("listed", big="x", n=1)
    async with operate():
        await journal.until(lambda calls: {"create", "daemon"} <= {kind for kind, _ in calls})
        await cluster.create("streamed", big="x", n=2)
        await journal.until(lambda calls: ("create", {"n": 2}) in calls)
        await journal.until(lambda calls: ("daemon", {"n": 2}) in calls)
    assert {kind for kind, _ in journal} == {"index", "event", "create", "daemon"}
    assert [spec for _, spec in journal if "big" in spec] == []
    assert (await cluster.get("listed"))["spec"] == {"big": "x", "n": 1}


async def test_o_transforms_are_functions_that_return_objects_too_and_go_in_their_order(
    cluster, operate, registry, settings, journal
):
    settings.watching.transforms["kopf.dev", KEX] = lambda body: {**body, "spec": {"steps": [1]}}
    settings.watching.transforms[KEX] = lambda body: {
        **body,
        "spec": {"steps": [*body["spec"]["steps"], 2]},
    }

    @on.event(KEX, registry=registry)
    async def see(spec: Any, **_: Any) -> None:
        journal(spec["steps"])

    await cluster.create("a")
    async with operate():
        await journal.until(lambda calls: calls)
    assert [*journal] == [[1, 2]]


async def test_o_replies_to_patches_are_in_the_form_too(
    cluster, operate, registry, settings, journal
):
    settings.watching.transforms[KEX] = drop_big

    @on.create(KEX, registry=registry)
    async def create(spec: Any, patch: Any, retry: int, **_: Any) -> None:
        journal(("create", dict(spec)))
        patch.spec["n"] = retry + 1
        if not retry:
            raise TemporaryError("Once more, please.", delay=0)

    @on.daemon(KEX, registry=registry)
    async def daemon(spec: Any, patch: Any, stopped: Any, **_: Any) -> None:
        journal(("daemon", dict(spec)))
        patch.status["seen"] = True
        if not any(kind == "again" for kind, _ in journal):
            journal(("again", {}))
            raise TemporaryError("Once more, please.", delay=0)

    async with operate():
        await cluster.create("a", big="x", n=0)
        await cluster.sandbox.wait(KEX, "a", jsonpath="{.spec.n}", value=2)
        await journal.until(lambda calls: [kind for kind, _ in calls].count("daemon") == 2)
    assert [spec for _, spec in journal if "big" in spec] == []
    assert (await cluster.get("a"))["spec"] == {"big": "x", "n": 2}


async def test_o_a_new_transform_is_not_a_change_of_objects(
    cluster, operate, registry, settings, journal
):
    @on.create(KEX, registry=registry)
    @on.update(KEX, registry=registry)
    async def fn(reason: Any, diff: Any, name: str, **_: Any) -> None:
        journal((str(reason), name, [(op, field) for op, field, _, _ in diff if field]))

    async with operate():
        await cluster.create("a", big="x", n=1)
        await journal.until(lambda calls: calls)
        await cluster.sandbox.wait(
            KEX,
            "a",
            jsonpath=r"{.metadata.annotations.kopf\.zalando\.org/last-handled-configuration}",
        )
    journal.clear()
    settings.watching.transforms[KEX] = drop_big
    async with operate():
        await cluster.patch("a", big="y")  # it is not seen
        await cluster.create("b", n=1)
        await journal.until(lambda calls: calls)
        await cluster.patch("a", n=2)
        await journal.until(lambda calls: len(calls) == 2)
    assert [*journal] == [
        ("create", "b", []),
        ("update", "a", [("change", ("spec", "n"))]),
    ]


def reshape(body: Any) -> None:
    """It cannot be applied to its own result: the field ``items`` is not there anymore."""
    items = body.get("spec", {}).get("items", [])
    body["spec"] = {"names": [item["name"] for item in items]}


async def test_o_a_transform_that_reshapes_objects_makes_no_false_changes(
    cluster, operate, registry, settings, journal
):
    @on.create(KEX, registry=registry)
    @on.update(KEX, registry=registry)
    async def fn(reason: Any, diff: Any, name: str, **_: Any) -> None:
        journal((str(reason), name, [field for _, field, _, _ in diff if field]))

    async def label(name: str, value: str) -> None:
        await cluster.sandbox.patch(KEX, name, {"metadata": {"labels": {"x": value}}})

    await cluster.create("a", items=[{"name": "one"}])
    async with operate():
        await cluster.sandbox.wait(KEX, "a", jsonpath=HANDLED)
        await label("a", "1")
        await journal.until(lambda calls: len(calls) == 2)
    journal.clear()
    settings.watching.transforms[KEX] = reshape
    async with operate():
        await cluster.create("b", items=[{"name": "two"}])
        await cluster.sandbox.wait(KEX, "b", jsonpath=HANDLED)
        assert [*journal] == [("create", "b", [])]
        await label("b", "1")
        await journal.until(lambda calls: len(calls) == 2)
        await label("b", "2")
        await journal.until(lambda calls: len(calls) == 3)
        await cluster.patch("b", items=[{"name": "other"}])
        await journal.until(lambda calls: len(calls) == 4)
    assert [*journal] == [
        ("create", "b", []),
        ("update", "b", [("metadata",)]),
        ("update", "b", [("metadata", "labels", "x")]),
        ("update", "b", [("spec", "names")]),
    ]


async def test_o_the_marks_of_the_framework_survive_all_transforms(
    cluster, operate, registry, settings, journal
):
    """The identity, the finalizers, and the annotations of Kopf are kept, whatever is dropped."""
    settings.watching.transforms[KEX] = lambda body: {"spec": body.get("spec")}

    @on.create(KEX, registry=registry)
    @on.delete(KEX, registry=registry)
    async def fn(reason: Any, name: str, meta: Any, **_: Any) -> None:
        journal((str(reason), name, meta.namespace, [*meta.labels], [*meta.annotations]))

    await cluster.create("a")
    body = {"metadata": {"labels": {"x": "y"}, "annotations": {"x": "y"}, "finalizers": ["o/f"]}}
    await cluster.sandbox.patch(KEX, "a", body)
    for _ in range(2):
        async with operate():
            await cluster.sandbox.wait(
                KEX,
                "a",
                jsonpath=r"{.metadata.annotations.kopf\.zalando\.org/last-handled-configuration}",
            )
    assert [*journal] == [("create", "a", "default", [], [])]
    async with operate():
        await cluster.delete("a")
        await journal.until(lambda calls: len(calls) == 2)
        await cluster.sandbox.wait(KEX, "a", jsonpath="{.metadata.finalizers[0]}", value="o/f")
    left = await cluster.get("a")
    assert left["metadata"]["finalizers"] == ["o/f"]
    assert left["metadata"]["labels"] == {"x": "y"}
    assert left["metadata"]["annotations"]["x"] == "y"


async def test_o_functions_of_patches_get_whole_objects_so_that_nothing_is_lost(
    cluster, operate, registry, settings, journal
):
    settings.watching.transforms[KEX] = lambda body: {**body, "spec": {}}

    def add(body: Any) -> None:
        body["spec"]["sum"] = body["spec"]["n"] + 1

    @on.create(KEX, registry=registry)
    async def create(patch: Any, **_: Any) -> None:
        patch.fns.append(add)

    @on.timer(KEX, registry=registry, interval=3600)
    async def timer(patch: Any, **_: Any) -> None:
        patch.fns.append(lambda body: body["spec"].update(timed=body["spec"]["n"]))

    async with operate():
        await cluster.create("a", n=1)
        await cluster.sandbox.wait(KEX, "a", jsonpath="{.spec.sum}", value=2)
        await cluster.sandbox.wait(KEX, "a", jsonpath="{.spec.timed}", value=1)
    assert (await cluster.get("a"))["spec"] == {"n": 1, "sum": 2, "timed": 1}


async def test_o_objects_for_which_the_transform_fails_are_kept_away_and_told_of(
    cluster, operate, registry, settings, journal, logged
):
    def fail(body: Any) -> None:
        if body["spec"].get("bad"):
            raise ValueError("no way")

    settings.watching.transforms[KEX] = fail

    @on.event(KEX, registry=registry)
    async def see(type: Any, name: str, **_: Any) -> None:
        journal((type, name))

    await cluster.create("a", bad=1)
    await cluster.create("good")
    async with operate():
        await journal.until(lambda calls: (None, "good") in calls)
        await cluster.create("b", bad=1)
        await cluster.create("c")
        await journal.until(lambda calls: ("ADDED", "c") in calls)
        await cluster.patch("c", bad=1)
        await cluster.delete("c")
        await journal.until(lambda calls: ("DELETED", "c") in calls)
    assert [*journal] == [(None, "good"), ("ADDED", "c"), ("DELETED", "c")]
    warned = [text for text in logged(logging.WARNING) if "transform has failed" in text]
    assert [text.rpartition("/")[2] for text in warned] == ["a.", "b.", "c."]
    assert "ValueError: no way" in warned[0]


async def test_o_what_reconcilers_own_is_whole_and_what_they_relate_to_is_in_the_form(
    cluster, operate, registry, settings, journal
):
    settings.watching.transforms["configmaps"] = lambda body: {**body, "data": {}}
    settings.watching.transforms["secrets"] = lambda body: {**body, "data": {"kept": "eA=="}}

    @on.reconcile(KEX, owns=["configmaps"], related={"secrets": "spec.secret"}, registry=registry)
    def reconcile(name: str, related: Any, children: Any, **_: Any) -> Any:
        secrets = {key: dict(one["data"]) for key, one in related["Secret"].items()}
        made = {key: dict(one["data"]) for key, one in children["ConfigMap"].items()}
        journal((secrets, made))
        yield {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name},
            "data": {"n": "1"},
        }

    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}
    await cluster.client.post(
        "/api/v1/namespaces/default/secrets", {**secret, "data": {"dropped": "eA=="}}
    )
    async with operate():
        await cluster.create("a", secret="s")
        await cluster.sandbox.wait("configmaps", "a", jsonpath="{.data.n}", value="1")
    since = len(journal)
    async with operate():
        await journal.until(lambda calls: len(calls) > since)
    assert {str(secrets) for secrets, _ in journal} == {str({"s": {"kept": "eA=="}})}
    assert journal[since][1] == {"a": {"n": "1"}}


@pytest.mark.parametrize("value", [None, 1, "secrets"])
def test_o_transforms_are_a_mapping_of_resources(settings, value) -> None:
    with pytest.raises(ValueError, match=r"settings\.watching\.transforms must be a mapping"):
        settings.watching.transforms = value
