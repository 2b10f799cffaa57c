"""What is kept on objects, and where: all storages in a whole operator, and moving between them."""

from __future__ import annotations

import json

import pytest

from e2e.tests.harness import GROUP, LAST_HANDLED, get_essence
from kopf_cogs.configs.diffbase import (
    AnnotationsDiffBaseStorage,
    HashingDiffBaseStorage,
    MultiDiffBaseStorage,
    StatusDiffBaseStorage,
)
from kopf_cogs.configs.digests import DigestDiffBaseStorage
from kopf_cogs.configs.progress import (
    AnnotationsProgressStorage,
    MultiProgressStorage,
    SmartProgressStorage,
    StatusProgressStorage,
)
from kopf_core.actions.errors import TemporaryError
from kopf_core.intents import decorators as on

KEX = (GROUP, "kexes")

PROGRESS = {
    "annotations": AnnotationsProgressStorage,
    "annotations-verbose": lambda: AnnotationsProgressStorage(prefix="x.example.com", verbose=True),
    "annotations-v2": lambda: AnnotationsProgressStorage(prefix="my.example.com", v1=False),
    "status": StatusProgressStorage,
    "status-field": lambda: StatusProgressStorage(field="status.my.progress"),
    "multi": lambda: MultiProgressStorage(
        [AnnotationsProgressStorage(prefix="my.example.com"), StatusProgressStorage(name="my")]
    ),
    "smart": SmartProgressStorage,
}
DIFFBASE = {
    "annotations": AnnotationsDiffBaseStorage,
    "annotations-key": lambda: AnnotationsDiffBaseStorage(prefix="my.example.com", key="known"),
    "status": StatusDiffBaseStorage,
    "status-field": lambda: StatusDiffBaseStorage(field="status.my.known"),
    "multi": lambda: MultiDiffBaseStorage([StatusDiffBaseStorage(), AnnotationsDiffBaseStorage()]),
    "compressed": lambda: AnnotationsDiffBaseStorage(compress_above=1),
    "hashing": lambda: HashingDiffBaseStorage(hashed_fields=["spec.secret"]),
}


@pytest.mark.docs("configuration/progress")
@pytest.mark.parametrize("plural", ["kexes", "subs"])
@pytest.mark.parametrize("kind", PROGRESS)
async def test_progress_is_kept_in_any_storage(world, kind, plural):
    """Between the attempts, and between the operators; there is nothing left in the end."""
    world.plural = plural
    world.settings.persistence.progress_storage = PROGRESS[kind]()

    @on.create(GROUP, plural, id="a", registry=world.registry)
    def a(**_):
        world.calls("a")

    @on.create(GROUP, plural, id="b", registry=world.registry)
    def b(retry, **_):
        world.calls(("b", retry))
        if retry < 3:
            raise TemporaryError("not yet", delay=60 if retry == 1 else 0)

    async with world.operator():
        await world.create({"n": 1})
        await world.until(lambda obj: '"retries":2' in get_records(obj))
    await skip_delays(world, await world.get())  # by now, it is in all the places
    async with world.operator():
        await world.until(lambda obj: get_essence(obj) is not None and not get_records(obj))
    assert world.calls == ["a", ("b", 0), ("b", 1), ("b", 2), ("b", 3)]


def get_records(obj):
    """Everything on the object that looks like the progress of handlers, wherever it is."""
    places = [obj["metadata"].get("annotations") or {}, obj.get("status") or {}]
    text = json.dumps(places).replace("\\", "").replace(" ", "")
    return text if '"retries"' in text else ""


async def skip_delays(world, obj):
    """Make the delayed handlers due, wherever their states are."""
    annotations = {
        key: value.replace('"delayed":"20', '"delayed":"19')
        for key, value in (obj["metadata"].get("annotations") or {}).items()
        if '"delayed"' in value
    }
    if annotations:
        await world.patch({"metadata": {"annotations": annotations}})
    if "delayed" in json.dumps(obj.get("status") or {}):
        text = json.dumps(obj["status"]).replace('"delayed": "20', '"delayed": "19')
        path = (
            f"{world.path(obj['metadata']['name'])}/status"
            if world.plural == "subs"
            else (world.path(obj["metadata"]["name"]))
        )
        type = "application/merge-patch+json"
        await world.request("PATCH", path, {"status": json.loads(text)}, type)


@pytest.mark.docs("configuration/diffbase")
@pytest.mark.parametrize("plural", ["kexes", "subs"])
@pytest.mark.parametrize("kind", DIFFBASE)
async def test_changes_are_detected_with_any_storage(world, kind, plural):
    """Also those made when there was no operator."""
    world.plural = plural
    world.settings.persistence.diffbase_storage = DIFFBASE[kind]()

    @on.create(GROUP, plural, id="fn", registry=world.registry)
    @on.update(GROUP, plural, id="fn", registry=world.registry)
    def fn(reason, diff, **_):
        changes = [(item.op, item.field) for item in diff]
        world.calls((str(reason), changes if reason == "update" else None))

    async with world.operator():
        await world.create({"n": 1, "secret": "x"})
        await world.calls.until(lambda calls: calls == [("create", None)])
        await world.patch({"spec": {"n": 2}})
        await world.calls.until(lambda calls: len(calls) == 2)
    await world.patch({"spec": {"secret": "y"}})
    async with world.operator():
        await world.calls.until(lambda calls: len(calls) == 3)
    assert world.calls == [
        ("create", None),
        ("update", [("change", ("spec", "n"))]),
        ("update", [("change", ("spec", "secret"))]),
    ]


@pytest.mark.docs("configuration/diffbase")
async def test_ignored_fields_are_not_changes(world):
    world.settings.persistence.diffbase_storage = AnnotationsDiffBaseStorage(
        ignored_fields=["spec.ignored"]
    )

    @on.update(*KEX, id="fn", registry=world.registry)
    def fn(spec, old, new, **_):
        world.calls((spec["ignored"], old["spec"], new["spec"]))

    async with world.operator():
        await world.create({"n": 1, "ignored": 1})
        await world.until_handled(spec={"n": 1})
        await world.patch({"spec": {"ignored": 2}})
        await world.patch({"spec": {"n": 2}})
        await world.until_handled(spec={"n": 2})
    assert world.calls == [(2, {"n": 1}, {"n": 2})]


@pytest.mark.docs("configuration/diffbase")
async def test_storages_are_replaced_with_no_new_creations(world):
    """The old one, then both, then the new one: there are only updates in between."""
    old, new = AnnotationsDiffBaseStorage(), StatusDiffBaseStorage(field="status.my.known")

    @on.create(*KEX, id="fn", registry=world.registry)
    @on.update(*KEX, id="fn", registry=world.registry)
    def fn(reason, spec, **_):
        world.calls((str(reason), spec["n"]))

    await world.create({"n": 1})
    for number, storage in enumerate([old, MultiDiffBaseStorage([new, old]), new], start=1):
        world.settings.persistence.diffbase_storage = storage
        async with world.operator():
            await world.patch({"spec": {"n": number}})
            await world.calls.until(lambda calls, number=number: len(calls) == number)
    assert world.calls == [("create", 1), ("update", 2), ("update", 3)]


@pytest.mark.docs("configuration/diffbase")
async def test_digests_are_switched_on_and_off_with_no_calls(world):
    full, digests = AnnotationsDiffBaseStorage(), DigestDiffBaseStorage()
    packed = AnnotationsDiffBaseStorage(compress_above=1)

    @on.create(*KEX, id="fn", registry=world.registry)
    @on.update(*KEX, id="fn", registry=world.registry)
    def fn(reason, spec, **_):
        world.calls((str(reason), spec["n"]))

    @on.field(*KEX, id="fd", field="spec.fixed", registry=world.registry)
    def fd(**_):
        world.calls("fixed")

    @on.resume(*KEX, id="re", registry=world.registry)
    def re(**_):
        world.calls("resumed")

    def get_stored(obj):
        return ((obj or {}).get("metadata", {}).get("annotations") or {}).get(LAST_HANDLED)

    await world.create({"n": 0, "fixed": 1, "text": "x" * 1000})
    stored, sizes = None, []
    for number, storage in enumerate([full, digests, packed, digests, full, packed, full]):
        world.settings.persistence.diffbase_storage = storage
        async with world.operator():
            if number:
                await world.calls.until(lambda calls, n=number: calls.count("resumed") == n)
                await world.patch({"spec": {"n": number}})
            obj = await world.until(lambda obj, was=stored: get_stored(obj) not in (was, None))
            stored = get_stored(obj)
            sizes.append(len(stored))
    changes = [call for call in world.calls if isinstance(call, tuple)]
    assert changes == [("create", 0), *(("update", n) for n in range(1, 7))]
    assert world.calls.count("fixed") == 1
    assert [size > 1000 for size in sizes] == [True, False, False, False, True, False, True]


@pytest.mark.docs("configuration/diffbase")
async def test_own_storages_decide_what_is_essential(world):
    class Picky(AnnotationsDiffBaseStorage):
        def build(self, *, body, extra_fields=None):
            essence = super().build(body=body, extra_fields=extra_fields)
            essence["spec"] = {"n": essence["spec"].get("n")}
            return essence

    world.settings.persistence.diffbase_storage = Picky()

    @on.update(*KEX, id="fn", registry=world.registry)
    def fn(old, new, **_):
        world.calls((old, new))

    async with world.operator():
        await world.create({"n": 1, "noise": 1})
        await world.until_handled(spec={"n": 1})
        await world.patch({"spec": {"noise": 2}})
        await world.patch({"spec": {"n": 2}})
        await world.until_handled(spec={"n": 2})
    assert world.calls == [({"spec": {"n": 1}}, {"spec": {"n": 2}})]


@pytest.mark.docs("continuity/persistence")
@pytest.mark.parametrize("place", ["status", "annotations-v1", "annotations-v2"])
async def test_states_of_older_releases_are_continued(world, place):
    """In the status before 1.45; in annotations with names of two kinds since then."""
    id = "a-rather-long-id-of-a-handler-which-is-cut-differently"
    finished = {
        "started": "2020-01-01T00:00:00.000000",
        "stopped": "2020-01-01T00:00:01.000000",
        "retries": 1,
        "success": True,
        "failure": False,
        "purpose": "create",
    }
    prefix = "a-rather-long-prefix.example.com"
    storage = AnnotationsProgressStorage(prefix=prefix)
    key = storage.make_v1_key(id) if place == "annotations-v1" else storage.make_v2_key(id)
    if place == "status":
        await world.create({"n": 1}, status={"kopf": {"progress": {id: finished}}})
    else:
        world.settings.persistence.progress_storage = storage
        await world.create({"n": 1}, metadata={"annotations": {key: json.dumps(finished)}})

    @on.create(*KEX, id=id, registry=world.registry)
    def done(**_):
        world.calls("done before")

    @on.create(*KEX, id="other", registry=world.registry)
    def other(**_):
        world.calls("other")

    async with world.operator():
        obj = await world.until(lambda obj: get_essence(obj) is not None)
    assert world.calls == ["other"]
    assert not [key for key in obj["metadata"]["annotations"] if key != LAST_HANDLED]
    assert not (obj.get("status") or {}).get("kopf", {}).get("progress")
