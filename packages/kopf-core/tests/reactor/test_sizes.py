"""What has no place for our marks is found out before it is handled."""

import logging

import pytest

from kopf_cogs.structs.bodies import Body
from kopf_cogs.structs.patches import Patch
from kopf_core.actions.loggers import objects_logger
from kopf_core.reactor.sizes import (
    ALWAYS_FITS,
    HEADROOM,
    MAX_ANNOTATIONS_SIZE,
    is_too_large,
    surely_has_room,
)

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
