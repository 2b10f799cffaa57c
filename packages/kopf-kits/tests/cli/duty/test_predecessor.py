"""The commands on objects as Kopf 1.45.2 has left them in the middle of its work.

``predecessor.json`` is what its operator has written in a cluster before it was killed:
a handler with a result, others that succeed, fail in all ways, take long, or have sub-handlers;
and one for deletions.
"""

import json
import pathlib

import pytest

OBJECTS = json.loads(pathlib.Path(__file__).with_name("predecessor.json").read_text())
KOPF = "kopf.zalando.org/"
FINALIZER = f"{KOPF}KopfFinalizerMarker"
OTHER = "example.com/other"

STATES = {
    "arbitrary": ("retried", "second", "something\nunexpected"),
    "changed": ("changed", None, None),
    "deleting": ("retried", "gone", "the backup goes on"),
    "failed": ("handled", None, None),
    "handled": ("handled", None, None),
    "in-progress": ("in progress", "second", None),
    "new": ("unknown", None, None),
    "retried": ("retried", "second", "the database is not there yet"),
    "with-subs": ("retried", "with_subs/spec.subs/sub-1", "part 1 is not there"),
}


@pytest.fixture(autouse=True)
def _objects(world):
    for described in OBJECTS:
        meta = dict(described["metadata"])
        body = {"apiVersion": "kopf.dev/v1", "kind": "KopfExample", **described}
        meta["finalizers"] = [*meta.get("finalizers", ()), OTHER]
        body["metadata"] = {**meta, "namespace": "default"}
        is_deleting = body.pop("isDeleting", False)
        world.call(world.sandbox.create(body))
        if is_deleting:
            world.delete(meta["name"])


def get_unfinished(item):
    """The handlers that are not over, but for those that wait for their sub-handlers."""
    return [
        handler
        for handler in item["handlers"]
        if handler["state"] in ("retried", "started") and not handler["subhandlers"]
    ]


def test_c8_states_and_errors_are_seen(invoke):
    items = json.loads(invoke("objects", "kex", "-o", "json").stdout)["items"]
    found = {item["name"]: (item["state"], None, None) for item in items}
    for item in items:
        for handler in get_unfinished(item):
            found[item["name"]] = (item["state"], handler["id"], handler["error"])
    assert found == STATES


def test_c8_the_table_names_those_who_fail(invoke):
    _, *lines = invoke("objects", "kex").stdout.splitlines()
    found = {line.split()[0]: line for line in lines}
    assert found.keys() == STATES.keys()
    assert max(map(len, lines)) <= 100
    for name, (state, handler, error) in STATES.items():
        assert f" {state} " in f"{found[name]} "
        assert handler is None or f" {handler} " in found[name]
        assert error is None or " ".join(error.split())[:10] in found[name]


def test_c8_one_object_with_subhandlers(invoke):
    text = invoke("object", "kex", "with-subs").stdout
    assert "  with_subs/spec.subs: started\n" in text
    assert "    sub-handlers: with_subs/spec.subs/sub-0, with_subs/spec.subs/sub-1\n" in text
    assert "  with_subs/spec.subs/sub-0: succeeded\n" in text
    assert "  with_subs/spec.subs/sub-1: retried\n" in text
    assert "    error: part 1 is not there\n" in text
    assert "None" not in text


def test_c8_retries_are_due_at_once(invoke):
    result = invoke("retry", "kex", "retried", "with-subs", "deleting", "--yes")
    assert result.exit_code == 0, result.output
    items = json.loads(invoke("objects", "kex", "-o", "json").stdout)["items"]
    due = {
        item["name"]
        for item in items
        if item["state"] == "retried" and not any(h["nextTry"] for h in item["handlers"])
    }
    assert due == {"retried", "with-subs", "deleting"}


def test_c8_forgotten_objects_are_as_new(invoke, world):
    names = [name for name in STATES if name != "deleting"]
    result = invoke("forget", "kex", *names, "--yes")
    assert result.exit_code == 0, result.output
    for name in names:
        assert not [key for key in world.get_annotations(name) if key.startswith(KOPF)]
    items = json.loads(invoke("objects", "kex", "-o", "json").stdout)["items"]
    assert {item["state"] for item in items if item["name"] in names} <= {"unknown", "served"}


def test_c8_nothing_of_ours_holds_what_is_released(invoke, world):
    result = invoke("release", "kex", "--all", "--yes")
    assert result.exit_code == 0, result.output
    for name in STATES:
        assert world.get_finalizers(name) == [OTHER]
