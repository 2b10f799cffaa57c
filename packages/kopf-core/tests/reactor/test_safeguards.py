"""What keeps the operator sane when objects, users, or other tools are not."""

import logging
from functools import partial

import pytest

from kopf_cogs.configs.diffbase import (
    AnnotationsDiffBaseStorage,
    HashingDiffBaseStorage,
    MultiDiffBaseStorage,
    StatusDiffBaseStorage,
)
from kopf_cogs.structs.bodies import Body
from kopf_cogs.structs.memos import Memo
from kopf_cogs.structs.patches import Patch
from kopf_cogs.structs.resources import Resource
from kopf_core.actions.effects import Applied
from kopf_core.actions.loggers import objects_logger
from kopf_core.engines.memories import ObjectMemory
from kopf_core.intents import decorators as on
from kopf_core.reactor.safeguards import (
    HEADROOM,
    LOST_MARKS_DELAYS,
    MAX_ANNOTATIONS_SIZE,
    MAX_CONFLICT_DELAY,
    MAX_CONFLICTS,
    get_conflict_delay,
    get_lost_marks_delay,
    is_too_large,
    keep_refused,
    warn_of_clashes,
    warn_of_exposed_secrets,
)

REFUSED = partial(Applied, is_refused=True)
LIMIT = MAX_ANNOTATIONS_SIZE - HEADROOM
SECRETS = Resource(group="", version="v1", plural="secrets", kind="Secret")


@pytest.fixture
def memory():
    return ObjectMemory(Memo(), is_listed=False)


@pytest.mark.parametrize(
    ("present", "planned", "expected"),
    [
        (0, 0, False),
        (0, LIMIT, False),
        (0, LIMIT + 1, True),
        (LIMIT, 1, True),
        (LIMIT - 10, 10, False),
    ],
)
def test_c11_sizes_of_annotations(make_body, logged, present, planned, expected):
    body = make_body(annotations={"a": "x" * (present - 1)} if present else {})
    patch = Patch({"metadata": {"annotations": {"b": "x" * (planned - 1)}}} if planned else {})
    assert is_too_large(Body(body), patch, objects_logger) is expected
    assert bool(logged(logging.ERROR)) is expected


def test_c11_replaced_annotations_are_counted_once(make_body):
    body = make_body(annotations={"a": "x" * LIMIT})
    patch = Patch({"metadata": {"annotations": {"a": "y" * 100}}})
    assert not is_too_large(Body(body), patch, objects_logger)


def test_c11_sizes_are_in_bytes(make_body):
    patch = Patch({"metadata": {"annotations": {"a": "я" * (LIMIT // 2 + 1)}}})
    assert is_too_large(Body(make_body()), patch, objects_logger)


def test_c15_lost_marks_are_handled_slower_and_slower(memory, logged):
    delays = [get_lost_marks_delay(memory, objects_logger) for _ in range(10)]
    assert delays[0] == 0
    assert delays == sorted(delays)
    assert delays[-1] == LOST_MARKS_DELAYS[-1] > 10
    assert len(logged(logging.WARNING)) == 10


def test_b10_functions_refused_too_many_times_in_a_row_are_dropped(memory, logged):
    def fn(body):
        pass

    def send(applied, has_news=False):
        keep_refused(memory, applied, objects_logger, has_news=has_news)
        return memory.take_carried()

    for _ in range(MAX_CONFLICTS - 1):
        assert send(REFUSED(carried=(fn,))) == (fn,)
    assert send(Applied()) == ()  # accepted: counted anew
    for _ in range(MAX_CONFLICTS - 1):
        assert send(REFUSED(carried=(fn,))) == (fn,)
        assert send(REFUSED(carried=(fn,)), has_news=True) == (fn,)  # it is not in vain
    assert not logged(logging.ERROR)
    assert send(REFUSED(carried=(fn,))) == ()
    (message,) = logged(logging.ERROR)
    assert "fn" in message


def test_b10_refused_finalizers_are_reported_from_time_to_time(memory, logged):
    delays = []
    for _ in range(MAX_CONFLICTS * 2):
        keep_refused(memory, REFUSED(), objects_logger, has_news=False)
        delays.append(get_conflict_delay(memory))
    messages = logged(logging.ERROR)
    assert len(messages) == 2
    assert "finalizer" in messages[0]
    assert delays[:5] == [2, 4, 8, 16, 32]
    assert max(delays) == MAX_CONFLICT_DELAY


def test_b10_functions_of_several_patches_are_carried_together(memory):
    keep_refused(memory, REFUSED(carried=(print,)), objects_logger, has_news=True)
    keep_refused(memory, Applied(), objects_logger, has_news=True)
    keep_refused(memory, REFUSED(carried=(repr,)), objects_logger, has_news=True)
    assert memory.take_carried() == (print, repr)


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
    assert "test_safeguards.py:" in warning


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
