"""Which handlers are there for a resource, and which of them for a cause."""

import functools

import pytest

from kopf_core.intents import decorators as on
from kopf_core.intents.causes import Activity, Reason
from kopf_core.intents.filters import PRESENT
from kopf_core.intents.registries import (
    OperatorRegistry,
    find_clashes,
    get_default_registry,
    set_default_registry,
)


def fn(**_):
    pass


def other(**_):
    pass


class Kex:
    def method(self, **_):
        pass


@pytest.fixture
def select(registry, resource):
    def select(cause):
        return registry.get_resource_handlers(resource).select_changing(cause)

    return select


def test_only_handlers_can_be_registered(registry):
    with pytest.raises(TypeError, match="cannot be registered"):
        registry.append(object())


def test_handlers_keep_the_order_of_registration(registry, resource):
    for id in "zyxabc":
        on.create("kopfexamples", id=id, registry=registry)(fn)
    found = registry.get_resource_handlers(resource).changing
    assert [handler.id for handler in found] == [*"zyxabc"]


def test_handlers_are_sorted_by_kinds(registry, resource):
    on.create("kopfexamples", registry=registry)(fn)
    on.event("kopfexamples", registry=registry)(fn)
    on.index("kopfexamples", registry=registry)(fn)
    on.daemon("kopfexamples", registry=registry)(fn)
    on.timer("kopfexamples", registry=registry)(fn)
    on.startup(registry=registry)(fn)
    found = registry.get_resource_handlers(resource)
    kinds = (found.changing, found.watching, found.indexing, found.spawning)
    assert [len(handlers) for handlers in kinds] == [1, 1, 1, 2]
    assert registry.index_ids == {"fn"}
    assert len(registry.get_activity_handlers(Activity.STARTUP)) == 1
    assert not registry.get_activity_handlers(Activity.CLEANUP)


def test_handlers_of_other_resources_are_left_out(registry, resource):
    on.create("pods", registry=registry)(fn)
    assert not registry.get_resource_handlers(resource)
    assert len(registry.selectors) == 1


def test_selection_can_be_decided_from_outside(registry, resource):
    on.create("pods", registry=registry)(fn)
    assert registry.get_resource_handlers(resource, lambda _: True)


@pytest.mark.docs("selectors/multiple")
@pytest.mark.docs("arguments/param")
def test_one_function_with_one_id_is_called_once(registry, select, make_cause):
    on.create("kopf.dev", "kopfexamples", registry=registry, param=1)(fn)
    on.create("kopfexamples", registry=registry, param=2)(fn)
    on.create("kex", registry=registry, param=3)(fn)
    (handler,) = select(make_cause())
    assert handler.param == 1


@pytest.mark.docs("handlers/resuming")
def test_creation_and_resuming_of_one_function_is_one_handler(registry, select, make_cause):
    on.resume("kopfexamples", registry=registry)(fn)
    on.create("kopfexamples", registry=registry)(fn)
    assert len(select(make_cause(Reason.CREATE, initial=True))) == 1
    assert len(select(make_cause(Reason.RESUME, initial=True))) == 1


@pytest.mark.docs("filtering/field")
def test_one_function_with_several_fields_is_called_for_each(registry, select, make_cause):
    on.update("kopfexamples", field="spec.f", param=10, registry=registry)(fn)
    on.update("kopfexamples", field="spec", param=1, registry=registry)(fn)
    found = select(make_cause(Reason.UPDATE, {"f": 2}, old={"f": 1}))
    assert [(handler.id, handler.param) for handler in found] == [("fn/spec.f", 10), ("fn/spec", 1)]


@pytest.mark.docs("filtering/field")
def test_resuming_and_creation_with_one_field_are_one_handler(registry, select, make_cause):
    on.resume("kopfexamples", field="spec.f", registry=registry)(fn)
    on.create("kopfexamples", field="spec.f", registry=registry)(fn)
    assert len(select(make_cause(Reason.CREATE, {"f": 1}, initial=True))) == 1


@pytest.mark.docs("handlers/registering")
def test_methods_are_distinguished_by_their_objects(registry, select, make_cause):
    one, two = Kex(), Kex()
    for method in (one.method, two.method, one.method):
        on.create("kopfexamples", registry=registry)(method)
    assert [handler.fn.__self__ for handler in select(make_cause())] == [one, two]


def test_c10_different_functions_with_one_id_are_both_selected(registry, select, make_cause):
    on.create("kopfexamples", id="x", registry=registry)(fn)
    on.create("kopfexamples", id="x", registry=registry)(other)
    assert [handler.fn for handler in select(make_cause())] == [fn, other]


@pytest.mark.parametrize("id", ["x", "y"])
def test_c7_fields_are_not_for_deletions(registry, select, make_cause, id):
    on.field("kopfexamples", field="spec.f", id="x", registry=registry)(fn)
    on.resume("kopfexamples", id="x", registry=registry)(fn)
    on.resume("kopfexamples", id="y", deleted=True, registry=registry)(fn)
    on.delete("kopfexamples", id=id, registry=registry)(other)
    found = select(make_cause(Reason.DELETE, {"f": 2}, old={"f": 1}, initial=True))
    assert [(handler.fn, handler.id) for handler in found] == [(fn, "y"), (other, id)]


def test_c10_clashes_are_found(registry, resource):
    on.create("kopfexamples", id="x", registry=registry)(fn)
    on.update("kopfexamples", id="x", registry=registry)(fn)
    on.create("kopfexamples", id="x", registry=registry)(other)
    on.create("kopfexamples", id="y", registry=registry)(other)
    changing = registry.get_resource_handlers(resource).changing
    assert [(one.fn, two.fn) for one, two in find_clashes(changing)] == [(fn, other)]


def test_c10_equal_partials_are_different_functions(registry, resource):
    for _ in range(2):
        on.create("kopfexamples", id="x", registry=registry)(functools.partial(fn, x=1))
    assert len([*find_clashes(registry.get_resource_handlers(resource).changing)]) == 1


@pytest.mark.docs("configuration/finalizers")
@pytest.mark.parametrize(
    ("declare", "expected"),
    [
        (lambda **kw: on.create("kopfexamples", **kw), False),
        (lambda **kw: on.update("kopfexamples", **kw), False),
        (lambda **kw: on.event("kopfexamples", **kw), False),
        (lambda **kw: on.index("kopfexamples", **kw), False),
        (lambda **kw: on.delete("kopfexamples", **kw), True),
        (lambda **kw: on.delete("kopfexamples", optional=True, **kw), False),
        (lambda **kw: on.delete("kopfexamples", labels={"x": PRESENT}, **kw), False),
        (lambda **kw: on.delete("kopfexamples", when=lambda **_: False, **kw), False),
        (lambda **kw: on.daemon("kopfexamples", **kw), True),
        (lambda **kw: on.timer("kopfexamples", **kw), True),
        (lambda **kw: on.daemon("kopfexamples", labels={"x": PRESENT}, **kw), False),
    ],
)
def test_finalizers_are_for_those_who_need_them(registry, resource, make_cause, declare, expected):
    declare(registry=registry)(fn)
    assert registry.get_resource_handlers(resource).requires_finalizer(make_cause()) is expected


@pytest.mark.parametrize(
    ("decorator", "expected"),
    [
        (on.create, True),
        (on.resume, True),
        (on.daemon, True),
        (on.timer, True),
        (on.event, False),
        (on.index, False),
    ],
)
def test_some_handlers_need_no_permissions_to_patch(registry, resource, decorator, expected):
    decorator("kopfexamples", registry=registry)(fn)
    handlers = registry.get_resource_handlers(resource)
    assert handlers.requires_patching is expected
    assert all(h.requires_patching is expected for h in registry.resource_handlers)


def test_extra_fields_are_those_of_changes(registry, resource):
    on.create("kopfexamples", field="status.a", registry=registry)(fn)
    on.field("kopfexamples", field="status.b", registry=registry)(fn)
    on.event("kopfexamples", field="status.c", registry=registry)(fn)
    on.create("kopfexamples", registry=registry)(fn)
    assert registry.get_resource_handlers(resource).extra_fields == {
        ("status", "a"),
        ("status", "b"),
    }


@pytest.mark.docs("filtering/stealth")
def test_interest_is_in_objects_that_any_handler_may_match(registry, resource, make_cause):
    on.update("kopfexamples", labels={"x": "v"}, registry=registry)(fn)
    on.event("kopfexamples", registry=registry)(fn)
    on.daemon("kopfexamples", registry=registry)(fn)
    handlers = registry.get_resource_handlers(resource)
    assert not handlers.is_interested(make_cause())
    assert handlers.is_interested(make_cause(labels={"x": "v"}))


def test_default_registry_is_the_same_until_replaced():
    before = get_default_registry()
    assert get_default_registry() is before
    set_default_registry(new := OperatorRegistry())
    assert get_default_registry() is new
    set_default_registry(before)
