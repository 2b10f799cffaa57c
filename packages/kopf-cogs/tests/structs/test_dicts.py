import copy
import pickle
import sys

import pytest

from kopf_cogs.structs.dicts import (
    MappingView,
    MutableMappingView,
    ReplaceableMappingView,
    ensure,
    json_copy,
    parse_field,
    remove,
    replace_source,
    resolve,
)


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        (None, ()),
        ("spec", ("spec",)),
        ("spec.field", ("spec", "field")),
        (["spec", "a.b/c"], ("spec", "a.b/c")),
        (("spec", "a.b/c"), ("spec", "a.b/c")),
        ([], ()),
    ],
)
def test_fields_are_parsed(spec, path):
    assert parse_field(spec) == path


def test_fields_of_wrong_types_are_refused():
    with pytest.raises(ValueError, match="must be a string"):
        parse_field(123)


def test_resolving_of_present_fields():
    d = {"a": {"b": {"c": 1}, "n": None}}
    assert resolve(d, ()) is d
    assert resolve(d, ("a", "b", "c")) == 1
    assert resolve(d, ("a", "n")) is None
    assert resolve(d, ("a", "n"), "default") is None


@pytest.mark.parametrize("path", [("x",), ("a", "x"), ("a", "n", "x"), ("a", "s", "x")])
def test_resolving_of_absent_fields_with_defaults(path):
    d = {"a": {"n": None, "s": "text"}}
    assert resolve(d, path, None) is None
    assert resolve(d, path, 123) == 123


def test_resolving_of_absent_fields_with_no_defaults():
    d = {"a": {"n": None, "s": "text"}}
    with pytest.raises(KeyError, match="x"):
        resolve(d, ("a", "x"))
    with pytest.raises(TypeError, match="'x'"):
        resolve(d, ("a", "n", "x"))
    with pytest.raises(TypeError, match="'x'"):
        resolve(d, ("a", "s", "x"))


def test_resolving_of_nothing():
    assert resolve(None, ("x",), None) is None


def test_ensuring_creates_parents_and_keeps_siblings():
    d = {"a": {"z": 9}}
    ensure(d, ("a", "b", "c"), 1)
    assert d == {"a": {"z": 9, "b": {"c": 1}}}


def test_ensuring_fails_on_scalars_on_the_way():
    with pytest.raises(TypeError, match=r"'a\.b' is not a dictionary but 1"):
        ensure({"a": {"b": 1}}, ("a", "b", "c"), 2)


def test_whole_objects_can_be_neither_ensured_nor_removed():
    with pytest.raises(ValueError, match="whole object"):
        ensure({}, (), 1)
    with pytest.raises(ValueError, match="whole object"):
        remove({}, ())


@pytest.mark.parametrize(
    ("d", "path", "result"),
    [
        ({"a": {"b": {"c": 1}}}, ("a", "b", "c"), {}),
        ({"a": {"b": {"c": 1}, "d": 2}}, ("a", "b", "c"), {"a": {"d": 2}}),
        ({"a": {"b": {"c": 1, "x": 3}}}, ("a", "b", "c"), {"a": {"b": {"x": 3}}}),
        ({"a": {"b": 1}}, ("a", "x"), {"a": {"b": 1}}),
        ({"a": {}}, ("a", "x"), {}),
        ({"a": {}, "b": 1}, ("a", "x", "y"), {"b": 1}),
        ({"a": None}, ("a", "x"), {"a": None}),
        ({"a": "text"}, ("a", "x"), {"a": "text"}),
        ({"a": 1}, ("b",), {"a": 1}),
    ],
)
def test_removal_of_fields_and_their_empty_parents(d, path, result):
    remove(d, path)
    assert d == result


def test_json_copies_are_equal_but_share_nothing():
    src = {"a": [1, {"b": None}, (2, 3)], "m": MappingView({"k": {"v": 1}})}
    dst = json_copy(src)
    assert dst == {"a": [1, {"b": None}, [2, 3]], "m": {"k": {"v": 1}}}
    dst["a"][1]["b"] = "changed"
    dst["m"]["k"]["v"] = "changed"
    assert src["a"][1] == {"b": None}
    assert src["m"] == {"k": {"v": 1}}


@pytest.mark.parametrize("part", [..., None, "text", 123, [1]])
def test_views_to_absent_parts_look_empty(part):
    src = {} if part is ... else {"part": part}
    view = MappingView(src, "part.sub")
    assert not view
    assert len(view) == 0
    assert list(view) == []
    assert "x" not in view
    assert view.get("x", "default") == "default"
    assert repr(view) == "{}"
    assert view == {}
    with pytest.raises(KeyError, match="x"):
        view["x"]


def test_views_are_mappings_with_the_content():
    view = MappingView({"part": {"x": 1, "y": 2}}, ("part",))
    assert bool(view)
    assert dict(view) == {**view} == {"x": 1, "y": 2}
    assert list(view.keys()) == ["x", "y"]
    assert list(view.values()) == [1, 2]
    assert list(view.items()) == [("x", 1), ("y", 2)]
    assert str(view) == repr(view) == "{'x': 1, 'y': 2}"
    assert view == {"x": 1, "y": 2}
    assert view == MappingView({"x": 1, "y": 2})
    assert view != {"x": 1}
    assert view != "text"


def test_views_are_live():
    src = {}
    view = MappingView(src, ("a", "b"))
    nested = MappingView(view, ("c",))
    src["a"] = {"b": {"c": {"d": 1}}}
    assert view == {"c": {"d": 1}}
    assert nested == {"d": 1}


def test_views_are_read_only_and_unhashable():
    view = MappingView({"x": 1})
    with pytest.raises(TypeError, match="use the argument `patch`"):
        view["x"] = 2
    with pytest.raises(TypeError, match="use the argument `patch`"):
        del view["x"]
    with pytest.raises(TypeError, match="unhashable"):
        hash(view)
    with pytest.raises(AttributeError):
        view.x = 1


def test_views_are_copied_and_pickled():
    view = MappingView({"a": {"x": [1]}}, ("a",))
    for copied in [copy.copy(view), copy.deepcopy(view), pickle.loads(pickle.dumps(view))]:
        assert copied == {"x": [1]}
    assert copy.deepcopy(view)["x"] is not view["x"]


@pytest.mark.skipif(sys.implementation.name != "cpython", reason="no counters of references")
def test_views_make_no_reference_cycles():
    import gc
    import weakref

    class Source(dict):
        pass

    src = Source(a={"x": 1})
    ref = weakref.ref(src)
    gc.disable()
    try:
        view = ReplaceableMappingView(src)
        nested = MappingView(view, ("a",))
        assert nested == {"x": 1}
        del src, view, nested
        assert ref() is None
    finally:
        gc.enable()


def test_replacing_of_the_source_is_seen_in_all_views():
    view1 = ReplaceableMappingView({"a": {"x": 1}})
    view2 = ReplaceableMappingView({"a": {"x": 2}})
    nested = MappingView(view1, ("a",))
    replace_source(view1, {"a": {"x": 3}})
    assert nested == {"x": 3}
    replace_source(view1, view2)
    assert nested == {"x": 2}


def test_mutable_views_create_parents_only_on_writing():
    src = {}
    view = MutableMappingView(src, ("a", "b"))
    assert view.get("x") is None
    assert src == {}
    view["x"] = 1
    view.setdefault("y", {})["z"] = 2
    view.update(w=3)
    assert src == {"a": {"b": {"x": 1, "y": {"z": 2}, "w": 3}}}


def test_mutable_views_delete_keys():
    src = {"a": {"x": 1, "y": 2}}
    view = MutableMappingView(src, ("a",))
    del view["x"]
    assert src == {"a": {"y": 2}}
    assert view.pop("y") == 2
    with pytest.raises(KeyError, match="x"):
        del view["x"]
    with pytest.raises(KeyError, match="x"):
        del MutableMappingView({}, ("a",))["x"]
