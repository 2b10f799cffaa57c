"""Tests that depend on real time are found."""

import pytest
from real_time import ALLOWED, ROOT, find, find_all


@pytest.mark.parametrize(
    "code",
    [
        "time.sleep(0.1)",
        "await asyncio.sleep(0.1)",
        "await asyncio.sleep(delay)",
        "assert time.monotonic() - began < 1",
        "began = time.perf_counter()",
        "assert loop.time() >= at",
        "at = asyncio.get_running_loop().time() + 1",
        "async with asyncio.timeout(0.5): pass",
        "await asyncio.wait_for(task, 1)",
        "await asyncio.wait_for(task, timeout=1)",
        "await asyncio.wait([task], timeout=0.1)",
    ],
)
def test_k37_real_time_is_found(code: str) -> None:
    ((line, _),) = find(f"async def test_it():\n    {code}\n")
    assert line == 2


@pytest.mark.parametrize(
    "code",
    [
        "await asyncio.sleep(0)",
        "await asyncio.sleep(1000)",
        "await asyncio.sleep(math.inf)",
        "async with asyncio.timeout(60): pass",
        "async with asyncio.timeout(PATIENCE): pass",
        "async with asyncio.timeout(0): pass",
        "await asyncio.wait([task])",
        "clock.monotonic()",
    ],
)
def test_k37_what_does_not_depend_on_time_is_fine(code: str) -> None:
    assert not [*find(f"async def test_it():\n    {code}\n")]


@pytest.mark.parametrize("mark", ["timeless", "pytest.mark.long"])
def test_k37_tests_in_virtual_time_and_long_ones_are_fine(mark: str) -> None:
    assert not [*find(f"@{mark}\nasync def test_it():\n    await asyncio.sleep(1)\n")]
    assert not [*find("pytestmark = pytest.mark.long\n\ntime.sleep(1)\n")]


def test_k37_no_usual_tests_depend_on_real_time() -> None:
    assert [str(finding) for finding in find_all(ROOT)] == []


@pytest.mark.parametrize("name", ALLOWED)
def test_k37_what_is_allowed_is_still_needed(name: str) -> None:
    assert [*find((ROOT / name).read_text("utf-8"))]
