"""What users should know of their handlers."""

import logging

import pytest

from kopf_cogs.configs.diffbase import (
    AnnotationsDiffBaseStorage,
    HashingDiffBaseStorage,
    MultiDiffBaseStorage,
    StatusDiffBaseStorage,
)
from kopf_cogs.structs.memos import Memo
from kopf_cogs.structs.resources import Resource
from kopf_core.actions.loggers import objects_logger
from kopf_core.engines.memories import ObjectMemory
from kopf_core.intents import decorators as on
from kopf_core.reactor.object.warnings import warn_of_clashes, warn_of_exposed_secrets

SECRETS = Resource(group="", version="v1", plural="secrets", kind="Secret")


@pytest.fixture
def memory():
    return ObjectMemory(Memo(), is_listed=False)


def test_c9_ids_that_are_stored_alike_are_clashes(registry, memory, logged):
    on.create("kopfexamples", id="a.b", registry=registry)(lambda **_: 1)
    on.create("kopfexamples", id="a/b", registry=registry)(lambda **_: 2)
    warn_of_clashes(memory, registry.resource_handlers, objects_logger)
    (warning,) = logged(logging.WARNING)
    assert "'a.b' and 'a/b'" in warning


def test_c10_clashes_are_warned_about_once_per_object(registry, memory, logged):
    def one(**_):
        pass

    def two(**_):
        pass

    on.create("kopfexamples", id="x", registry=registry)(one)
    on.create("kopfexamples", id="x", registry=registry)(two)
    for _ in range(3):
        warn_of_clashes(memory, registry.resource_handlers, objects_logger)
    (warning,) = logged(logging.WARNING)
    assert "'x'" in warning
    assert "one (" in warning
    assert "two (" in warning
    assert "test_warnings.py:" in warning


@pytest.mark.parametrize(
    ("storage", "expected"),
    [
        (AnnotationsDiffBaseStorage(), True),
        (HashingDiffBaseStorage(), False),
        (StatusDiffBaseStorage(), False),
        (MultiDiffBaseStorage([StatusDiffBaseStorage(), AnnotationsDiffBaseStorage()]), True),
        (MultiDiffBaseStorage([HashingDiffBaseStorage()]), False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_e6_exposed_secrets_are_warned_about(resource, logged, storage, expected):
    warn_of_exposed_secrets(SECRETS, storage, objects_logger)
    assert bool(logged(logging.WARNING)) is expected
    warn_of_exposed_secrets(resource, storage, objects_logger)
    assert len(logged(logging.WARNING)) == expected
