import collections
import datetime
import json
import math
import random
import types
import uuid

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kopf_cogs.helpers import jsons

BIG = 2**64


@pytest.fixture(params=["orjson", "stdlib"])
def _parser(request, monkeypatch):
    if request.param == "stdlib":
        monkeypatch.setattr(jsons, "orjson", None)
    elif jsons.orjson is None:
        pytest.skip("orjson is not installed")


@pytest.mark.usefixtures("_parser")
class TestBoth:
    """Everything is the same whatever is installed."""

    @pytest.mark.parametrize(
        ("data", "expected"),
        [
            (b"null", None),
            (
                b' {"a": [1, 2.5, "\xd0\xb9", true, false, null]} ',
                {"a": [1, 2.5, "й", True, False, None]},
            ),
            ('{"a": "й"}', {"a": "й"}),
            (b'"\\ud83d\\ude00"', "😀"),
            (b'{"a":1,"a":2}', {"a": 2}),
            (b"Infinity", math.inf),
            (b'"\\ud800"', "\ud800"),
            (b"18446744073709551615", BIG - 1),
            (b"1e5", 100000.0),
            (b"-0", 0),
            (bytearray(b"[1]"), [1]),
        ],
    )
    def test_loads(self, data, expected):
        assert jsons.loads(data) == expected

    def test_nans_are_loaded(self):
        assert math.isnan(jsons.loads(b"[NaN]")[0])

    @pytest.mark.parametrize(
        "data",
        [
            b"",
            b" ",
            b"{",
            b"{} {}",
            b"<html>",
            b'{"a": "\xff"}',
            b"{'a': 1}",
            b'"\xed\xa0',
            b"[1,]",
            b'{"a": \x00}',
            "\ufeff{}",
            b"1" * 5000 + b"x",
        ],
    )
    def test_garbage(self, data):
        with pytest.raises(ValueError):
            jsons.loads(data)

    @pytest.mark.parametrize("brackets", ["[]", "{}"])
    @pytest.mark.parametrize("depth", [1100, 10_000, 100_000])
    def test_a9_depth_bombs(self, brackets, depth):
        opening = "[" if brackets == "[]" else '{"a":'
        data = opening * depth + "1" + brackets[1] * depth
        with pytest.raises(jsons.TooDeepError):
            jsons.loads(data.encode())

    def test_brackets_in_strings_are_not_depth(self):
        data = json.dumps({"a": '["\\' * 5000, "b": ["]" * 5000, "{" * 5000]}).encode()
        assert jsons.loads(data)["b"][0] == "]" * 5000

    def test_many_brackets_are_not_depth(self):
        assert len(jsons.loads(b"[" + b"[],{}," * 5000 + b"1]")) == 10_001

    @pytest.mark.parametrize(
        ("obj", "expected"),
        [
            (None, b"null"),
            ({"a": [1, 2.5, "й", True, None]}, '{"a":[1,2.5,"й",true,null]}'.encode()),
            ((1, 2), b"[1,2]"),
            ({}, b"{}"),
            ({1: 2}, b'{"1":2}'),
            (BIG * 10, b"184467440737095516160"),
            ("\ud800", b'"\\ud800"'),
            (collections.OrderedDict(a=1), b'{"a":1}'),
            (types.MappingProxyType({"a": {"b": None}}), b'{"a":{"b":null}}'),
            ({"a": types.MappingProxyType({})}, b'{"a":{}}'),
            (collections.namedtuple("X", "a b")(1, 2), b"[1,2]"),
        ],
    )
    def test_dumps(self, obj, expected):
        assert jsons.dumps(obj) == expected

    def test_dumps_with_sorted_keys(self):
        obj = {"b": [{"d": 1, "c": None}], "a": types.MappingProxyType({"й": 2, "z": 3})}
        expected = '{"a":{"z":3,"й":2},"b":[{"c":null,"d":1}]}'.encode()
        assert jsons.dumps(obj, sort_keys=True) == expected

    @pytest.mark.parametrize(
        "obj",
        [
            math.nan,
            {"a": [math.inf]},
            {"a": None, "b": (1, -math.inf)},
            datetime.datetime(2020, 1, 1),
            b"bytes",
            {1, 2},
            object(),
            uuid,
            {"a": datetime.date(2020, 1, 1)},
            (x for x in []),
        ],
    )
    def test_c13_not_json(self, obj):
        with pytest.raises((TypeError, ValueError)):
            jsons.dumps(obj)

    def test_circular_structures(self):
        obj = {}
        obj["a"] = obj
        with pytest.raises((TypeError, ValueError)):
            jsons.dumps(obj)

    def test_dict_subclasses(self):
        class Sub(dict):
            pass

        assert jsons.dumps(Sub(a=Sub())) == b'{"a":{}}'


documents = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), BIG - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda children: st.lists(children) | st.dictionaries(st.text(), children),
    max_leaves=20,
)


@settings(deadline=None, max_examples=25)
@given(documents)
def test_roundtrips(doc):
    assert jsons.loads(jsons.dumps(doc)) == doc
    assert json.loads(jsons.dumps(doc)) == doc
    assert jsons.loads(json.dumps(doc)) == doc


@pytest.mark.parametrize("seed", range(5))
def test_depth_is_measured_as_parsers_see_it(seed, monkeypatch):
    rng = random.Random(seed)

    def make(depth):
        if depth == 0:
            return rng.choice(['"]', "{", '\\"[', "x"])
        rest = [rng.choice(["[", '"{', "\\"]) for _ in range(rng.randrange(3))]
        return {"k[": make(depth - 1), "r": rest} if rng.random() < 0.5 else [make(depth - 1), rest]

    data = json.dumps([make(300), "[]" * 2000]).encode()
    monkeypatch.setattr(jsons, "MAX_DEPTH", 300)
    assert jsons._is_deep(data)
    monkeypatch.setattr(jsons, "MAX_DEPTH", 302)
    assert not jsons._is_deep(data)


@pytest.mark.parametrize("depth", [257, 500, 990])
@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")])
def test_r22_documents_are_too_deep_before_the_stack_ends(depth, opening, closing):
    with pytest.raises(jsons.TooDeepError):
        jsons.loads(opening * depth + b"1" + closing * depth)
    assert jsons.loads(opening * 256 + b"1" + closing * 256)


def test_documents_take_no_more_memory_than_they_need():
    """Some versions of orjson leave kilobytes with each, and thousands of requests can wait."""
    tracemalloc = pytest.importorskip("tracemalloc")  # not in PyPy
    obj = {"key": "x" * 1100}
    jsons.dumps(obj)
    tracemalloc.start()
    try:
        documents = [jsons.dumps(obj) for _ in range(100)]
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken < 2 * sum(map(len, documents))
