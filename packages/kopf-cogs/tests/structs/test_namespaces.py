import re

import pytest

from kopf_cogs.structs.namespaces import match_namespace, select_specific_namespaces


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        ("ns", "ns", True),
        ("ns", "ns2", False),
        ("ns", "xns", False),
        ("*", "ns", True),
        ("*-pr-123-*", "myapp-pr-123-x", True),
        ("*-pr-123-*", "myapp-pr-124-x", False),
        ("ns?", "ns1", True),
        ("ns?", "ns12", False),
        ("!*-pr-123-*", "myapp-pr-123-x", False),
        ("!*-pr-123-*", "myapp-live", True),
        ("!a,!b", "a", False),
        ("!a,!b", "b", False),
        ("!a,!b", "c", True),
        ("!a,a", "a", True),
        ("a*,!ab*,abc", "a", True),
        ("a*,!ab*,abc", "abx", False),
        ("a*,!ab*,abc", "abc", True),
        # The first glob is decisive, whatever follows:
        ("myapp-*,!*-pr-*,*-pr-123", "myapp-live", True),
        ("myapp-*,!*-pr-*,*-pr-123", "myapp-pr-456", False),
        ("myapp-*,!*-pr-*,*-pr-123", "myapp-pr-123", True),
        ("myapp-*,!*-pr-*,*-pr-123", "otherapp-live", False),
        ("myapp-*,!*-pr-*,*-pr-123", "otherapp-pr-123", False),
        ("a,b", "b", False),
        # Spaces are for readability:
        ("myapp-*, !*-pr-*", "myapp-pr-456", False),
        ("", "", True),
        ("", "ns", False),
    ],
)
def test_globs(pattern, name, expected):
    assert match_namespace(name, pattern) is expected


@pytest.mark.parametrize(("name", "expected"), [("ns1", True), ("ns12", False), ("xns1", False)])
def test_regular_expressions_match_in_full(name, expected):
    assert match_namespace(name, re.compile(r"ns\d")) is expected


def test_specific_namespaces():
    patterns = ["ns1", "ns*", "ns?", "!ns2", "ns3,ns4", re.compile("ns5"), "", "ns-6"]
    assert select_specific_namespaces(patterns) == {"ns1", "ns-6"}
