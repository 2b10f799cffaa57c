"""Values of settings: what makes sense is taken as is, all the rest is refused where it is set."""

import logging

import pytest

from kopf_cogs.configs.checks import SettingError
from kopf_cogs.configs.settings import OperatorSettings


def set_one(name, value):
    settings = OperatorSettings()
    group, _, key = name.partition(".")
    setattr(getattr(settings, group), key, value)
    return getattr(getattr(settings, group), key)


@pytest.mark.docs("configuration/names")
@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("posting.level", "INFO", "an integer"),
        ("posting.level", True, "an integer"),
        ("posting.enabled", "false", "True or False"),
        ("posting.enabled", None, "True or False"),
        ("posting.reporting_component", 1, "a string"),
        ("posting.worker_limit", 0, "an integer of at least 1 or None"),
        ("posting.worker_limit", "3", "an integer of at least 1 or None"),
        ("posting.default_backoffs", "1", "a number of at least 0 or several such numbers"),
        ("networking.error_backoffs", [1, -1], "a number of at least 0 or several such numbers"),
        ("networking.error_backoffs", [1, "2"], "a number of at least 0 or several such numbers"),
        ("networking.request_timeout", "30", "a number of at least 0 or None"),
        ("networking.request_timeout", -1, "a number of at least 0 or None"),
        ("networking.request_timeout", float("nan"), "a number of at least 0 or None"),
        ("queueing.exit_timeout", None, "a number of at least 0"),
        ("queueing.error_delays", 5, "several such numbers"),
        ("process.ultimate_exiting_timeout", "never", "a number of at least 0 or None"),
        ("watching.chunk_size", 1.5, "an integer of at least 0 or None"),
        ("watching.label_selectors", "a=b", "a mapping of resources"),
        ("execution.default_backoff", "1m", "a number of at least 0 or a function"),
        ("admission.server", "https://host/", "a function or None"),
        ("admission.managed", True, "a string or None"),
        ("persistence.finalizer", None, "a string"),
    ],
)
def test_senseless_values_are_refused_naming_the_setting(name, value, expected):
    with pytest.raises(SettingError) as e:
        set_one(name, value)
    assert str(e.value) == f"settings.{name} must be {expected}, not {value!r}."
    assert isinstance(e.value, TypeError)  # whichever of them is expected
    assert isinstance(e.value, ValueError)


@pytest.mark.parametrize("value", [0, -1, "3", None])
def test_workers_are_counted(value):
    with pytest.raises(
        SettingError, match=r"settings\.execution\.max_workers must be an integer, at least 1"
    ):
        set_one("execution.max_workers", value)


@pytest.mark.parametrize("value", [0, -1, 0.5, float("inf"), float("nan")])
def test_lifetimes_of_peers_are_whole_seconds(value):
    """They are written to the records: with zero, everybody is always dead for all others."""
    with pytest.raises(SettingError, match=r"settings\.peering\.lifetime must be an integer of at"):
        set_one("peering.lifetime", value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("posting.level", logging.DEBUG),
        ("posting.enabled", 0),
        ("posting.worker_limit", 1),
        ("posting.default_backoffs", 1.5),
        ("posting.default_backoffs", range(3)),
        ("networking.error_backoffs", ()),
        ("networking.request_timeout", None),
        ("networking.request_timeout", 0),
        ("networking.request_timeout", float("inf")),
        ("peering.priority", -666),
        ("peering.lifetime", 60.0),
        ("execution.default_backoff", lambda attempt: 2**attempt),
        ("queueing.error_delays", iter([1, 2])),
    ],
)
def test_sensible_values_are_taken_as_they_are(name, value):
    assert set_one(name, value) is value


def test_values_are_left_as_they_were_when_refused():
    settings = OperatorSettings()
    with pytest.raises(SettingError):
        settings.posting.level = "INFO"
    assert settings.posting.level == logging.INFO


def test_other_attributes_are_not_checked():
    """They are warned about when the operator starts; users can keep there what they like."""
    assert set_one("posting.levle", "INFO") == "INFO"
