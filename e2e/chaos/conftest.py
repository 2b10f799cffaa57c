"""The worlds for the tests of chaos, and their seeds."""

from __future__ import annotations

import os
import pathlib
import random
from collections.abc import AsyncIterator

import pytest

from e2e.chaos.driver.world import World, open_world
from e2e.chaos.fake.kinds import KEX, VEX

SEED = int(os.environ.get("CHAOS_SEED") or random.SystemRandom().randrange(10**6))
os.environ["CHAOS_SEED"] = str(SEED)  # for all processes of this run


TIMEOUT = 300
"""How long (in seconds) a test can take: a few of its waits for what never comes."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = pathlib.Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TIMEOUT))


def pytest_report_header() -> str:
    return f"chaos: CHAOS_SEED={SEED} repeats this run"


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> random.Random:
    """The only source of chance: each test has its own, whatever other tests do."""
    return random.Random(f"{SEED}:{request.node.name}")


@pytest.fixture
def rounds() -> int:
    """How much of what can be repeated endlessly: in units of the default portion."""
    return int(os.environ.get("CHAOS_ROUNDS", "1"))


@pytest.fixture
async def world(tmp_path: pathlib.Path) -> AsyncIterator[World]:
    """A new world; judged by all oracles when the test is over."""
    async with open_world(tmp_path, KEX, VEX) as world:
        yield world
        world.judge()
