"""How many passes there can be at the same time."""

import asyncio

import pytest

from kopf_core.engines.desired.pass_places import CROWD_LIMIT, Crowd, Places, make_places


@pytest.fixture
def told() -> list[str]:
    return []


async def test_those_who_get_no_place_are_told_when_there_is_one(told: list[str]) -> None:
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


async def test_limited_ones_hold_their_places_while_they_wait(told: list[str]) -> None:
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


async def test_those_who_only_ask_are_in_the_line_too(told: list[str]) -> None:
    places = Places(1, told.append)
    assert not places.wait("a")
    assert places.take("a")
    assert places.wait("b")
    places.free()
    assert told == ["b"]
    places.leave("b")  # as there is nothing to be done for it
    assert not places.wait("c")


async def test_those_who_do_not_come_hold_up_nobody(
    told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kopf_core.engines.desired.pass_places.PATIENCE", 0.01)
    all_told = asyncio.Event()

    def tell(key: str) -> None:
        told.append(key)
        if len(told) == 5:
            all_told.set()

    places = Places(2, tell)
    assert places.take("a")
    assert places.take("b")
    assert not any(places.take(name) for name in "cdefg")
    places.free()
    assert told == ["c"]
    places.free()
    assert told == ["c", "d"]
    await all_told.wait()
    assert told == ["c", "d", "e", "f", "g"]
    assert places.take("c")  # when it comes at last


async def test_those_who_are_not_known_anymore_are_skipped() -> None:
    told: list[str] = []

    def tell(key: str) -> bool:
        told.append(key)
        return key == "d"

    places = Places(1, tell)
    assert places.take("a")
    assert not any(places.take(name) for name in "bcde")
    places.free()
    assert told == ["b", "c", "d"]


async def test_those_who_were_called_do_not_lose_their_turn(told: list[str]) -> None:
    places = Places(1, told.append)
    assert places.take("a")
    assert not any(places.take(name) for name in "bc")
    places.free()
    assert places.take("new")
    assert not places.take("b")
    places.free()
    assert told == ["b", "b"]
    assert places.take("b")
    places.free()
    assert told == ["b", "b", "c"]
