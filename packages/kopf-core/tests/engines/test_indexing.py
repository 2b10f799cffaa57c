"""Indices: what functions return, in the form in which handlers see it."""

import asyncio
import collections
import contextlib
import datetime
import logging
import threading

import pytest
from idleness import until
from virtual_time import timeless

from kopf_cogs.structs.memos import Memo
from kopf_core.actions.errors import ErrorsMode, PermanentError, TemporaryError
from kopf_core.actions.execution import Execution
from kopf_core.actions.lifecycles import all_at_once
from kopf_core.engines import indexing
from kopf_core.engines.indexing import ResourceIndexer
from kopf_core.engines.memories import ObjectMemories
from kopf_core.intents.decorators import index
from kopf_core.intents.indices import Index, Indices, Store


class Garden:
    """One resource with its indices."""

    def __init__(self, settings, resource, registry, clock, make_body):
        self.registry, self.clock, self.make_body = registry, clock, make_body
        self.memories = ObjectMemories(Memo())
        self.execution = Execution(
            settings=settings, lifecycle=all_at_once, errors=ErrorsMode.IGNORED, clock=clock
        )
        self.resource = resource
        self.indices = None
        self.indexer = None

    def index(self, **kwargs):
        return index("kopfexamples", registry=self.registry, **{"id": "idx"} | kwargs)

    async def see(self, uid="uid1", type="MODIFIED", **kwargs):
        """Let the indexer see the object in this state; get the index."""
        if self.indexer is None:
            self.indices = Indices(self.registry.index_ids)
            handlers = self.registry.get_resource_handlers(self.resource)
            self.indexer = ResourceIndexer(
                resource=self.resource,
                handlers=handlers.indexing,
                indices=self.indices,
                memories=self.memories,
                execution=self.execution,
            )
        body = self.make_body(uid=uid, **kwargs)
        await self.indexer.index(uid, {"type": type, "object": body})
        return self.indices["idx"]


@pytest.fixture
def garden(settings, resource, registry, clock, make_body):
    return Garden(settings, resource, registry, clock, make_body)


def dump(idx):
    return {key: list(store) for key, store in idx.items()}


@timeless
async def test_k4_index_functions_that_ignore_their_cancellation_are_named(garden, logged):
    @garden.index()
    async def idx(name, **_):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(4 if name == "slow" else 3600)

    for name in ("slow", "deaf"):
        await garden.see(name, name=name)
        await asyncio.sleep(10)
    assert [text for text in logged(logging.WARNING) if "ignores" in text] == [
        "Indexer 'idx' ignores its cancellation: it still works 5 seconds after that."
    ]


@timeless
async def test_k4_objects_on_which_functions_hang_hold_their_kind_for_less_each_time(garden):
    @garden.index()
    async def idx(name, **_):
        await asyncio.sleep(3600 if name == "bad" else 0)

    async def measure(name, **kwargs):
        began = asyncio.get_running_loop().time()
        await garden.see(name, name=name, **kwargs)
        return asyncio.get_running_loop().time() - began

    held = []
    for _ in range(10):
        held += [await measure("bad"), await measure("good")]
    assert held[::2] == pytest.approx([10, 5, 2.5, 1.25, 0.625, 0.3125, 0.15625, 0.1, 0.1, 0.1])
    assert held[1::2] == [0] * 10
    await measure("bad", type="DELETED")
    assert await measure("bad") == pytest.approx(10)  # it is another object


@timeless
async def test_k4_one_call_of_a_function_runs_for_an_object_and_newer_states_wait(garden):
    gate, calls = asyncio.Event(), []

    @garden.index()
    async def idx(name, spec, **_):
        calls.append((name, spec["n"]))
        while name == "deaf" and not gate.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await gate.wait()
        return {name: spec["n"]}

    for n in range(5):
        await garden.see("deaf", name="deaf", spec={"n": n})
        seen = await garden.see("good", name="good", spec={"n": n})
        assert dump(seen) == {"good": [n]}
    assert [call for call in calls if call[0] == "deaf"] == [("deaf", 0)]
    gate.set()
    await asyncio.sleep(1)
    assert [call for call in calls if call[0] == "deaf"] == [("deaf", 0), ("deaf", 4)]
    assert dump(seen) == {"good": [4], "deaf": [4]}


@timeless
@pytest.mark.parametrize("is_cleared", [False, True])
async def test_k4_states_that_wait_are_forgotten_with_their_objects(garden, is_cleared):
    gate = asyncio.Event()

    @garden.index()
    async def idx(spec, **_):
        while not gate.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await gate.wait()
        return spec["n"]

    for n in range(2):
        await garden.see(spec={"n": n})
    garden.indexer.clear() if is_cleared else await garden.see(type="DELETED", spec={"n": 2})
    gate.set()
    await asyncio.sleep(1)
    assert dump(garden.indices["idx"]) == {}


async def test_k4_one_thread_at_a_time_runs_a_function_for_an_object(garden, monkeypatch):
    monkeypatch.setattr(indexing, "PATIENCE", 0.01)
    monkeypatch.setattr(indexing, "IMPATIENCE", 0.01)
    gate, calls = threading.Event(), []

    @garden.index()
    def idx(spec, **_):
        calls.append(spec["n"])
        gate.wait(60)
        return spec["n"]

    try:
        while not calls:  # the thread can begin late
            await garden.see(spec={"n": 0})
        for n in range(1, 5):
            seen = await garden.see(spec={"n": n})
        assert calls == [0]
        monkeypatch.setattr(indexing, "PATIENCE", 60)
    finally:
        gate.set()
    await until(lambda: dump(seen) == {None: [4]})
    assert calls == [0, 4]


@pytest.mark.docs("indexing/structure")
async def test_structure(garden):
    @garden.index()
    async def idx(spec, **_):
        return spec["result"]

    await garden.see("1", spec={"result": {"key1": "valueA"}})
    await garden.see("2", spec={"result": {"key1": "valueB"}})
    result = await garden.see("3", spec={"result": {"key2": {"key3": "valueC"}}})
    assert dump(result) == {"key1": ["valueA", "valueB"], "key2": [{"key3": "valueC"}]}
    assert isinstance(result, Index)
    assert isinstance(result["key1"], Store)
    assert repr(result) == "{'key1': ['valueA', 'valueB'], 'key2': [{'key3': 'valueC'}]}"


@pytest.mark.docs("indexing/content")
@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ({"a": 1}, {"a": [1]}),
        ({("a", "b"): 1, None: 2}, {("a", "b"): [1], None: [2]}),
        ({"a": None}, {"a": [None]}),
        ({}, {}),
        ("text", {None: ["text"]}),
        (0, {None: [0]}),
        (["x"], {None: [["x"]]}),
        ({"x"}, {None: [{"x"}]}),
        (("ns", "name"), {None: [("ns", "name")]}),
        (Memo(a=1), {None: [Memo(a=1)]}),
        (collections.OrderedDict(a=1), {None: [{"a": 1}]}),
        (None, {}),
    ],
)
@pytest.mark.parametrize("is_async", [True, False])
async def test_content(garden, result, expected, is_async):
    async def async_fn(**_):
        return result

    def sync_fn(**_):
        return result

    garden.index()(async_fn if is_async else sync_fn)
    assert dump(await garden.see()) == expected


@pytest.mark.docs("indexing/declaration")
async def test_values_follow_the_object(garden):
    @garden.index()
    async def idx(spec, name, **_):
        return dict.fromkeys(spec["keys"], name)

    await garden.see("1", name="a", spec={"keys": ["x", "y"]})
    result = await garden.see("2", name="b", spec={"keys": ["y", "z"]})
    assert dump(result) == {"x": ["a"], "y": ["a", "b"], "z": ["b"]}
    await garden.see("1", name="a", spec={"keys": ["y", "w"]})
    assert dump(result) == {"y": ["a", "b"], "z": ["b"], "w": ["a"]}
    await garden.see("1", type="DELETED", name="a")
    assert dump(result) == {"y": ["b"], "z": ["b"]}
    await garden.see("2", spec={"keys": []})
    assert dump(result) == {}
    assert not result


@pytest.mark.docs("indexing/declaration")
async def test_mismatching_objects_are_removed(garden):
    @garden.index(labels={"label": "yes"}, when=lambda spec, **_: spec.get("field") != "no")
    async def idx(name, **_):
        return name

    result = await garden.see(labels={"label": "yes"})
    assert dump(result) == {None: ["obj"]}
    await garden.see(labels={"label": "no"})
    assert not result
    await garden.see(labels={"label": "yes"})
    assert result
    await garden.see(labels={"label": "yes"}, spec={"field": "no"})
    assert not result


async def test_mismatching_objects_are_not_remembered(garden):
    @garden.index(labels={"label": "yes"})
    async def idx(name, **_):
        return name

    await garden.see(labels={"label": "no"})
    assert not garden.memories


async def test_several_indices_of_one_resource(garden):
    @garden.index(id="idx")
    async def fn1(name, **_):
        return {name: 1}

    @garden.index(id="idx2")
    async def fn2(name, **_):
        return {name: 2}

    await garden.see()
    assert {name: dump(idx) for name, idx in garden.indices.items()} == {
        "idx": {"obj": [1]},
        "idx2": {"obj": [2]},
    }


async def test_a16_recreated_object_replaces_the_old_one(garden):
    @garden.index()
    async def idx(name, uid, **_):
        return {name: uid}

    await garden.see("old")
    await garden.see("old", type="DELETED")
    assert dump(await garden.see("new")) == {"obj": ["new"]}


@pytest.mark.docs("indexing/conditional")
async def test_none_keeps_the_existing_values(garden):
    @garden.index()
    async def idx(spec, **_):
        return spec.get("result")

    await garden.see(spec={"result": {"a": 1}})
    assert dump(await garden.see()) == {"a": [1]}


@pytest.mark.docs("indexing/errors")
@pytest.mark.parametrize("options", [{}, {"errors": ErrorsMode.IGNORED}])
async def test_ignored_errors_keep_the_stale_values(garden, options, logged):
    @garden.index(**options)
    async def idx(spec, **_):
        if spec.get("fail"):
            raise Exception("boo!")
        return {"a": spec["value"]}

    await garden.see(spec={"value": 1})
    assert dump(await garden.see(spec={"fail": True})) == {"a": [1]}
    assert dump(await garden.see(spec={"value": 2})) == {"a": [2]}
    assert any("boo!" in message for message in logged())


@pytest.mark.docs("indexing/errors")
@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({}, PermanentError("boo!")),
        ({"errors": ErrorsMode.PERMANENT}, Exception("boo!")),
    ],
)
async def test_permanent_errors_exclude_for_ever(garden, clock, options, error):
    @garden.index(**options)
    async def idx(spec, **_):
        calls.append(spec)
        if spec.get("fail"):
            raise error
        return {"a": spec["value"]}

    calls = []
    await garden.see("2", spec={"value": 0})
    await garden.see(spec={"value": 1})
    assert dump(await garden.see(spec={"fail": True})) == {"a": [0]}
    clock.advance(1e6)
    assert dump(await garden.see(spec={"value": 2})) == {"a": [0]}
    assert len(calls) == 3


@pytest.mark.docs("indexing/errors")
@pytest.mark.parametrize(
    ("options", "error", "delay"),
    [
        ({}, TemporaryError("boo!", delay=30), 30),
        ({}, TemporaryError("boo!"), 60),
        ({}, TemporaryError("boo!", delay=None), 0),
        ({}, TemporaryError("boo!", delay=0), 0),
        ({"errors": ErrorsMode.TEMPORARY}, Exception("boo!"), 60),
        ({"errors": ErrorsMode.TEMPORARY, "backoff": 5}, Exception("boo!"), 5),
        ({"errors": ErrorsMode.TEMPORARY, "backoff": 0}, Exception("boo!"), 0),
    ],
)
async def test_temporary_errors_exclude_for_a_time(garden, clock, options, error, delay):
    @garden.index(**options)
    async def idx(spec, **_):
        calls.append(spec)
        if spec.get("fail"):
            raise error
        return {"a": spec["value"]}

    calls = []
    await garden.see(spec={"value": 1})
    assert dump(await garden.see(spec={"fail": True})) == {}
    if delay:
        clock.advance(delay - 0.1)
        assert dump(await garden.see(spec={"value": 2})) == {}
        assert len(calls) == 2
        clock.advance(0.2)
    assert dump(await garden.see(spec={"value": 3})) == {"a": [3]}


@pytest.mark.docs("indexing/errors")
async def test_retries_are_limited_and_reset_by_a_success(garden, clock):
    @garden.index(errors=ErrorsMode.TEMPORARY, backoff=5, retries=2)
    async def idx(spec, retry, runtime, **_):
        calls.append((retry, runtime))
        if spec.get("fail"):
            raise Exception()
        return {"a": 1}

    calls, second = [], datetime.timedelta(seconds=1)
    for fail in (True, False, True, True, False, False):
        result = await garden.see(spec={"fail": fail})
        clock.advance(6)
    assert calls == [(0, 0 * second), (1, 6 * second), (0, 0 * second), (1, 6 * second)]
    assert dump(result) == {}


@pytest.mark.docs("indexing/errors")
async def test_time_is_limited_since_the_first_failure(garden, clock):
    @garden.index(errors=ErrorsMode.TEMPORARY, backoff=5, timeout=10)
    async def idx(spec, retry, **_):
        calls.append(retry)
        if spec.get("fail"):
            raise Exception()
        return {"a": 1}

    calls = []
    await garden.see(spec={})
    clock.advance(100)
    for _ in range(5):
        result = await garden.see(spec={"fail": True})
        clock.advance(6)
    assert calls == [0, 0, 1]
    await garden.see(spec={})
    assert dump(result) == {}


class Evil:
    """A key that breaks when it is used for the second time."""

    uses = 0

    def __hash__(self):
        Evil.uses += 1
        if Evil.uses > 1:
            raise TypeError("unhashable in fact")
        return 1


async def test_d16_broken_keys_are_isolated(garden, logged):
    @garden.index()
    async def idx(spec, **_):
        return {"a": 1, Evil(): 2} if spec.get("evil") else {"a": 1}

    await garden.see("1")
    result = await garden.see("2", spec={"evil": True})
    assert dump(result) == {"a": [1]}
    assert any("unhashable in fact" in message for message in logged())
    await garden.see("2")
    assert dump(result) == {"a": [1, 1]}
    await garden.see("2", type="DELETED")
    await garden.see("1", type="DELETED")
    assert dump(result) == {}


async def test_d16_huge_keys_are_just_keys(garden):
    @garden.index()
    async def idx(**_):
        return {"x" * 10_000_000: 1}

    assert len(await garden.see()) == 1


async def test_d16_index_can_change_while_it_is_iterated(garden):
    @garden.index()
    async def idx(name, **_):
        return {name: name, None: name}

    for number in range(3):
        result = await garden.see(str(number), name=str(number))
    seen = []
    for key, store in result.items():
        for value in store:
            seen.append((key, value))
            await garden.see("1", type="DELETED")
            await garden.see("9", name="9")
    assert seen == [("0", "0"), (None, "0"), (None, "2"), (None, "9"), ("2", "2")]
    for _ in result.values():
        await garden.see("2", type="DELETED")
    for _ in result:
        await garden.see("0", type="DELETED")
    assert dump(result) == {"9": ["9"], None: ["9"]}


async def test_d16_index_can_be_read_in_threads_while_it_is_written(garden):
    @garden.index()
    async def idx(name, **_):
        return {name: name, None: name}

    def read():
        try:
            while not stop.is_set():
                for key, store in result.items():
                    list(store), key in result, len(store), bool(store)
                list(result), len(result), list(result.get(None, ()))
                reads.append(1)
        except Exception as e:
            errors.append(e)

    result = await garden.see("0", name="0")
    stop, reads, errors = threading.Event(), [], []
    thread = threading.Thread(target=read)
    thread.start()
    while len(reads) < 50 and not errors:
        for number in range(100):
            await garden.see(str(number), name=str(number))
        for number in range(100):
            await garden.see(str(number), name=str(number), type="DELETED")
    stop.set()
    await asyncio.to_thread(thread.join)
    assert not errors


async def test_f1_streams_cancelled_while_functions_are_in_threads_are_cancelled(garden):
    """The functions are only waited for: otherwise, the streams would go on for ever."""
    began, goes = threading.Event(), threading.Event()

    @garden.index()
    def idx(**_):
        began.set()
        goes.wait()
        return 1

    task = asyncio.create_task(garden.see("1"))
    await asyncio.to_thread(began.wait)
    task.cancel()
    goes.set()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_views_are_read_only(garden):
    @garden.index()
    async def idx(**_):
        return {"a": 1}

    result = await garden.see()
    for method in ("__setitem__", "__delitem__", "pop", "clear", "update", "setdefault", "popitem"):
        assert not hasattr(result, method)
    for method in ("append", "add", "remove", "clear", "__setitem__", "__delitem__"):
        assert not hasattr(result["a"], method)


async def test_lookups(garden):
    @garden.index()
    async def idx(**_):
        return {"a": 1}

    result = await garden.see()
    assert "a" in result
    assert "b" not in result
    assert [] not in result
    assert result.get("b") is None
    assert 1 in result["a"]
    assert 2 not in result["a"]
    assert len(result) == len(result["a"]) == 1
    with pytest.raises(KeyError):
        result["b"]


async def test_functions_get_other_indices_in_kwargs(garden):
    @garden.index(id="idx")
    async def fn(idx, **_):
        seen.append(idx)
        return 1

    seen = []
    assert [await garden.see()] == seen


async def test_removed_resource_leaves_nothing(garden):
    @garden.index()
    async def idx(name, **_):
        return {name: 1}

    await garden.see("1", name="a")
    result = await garden.see("2", name="b")
    garden.indexer.clear()
    assert not result


class Key:
    """A key that counts how many times it is used."""

    def __init__(self, name, uses):
        self.name, self.uses = name, uses

    def __hash__(self):
        self.uses.append(self)
        return hash(self.name)

    def __eq__(self, other):
        return self.name == other.name


@pytest.mark.docs("indexing/performance")
@pytest.mark.parametrize("operation", ["update", "deletion", "lookup"])
async def test_operations_cost_the_same_with_any_number_of_objects(garden, operation):
    @garden.index()
    async def idx(name, **_):
        return {Key(name, uses): 1, Key("shared", uses): name}

    uses, costs = [], []
    for start, end in [(0, 10), (10, 1000)]:
        for number in range(start, end):
            result = await garden.see(str(number), name=f"obj{number}")
        uses.clear()
        if operation == "lookup":
            assert list(result[Key("obj1", uses)]) == [1]
        else:
            type = "DELETED" if operation == "deletion" else "MODIFIED"
            await garden.see("1", type=type, name="obj1")
        costs.append(len(uses))
        await garden.see("1", name="obj1")
    assert costs[0] == costs[1] > 0
