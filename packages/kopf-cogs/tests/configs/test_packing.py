"""Smaller forms of the last handled state: digests and compressed JSON."""

import json
import random
from typing import Any

import pytest

from kopf_cogs.configs.diffbase import AnnotationsDiffBaseStorage, StatusDiffBaseStorage
from kopf_cogs.configs.digests import DigestDiffBaseStorage
from kopf_cogs.configs.packing import COMPRESSED, DIGESTS, Digests
from kopf_cogs.structs.bodies import Body
from kopf_cogs.structs.dicts import resolve
from kopf_cogs.structs.diffs import diff
from kopf_cogs.structs.patches import Patch

KEY = "kopf.zalando.org/last-handled-configuration"
SPEC = {"a": 1, "b": {"c": [1, 2], "d": {"e": "f"}}, "big": "x" * 1000}


def make_body(annotations: Any = None, **spec: Any) -> Body:
    metadata = {"name": "n", "uid": "u", "labels": {"l": "1"}, "annotations": annotations or {}}
    return Body({"metadata": metadata, "spec": SPEC | spec, "rules": [{"x": 1}]})


def store(storage: Any, body: Body, fields: Any = ()) -> str:
    patch = Patch()
    essence = storage.build(body=body, extra_fields=fields)
    storage.store(body=body, patch=patch, essence=essence)
    text = patch.metadata.annotations[KEY]
    assert isinstance(text, str)
    return text


def read(storage: Any, text: str, body: dict[str, Any], fields: Any = ()) -> tuple[Any, Any]:
    """The former state and the current one, as they are compared."""
    body = json.loads(json.dumps(body))
    body["metadata"]["annotations"][KEY] = text
    new = storage.build(body=Body(body), extra_fields=fields)
    old = storage.fetch(body=Body(body))
    if isinstance(old, Digests):
        old = old.reveal(new)
    return old, new


def compare(storage: Any, text: str, body: dict[str, Any], fields: Any = ()) -> set[Any]:
    """The fields that have changed since that text was stored."""
    return {item.field for item in diff(*read(storage, text, body, fields))}


def raw(**spec: Any) -> dict[str, Any]:
    return json.loads(json.dumps(make_body(**spec), default=dict))  # type: ignore[no-any-return]


def test_digests_are_small_and_tell_what_has_changed() -> None:
    storage = DigestDiffBaseStorage()
    text = store(storage, make_body())
    assert len(text) < 300
    assert "xxx" not in text
    assert compare(storage, text, raw()) == set()
    assert {field[0] for field in compare(storage, text, raw(a=2))} == {"spec"}
    changed = raw()
    changed["metadata"]["labels"]["l"] = "2"
    assert {field[:2] for field in compare(storage, text, changed)} == {("metadata", "labels")}
    changed = raw()
    changed["rules"] = [{"x": 2}]
    assert compare(storage, text, changed) == {("rules",)}
    del changed["rules"]
    assert compare(storage, text, changed) == {("rules",)}
    assert compare(storage, text, raw() | {"new": 1}) == {("new",)}


def test_fields_with_handlers_have_digests_of_their_own() -> None:
    fields = [("spec", "b", "d"), ("spec", "z", "y")]
    storage = DigestDiffBaseStorage()
    text = store(storage, make_body(), fields)

    def changes(**spec: Any) -> set[str]:
        old, new = read(storage, text, raw(**spec), fields)
        return {".".join(f) for f in fields if resolve(old, f, None) != resolve(new, f, None)}

    assert changes() == changes(a=2) == changes(b={"c": [], "d": {"e": "f"}}) == set()
    assert changes(b={"c": [1, 2], "d": {"e": "g"}}) == {"spec.b.d"}
    assert changes(z={"y": 1}) == {"spec.z.y"}
    assert changes(b={"c": [1, 2]}) == changes(b=1) == {"spec.b.d"}
    assert changes(z=1) == set()


def test_nothing_changes_when_only_known_fields_are_left() -> None:
    """The rest of the stanza is removed: this is a change, too."""
    fields = [("spec", "a")]
    storage = DigestDiffBaseStorage()
    text = store(storage, make_body(), fields)
    changed = raw()
    changed["spec"] = {"a": 1}
    assert {field[0] for field in compare(storage, text, changed, fields)} == {"spec"}


@pytest.mark.parametrize("spec", [{}, {"a": 2}])
def test_all_forms_are_read_whatever_the_storage_is(spec: Any) -> None:
    storages = [
        AnnotationsDiffBaseStorage(),
        AnnotationsDiffBaseStorage(compress_above=10),
        DigestDiffBaseStorage(),
    ]
    for text in [store(storage, make_body()) for storage in storages]:
        for storage in storages:
            found = {field[0] for field in compare(storage, text, raw(**spec))}
            assert found == ({"spec"} if spec else set())


def test_large_states_are_compressed_where_it_shrinks() -> None:
    storage = AnnotationsDiffBaseStorage(compress_above=2000)
    assert COMPRESSED not in store(storage, make_body())
    assert len(store(storage, make_body(big="x" * 10000))) < 1000
    noise = random.Random(0).randbytes(3000).hex() + "".join(map(chr, range(32, 10000)))
    assert json.loads(store(storage, make_body(big=noise)))
    assert compare(storage, store(storage, make_body(big=noise)), raw(big=noise)) == set()
    assert AnnotationsDiffBaseStorage().compress_above == 240 * 1024
    off = AnnotationsDiffBaseStorage(compress_above=None)
    assert len(store(off, make_body(big="x" * 200_000))) > 200_000


@pytest.mark.parametrize("packed", ["", "%%%", "AAAA", "eJw=", 1, None])
def test_broken_data_are_ignored_with_a_warning(
    packed: Any, caplog: pytest.LogCaptureFixture
) -> None:
    text = json.dumps({COMPRESSED: packed})
    assert AnnotationsDiffBaseStorage().fetch(body=make_body({KEY: text})) is None
    assert len(caplog.records) == 1


@pytest.mark.parametrize("items", [[], [1], [[["spec"], 1]], [[[], "x"]], [["spec", "x"]], None])
def test_broken_digests_are_changes(items: Any) -> None:
    text = json.dumps({DIGESTS: items})
    assert compare(AnnotationsDiffBaseStorage(), text, raw())


def test_equal_values_of_different_objects_have_different_digests() -> None:
    one, two = make_body(), raw()
    two["metadata"]["uid"] = "v"
    assert store(DigestDiffBaseStorage(), one) != store(DigestDiffBaseStorage(), Body(two))


def test_digests_are_read_in_the_status_too() -> None:
    text = store(DigestDiffBaseStorage(), make_body())
    body = raw() | {"status": {"kopf": {"last-handled-configuration": text}}}
    storage = StatusDiffBaseStorage()
    old = storage.fetch(body=Body(body))
    assert isinstance(old, Digests)
    assert old.reveal(storage.build(body=Body(body))) == storage.build(body=Body(body))
