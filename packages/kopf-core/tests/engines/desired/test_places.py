"""How many passes there can be at the same time."""

import asyncio

import pytest

from kopf_core.engines.desired.places import CROWD_LIMIT, Crowd, Places, make_places


@pytest.fixture
def told() -> list[str]:
    return []


def test_those_who_get_no_place_are_told_when_there_is_one(told: list[str]) -> None:
    places = Places(1, told.append)
    assert places.take("a")
    assert not places.take("b")
    assert not places.take("c")
    places.free()
    assert told == ["b"]


async def test_with_no_limit_those_who_wait_hold_no_places(told: list[str]) -> None:
    crowd = Crowd(1, told.append)
    assert crowd.take("a")
    assert not crowd.take("b")
    with crowd.aside:
        await asyncio.sleep(0)
        assert told == ["b"]
        assert crowd.take("b")
    assert not crowd.take("c")
    crowd.free()
    assert told == ["b"]  # there are as many as can be
    crowd.free()
    assert told == ["b", "c"]


async def test_those_who_do_not_wait_hold_their_places(told: list[str]) -> None:
    crowd = Crowd(1, told.append)
    assert crowd.take("a")
    assert not crowd.take("b")
    with crowd.aside:
        pass
    await asyncio.sleep(0)
    assert told == []


def test_limited_ones_hold_their_places_while_they_wait(told: list[str]) -> None:
    places = make_places(1, None, told.append)
    assert places.take("a")
    with places.aside:
        assert not places.take("b")


@pytest.mark.parametrize(
    ("workers", "limit"), [(None, CROWD_LIMIT), (1, CROWD_LIMIT), (CROWD_LIMIT, 2 * CROWD_LIMIT)]
)
def test_there_are_enough_places_for_threads(
    workers: int | None, limit: int, told: list[str]
) -> None:
    crowd = make_places(None, workers, told.append)
    assert [crowd.take(str(n)) for n in range(limit + 1)] == [True] * limit + [False]


def test_those_who_only_ask_are_in_the_line_too(told: list[str]) -> None:
    places = Places(1, told.append)
    assert not places.wait("a")
    assert places.take("a")
    assert places.wait("b")
    places.free()
    assert told == ["b"]
    places.leave("b")  # as there is nothing to be done for it
    assert not places.wait("c")
