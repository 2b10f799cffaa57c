"""The list of mutants: each must still be possible, when the code has changed."""

from __future__ import annotations

import pytest

from e2e.simulation.defects import MUTANTS, PARTS
from e2e.simulation.mutants import HERE, OUTSIDE, TESTS, choose_tests


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_mutants_can_be_made(mutant):
    package = mutant.file.partition("/")[0].replace("_", "-")
    text = (HERE / "packages" / package / "src" / mutant.file).read_text()
    assert text.count(mutant.old) == 1
    assert mutant.old != mutant.new


def test_there_are_enough_mutants_of_different_names():
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 30


@pytest.mark.parametrize("part", PARTS)
def test_there_are_unit_tests_for_each_part(part):
    chosen = choose_tests(part)
    assert len(chosen) == len(TESTS[part]) + len(OUTSIDE.get(part, ()))
    assert all((HERE / one).exists() for one in chosen)
