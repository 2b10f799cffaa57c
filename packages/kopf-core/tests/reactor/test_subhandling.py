"""Sub-handlers: declared or executed, of any depth, with their own progress."""

import functools
import json

import pytest

from kopf_core.actions.errors import PermanentError, SubhandlersPending, TemporaryError
from kopf_core.actions.lifecycles import all_at_once, asap, one_by_one
from kopf_core.actions.states import State
from kopf_core.intents import decorators as on
from kopf_core.intents.causes import Reason
from kopf_core.intents.filters import PRESENT
from kopf_core.intents.handlers import ChangingHandler
from kopf_core.intents.registries import OperatorRegistry
from kopf_core.reactor.object.subhandling import execute

PREFIX = "kopf.zalando.org/"


def merge(target, patch):
    for key, value in patch.items():
        if isinstance(value, dict):
            merge(target.setdefault(key, {}), value)
        elif value is None:
            target.pop(key, None)
        else:
            target[key] = value


class Cycle:
    """A handling cycle of one top-level handler; the progress is kept as if on the object."""

    def __init__(self, execution, make_cause, clock, reason, spec, old):
        self.execution = execution
        self.make_cause = make_cause
        self.clock = clock
        self.reason, self.spec, self.old = reason, spec, old
        self.stored = {}
        self.steps = 0

    def records(self):
        annotations = self.stored.get("metadata", {}).get("annotations", {})
        return {key.removeprefix(PREFIX): json.loads(value) for key, value in annotations.items()}

    async def step(self, handler):
        storage = self.execution.settings.persistence.progress_storage
        annotations = self.stored.get("metadata", {}).get("annotations", {})
        cause = self.make_cause(self.reason, self.spec, old=self.old, annotations=dict(annotations))
        state = State.from_storage(
            [handler],
            body=cause.body,
            storage=storage,
            now=self.clock.now(),
        ).with_purpose(self.reason, [handler])
        outcomes = await self.execution.run([handler], cause, state)
        state = state.with_outcomes(outcomes, now=self.clock.now())
        state.store(body=cause.body, patch=cause.marks, storage=storage)
        merge(self.stored, cause.marks.results)
        merge(self.stored, cause.marks)
        self.steps += 1
        return outcomes.get(handler.id), state

    async def complete(self, handler, limit=50):
        """Make steps until the handler is over; get its last outcome."""
        for _ in range(limit):
            outcome, state = await self.step(handler)
            if state.done:
                return outcome
            self.clock.advance(state.delay or 0)
        pytest.fail(f"The handler is not finished after {limit} steps.")


@pytest.fixture
def cycle(execution, make_cause, clock):
    def make(reason=Reason.CREATE, spec=None, old=None, lifecycle=None):
        from dataclasses import replace

        chosen = execution if lifecycle is None else replace(execution, lifecycle=lifecycle)
        return Cycle(chosen, make_cause, clock, reason, spec, old)

    return make


def parent(fn, **options):
    return ChangingHandler(fn=fn, id="parent", reason=None, **options)


def declare_with_decorators(fns):
    def fn(**_):
        for id, sub in fns.items():
            on.subhandler(id=id)(sub)
        return "done"

    return fn


def declare_with_register(fns):
    async def fn(**_):
        for id, sub in fns.items():
            on.register(sub, id=id)
        return "done"

    return fn


def execute_fns_by_ids(fns):
    async def fn(**_):
        await execute(fns=fns)
        return "done"

    return fn


def execute_declared(fns):
    async def fn(**_):
        for id, sub in fns.items():
            on.subhandler(id=id)(sub)
        await execute()
        return "done"

    return fn


def execute_handlers(fns):
    async def fn(**_):
        await execute(
            handlers=[ChangingHandler(fn=sub, id=f"parent/{id}") for id, sub in fns.items()]
        )
        return "done"

    return fn


def execute_registry(fns):
    async def fn(**_):
        registry = OperatorRegistry()
        for id, sub in fns.items():
            registry.append(ChangingHandler(fn=sub, id=f"parent/{id}"))
        await execute(registry=registry)
        return "done"

    return fn


FORMS = [
    declare_with_decorators,
    declare_with_register,
    execute_fns_by_ids,
    execute_declared,
    execute_handlers,
    execute_registry,
]


@pytest.fixture(params=FORMS, ids=lambda form: form.__name__)
def form(request):
    return request.param


@pytest.mark.docs("subhandlers")
@pytest.mark.docs("idempotence")
async def test_all_forms_run_each_subhandler_once_and_then_the_parent_succeeds(form, cycle):
    calls = []
    fns = {id: lambda id=id, **_: calls.append(id) or f"result of {id}" for id in "abc"}
    one = cycle(lifecycle=asap)
    outcome = await one.complete(parent(form(fns)))
    assert calls == ["a", "b", "c"]
    assert outcome.result == "done"
    assert outcome.subrefs == {"parent/a", "parent/b", "parent/c"}
    assert one.stored["status"] == {f"parent/{id}": f"result of {id}" for id in "abc"}
    assert {*one.records()} == {"parent", "parent.a", "parent.b", "parent.c"}
    assert all(record["success"] for record in one.records().values())


@pytest.mark.docs("subhandlers")
async def test_one_subhandler_is_called_in_each_call_of_the_parent(form, cycle):
    calls = []
    fns = {id: lambda id=id, **_: calls.append(id) for id in "ab"}
    one = cycle(lifecycle=asap)
    outcome, state = await one.step(parent(form(fns)))
    assert calls == ["a"]
    assert isinstance(outcome.exception, SubhandlersPending)
    assert not outcome.final
    assert state.delay == 0
    assert one.records()["parent"]["subrefs"] == ["parent/a", "parent/b"]
    assert one.records()["parent"]["retries"] == 1
    assert one.records()["parent.a"]["success"] is True
    assert one.records()["parent.b"]["retries"] == 0


@pytest.mark.docs("idempotence")
async def test_retried_subhandlers_do_not_repeat_the_others(form, cycle, clock):
    calls = []

    def fn(id, needed, *, retry, **_):
        calls.append((id, retry))
        if retry < needed:
            raise TemporaryError("Not ready yet.", delay=10)

    fns = {"a": functools.partial(fn, "a", 2), "b": functools.partial(fn, "b", 4)}
    await cycle().complete(parent(form(fns)))
    assert calls == [("a", 0), ("b", 0), ("a", 1), ("b", 1), ("a", 2), ("b", 2), ("b", 3), ("b", 4)]


@pytest.mark.docs("subhandlers")
async def test_the_parent_waits_for_the_shortest_delay(form, cycle):
    def fn(delay, **_):
        raise TemporaryError("x", delay=delay)

    fns = {"a": functools.partial(fn, 30), "b": functools.partial(fn, 20)}
    outcome, state = await cycle().step(parent(form(fns)))
    assert outcome.delay == state.delay == 20


async def test_failed_subhandlers_do_not_fail_the_parent(form, cycle):
    def fail(**_):
        raise PermanentError("x")

    one = cycle()
    outcome = await one.complete(parent(form({"a": fail, "b": lambda **_: None})))
    assert outcome.exception is None
    assert outcome.result == "done"
    assert one.records()["parent.a"]["failure"] is True


@pytest.mark.docs("subhandlers")
async def test_nesting_to_any_depth(cycle):
    calls = []

    def descend(depth):
        def fn(**_):
            calls.append(depth)
            if depth < 5:
                on.subhandler(id="x")(descend(depth + 1))
                on.subhandler(id="y")(lambda **_: calls.append(f"y{depth}"))
            return depth

        return fn

    one = cycle()
    outcome = await one.complete(parent(descend(0)))
    assert outcome.result == 0
    assert calls.count(5) == 1
    assert [calls.count(f"y{depth}") for depth in range(5)] == [1] * 5
    assert one.stored["status"]["parent/x/x/x/x/x"] == 5
    assert one.stored["status"]["parent/x"] == 1
    assert {*one.records()["parent"]["subrefs"]} >= {"parent/x", "parent/y", "parent/x/x/x/x/x"}


async def test_nested_retries_do_not_repeat_what_is_done(cycle):
    calls = []

    def leaf(*, retry, **_):
        calls.append(("leaf", retry))
        if retry < 2:
            raise TemporaryError("x", delay=1)

    def sibling(**_):
        calls.append("sibling")

    def middle(**_):
        on.register(leaf, id="leaf")
        on.register(sibling, id="sibling")

    await cycle().complete(parent(lambda **_: on.register(middle, id="middle") and None))
    assert calls.count("sibling") == 1
    assert [call for call in calls if call != "sibling"] == [("leaf", 0), ("leaf", 1), ("leaf", 2)]


async def test_d13_same_ids_on_different_levels_are_different(cycle):
    calls = []

    def outer(**_):
        on.register(lambda **_: calls.append("inner"), id="x")

    one = cycle()
    await one.complete(parent(lambda **_: on.register(outer, id="x") and None))
    assert calls == ["inner"]
    assert {*one.records()} == {"parent", "parent.x", "parent.x.x"}


async def test_d13_changing_sets_of_subhandlers(cycle):
    """Those that are not declared anymore are neither called nor waited for."""
    calls = []

    def sub(id, **_):
        calls.append(id)
        if id == "vanishing":
            raise TemporaryError("x", delay=5)

    def fn(*, retry, **_):
        ids = ["first", "vanishing"] if retry == 0 else ["first", "appearing"]
        for id in ids:
            on.register(functools.partial(sub, id), id=id)

    one = cycle()
    outcome = await one.complete(parent(fn))
    assert calls == ["first", "vanishing", "appearing"]
    assert outcome.final
    # All of them are known, so that their records can be removed in the end.
    assert {*one.records()["parent"]["subrefs"]} == {
        "parent/first",
        "parent/vanishing",
        "parent/appearing",
    }


async def test_d13_five_hundred_subhandlers_in_one_step(cycle):
    calls = []
    fns = {str(i): lambda i=i, **_: calls.append(i) for i in range(500)}
    one = cycle(lifecycle=all_at_once)
    await one.complete(parent(execute_fns_by_ids(fns)))
    assert calls == [*range(500)]
    assert one.steps == 1


async def test_subhandlers_of_a_failed_parent_are_not_run(cycle):
    calls = []

    def fn(**_):
        on.register(lambda **_: calls.append(1), id="x")
        raise TemporaryError("not now", delay=5)

    await cycle().step(parent(fn))
    assert not calls


async def test_those_declared_after_the_explicit_execution_are_not_run(cycle):
    calls = []

    async def fn(**_):
        on.register(lambda **_: calls.append("before"), id="before")
        await execute()
        on.register(lambda **_: calls.append("after"), id="after")

    await cycle().complete(parent(fn))
    assert calls == ["before"]


async def test_duplicates_are_run_once(cycle):
    calls = []

    def sub(**_):
        calls.append(1)

    def fn(**_):
        on.register(sub, id="x")
        on.register(sub, id="x")

    await cycle().complete(parent(fn))
    assert calls == [1]


@pytest.mark.docs("filtering")
async def test_filters_of_subhandlers(cycle):
    calls = []

    def fn(**_):
        on.subhandler(id="when", when=lambda **_: False)(lambda **_: calls.append("when"))
        on.subhandler(id="labels", labels={"x": PRESENT})(lambda **_: calls.append("labels"))
        on.subhandler(id="field", field="spec.f")(lambda **_: calls.append("field"))
        on.subhandler(id="value", field="spec.f", value=2)(lambda **_: calls.append("value"))

    one = cycle(spec={"f": 1})
    await one.complete(parent(fn))
    assert calls == ["field"]
    assert {*one.records()} == {"parent", "parent.field"}


async def test_subhandlers_of_field_handlers_see_the_field(cycle):
    seen = {}

    def fn(**_):
        on.register(lambda *, old, new, diff, **_: seen.update(old=old, new=new, diff=diff), id="x")

    one = cycle(Reason.UPDATE, {"f": {"a": 2}}, old={"f": {"a": 1}})
    await one.complete(parent(fn, field=("spec", "f"), field_needs_change=True))
    assert (seen["old"], seen["new"]) == ({"a": 1}, {"a": 2})
    assert [tuple(item) for item in seen["diff"]] == [("change", ("a",), 1, 2)]


@pytest.mark.docs("subhandlers")
async def test_lifecycles_of_explicit_execution(cycle):
    calls = []
    fns = {id: lambda id=id, **_: calls.append(id) for id in "abc"}

    async def fn(**_):
        await execute(fns=fns, lifecycle=one_by_one)

    one = cycle(lifecycle=all_at_once)
    await one.step(parent(fn))
    assert calls == ["a"]
    await one.complete(parent(fn))
    assert calls == ["a", "b", "c"]


async def test_functions_in_lists_are_named_after_themselves(cycle):
    def sub(**_):
        return "x"

    async def fn(**_):
        await execute(fns=[sub])

    one = cycle()
    await one.complete(parent(fn))
    (id,) = one.stored["status"]
    assert id.startswith("parent/")
    assert id.endswith(".sub")


@pytest.mark.parametrize(
    "kwargs",
    [
        {"fns": [], "handlers": []},
        {"fns": {}, "registry": OperatorRegistry()},
        {"handlers": [], "registry": OperatorRegistry()},
        {"fns": [], "handlers": [], "registry": OperatorRegistry()},
    ],
)
async def test_only_one_source_of_subhandlers_is_allowed(cycle, kwargs):
    errors = []

    async def fn(**_):
        with pytest.raises(TypeError, match="Only one of the fns, handlers, registry") as info:
            await execute(**kwargs)
        errors.append(info.value)

    await cycle().complete(parent(fn))
    assert errors


async def test_execution_is_only_for_handlers():
    with pytest.raises(LookupError, match="inside of a handler"):
        await execute(fns=[])


async def test_execution_is_only_for_changes(execution, make_event_cause, registry):
    errors = []

    async def fn(**_):
        with pytest.raises(RuntimeError, match="only in handlers of changes") as info:
            await execute(fns=[])
        errors.append(info.value)

    on.event("kopfexamples", registry=registry)(fn)
    (handler,) = registry.resource_handlers
    await execution.observe(handler, make_event_cause())
    assert errors


@pytest.mark.parametrize("executes", [execute_fns_by_ids, execute_handlers, execute_registry])
async def test_explicit_subhandlers_do_not_hide_the_registered_ones(cycle, executes):
    calls = []
    run_explicitly = executes({"explicit": lambda **_: calls.append("explicit")})

    async def fn(**_):
        on.register(lambda **_: calls.append("registered"), id="registered")
        await run_explicitly()

    outcome = await cycle().complete(parent(fn))
    assert calls == ["explicit", "registered"]
    assert outcome.subrefs == {"parent/explicit", "parent/registered"}


async def test_nothing_to_execute_is_a_success(cycle):
    async def fn(**_):
        await execute(fns={})
        await execute()
        return "done"

    outcome = await cycle().complete(parent(fn))
    assert outcome.result == "done"


async def test_retries_of_the_parent_count_its_calls(cycle, logged):
    """As the documentation says, the parent is called again and again for its sub-handlers."""
    fns = {id: lambda **_: None for id in "abcde"}
    one = cycle(lifecycle=asap)
    outcome = await one.complete(parent(declare_with_decorators(fns), retries=3))
    assert outcome.exception is not None
    assert "Handler 'parent' has exceeded 3 retries." in logged()


async def test_logs_of_unfinished_subhandlers(cycle, logged):
    fns = {id: lambda **_: None for id in "ab"}
    await cycle(lifecycle=asap).complete(parent(declare_with_decorators(fns)))
    assert logged(prefix="kopf.objects") == [
        "Handler 'parent' is invoked.",
        "Handler 'parent/a' is invoked.",
        "Handler 'parent/a' succeeded.",
        "Handler 'parent' has unfinished sub-handlers. Will retry soon.",
        "Handler 'parent' is invoked.",
        "Handler 'parent/b' is invoked.",
        "Handler 'parent/b' succeeded.",
        "Handler 'parent' succeeded.",
    ]
