"""What has no place for our marks is found out before it is handled."""

import logging

import pytest

from kopf_cogs.configs.diffbase import AnnotationsDiffBaseStorage
from kopf_cogs.configs.digests import DigestDiffBaseStorage
from kopf_cogs.structs.bodies import Body
from kopf_cogs.structs.patches import Patch
from kopf_core.actions.errors import TemporaryError
from kopf_core.actions.loggers import objects_logger
from kopf_core.intents import decorators as on
from kopf_core.reactor.object.sizes import (
    ALWAYS_FITS,
    HEADROOM,
    MAX_ANNOTATIONS_SIZE,
    SUGGESTED,
    is_too_large,
    surely_has_room,
)
from kopf_core.reactor.streams.work import DONE

LAST_HANDLED = "kopf.zalando.org/last-handled-configuration"
LIMIT = MAX_ANNOTATIONS_SIZE - HEADROOM


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


@pytest.mark.parametrize(
    ("present", "length", "expected"),
    [
        (0, ALWAYS_FITS - 1, True),
        (0, ALWAYS_FITS, False),
        (ALWAYS_FITS - 10, 9, True),
        (ALWAYS_FITS - 10, 10, False),
    ],
)
def test_c11_there_is_no_doubt_only_about_short_marks(make_body, present, length, expected):
    body = make_body(annotations={"a": "x" * present} if present else {})
    assert surely_has_room(Body(body), length) is expected


async def test_digests_are_suggested_once_for_large_objects(spine, registry, logged):
    @on.create("kopfexamples", registry=registry)
    @on.update("kopfexamples", registry=registry)
    async def fn(**_):
        pass

    def find():
        return [text for text in logged(logging.WARNING) if "DigestDiffBaseStorage()" in text]

    spine.settings.persistence.diffbase_storage = AnnotationsDiffBaseStorage(compress_above=None)
    spine.create(text="x" * (SUGGESTED - 1000))
    await spine.settle()
    assert not find()
    for size in (SUGGESTED, SUGGESTED + 1):
        spine.change({"spec": {"text": "x" * size}})
        await spine.settle()
    assert len(find()) == 1


async def test_changes_amid_cycles_are_not_missed_with_digests(spine, registry):
    calls = []

    @on.create("kopfexamples", id="a", registry=registry)
    @on.update("kopfexamples", id="a", registry=registry)
    async def a(reason, spec, **_):
        calls.append(("a", str(reason), spec["n"]))

    @on.create("kopfexamples", id="b", registry=registry)
    async def b(retry, **_):
        if not retry:
            raise TemporaryError("not yet", delay=10)

    spine.settings.persistence.diffbase_storage = DigestDiffBaseStorage()
    spine.create(n=1, text="x" * 1000)
    await spine.settle()
    assert await spine.wait() is DONE
    assert calls == [("a", "create", 1)]
    spine.change({"spec": {"n": 2}})
    assert await spine.settle() is DONE
    assert calls == [("a", "create", 1), ("a", "update", 2)]
    assert len(spine.annotations[LAST_HANDLED]) < 200

    calls.clear()  # the same, but the change comes amid the cycle
    spine.body = {}
    spine.restart()
    spine.create(n=1, text="x" * 1000)
    await spine.settle()
    spine.change({"spec": {"n": 2}})
    await spine.settle()
    await spine.wait()
    assert await spine.settle() is DONE
    assert calls == [("a", "create", 1), ("a", "update", 2)]
