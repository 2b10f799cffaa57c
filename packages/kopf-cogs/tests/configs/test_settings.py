import concurrent.futures
import copy
import dataclasses
import subprocess
import sys
import threading

import pytest

from kopf_cogs.configs.diffbase import AnnotationsDiffBaseStorage
from kopf_cogs.configs.progress import SmartProgressStorage
from kopf_cogs.configs.selectors_map import SelectorMapping
from kopf_cogs.configs.settings import OperatorSettings
from kopf_cogs.structs.resources import Resource

DEFAULTS = {
    "process.ultimate_exiting_timeout": 600,
    "posting.enabled": True,
    "posting.loggers": False,
    "posting.level": 20,
    "posting.default_backoffs": (1, 1, 2, 3, 5, 8, 13, 21),
    "posting.logging_backoffs": (1, 1, 2, 3, 5),
    "posting.worker_limit": None,
    "posting.idle_timeout": 1.0,
    "posting.reporting_component": "kopf",
    "posting.reporting_instance": "dev",
    "posting.event_name_prefix": "kopf-event-",
    "peering.name": "default",
    "peering.stealth": False,
    "peering.priority": 0,
    "peering.lifetime": 60,
    "peering.mandatory": False,
    "peering.standalone": False,
    "peering.clusterwide": False,
    "peering.namespaced": True,
    "serving.endpoint": None,
    "serving.status": None,
    "serving.token": None,
    "leasing.name": None,
    "leasing.namespace": None,
    "leasing.duration": 15.0,
    "leasing.renew_deadline": 10.0,
    "leasing.retry_period": 2.0,
    "leasing.release_on_exit": True,
    "leasing.exit_on_loss": False,
    "sharding.name": None,
    "sharding.ring": None,
    "sharding.namespace": None,
    "sharding.duration": 15.0,
    "sharding.renew_deadline": 10.0,
    "sharding.retry_period": 2.0,
    "watching.server_timeout": None,
    "watching.client_timeout": None,
    "watching.connect_timeout": None,
    "watching.reconnect_backoff": 0.1,
    "watching.inactivity_timeout": 70.0,
    "watching.chunk_size": None,
    "watching.initial_streaming": False,
    "watching.label_selectors": SelectorMapping({}),
    "watching.field_selectors": SelectorMapping({}),
    "watching.shard_selectors": SelectorMapping({}),
    "watching.transforms": SelectorMapping({}),
    "watching.metadata_if_enough": False,
    "watching.referenced_only": False,
    "queueing.worker_limit": None,
    "queueing.idle_timeout": 5.0,
    "queueing.exit_timeout": 2.0,
    "queueing.error_delays": (1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610),
    "scanning.disabled": False,
    "scanning.namespace_selector": None,
    "admission.server": None,
    "admission.managed": None,
    "execution.honor_pauses": False,
    "execution.attempt_timeout": None,
    "execution.default_backoff": 60,
    "execution.max_workers": None,
    "background.cancellation_polling": 60,
    "background.instant_exit_timeout": None,
    "background.instant_exit_zero_time_cycles": 10,
    "networking.request_timeout": 300,
    "networking.connect_timeout": None,
    "networking.error_backoffs": (1, 1, 2, 3, 5, 8, 13, 21),
    "networking.enforce_retry_after": False,
    "networking.qps": None,
    "networking.burst": 10,
    "networking.trust_env": False,
    "networking.plugin_timeout": 60,
    "persistence.finalizer": "kopf.zalando.org/KopfFinalizerMarker",
    "persistence.consistency_timeout": 5.0,
}


@pytest.mark.parametrize("name", list(DEFAULTS))
def test_defaults_are_as_documented(name):
    group, field = name.split(".")
    assert getattr(getattr(OperatorSettings(), group), field) == DEFAULTS[name]


def test_nothing_is_forgotten_in_the_defaults():
    settings = OperatorSettings()
    names = {
        f"{group.name}.{field.name}"
        for group in dataclasses.fields(settings)
        if dataclasses.is_dataclass(getattr(settings, group.name))
        for field in dataclasses.fields(getattr(settings, group.name))
        if not field.name.startswith("_")
    }
    storages = {"persistence.progress_storage", "persistence.diffbase_storage"}
    assert names == DEFAULTS.keys() - {"peering.namespaced", "execution.max_workers"} | storages


def test_name_is_followed_unless_set_explicitly():
    settings = OperatorSettings()
    settings.persistence.finalizer = "example.com/mine"
    settings.name = "sites.example.com"
    assert settings.persistence.finalizer == "example.com/mine"
    assert settings.posting.reporting_component == "sites.example.com"
    settings.posting.reporting_component = "mine"
    settings.name = "others.example.com"
    assert settings.posting.reporting_component == "mine"
    assert settings.persistence.diffbase_storage.prefix == "others.example.com"
    assert OperatorSettings(name="a").persistence.finalizer == "a/finalizer"
    assert OperatorSettings().persistence.finalizer == "kopf.zalando.org/KopfFinalizerMarker"


@pytest.mark.parametrize("name", ["", "A", "a b", "a/b", "a.", "x" * 64])
def test_names_that_cannot_be(name):
    with pytest.raises(ValueError, match="must be like a domain name"):
        OperatorSettings(name=name)


def test_default_storages():
    persistence = OperatorSettings().persistence
    assert type(persistence.progress_storage) is SmartProgressStorage
    assert type(persistence.diffbase_storage) is AnnotationsDiffBaseStorage
    assert persistence.progress_storage is not OperatorSettings().persistence.progress_storage


def test_operators_share_no_settings():
    settings1, settings2 = OperatorSettings(), OperatorSettings()
    settings1.posting.level = 40
    settings1.watching.label_selectors["pods"] = "a=b"
    assert settings2.posting.level == 20
    assert not settings2.watching.label_selectors
    assert settings1.execution.executor is not settings2.execution.executor


def test_namespaced_is_the_opposite_of_clusterwide():
    settings = OperatorSettings()
    settings.peering.namespaced = False
    assert settings.peering.clusterwide is True
    settings.peering.clusterwide = False
    assert settings.peering.namespaced is True


def test_selectors_can_be_assigned_as_dicts():
    settings = OperatorSettings()
    settings.watching.label_selectors = {"pods": "a=b"}
    assert settings.watching.label_selectors.collect(Resource("", "v1", "pods")) == ["a=b"]
    with pytest.raises(TypeError, match="label_selectors must be a mapping"):
        settings.watching.label_selectors = "a=b"


def test_no_threads_are_started_by_settings():
    before = threading.active_count()
    settings = OperatorSettings()
    assert settings.execution.executor is settings.execution.executor
    assert threading.active_count() == before


def test_imports_are_lazy():
    code = (
        "import sys, kopf_cogs.configs.settings as s; s.OperatorSettings(); "
        "print([m for m in ('concurrent.futures.thread', 'aiohttp', 'yaml') if m in sys.modules])"
    )
    output = subprocess.check_output([sys.executable, "-c", code], text=True)
    assert output.strip() == "[]"


def run_together(executor, parties):
    """Run tasks which can only finish in groups, and get the number of threads they ran in."""
    barrier = threading.Barrier(parties, timeout=30)

    def work():
        barrier.wait()
        return threading.get_ident()

    futures = [executor.submit(work) for _ in range(parties * 10)]
    return len({future.result() for future in futures})


def test_max_workers_before_the_executor_is_used():
    settings = OperatorSettings()
    settings.execution.max_workers = 2
    with settings.execution.executor as executor:
        assert run_together(executor, 2) == 2


def test_max_workers_after_the_executor_is_used():
    settings = OperatorSettings()
    settings.execution.max_workers = 1
    with settings.execution.executor as executor:
        executor.submit(int).result()
        settings.execution.max_workers = 3
        assert settings.execution.max_workers == 3
        assert settings.execution.executor is executor
        assert run_together(executor, 3) == 3


def test_executor_can_be_replaced():
    settings = OperatorSettings()
    with concurrent.futures.ThreadPoolExecutor(1) as executor:
        settings.execution.executor = executor
        assert settings.execution.executor is executor


@pytest.mark.parametrize("value", [0, -1])
def test_max_workers_must_be_positive(value):
    settings = OperatorSettings()
    with pytest.raises(
        ValueError, match=r"settings\.execution\.max_workers must be an integer, at least 1"
    ):
        settings.execution.max_workers = value


def test_deprecated_names():
    settings = OperatorSettings()
    with pytest.warns(DeprecationWarning, match=r"settings\.queueing"):
        assert settings.batching is settings.queueing
    with pytest.warns(DeprecationWarning, match="does not exist anymore"):
        settings.queueing.batch_window = 3
    with pytest.warns(DeprecationWarning, match="does not exist anymore"):
        assert settings.queueing.batch_window == 3


@pytest.mark.parametrize(
    ("name", "hint"),
    [("postign", " Did you mean 'settings.posting'?"), ("xyz", ""), ("_followed", "")],
)
def test_unknown_sections_are_explained(name, hint):
    settings = OperatorSettings()
    with pytest.raises(AttributeError) as info:
        getattr(settings, name)
    assert str(info.value) == f"There is no such setting: settings.{name}.{hint}"
    assert getattr(settings, name, None) is None
    assert not hasattr(settings, name)
    assert copy.copy(settings).posting is settings.posting
