"""The decorators of webhooks: mistakes are noticed when the code is loaded."""

import pytest

from kopf_core.engines.admission import get_webhook_handlers
from kopf_core.intents import decorators as on
from kopf_core.intents.filters import ABSENT, PRESENT
from kopf_core.intents.webhooks import AdmissionError, WebhookType, make_label_selector


def fn(**_):
    pass


@pytest.fixture
def declare(registry):
    def declare(decorator=on.validate, **options):
        decorator("kopfexamples", registry=registry, **options)(fn)
        return get_webhook_handlers(registry)[-1]

    return declare


@pytest.mark.parametrize(
    ("decorator", "type"),
    [(on.validate, WebhookType.VALIDATING), (on.mutate, WebhookType.MUTATING)],
)
def test_defaults(declare, decorator, type):
    handler = declare(decorator)
    assert (handler.fn, handler.id, handler.type) == (fn, "fn", type)
    assert (handler.operations, handler.subresource) == ((), None)
    flags = (handler.persistent, handler.side_effects, handler.ignore_failures)
    assert flags == (False, False, False)
    assert not handler.requires_patching
    assert str(handler) == "Webhook 'fn'"


@pytest.mark.parametrize("name", ["errors", "timeout", "retries", "backoff"])
def test_there_are_no_options_for_retries(declare, name):
    with pytest.raises(TypeError, match=name):
        declare(**{name: 1})


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"operation": "create"}, ValueError),
        ({"operation": "DESTROY"}, ValueError),
        ({"operations": []}, ValueError),
        ({"operation": "CREATE", "operations": ["UPDATE"]}, TypeError),
        ({"timeout_seconds": 0}, ValueError),
        ({"timeout_seconds": 31}, ValueError),
        ({"timeout_seconds": "5"}, ValueError),
        ({"match_policy": "exact"}, ValueError),
        ({"match_conditions": ["object.x"]}, TypeError),
        ({"match_conditions": [{"name": "x"}]}, TypeError),
        ({"namespace_selector": {"x": lambda v, **_: True}}, TypeError),
        ({"reinvocation_policy": "Never"}, TypeError),
        ({"labels": {"x": None}}, ValueError),
    ],
)
def test_mistakes_are_refused(declare, options, error):
    with pytest.raises(error):
        declare(**options)


def test_wrong_reinvocation_policies_are_refused(declare):
    with pytest.raises(ValueError, match="reinvocation_policy"):
        declare(on.mutate, reinvocation_policy="Always")


def test_forgotten_parentheses_are_noticed():
    with pytest.raises(TypeError, match="parentheses"):
        on.validate(fn)


def test_several_decorators_make_several_handlers(registry, declare):
    declare(operation="CREATE")
    declare(operation="UPDATE")
    assert [h.operations for h in get_webhook_handlers(registry)] == [("CREATE",), ("UPDATE",)]


def test_label_selectors_have_no_functions():
    assert make_label_selector({"a": lambda v, **_: True}) == {}
    assert make_label_selector({"a": PRESENT, "b": ABSENT, "c": "d"}) == {
        "matchExpressions": [
            {"key": "a", "operator": "Exists"},
            {"key": "b", "operator": "DoesNotExist"},
            {"key": "c", "operator": "In", "values": ["d"]},
        ]
    }


def test_errors_have_codes():
    assert (str(AdmissionError("x", code=400)), AdmissionError("x", code=400).code) == ("x", 400)
    assert (str(AdmissionError()), AdmissionError().code) == ("", 500)
