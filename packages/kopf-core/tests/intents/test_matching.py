"""Which handlers want which causes: the filtering chapter of the documentation, by sentences."""

import asyncio
import logging

import pytest

from kopf_core.actions.states import HandlerState
from kopf_core.intents import decorators as on
from kopf_core.intents.causes import Reason
from kopf_core.intents.filters import ABSENT, PRESENT
from kopf_core.intents.matching import (
    FilterError,
    get_field,
    matches,
    may_match,
    prematches,
    select,
)
from kopf_core.intents.registries import ResourceHandlers

CREATE, UPDATE, DELETE, RESUME = Reason.CREATE, Reason.UPDATE, Reason.DELETE, Reason.RESUME


def fn(**_):
    pass


@pytest.fixture
def make(registry):
    """A handler as the decorators make it."""

    def make(decorator, **options):
        decorator("kopfexamples", registry=registry, **options)(fn)
        return registry.resource_handlers[-1]

    return make


@pytest.mark.docs("filtering/metadata")
@pytest.mark.parametrize("kind", ["labels", "annotations"])
@pytest.mark.parametrize("decorator", [on.create, on.update, on.delete, on.resume])
@pytest.mark.parametrize(
    ("criterion", "actual", "expected"),
    [
        ("v", {"x": "v"}, True),
        ("v", {"x": "other"}, False),
        ("v", {}, False),
        ("v", None, False),
        (PRESENT, {"x": "v"}, True),
        (PRESENT, {"x": ""}, True),
        (PRESENT, {}, False),
        (ABSENT, {"x": "v"}, False),
        (ABSENT, {"x": ""}, False),
        (ABSENT, {}, True),
        (ABSENT, None, True),
    ],
)
def test_metadata_filters(make, make_cause, kind, decorator, criterion, actual, expected):
    handler = make(decorator, **{kind: {"x": criterion}})
    reason = handler.reason or RESUME
    meta = {} if actual is None else {kind: actual}
    cause = make_cause(reason, {"f": 2}, old={"f": 1}, initial=reason == RESUME, **meta)
    assert matches(handler, cause) is expected


@pytest.mark.docs("filtering/metadata")
@pytest.mark.parametrize(
    ("actual", "expected"),
    [({"x": "1", "y": "2"}, True), ({"x": "1", "y": "3"}, False), ({"x": "1"}, False), ({}, False)],
)
def test_all_criteria_must_be_met(make, make_cause, actual, expected):
    handler = make(on.create, labels={"x": "1", "y": "2"})
    assert matches(handler, make_cause(labels=actual)) is expected


@pytest.mark.docs("filtering")
@pytest.mark.parametrize("failing", ["labels", "annotations", "field", "when", None])
def test_criteria_of_different_kinds_are_joined_with_and(make, make_cause, failing):
    handler = make(
        on.create,
        labels={"x": "wrong" if failing == "labels" else "v"},
        annotations={"x": "wrong" if failing == "annotations" else "v"},
        field="spec.f",
        value="wrong" if failing == "field" else "v",
        when=lambda **_: failing != "when",
    )
    cause = make_cause(CREATE, {"f": "v"}, labels={"x": "v"}, annotations={"x": "v"})
    assert matches(handler, cause) is (failing is None)


@pytest.mark.docs("filtering/metadata")
def test_metadata_callbacks_get_the_value_and_the_kwargs_of_the_handler(make, make_cause):
    calls = []

    def check(value, /, **kwargs):
        calls.append((value, kwargs["reason"], kwargs["name"]))
        return value is None

    handler = make(on.create, labels={"x": check})
    assert matches(handler, make_cause(labels={}))
    assert not matches(handler, make_cause(labels={"x": "v"}))
    assert calls == [(None, CREATE, "obj"), ("v", CREATE, "obj")]


@pytest.mark.docs("filtering/field")
@pytest.mark.parametrize(
    ("value", "spec", "expected"),
    [
        (None, {"f": "v"}, True),
        (None, {"f": ""}, True),
        (None, {}, False),
        (None, {"f": None}, False),
        (PRESENT, {"f": "v"}, True),
        (PRESENT, {}, False),
        (PRESENT, {"f": None}, False),
        (ABSENT, {"f": "v"}, False),
        (ABSENT, {}, True),
        (ABSENT, {"f": None}, True),
        ("v", {"f": "v"}, True),
        ("v", {"f": "w"}, False),
        ("v", {}, False),
    ],
)
@pytest.mark.parametrize("decorator", [on.create, on.delete, on.resume, on.daemon, on.timer])
def test_field_filters_check_the_current_state(make, make_cause, decorator, value, spec, expected):
    handler = make(decorator, field="spec.f", value=value)
    reason = getattr(handler, "reason", None) or RESUME
    assert matches(handler, make_cause(reason, spec, initial=True)) is expected


@pytest.mark.docs("filtering/field")
@pytest.mark.parametrize(
    ("value", "spec", "expected"),
    [(None, {"f": "v"}, True), (None, {}, False), (ABSENT, {}, True), ("v", {"f": "v"}, True)],
)
def test_field_filters_of_event_handlers(make, make_event_cause, value, spec, expected):
    handler = make(on.event, field="spec.f", value=value)
    assert matches(handler, make_event_cause(spec)) is expected


@pytest.mark.docs("filtering/field")
@pytest.mark.parametrize("decorator", [on.update, on.field])
@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ({"f": 1}, {"f": 2}, True),  # changed
        ({}, {"f": 2}, True),  # added
        ({"f": 1}, {}, True),  # removed
        ({"f": 1, "g": 1}, {"f": 1, "g": 2}, False),  # unaffected
        ({"g": 1}, {"g": 2}, False),  # absent
        ({"f": None}, {"g": 2}, False),  # null is the same as absent
        ({"f": {"x": 1}}, {"f": {"x": 2}}, True),  # inside of the field
    ],
)
def test_updates_need_the_field_to_be_affected(make, make_cause, decorator, old, new, expected):
    handler = make(decorator, field="spec.f")
    assert matches(handler, make_cause(UPDATE, new, old=old)) is expected


@pytest.mark.docs("filtering/field")
@pytest.mark.parametrize("decorator", [on.update, on.field])
@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ({"f": "v"}, {"f": "w"}, True),  # just lost
        ({"f": "w"}, {"f": "v"}, True),  # just satisfied
        ({"f": "w"}, {"f": "z"}, False),  # neither before nor after
        ({}, {"f": "v"}, True),
        ({"f": "v"}, {}, True),
        ({"f": "v", "g": 1}, {"f": "v", "g": 2}, False),  # satisfied but unaffected
    ],
)
def test_values_of_updates_are_either_old_or_new(make, make_cause, decorator, old, new, expected):
    handler = make(decorator, field="spec.f", value="v")
    assert matches(handler, make_cause(UPDATE, new, old=old)) is expected


@pytest.mark.docs("filtering/field")
@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [({"f": 1}, {}, True), ({}, {"f": 1}, True), ({"f": 1}, {"f": 2}, False)],
)
def test_absence_in_updates_is_either_before_or_after(make, make_cause, old, new, expected):
    handler = make(on.update, field="spec.f", value=ABSENT)
    assert matches(handler, make_cause(UPDATE, new, old=old)) is expected


@pytest.mark.docs("filtering/change")
@pytest.mark.parametrize("decorator", [on.update, on.field])
@pytest.mark.parametrize(
    ("criteria", "old", "new", "expected"),
    [
        ({"old": "x", "new": "y"}, {"f": "x"}, {"f": "y"}, True),
        ({"old": "x", "new": "y"}, {"f": "x"}, {"f": "z"}, False),
        ({"old": "x", "new": "y"}, {"f": "z"}, {"f": "y"}, False),
        ({"old": ABSENT, "new": PRESENT}, {}, {"f": 1}, True),
        ({"old": ABSENT, "new": PRESENT}, {"f": 1}, {"f": 2}, False),
        ({"old": PRESENT, "new": ABSENT}, {"f": 1}, {}, True),
        ({"old": PRESENT, "new": ABSENT}, {"f": 1}, {"f": 2}, False),
        ({"new": "v"}, {"f": "x"}, {"f": "v"}, True),
        ({"new": "v"}, {}, {"f": "v"}, True),
        ({"new": "v"}, {"f": "v"}, {"f": "x"}, False),
        ({"new": "v"}, {"f": "v", "g": 1}, {"f": "v", "g": 2}, False),
        ({"old": "v"}, {"f": "v"}, {"f": "x"}, True),
        ({"old": "v"}, {"f": "v"}, {}, True),
        ({"old": "v"}, {"f": "x"}, {"f": "v"}, False),
        ({"old": "v"}, {"f": "v", "g": 1}, {"f": "v", "g": 2}, False),
        ({"old": None, "new": None}, {"f": 1}, {"f": 2}, True),
        ({"old": PRESENT, "new": PRESENT}, {"f": 1}, {"f": 2}, True),
        ({"old": PRESENT, "new": PRESENT}, {"f": 1}, {}, False),
        ({"old": ABSENT, "new": ABSENT}, {"g": 1}, {"g": 2}, False),
    ],
)
def test_old_and_new_are_checked_separately(
    make, make_cause, decorator, criteria, old, new, expected
):
    handler = make(decorator, field="spec.f", **criteria)
    assert matches(handler, make_cause(UPDATE, new, old=old)) is expected


@pytest.mark.docs("filtering/change")
def test_change_callbacks_get_the_values_of_the_field(make, make_cause):
    calls = []

    def check(value, /, *, old, new, **_):
        calls.append((value, old["spec"], new["spec"]))
        return True

    handler = make(on.update, field="spec.f", old=check, new=check)
    assert matches(handler, make_cause(UPDATE, {}, old={"f": 1}))
    assert calls == [(1, {"f": 1}, {}), (None, {"f": 1}, {})]  # None if absent


@pytest.mark.docs("filtering/field")
def test_field_handlers_are_called_for_creation(make, make_cause):
    handler = make(on.field, field="spec.f")
    assert matches(handler, make_cause(CREATE, {"f": 1}))
    assert not matches(handler, make_cause(CREATE, {"g": 1}))


@pytest.mark.parametrize(
    ("criteria", "expected"),
    [
        ({"old": ABSENT}, True),
        ({"old": "v"}, False),
        ({"new": "v"}, True),
        ({"new": ABSENT}, False),
        ({"value": "v"}, True),
        ({"value": "w"}, False),
        ({"value": ABSENT}, True),
    ],
)
def test_field_handlers_at_creation_have_no_old_values(make, make_cause, criteria, expected):
    handler = make(on.field, field="spec.f", **criteria)
    assert matches(handler, make_cause(CREATE, {"f": "v"})) is expected


@pytest.mark.docs("filtering/when")
@pytest.mark.parametrize("result", [True, False, "truthy", "", None, 0])
def test_when_callbacks_decide(make, make_cause, result):
    handler = make(on.create, when=lambda **_: result)
    assert matches(handler, make_cause()) is bool(result)


@pytest.mark.docs("filtering/when")
def test_when_callbacks_can_check_any_of_the_kwargs(make, make_cause):
    seen = {}
    handler = make(on.update, when=lambda **kwargs: seen.update(kwargs) or True)
    cause = make_cause(UPDATE, {"f": 2}, old={"f": 1}, indices={"my_index": "the index"})
    assert matches(handler, cause)
    assert sorted(seen) == [
        "annotations",
        "body",
        "conditions",
        "diff",
        "labels",
        "logger",
        "memo",
        "meta",
        "my_index",
        "name",
        "namespace",
        "new",
        "old",
        "patch",
        "reason",
        "resource",
        "spec",
        "status",
        "uid",
    ]
    assert seen["reason"] == UPDATE
    assert seen["my_index"] == "the index"


def test_cheap_criteria_go_first(make, make_cause):
    def fail(*_, **__):
        pytest.fail("The callback must not be called: the labels do not match already.")

    handler = make(on.create, labels={"x": "v"}, annotations={"x": fail}, when=fail)
    assert not matches(handler, make_cause(labels={}))


def test_labels_of_the_current_state_matter_not_the_old_ones(make, make_cause):
    handler = make(on.update, labels={"x": "new"})
    assert matches(handler, make_cause(UPDATE, {"f": 2}, old={"f": 1}, labels={"x": "new"}))
    assert not matches(handler, make_cause(UPDATE, {"f": 2}, old={"f": 1}, labels={"x": "old"}))


@pytest.mark.docs("handlers/state-changing")
@pytest.mark.parametrize("reason", [CREATE, UPDATE, DELETE])
@pytest.mark.parametrize("decorator", [on.create, on.update, on.delete])
def test_reasons(make, make_cause, decorator, reason):
    handler = make(decorator)
    cause = make_cause(reason, {"f": 2}, old=None if reason == CREATE else {"f": 1})
    assert matches(handler, cause) is (handler.reason == reason)


@pytest.mark.docs("handlers/resuming")
@pytest.mark.parametrize(
    ("reason", "initial", "deleted", "expected"),
    [
        (RESUME, True, None, True),
        (UPDATE, True, None, True),  # mixed into what else has happened
        (UPDATE, False, None, False),
        (CREATE, True, None, False),  # never handled: nothing to resume
        (CREATE, False, None, False),
        (DELETE, True, None, False),
        (DELETE, True, False, False),
        (DELETE, True, True, True),
        (DELETE, False, True, False),
    ],
)
def test_resuming(make, make_cause, reason, initial, deleted, expected):
    handler = make(on.resume, deleted=deleted)
    cause = make_cause(
        reason, {"f": 2}, old=None if reason == CREATE else {"f": 1}, initial=initial
    )
    assert matches(handler, cause) is expected


@pytest.mark.docs("filtering/stealth")
def test_interest_does_not_depend_on_what_has_happened(make, make_cause):
    handler = make(on.delete, labels={"x": "v"})
    assert prematches(handler, make_cause(CREATE, labels={"x": "v"}))
    assert not prematches(handler, make_cause(CREATE, labels={"x": "w"}))


@pytest.mark.docs("filtering/stealth")
@pytest.mark.parametrize(
    ("criterion", "labels", "expected"),
    [
        ("v", {"x": "v"}, True),
        ("v", {}, False),
        (PRESENT, {}, False),
        (ABSENT, {}, True),
        (lambda *_, **__: False, {}, True),  # unknown until all the kwargs are there
    ],
)
def test_quick_checks_never_deny_what_can_match(make, make_cause, criterion, labels, expected):
    for kind in ("labels", "annotations"):
        handler = make(on.create, **{kind: {"x": criterion}})
        assert may_match(handler, make_cause(**{kind: labels}).body) is expected


@pytest.mark.parametrize(
    "content",
    [
        None,
        {},
        {"spec": None},
        {"spec": {}},
        {"spec": {"f": None}},
        {"spec": "a string"},
        {"spec": ["f"]},
    ],
)
def test_fields_that_cannot_be_reached_are_missing(content):
    assert get_field(content, ("spec", "f")) is get_field({}, ("spec", "f"))


def fail(*_, **__):
    raise ValueError("boom")


@pytest.mark.docs("filtering")
@pytest.mark.parametrize(
    ("decorator", "options"),
    [
        (on.create, {"when": fail}),
        (on.event, {"when": fail}),
        (on.timer, {"when": fail}),
        (on.create, {"labels": {"x": fail}}),
        (on.create, {"annotations": {"x": fail}}),
        (on.create, {"field": "spec.f", "value": fail}),
        (on.update, {"field": "spec.f", "old": fail}),
        (on.update, {"field": "spec.f", "new": fail}),
    ],
)
def test_failing_filters_are_errors_naming_the_handler(make, make_cause, decorator, options):
    handler = make(decorator, id="the-id", **options)
    reason = UPDATE if decorator is on.update else CREATE
    cause = make_cause(reason, {"f": 2}, old={"f": 1}, labels={"x": "y"}, annotations={"x": "y"})
    with pytest.raises(FilterError) as excinfo:
        matches(handler, cause)
    message = str(excinfo.value)
    assert "filters of handler 'the-id" in message
    assert "ValueError: boom" in message
    assert f"test_matching.py:{fail.__code__.co_firstlineno + 1}" in message


EVIL = [
    ValueError("boom"),
    SystemExit(1),
    KeyboardInterrupt(),
    GeneratorExit(),
    asyncio.CancelledError(),
    StopIteration(),
    BaseExceptionGroup("many", [SystemExit(2)]),
]


def make_evil(exc):
    def evil(*_, **__):
        raise exc

    return evil


def test_filters_that_cannot_be_called_have_no_place_as_it_is_ours(make, make_event_cause, logged):
    select([make(on.event, id="bad", when=lambda: True)], make_event_cause())
    (message,) = logged(logging.ERROR)
    assert "The filters of handler 'bad' have failed: TypeError: " in message
    assert ".py" not in message


@pytest.mark.parametrize("exc", EVIL, ids=lambda exc: type(exc).__name__)
def test_r4_r20_failing_filters_cost_only_their_own_handlers(make, make_event_cause, logged, exc):
    bad, good = make(on.event, id="bad", when=make_evil(exc)), make(on.event, id="good")
    assert select([bad, good], make_event_cause()) == [good]
    (message,) = logged(logging.ERROR)
    assert "filters of handler 'bad' have failed" in message
    assert type(exc).__name__ in message
    assert "test_matching.py:" in message


def test_r4_failing_filters_leave_running_handlers_as_they_are(make, make_cause):
    bad = make(on.daemon, id="bad", when=fail)
    assert select([bad], make_cause()) == []
    assert select([bad], make_cause(), running={"bad"}) == [bad]


@pytest.mark.parametrize("reason", [CREATE, UPDATE, RESUME])
async def test_r4_change_handlers_with_failing_filters_are_tried_again(
    make, make_cause, execution, clock, reason
):
    bad, good = make(on.field, id="bad", field="spec.f", when=fail, backoff=7), make(on.event)
    cause = make_cause(reason, {"f": 2}, old={"f": 1})
    selected, other = select([bad, good], cause)
    assert other is good
    outcome = await execution.attempt(selected, cause, HandlerState(started=clock.now()))
    assert isinstance(outcome.exception, FilterError)
    assert (outcome.final, outcome.delay) == (False, 7)


async def test_r4_deletions_end_whatever_the_filters_are(make, make_cause, execution, clock):
    bad = make(on.delete, id="bad", when=fail)
    cause = make_cause(DELETE)
    (selected,) = select([bad], cause)
    outcome = await execution.attempt(selected, cause, HandlerState(started=clock.now()))
    assert outcome.final
    assert isinstance(outcome.exception, FilterError)


def test_r4_objects_are_not_released_while_the_interest_is_unknown(make, make_cause, registry):
    make(on.delete, id="bad", when=fail)
    handlers = ResourceHandlers(changing=tuple(registry.resource_handlers))
    assert handlers.is_interested(make_cause())
    assert handlers.requires_finalizer(make_cause())
