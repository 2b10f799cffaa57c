"""Happenings as they are passed between processes."""

import json

import pytest

from kopf_cogs.structs.selectors import EVERYTHING, Selector
from kopf_core.actions.happenings import Happening


@pytest.mark.parametrize(
    "kind", ["websites", "websites.v1.example.com", Selector.of(group="g", singular="website")]
)
def test_q_the_same_happening_comes_to_other_processes(kind):
    happening = Happening(kind, "name", "ns", "reason")
    other = Happening.unpack(json.loads(json.dumps(happening.pack())))
    assert other.selector == happening.selector
    assert (other.name, other.namespace, other.reason) == ("name", "ns", "reason")


@pytest.mark.parametrize("kind", [Selector.of(EVERYTHING), Selector.of(lambda resource: True)])
def test_q_functions_and_markers_cannot_be_passed_to_other_processes(kind):
    assert Happening(kind, "name").pack() is None
