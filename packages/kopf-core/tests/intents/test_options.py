"""The options of decorators, as they are checked when the code is loaded."""

import sys

import pytest

from kopf_cogs.structs.resources import Resource
from kopf_core.actions.errors import ErrorsMode
from kopf_core.intents import decorators as on
from kopf_core.intents.registries import OperatorRegistry

KEX = Resource("kopf.dev", "v1", "kopfexamples")


@pytest.fixture
def registry():
    return OperatorRegistry()


@pytest.mark.parametrize(
    ("decorator", "options", "expected"),
    [
        (on.timer, {"interval": "5"}, r"interval= must be a number, not '5'"),
        (on.timer, {"interval": -5}, r"interval= must not be negative, as -5 is"),
        (on.timer, {"idle": "5"}, r"idle= must be a number"),
        (on.timer, {"initial_delay": "5"}, r"initial_delay= must be a number or a function"),
        (on.timer, {"schedule": "0 3 * * *", "interval": 5}, r"Either schedule= or interval="),
        (on.timer, {"schedule": "0 3 * * *", "idle": 5}, r"Either schedule= or idle="),
        (on.timer, {"schedule": "0 3 * *"}, r"schedule= must be five fields as in crontab"),
        (on.timer, {"schedule": 5}, r"schedule= must be a text, .* not 5\.$"),
        (on.timer, {"schedule": print}, r"one for all objects, e.g. '0 3 \* \* \*', not <built-in"),
        (on.timer, {"schedule": "0 0 30 2 *"}, r"not '0 0 30 2 \*': Bad day-of-month"),
        (on.timer, {"schedule": "@daily", "timezone": "Mars/Olympus"}, r"timezone= must be a name"),
        (on.timer, {"schedule": "0 3 * * *", "missed": "some"}, r"missed= must be one of 'none'"),
        (on.timer, {"schedule": "0 3 * * *", "jitter": -1}, r"jitter= must be a number of seconds"),
        (on.timer, {"missed": "all"}, r"missed= needs schedule="),
        (on.daemon, {"cancellation_timeout": "5"}, r"cancellation_timeout= must be a number"),
        (on.create, {"timeout": "1m"}, r"timeout= must be a number"),
        (on.create, {"retries": "3"}, r"retries= must be a number"),
        (on.create, {"backoff": "2s"}, r"backoff= must be a number or a function"),
        (on.create, {"errors": "permanent"}, r"errors= must be one of kopf.ErrorsMode"),
        (on.create, {"labels": "a=b"}, r"labels= must be a dictionary, not 'a=b'"),
        (on.create, {"annotations": ["a"]}, r"annotations= must be a dictionary"),
        (on.event, {"when": True}, r"when= must be a function"),
        (on.reconcile, {"owns": "pods"}, r"owns= must be a list of kinds, .*, not 'pods'"),
        (on.reconcile, {"owns": {"pods": "v1"}}, r"owns= must be a list of kinds"),
        (on.reconcile, {"owns": True}, r"owns= must be a list of kinds"),
        (on.reconcile, {"related": ["secrets"]}, r"related= must be a dictionary of kinds"),
        (on.reconcile, {"related": "secrets"}, r"related= must be a dictionary of kinds"),
    ],
)
def test_wrong_types_are_errors_at_once(registry, decorator, options, expected):
    with pytest.raises(TypeError, match=expected):
        decorator("kopfexamples", registry=registry, **options)


def test_wrong_types_in_activities_are_errors_at_once(registry):
    with pytest.raises(TypeError, match="retries="):
        on.startup(retries="3", registry=registry)


@pytest.mark.parametrize(
    ("decorator", "options"),
    [
        (on.timer, {"interval": 5, "idle": 0.5, "initial_delay": lambda **_: 5}),
        (
            on.create,
            {"timeout": 1, "retries": 3, "backoff": lambda n: n, "errors": ErrorsMode.IGNORED},
        ),
        (on.create, {"labels": {"a": "b"}, "annotations": {}, "when": lambda **_: True}),
    ],
)
def test_proper_types_are_accepted(registry, decorator, options):
    decorator("kopfexamples", registry=registry, **options)(lambda **_: None)
    assert len(registry.resource_handlers) == 1


@pytest.mark.parametrize("decorator", [on.create, on.event, on.timer, on.daemon, on.index])
def test_forgotten_parentheses_are_errors(decorator):
    def one(**kwargs):
        pass

    def two(spec, name, **_):
        pass

    async def three(spec, **_):
        pass

    for fn in (one, two, three):
        with pytest.raises(TypeError, match=rf"needs parentheses .*{fn.__name__}"):
            decorator(fn)


@pytest.mark.docs("selectors")
@pytest.mark.parametrize(
    "selector",
    [
        lambda resource: resource.plural == "kopfexamples",
        lambda resource, **_: resource.plural == "kopfexamples",
        lambda r: r.plural == "kopfexamples",
    ],
)
def test_functions_can_be_selectors(registry, selector):
    on.event(selector, registry=registry)(lambda **_: None)
    handlers = registry.get_resource_handlers(KEX)
    assert len(handlers.watching) == 1


def test_q_cron_without_the_library_the_extra_is_named(registry, monkeypatch):
    monkeypatch.setitem(sys.modules, "cronsim", None)
    with pytest.raises(ImportError, match=r"pip install 'kopf\[cron\]'"):
        on.timer("kopfexamples", schedule="0 3 * * *", registry=registry)
