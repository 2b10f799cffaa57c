"""Owned and related objects, as reconcilers get them."""

import pytest

from kopf_core.intents.families import Family


def test_q_unknown_kinds_are_told_with_the_known_ones(resource):
    family = Family([resource], [], "default")
    assert family["kopfexamples"] == family["KopfExample"] == {}
    with pytest.raises(KeyError, match="'Secrets' is none of the kinds: KopfExample"):
        family["Secrets"]
    assert family.get("Secrets") is None


def test_q_it_is_told_if_there_are_no_kinds():
    with pytest.raises(KeyError, match="'Secret' is none of the kinds: there are none"):
        Family([], [], "default")["Secret"]
