import pytest

from kopf_cogs.helpers.similar import find_similar


@pytest.mark.parametrize(
    ("name", "expected"), [("kopfexample", "kopfexamples"), ("deploments", "deployments")]
)
def test_the_nearest_name_is_suggested(name, expected):
    assert find_similar(name, iter(["deployments", "kopfexamples"])) == expected


def test_names_with_the_same_beginning_are_nearer():
    """The word is also near to "registry", and has more letters in common with it."""
    assert find_similar("retry", ["registry", "retries"]) == "retries"
    assert find_similar("registy", ["registry", "retries"]) == "registry"


@pytest.mark.parametrize("known", [[], ["secrets"]])
def test_nothing_is_suggested_if_nothing_is_near(known):
    assert find_similar("kopfexamples", known) is None


def test_names_can_be_required_to_be_nearer():
    assert find_similar("abcd", ["abxy"], similarity=0.5) == "abxy"
    assert find_similar("abcd", ["abxy"], similarity=0.75) is None
