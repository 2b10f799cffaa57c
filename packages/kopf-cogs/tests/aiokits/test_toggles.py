import asyncio

import pytest

from kopf_cogs.aiokits.toggles import Toggle, ToggleSet


@pytest.mark.parametrize("state", [True, False])
def test_states(state):
    toggle = Toggle(state, name="name1")
    assert toggle.is_on() is state
    assert toggle.is_off() is not state
    assert repr(toggle) == f"<Toggle: name1: {'on' if state else 'off'}>"


def test_toggles_are_not_mistaken_for_booleans():
    with pytest.raises(NotImplementedError):
        bool(Toggle())
    with pytest.raises(NotImplementedError):
        bool(ToggleSet(any))


@pytest.mark.parametrize("state", [True, False])
async def test_waiting(state):
    toggle = Toggle(not state)
    task = asyncio.create_task(toggle.wait_for(state))
    await asyncio.sleep(0)
    assert not task.done()
    toggle.turn_to(state)
    await task
    await toggle.wait_for(state)


async def test_waiters_do_not_miss_quick_changes_back():
    toggle = Toggle(False)
    task = asyncio.create_task(toggle.wait_for(True))
    await asyncio.sleep(0)
    toggle.turn_to(True)
    toggle.turn_to(False)  # before the task has run
    await asyncio.sleep(0)
    assert not task.done()
    toggle.turn_to(True)
    await task


async def test_cancelled_waiters_are_forgotten():
    toggle = Toggle(False)
    task = asyncio.create_task(toggle.wait_for(True))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert not toggle._waiters


@pytest.mark.parametrize(
    ("fn", "states", "expected"),
    [
        (any, [], False),
        (any, [False], False),
        (any, [True], True),
        (any, [True, False], True),
        (all, [], True),
        (all, [False], False),
        (all, [True], True),
        (all, [True, False], False),
    ],
)
def test_sets(fn, states, expected):
    toggles = ToggleSet(fn)
    for state in states:
        toggles.make_toggle(state)
    assert toggles.is_on() is expected
    assert toggles.is_off() is not expected
    assert len(toggles) == len([*toggles]) == len(states)


@pytest.mark.parametrize("fn", [any, all])
async def test_waiting_for_sets(fn):
    toggles = ToggleSet(fn)
    first, second = toggles.make_toggle(False), toggles.make_toggle(False)
    task = asyncio.create_task(toggles.wait_for(True))
    await asyncio.sleep(0)
    first.turn_to(True)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert task.done() is (fn is any)
    second.turn_to(True)
    await task


async def test_dropping_can_change_the_state():
    toggles = ToggleSet(all)
    kept, dropped = toggles.make_toggle(True), toggles.make_toggle(False, name="x")
    task = asyncio.create_task(toggles.wait_for(True))
    await asyncio.sleep(0)
    toggles.drop_toggle(dropped)
    await task
    dropped.turn_to(True)
    dropped.turn_to(False)
    assert toggles.is_on()
    assert kept in toggles
    assert dropped not in toggles
    toggles.drop_toggles([kept, dropped])
    assert not len(toggles)


def test_unsupported_functions():
    with pytest.raises(ValueError, match="any"):
        ToggleSet(sum)


def test_repr_of_sets():
    toggles = ToggleSet(any)
    toggles.make_toggle(True)
    toggles.make_toggle(False)
    assert repr(toggles) == "<ToggleSet: 1/2 on>"
