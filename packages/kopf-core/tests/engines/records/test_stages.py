"""How far the operator has got with an object."""

import pytest

from kopf_core.engines.records.stages import HANDLED, UNHANDLED, PackedStates, Stage

SEEN = PackedStates("since", "{}")


def test_handled_objects_share_one_value():
    assert UNHANDLED.ended(has_progress=False).at(Stage.HANDLED) is HANDLED
    assert UNHANDLED.stored(1.5).ended(has_progress=False).at(Stage.HANDLED) is HANDLED
    assert HANDLED.at(Stage.HANDLED) is HANDLED


@pytest.mark.parametrize("stage", [stage for stage in Stage if stage is not Stage.HANDLED])
def test_stages_change_nothing_else(stage):
    cycle = UNHANDLED.stored(1.5)._replace(seen=SEEN)
    assert cycle.at(stage) == cycle._replace(stage=stage)


def test_stored_progress_is_known_until_the_end_of_the_cycle():
    cycle = HANDLED.stored(1.5)
    assert (cycle.has_progress, cycle.was_stored, cycle.clock_offset) == (True, True, 1.5)
    assert cycle.ended(has_progress=True) == cycle
    assert not cycle.ended(has_progress=False).was_stored
