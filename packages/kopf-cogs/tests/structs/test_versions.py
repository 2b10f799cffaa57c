"""Which one of two states of an object is the newer one."""

import pytest

from kopf_cogs.structs.versions import is_as_new, is_newer, is_same, parse_version


def body(version):
    return {"metadata": {} if version is None else {"resourceVersion": version}}


@pytest.mark.parametrize(
    ("one", "other", "newer", "as_new", "same"),
    [
        ("10", "9", True, True, False),
        ("9", "9", False, True, True),
        ("9", "10", False, False, False),
        (None, "9", False, False, False),
        (None, None, False, False, False),
        ("abc", "abc", False, False, True),
        ("-1", "1", False, False, False),
        ("²", "1", False, False, False),
    ],
)
def test_versions_are_compared_only_as_numbers(one, other, newer, as_new, same):
    assert is_newer(body(one), body(other)) is newer
    assert is_as_new(body(one), other or "") is as_new
    assert is_same(body(one), body(other)) is same


@pytest.mark.parametrize(
    ("version", "expected"), [("0", 0), ("123", 123), ("", None), (None, None), ("1.5", None)]
)
def test_versions_are_parsed(version, expected):
    assert parse_version(body(version)) == expected
