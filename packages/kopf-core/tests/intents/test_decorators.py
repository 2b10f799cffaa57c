"""What the decorators make of functions and options."""

import functools
import inspect

import pytest

from kopf_cogs.structs.selectors import EVERYTHING
from kopf_core.actions.bases import is_async_fn
from kopf_core.actions.context import Invocation, invocation_var
from kopf_core.actions.errors import ErrorsMode
from kopf_core.intents import decorators as on
from kopf_core.intents import handlers
from kopf_core.intents.causes import Activity, Reason
from kopf_core.intents.registries import (
    OperatorRegistry,
    get_default_registry,
    set_default_registry,
)

ACTIVITIES = {
    on.startup: Activity.STARTUP,
    on.cleanup: Activity.CLEANUP,
    on.login: Activity.AUTHENTICATION,
    on.probe: Activity.PROBE,
}
CHANGES = [on.create, on.update, on.delete, on.resume]
CLASSES = {
    on.create: handlers.ChangingHandler,
    on.update: handlers.ChangingHandler,
    on.delete: handlers.ChangingHandler,
    on.resume: handlers.ChangingHandler,
    on.event: handlers.WatchingHandler,
    on.index: handlers.IndexingHandler,
    on.daemon: handlers.DaemonHandler,
    on.timer: handlers.TimerHandler,
}


def fn(**_):
    pass


class Kex:
    def method(self, **_):
        pass

    @classmethod
    def cmethod(cls, **_):
        pass

    @staticmethod
    def smethod(**_):
        pass

    def __call__(self, **_):
        pass


@pytest.fixture
def make(registry):
    def make(decorator, fn=fn, /, *names, **options):
        decorator(*names or ("kopfexamples",), registry=registry, **options)(fn)
        return registry.resource_handlers[-1]

    return make


@pytest.mark.docs("handlers/registering")
@pytest.mark.parametrize(("decorator", "activity"), ACTIVITIES.items())
def test_activity_decorators(registry, decorator, activity):
    options = {"param": 1, "errors": ErrorsMode.PERMANENT, "timeout": 2, "retries": 3, "backoff": 4}
    assert decorator(id="x", registry=registry, **options)(fn) is fn
    (handler,) = registry.get_activity_handlers(activity)
    assert handler.fn is fn
    assert handler.id == "x"
    assert {name: getattr(handler, name) for name in options} == options


@pytest.mark.docs("handlers/registering")
@pytest.mark.parametrize(("decorator", "cls"), CLASSES.items())
def test_resource_decorators(make, resource, decorator, cls):
    handler = make(decorator)
    assert type(handler) is cls
    assert handler.fn is fn
    assert handler.id == "fn"
    assert handler.selector.check(resource)
    assert handler.labels is handler.annotations is handler.when is handler.field is None
    assert handler.errors is handler.timeout is handler.retries is handler.backoff is None


@pytest.mark.docs("handlers/registering")
@pytest.mark.parametrize("decorator", [d for d in CLASSES if d is not on.event])
def test_common_options_are_passed_to_handlers(make, decorator):
    options = {
        "param": object(),
        "errors": ErrorsMode.IGNORED,
        "timeout": 12.3,
        "retries": 4,
        "backoff": 5.6,
        "labels": {"a": "b"},
        "annotations": {"c": "d"},
        "when": fn,
        "value": "v",
    }
    handler = make(decorator, field="spec.f", **options)
    assert {name: getattr(handler, name) for name in options} == options
    assert handler.field == ("spec", "f")


@pytest.mark.docs("handlers/registering")
@pytest.mark.parametrize(
    ("decorator", "expected"),
    [
        (on.create, (Reason.CREATE, False, False, False)),
        (on.update, (Reason.UPDATE, False, False, True)),
        (on.delete, (Reason.DELETE, False, True, False)),
        (on.resume, (None, True, False, False)),
    ],
)
def test_specifics_of_changes(make, decorator, expected):
    h = make(decorator)
    assert (h.reason, h.initial, h.requires_finalizer, h.field_needs_change) == expected


@pytest.mark.docs("handlers/field")
def test_field_handlers_are_of_any_reason(make):
    h = make(on.field, field="spec.f")
    assert (h.reason, h.initial, h.requires_finalizer, h.field_needs_change) == (
        None,
        False,
        False,
        True,
    )


@pytest.mark.docs("handlers/state-changing")
@pytest.mark.parametrize(("optional", "required"), [(None, True), (False, True), (True, False)])
def test_optional_deletion_needs_no_finalizer(make, optional, required):
    assert make(on.delete, optional=optional).requires_finalizer is required


@pytest.mark.docs("handlers/resuming")
@pytest.mark.parametrize(("deleted", "expected"), [(None, False), (False, False), (True, True)])
def test_resuming_of_deleted_is_on_demand(make, deleted, expected):
    assert make(on.resume, deleted=deleted).deleted is expected


def test_daemons_and_timers_take_their_own_options(make):
    options = {
        "initial_delay": 1,
        "cancellation_backoff": 2,
        "cancellation_timeout": 3,
        "cancellation_polling": 4,
    }
    handler = make(on.daemon, **options)
    assert {name: getattr(handler, name) for name in options} == options
    options = {"initial_delay": fn, "interval": 5, "sharp": True, "idle": 6}
    handler = make(on.timer, **options)
    assert {name: getattr(handler, name) for name in options} == options


@pytest.mark.parametrize(("criteria"), [{"old": 1}, {"new": 1}, {"old": 1, "new": 2}, {"value": 1}])
@pytest.mark.parametrize("decorator", [on.update, on.field])
def test_change_filters_are_passed_to_handlers(make, decorator, criteria):
    handler = make(decorator, field="spec.f", **criteria)
    assert {name: getattr(handler, name) for name in criteria} == criteria


@pytest.mark.parametrize("decorator", [on.create, on.delete, on.resume, on.event, on.daemon])
def test_change_filters_are_only_for_updates(decorator):
    assert "old" not in inspect.signature(decorator).parameters
    assert "new" not in inspect.signature(decorator).parameters


# --- Ids ---


@pytest.mark.docs("handlers/registering")
@pytest.mark.parametrize(
    ("callback", "expected"),
    [
        (fn, "fn"),
        (functools.partial(fn, x=1), "fn"),
        (functools.partial(functools.partial(fn, x=1), y=2), "fn"),
        (functools.wraps(fn)(lambda **_: None), "fn"),
        (Kex().method, "Kex.method"),
        (Kex.cmethod, "Kex.cmethod"),
        (Kex.smethod, "Kex.smethod"),
    ],
    ids=["function", "partial", "partial2", "wrapped", "method", "class", "static"],
)
def test_natural_ids(make, callback, expected):
    handler = make(on.create, callback)
    assert handler.id == expected
    assert handler.fn == callback


def test_nested_functions_have_ids_of_their_places(make):
    def nested(**_):
        pass

    expected = "test_nested_functions_have_ids_of_their_places.<locals>.nested"
    assert make(on.create, nested).id == expected


def test_c9_lambdas_have_ids_of_their_places(make):
    callback = lambda **_: None  # noqa: E731
    line = callback.__code__.co_firstlineno
    assert make(on.create, callback).id == f"lambda:{__file__}:{line}"


@pytest.mark.parametrize(
    "callback", [Kex(), Kex, functools.partial(Kex())], ids=["object", "class", "partial"]
)
def test_callables_without_names_need_ids(make, callback):
    with pytest.raises(ValueError, match=r"Cannot get the handler's id of .*id="):
        make(on.create, callback)
    assert make(on.create, callback, id="x").id == "x"


def test_decorated_classes_are_explained(make):
    with pytest.raises(ValueError, match=r"or decorate a function: calls of a class only make"):
        make(on.create, Kex)


@pytest.mark.docs("filtering/field")
@pytest.mark.parametrize(
    ("field", "suffix"),
    [
        ("spec", "/spec"),
        ("spec.a.b", "/spec.a.b"),
        (("spec", "a.b"), "/spec.a.b"),
        (["spec", "a"], "/spec.a"),
        (None, ""),
        ("", ""),
        ((), ""),
    ],
)
@pytest.mark.parametrize("decorator", [*CHANGES, on.field, on.event, on.daemon, on.timer])
def test_fields_are_parts_of_ids(make, decorator, field, suffix):
    assert make(decorator, field=field).id == f"fn{suffix}"
    assert make(decorator, field=field, id="x").id == f"x{suffix}"


def test_ids_of_indices_are_their_names(make):
    assert make(on.index, field="spec.f").id == "fn"


# --- Functions ---


async def afn(**_):
    pass


class AsyncCallable:
    async def __call__(self, **_):
        pass

    async def method(self, **_):
        pass


@functools.wraps(afn)
def wrapping_sync(**_):
    pass


@pytest.mark.docs("async")
@pytest.mark.parametrize(
    ("callback", "expected"),
    [
        (fn, False),
        (afn, True),
        (functools.partial(fn), False),
        (functools.partial(afn), True),
        (functools.partial(functools.partial(afn)), True),
        (lambda **_: None, False),
        (Kex(), False),
        (AsyncCallable(), True),
        (functools.partial(AsyncCallable()), True),
        (AsyncCallable().method, True),
        (Kex().method, False),
        (Kex.smethod, False),
        (wrapping_sync, False),
    ],
)
def test_async_functions_are_recognised(callback, expected):
    assert is_async_fn(callback) is expected


# --- Errors ---


@pytest.mark.docs("filtering/field")
@pytest.mark.parametrize("decorator", list(CLASSES))
def test_values_need_fields(make, decorator):
    with pytest.raises(TypeError, match=r"field="):
        make(decorator, value="x")


@pytest.mark.docs("filtering/change")
@pytest.mark.parametrize("criteria", [{"old": 1}, {"new": 1}, {"old": 1, "new": 1}])
def test_changes_need_fields_and_exclude_values(make, criteria):
    with pytest.raises(TypeError, match=r"field="):
        make(on.update, **criteria)
    with pytest.raises(TypeError, match="Either value= or old=/new="):
        make(on.update, field="spec.f", value=1, **criteria)


@pytest.mark.docs("filtering/metadata")
@pytest.mark.parametrize("kind", ["labels", "annotations"])
@pytest.mark.parametrize("decorator", [*CLASSES])
def test_none_in_metadata_is_refused(make, decorator, kind):
    with pytest.raises(ValueError, match=kind):
        make(decorator, **{kind: {"x": None}})


@pytest.mark.parametrize("decorator", [*CLASSES])
def test_wrong_fields_are_refused(make, decorator):
    with pytest.raises((TypeError, ValueError), match=r"[Ff]ield"):
        make(decorator, field=1)


@pytest.mark.docs("selectors")
@pytest.mark.parametrize("decorator", [*CLASSES])
def test_resources_are_mandatory(registry, decorator):
    with pytest.raises(TypeError, match="not specified"):
        decorator(registry=registry)
    with pytest.raises(TypeError, match="ambiguously"):
        decorator("kopfexamples", kind="KopfExample", registry=registry)


@pytest.mark.docs("selectors")
@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        (("kopf.dev", "v1", "kopfexamples"), {}),
        (("kopf.dev/v1", "kopfexamples"), {}),
        (("kopf.dev", "kopfexamples"), {}),
        (("kopfexamples.kopf.dev",), {}),
        (("kopfexamples.v1.kopf.dev",), {}),
        (("KopfExample",), {}),
        (("kopfexample",), {}),
        (("kex",), {}),
        ((EVERYTHING,), {}),
        (("kopf.dev", EVERYTHING), {}),
        ((lambda res: res.plural == "kopfexamples",), {}),
        ((), {"kind": "KopfExample"}),
        ((), {"plural": "kopfexamples"}),
        ((), {"singular": "kopfexample"}),
        ((), {"shortcut": "kex"}),
        ((), {"group": "kopf.dev", "version": "v1", "plural": "kopfexamples"}),
    ],
)
@pytest.mark.parametrize("decorator", [on.event, on.create])
def test_all_notations_of_resources(registry, resource, decorator, args, kwargs):
    decorator(*args, **kwargs, registry=registry)(fn)
    assert registry.get_resource_handlers(resource)


# --- Registries & sub-handlers ---


def test_default_registry_is_used_when_none_is_given(registry):
    before = get_default_registry()
    set_default_registry(registry)
    try:
        on.create("kopfexamples")(fn)
        on.startup()(fn)
    finally:
        set_default_registry(before)
    assert [handler.fn for handler in registry.resource_handlers] == [fn]
    assert [handler.fn for handler in registry.get_activity_handlers(Activity.STARTUP)] == [fn]


@pytest.mark.parametrize(
    "declare",
    [lambda: on.subhandler()(fn), lambda: on.register(fn)],
    ids=["subhandler", "register"],
)
def test_subhandlers_are_only_for_handlers(declare):
    with pytest.raises(LookupError, match="inside of a handler"):
        declare()


@pytest.fixture
def invocation(make, make_cause, execution):
    """As if we were in a handler."""
    invocation = Invocation(make(on.create, id="parent"), make_cause(), execution)
    token = invocation_var.set(invocation)
    yield invocation
    invocation_var.reset(token)


@pytest.mark.docs("subhandlers")
def test_subhandlers_are_collected_with_prefixed_ids(invocation):
    assert on.subhandler(id="x", param=1, retries=2)(fn) is fn
    assert on.register(fn, id="y", timeout=3) is fn
    on.register(fn=fn)
    x, y, z = invocation.subhandlers
    assert [x.id, y.id, z.id] == ["parent/x", "parent/y", "parent/fn"]
    assert (x.param, x.retries, y.timeout) == (1, 2, 3)
    assert x.reason is None  # of any reason: that of the parent
    assert x.selector is None


@pytest.mark.docs("subhandlers")
def test_subhandlers_can_be_filtered(invocation):
    on.subhandler(field="spec.f", value="v", labels={"x": "y"}, when=fn)(fn)
    (handler,) = invocation.subhandlers
    assert handler.field == ("spec", "f")
    assert (handler.value, handler.labels, handler.when) == ("v", {"x": "y"}, fn)


@pytest.mark.parametrize(
    "options",
    [{"value": 1}, {"old": 1}, {"field": "f", "value": 1, "new": 1}, {"labels": {"x": None}}],
)
def test_subhandlers_are_validated(invocation, options):
    with pytest.raises((TypeError, ValueError)):
        on.subhandler(**options)


@pytest.mark.parametrize("decorator", [*CLASSES, *ACTIVITIES, on.field])
def test_decorators_have_the_documented_options(decorator):
    names = {*inspect.signature(decorator).parameters}
    assert names >= {"id", "param", "registry"}
    if decorator is not on.event:
        assert names >= {"errors", "timeout", "retries", "backoff"}
    if decorator not in ACTIVITIES:
        assert names >= {
            "group",
            "version",
            "kind",
            "plural",
            "singular",
            "shortcut",
            "category",
            "labels",
            "annotations",
            "when",
            "field",
            "value",
        }


def test_registries_are_independent(resource):
    one, two = OperatorRegistry(), OperatorRegistry()
    on.create("kopfexamples", registry=one)(fn)
    assert one.get_resource_handlers(resource)
    assert not two.get_resource_handlers(resource)


@pytest.mark.parametrize("decorator", [on.startup, on.cleanup, on.login, on.probe])
def test_forgotten_parentheses_of_activities_are_explained(decorator):
    def handler(**_):
        pass

    with pytest.raises(TypeError, match=r"needs parentheses: \w+\(\); it was used for '.*handler'"):
        decorator(handler)
