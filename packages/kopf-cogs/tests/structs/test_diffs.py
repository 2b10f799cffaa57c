import pytest

from kopf_cogs.structs.bodies import Body
from kopf_cogs.structs.diffs import EMPTY, Diff, DiffItem, DiffOperation, DiffScope, diff, reduce

ADD, CHANGE, REMOVE = DiffOperation.ADD, DiffOperation.CHANGE, DiffOperation.REMOVE


@pytest.mark.parametrize(
    ("a", "b", "items"),
    [
        (None, None, []),
        ({"x": 1}, {"x": 1}, []),
        ({"x": [1, 2]}, {"x": [1, 2]}, []),
        ({}, {"x": None}, []),
        ({"x": None}, {}, []),
        ({}, {"x": 1}, [("add", ("x",), None, 1)]),
        ({"x": None}, {"x": 1}, [("add", ("x",), None, 1)]),
        ({"x": 1}, {}, [("remove", ("x",), 1, None)]),
        ({"x": 1}, {"x": None}, [("remove", ("x",), 1, None)]),
        ({"x": 1}, {"x": 2}, [("change", ("x",), 1, 2)]),
        ({"x": [1]}, {"x": [2]}, [("change", ("x",), [1], [2])]),
        ({"x": {}}, {"x": 2}, [("change", ("x",), {}, 2)]),
        ({"x": {"y": 1}}, {"x": {"y": 2}}, [("change", ("x", "y"), 1, 2)]),
        ({}, {"x": {"y": 2}}, [("add", ("x",), None, {"y": 2})]),
        (None, {"x": 1}, [("add", (), None, {"x": 1})]),
        ({"x": 1}, None, [("remove", (), {"x": 1}, None)]),
        (
            {"a": 1, "b": 2, "c": 3},
            {"b": 20, "c": 3, "d": 4},
            [("add", ("d",), None, 4), ("remove", ("a",), 1, None), ("change", ("b",), 2, 20)],
        ),
    ],
)
def test_diffs(a, b, items):
    assert diff(a, b) == items


def test_r13_additions_go_first_then_removals_then_changes_at_every_level():
    a = {"z": 1, "y": 2, "x": {"q": 1, "w": 2, "e": 3}}
    b = {"y": 3, "x": {"w": 5, "e": 3, "r": 4}, "n": 1}
    assert diff(a, b) == (
        ("add", ("n",), None, 1),
        ("remove", ("z",), 1, None),
        ("change", ("y",), 2, 3),
        ("add", ("x", "r"), None, 4),
        ("remove", ("x", "q"), 1, None),
        ("change", ("x", "w"), 2, 5),
    )


def test_r35_items_equal_tuples_and_lists_of_their_parts():
    (item,) = diff({"a": 1}, {"a": 2})
    for other in (("change", ("a",), 1, 2), ["change", ("a",), 1, 2], item):
        assert item == other
        assert other == item
        assert (item != other, other != item) == (False, False)
    for other in (("change", ("a",), 1, 3), ["change", ("a",), 1], [], None, "change"):
        assert item != other
        assert other != item
    assert hash(item) == hash(("change", ("a",), 1, 2))


def test_diffs_of_views():
    assert diff(Body({"spec": {"x": 1}}).spec, {"x": 2}) == [("change", ("x",), 1, 2)]


def test_scopes_skip_the_other_side():
    a = {"both": 1, "left": {"x": 1}}
    b = {"both": 2, "right": {"y": 1}}
    assert diff(a, b, scope=DiffScope.LEFT) == [
        ("remove", ("left",), {"x": 1}, None),
        ("change", ("both",), 1, 2),
    ]
    assert diff(a, b, scope=DiffScope.RIGHT) == [
        ("add", ("right",), None, {"y": 1}),
        ("change", ("both",), 1, 2),
    ]


@pytest.mark.parametrize(
    ("path", "items"),
    [
        ((), [("add", ("spec",), None, {"a": {"b": 1}}), ("change", ("status", "x"), 1, 2)]),
        (("spec",), [("add", (), None, {"a": {"b": 1}})]),
        (("spec", "a"), [("add", (), None, {"b": 1})]),
        (("spec", "a", "b"), [("add", (), None, 1)]),
        (("spec", "z"), []),
        (("status",), [("change", ("x",), 1, 2)]),
        (("status", "x"), [("change", (), 1, 2)]),
        (("status", "x", "deeper"), []),
        (("status", "y"), []),
        (("other",), []),
    ],
)
def test_reducing_to_a_field(path, items):
    d = diff({"status": {"x": 1}}, {"spec": {"a": {"b": 1}}, "status": {"x": 2}})
    assert sorted(reduce(d, path)) == sorted(items)


def test_diffs_are_printed_as_tuples():
    d = Diff([DiffItem(ADD, ("spec", "x"), None, 1)])
    assert repr(d) == str(d) == f"{d}" == "(('add', ('spec', 'x'), None, 1),)"
    assert repr(d[0]) == str(d[0]) == "('add', ('spec', 'x'), None, 1)"
    assert repr(EMPTY) == "()"


def test_diffs_are_immutable_sequences():
    item1 = DiffItem(ADD, ("x",), None, 1)
    item2 = DiffItem(REMOVE, ("y",), 2, None)
    d = Diff([item1, item2])
    assert len(d) == 2
    assert list(d) == [item1, item2]
    assert d[0] is item1
    assert d[1:] == Diff([item2])
    assert item2 in d
    assert hash(d) == hash(Diff([item1, item2]))
    assert bool(d)
    assert not EMPTY
    with pytest.raises(TypeError):
        d[0] = item2


def test_diffs_are_equal_to_tuples_and_lists_but_not_others():
    d = Diff([DiffItem(ADD, ("x",), None, 1)])
    assert d == (("add", ("x",), None, 1),)
    assert d == [("add", ("x",), None, 1)]
    assert d != []
    assert d != 5


def test_diffs_accept_plain_tuples():
    item = Diff([("change", ("x",), 1, 2)])[0]
    assert item.op is item.operation is CHANGE
    assert (item.field, item.old, item.new) == (("x",), 1, 2)


def test_operations_are_strings():
    assert DiffOperation.ADD == "add"
    assert f"{DiffOperation.CHANGE}" == "change"
    assert repr(DiffOperation.REMOVE) == "'remove'"
