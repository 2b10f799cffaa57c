"""Many starts at once do not make the loop deaf."""

import asyncio

from virtual_time import timeless

from kopf_core.engines.background.starting import PORTION, Starter


@timeless
async def test_simultaneous_starts_let_others_run_in_between():
    starter, order = Starter(), []
    for _ in range(PORTION * 3):
        starter.call_at(10, 0, lambda: order.append("start"))
    asyncio.get_running_loop().call_later(10, order.append, "other")
    await asyncio.sleep(11)
    assert order.index("other") <= PORTION
    assert len(order) == PORTION * 3 + 1


@timeless
async def test_starts_of_the_past_are_soon_and_in_order():
    starter, order = Starter(), []
    starter.call_at(-10, 0, lambda: order.append(1))
    starter.call_at(5, 0, lambda: order.append(3))
    starter.put(lambda: order.append(0))
    await asyncio.sleep(1)
    assert order == [0, 1]
    await asyncio.sleep(5)
    assert order == [0, 1, 3]
