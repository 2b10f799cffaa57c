"""The mistakes that are noticed before anything is served."""

import functools
import logging
from concurrent.futures import ProcessPoolExecutor

import pytest

from kopf_cogs.configs.settings import OperatorSettings
from kopf_core.intents import decorators as on
from kopf_core.intents.registries import OperatorRegistry
from kopf_core.reactor.shape.preflight import (
    SettingsError,
    SignatureError,
    check_registry,
    check_settings,
)

logger = logging.getLogger("test")


class Callable:
    def __call__(self, **kwargs):
        pass


@pytest.fixture
def registry():
    return OperatorRegistry()


def test_no_handlers_are_a_warning(registry, caplog):
    check_registry(registry, logger)
    assert caplog.messages == ["There are no handlers, so there is nothing to do."]


@pytest.mark.docs("arguments/kwargs")
def test_functions_without_arbitrary_arguments_are_a_warning(registry, caplog):
    def bad(spec, name):
        pass

    on.create("kopfexamples", registry=registry)(bad)
    on.update("kopfexamples", registry=registry)(bad)
    on.startup(id="other", registry=registry)(lambda settings: None)
    check_registry(registry, logger)
    activity, handler = caplog.messages
    assert "Activity 'other' must accept any keyword arguments: add **kwargs" in activity
    assert "Handler 'bad' must accept" in handler.replace(bad.__qualname__, "bad")
    assert "test_preflight.py:" in handler


@pytest.mark.parametrize(
    "fn",
    [
        lambda **_: None,
        lambda spec, **kwargs: None,
        functools.partial(lambda a, **_: None, 1),
        Callable(),
    ],
)
def test_functions_with_arbitrary_arguments_are_fine(registry, caplog, fn):
    on.create("kopfexamples", id="fn", registry=registry)(fn)
    check_registry(registry, logger)
    assert not caplog.messages


@pytest.mark.parametrize(
    ("options", "title"),
    [
        ({"when": lambda spec: True}, "when="),
        ({"labels": {"a": lambda value: True}}, "labels= for 'a'"),
        ({"annotations": {"a": lambda value: True}}, "annotations= for 'a'"),
        ({"field": "spec.x", "value": lambda value: True}, "value="),
        ({"field": "spec.x", "old": lambda value: True}, "old="),
        ({"field": "spec.x", "new": lambda value: True}, "new="),
    ],
)
def test_filters_without_arbitrary_arguments_are_a_warning(registry, caplog, options, title):
    on.update("kopfexamples", id="fn", registry=registry, **options)(lambda **_: None)
    check_registry(registry, logger)
    (message,) = caplog.messages
    assert f"{title} of Handler 'fn" in message
    assert "must accept any keyword arguments: add **kwargs" in message
    assert "test_preflight.py:" in message


def test_good_filters_are_fine(registry, caplog):
    options = {"when": lambda **_: True, "labels": {"a": "b", "c": lambda value, **_: True}}
    on.update("kopfexamples", registry=registry, **options)(lambda **_: None)
    check_registry(registry, logger)
    assert not caplog.messages


def generator(**_):
    yield


async def async_generator(**_):
    yield


@pytest.mark.parametrize("fn", [generator, async_generator, functools.partial(generator, a=1)])
@pytest.mark.parametrize("decorator", [on.create, on.event, on.index, on.daemon])
def test_generators_are_errors_as_their_code_would_never_run(registry, decorator, fn):
    decorator("kopfexamples", id="fn", registry=registry)(fn)
    with pytest.raises(SignatureError) as info:
        check_registry(registry, logger)
    assert " 'fn' has a yield, so its code would never run" in str(info.value)
    assert "test_preflight.py:" in str(info.value)


def test_generators_are_fine_for_reconciling(registry, caplog):
    on.reconcile("kopfexamples", id="fn", registry=registry)(generator)
    check_registry(registry, logger)
    assert not caplog.messages


def test_default_settings_are_fine(caplog):
    check_settings(OperatorSettings(), logger)
    assert not caplog.messages


@pytest.mark.docs("configuration/names")
def test_misspelled_settings_are_warnings(caplog):
    settings = OperatorSettings()
    settings.posting.enabld = False
    settings.xyz = 1
    settings.execution.max_worker = 1  # it is like the name of a property
    check_settings(settings, logger)
    assert sorted(caplog.messages) == [
        "There is no such setting: settings.execution.max_worker. Did you mean 'max_workers'?",
        "There is no such setting: settings.posting.enabld. Did you mean 'enabled'?",
        "There is no such setting: settings.xyz.",
    ]


def test_o_wrong_namespace_selectors_are_refused():
    settings = OperatorSettings()
    settings.scanning.namespace_selector = "tenant in a"
    with pytest.raises(SettingsError, match=r"namespace_selector must be a label selector"):
        check_settings(settings, logger)


@pytest.mark.parametrize("section", ["queueing", "posting"])
@pytest.mark.parametrize("limit", [0, -1])
def test_o4_limits_that_stop_everything_are_errors(section, limit):
    settings = OperatorSettings()
    with pytest.raises(ValueError, match=rf"settings\.{section}\.worker_limit .* not {limit}"):
        getattr(settings, section).worker_limit = limit


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("finalizer", ""),
        ("progress_storage", None),
        ("diffbase_storage", None),
    ],
)
def test_o4_absent_marks_are_errors(name, value):
    settings = OperatorSettings()
    setattr(settings.persistence, name, value)
    with pytest.raises(SettingsError, match=rf"settings\.persistence\.{name} must be set"):
        check_settings(settings, logger)


def test_d17_processes_instead_of_threads_are_errors():
    settings = OperatorSettings()
    with ProcessPoolExecutor() as executor:
        settings.execution.executor = executor
        with pytest.raises(SettingsError, match=r"settings\.execution\.executor"):
            check_settings(settings, logger)


@pytest.mark.parametrize("limit", [1, 100, None])
def test_other_limits_are_fine(limit):
    settings = OperatorSettings()
    settings.queueing.worker_limit = limit
    check_settings(settings, logger)


def positional(spec, /, **_):
    pass


def wrapped(spec):
    pass


@functools.wraps(wrapped)
def wrapper(**kwargs):
    wrapped(kwargs["spec"])


REMOVE = "remove the `/` that is after it."


@pytest.mark.docs("arguments/kwargs")
@pytest.mark.parametrize(
    ("decorate", "fn", "name", "hint"),
    [
        (on.create, lambda spce, **_: None, "spce", " Did you mean 'spec'?"),
        (on.update, lambda event, **_: None, "event", None),
        (on.event, lambda diff, **_: None, "diff", None),
        (on.resume, lambda stopped, **_: None, "stopped", None),
        (on.validate, lambda warning, **_: None, "warning", " Did you mean 'warnings'?"),
        (on.delete, lambda indx, **_: None, "indx", " Did you mean 'index'?"),
        (on.create, positional, "spec", f" Arguments are given by their names: {REMOVE}"),
        (on.create, functools.partial(lambda a, b, **_: None, 1), "b", ""),
    ],
)
def test_arguments_that_are_never_given_are_errors(registry, decorate, fn, name, hint):
    on.index("kopfexamples", id="index", registry=registry)(lambda **_: None)
    decorate("kopfexamples", id="fn", registry=registry)(fn)
    with pytest.raises(SignatureError) as e:
        check_registry(registry, logger)
    assert f" 'fn' is never given {name!r}, see " in str(e.value)
    assert "test_preflight.py:" in str(e.value)
    assert str(e.value).endswith(f").{hint}") or hint is None


def test_arguments_that_activities_do_not_have_are_errors(registry):
    on.startup(id="one", registry=registry)(lambda body, **_: None)
    on.cleanup(id="two", registry=registry)(lambda setings, **_: None)
    with pytest.raises(SignatureError, match=r"'one' .* 'body'.*'two' .* mean 'settings'\?"):
        check_registry(registry, logger)


@pytest.mark.parametrize(
    "fn",
    [
        lambda index, **_: None,
        lambda spec, whatever=1, *args, **_: None,
        functools.partial(lambda whatever, **_: None, whatever=1),
        wrapper,
    ],
)
def test_arguments_that_can_be_given_are_fine(registry, caplog, fn):
    on.index("kopfexamples", id="index", registry=registry)(lambda **_: None)
    on.create("kopfexamples", id="fn", registry=registry)(fn)
    check_registry(registry, logger)
    assert not caplog.messages


@pytest.mark.parametrize(
    ("decorator", "options"),
    [(on.timer, {"interval": 1}), (on.daemon, {}), (on.reconcile, {"owns": ["pods"]})],
)
def test_functions_that_are_never_called_are_a_warning(registry, caplog, decorator, options):
    def one(**_):
        return None

    def other(**_):
        return None

    for fn in (one, one, other):
        decorator("kopfexamples", id="fn", **options, registry=registry)(fn)
    check_registry(registry, logger)
    [message] = caplog.messages
    assert message.startswith("Two different functions are registered as 'fn', and only the first")
    assert message.index("<locals>.one (") < message.index("<locals>.other (")


def test_functions_of_one_id_for_different_objects_are_fine(registry, caplog):
    options = {"id": "fn", "registry": registry}
    on.daemon("kopfexamples", labels={"a": "b"}, **options)(lambda **_: None)
    on.daemon("kopfexamples", labels={"a": "c"}, **options)(lambda **_: None)
    on.daemon("others", **options)(lambda **_: None)
    on.reconcile("others", **options)(lambda **_: [])
    check_registry(registry, logger)
    assert not caplog.messages


@pytest.mark.parametrize(
    ("name", "hint"),
    [("by_secret", ""), ("ownersBySecrets", " Did you mean 'ownersBySecret'?")],
)
def test_relations_by_absent_indices_are_a_warning(registry, caplog, name, hint):
    related = {"secrets": name, "pods": "secrets", "configmaps": "ownersBySecret"}
    on.index("kopfexamples", id="ownersBySecret", registry=registry)(lambda **_: {})
    on.reconcile("kopfexamples", related=related, registry=registry)(lambda **_: [])
    check_registry(registry, logger)
    assert caplog.messages == [
        f"There is no index {name!r} for related=, so it is taken as a field.{hint}"
    ]


@pytest.mark.parametrize("group", ["leasing", "sharding"])
@pytest.mark.parametrize(
    "name", ["", "My-Operator", "my_operator", "-x", "x-", "x..y", ".x", "x/y", "x\n", "x" * 254]
)
def test_o_names_that_leases_cannot_have_are_refused(group, name):
    settings = OperatorSettings()
    getattr(settings, group).name = name
    with pytest.raises(SettingsError, match="must be a name of Leases"):
        check_settings(settings, logger)


@pytest.mark.parametrize("group", ["leasing", "sharding"])
@pytest.mark.parametrize("name", ["x", "my-operator", "my.operator-2", "0"])
def test_o_names_that_leases_can_have_are_accepted(group, name):
    settings = OperatorSettings()
    getattr(settings, group).name = name
    check_settings(settings, logger)


@pytest.mark.parametrize(
    ("group", "name", "value", "text"),
    [
        ("leasing", "name", "x", "Use a ring with neither peering nor a lease"),
        ("peering", "mandatory", True, "Use a ring with neither peering nor a lease"),
        ("sharding", "name", "x", "Use either shards or a ring, not both"),
        ("sharding", "ring", "", "settings.sharding.ring must be a name of rings"),
        ("sharding", "ring", "My_Ring", "settings.sharding.ring must be a name of rings"),
        ("sharding", "ring", "x" * 64, "at most 63 characters"),
        ("sharding", "retry_period", 9, "retry_period < renew_deadline < duration"),
    ],
)
def test_o_senseless_settings_of_rings_are_refused(group, name, value, text):
    settings = OperatorSettings()
    settings.sharding.ring = "mine"
    setattr(getattr(settings, group), name, value)
    with pytest.raises(SettingsError, match=text):
        check_settings(settings, logger)


@pytest.mark.parametrize(
    ("group", "name", "value", "text"),
    [
        ("leasing", "name", "x", "Use shards with neither peering nor a lease"),
        ("peering", "mandatory", True, "Use shards with neither peering nor a lease"),
        ("sharding", "name", "x" * 64, "at most 63 characters"),
        ("sharding", "renew_deadline", 15, "retry_period < renew_deadline < duration"),
        ("sharding", "retry_period", 9, "retry_period < renew_deadline < duration"),
    ],
)
def test_o_senseless_settings_of_shards_are_refused(group, name, value, text):
    settings = OperatorSettings()
    settings.sharding.name = "mine"
    setattr(getattr(settings, group), name, value)
    with pytest.raises(SettingsError, match=text):
        check_settings(settings, logger)


def test_o_with_shards_peering_objects_are_ignored():
    settings = OperatorSettings()
    settings.sharding.name = "mine"
    check_settings(settings, logger)
    assert settings.peering.standalone
