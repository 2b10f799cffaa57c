"""A few lives of replicas; ``python -m e2e.simulation.shards`` lives many more."""

from __future__ import annotations

import pytest

from e2e.simulation.shards import Life


@pytest.mark.parametrize("number", range(12))
def test_o_replicas_handle_every_change_and_never_two_at_once(number):
    life = Life(f"tests-{number}")
    assert not life.run(), "\n".join(life.world.story)
    assert len({call.who for call in life.journal.calls}) > 1
