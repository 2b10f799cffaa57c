import pytest

from kopf_cogs.helpers.similar import find_similar


@pytest.mark.parametrize(
    ("name", "expected"), [("kopfexample", "kopfexamples"), ("deploments", "deployments")]
)
def test_the_nearest_name_is_suggested(name, expected):
    assert find_similar(name, iter(["deployments", "kopfexamples"])) == expected


@pytest.mark.parametrize("known", [[], ["secrets"]])
def test_nothing_is_suggested_if_nothing_is_near(known):
    assert find_similar("kopfexamples", known) is None


def test_names_can_be_required_to_be_nearer():
    assert find_similar("abcd", ["abxy"], similarity=0.5) == "abxy"
    assert find_similar("abcd", ["abxy"], similarity=0.75) is None
