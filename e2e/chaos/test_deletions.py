"""Deletions: always handled, handled once, and never stuck."""

from __future__ import annotations

from e2e.chaos.driver.marks import has_finalizer
from e2e.chaos.driver.notes import at
from e2e.chaos.fake.faults import refuse, reply_by_status
from e2e.chaos.fake.journal import where

STARVED = """
@kopf.on.create(*KEXES)
@noted
def a(**_):
    pass

@kopf.on.delete(*KEXES)
@noted
def d(**_):
    pass
"""


HELD = """
@kopf.on.startup()
def wait_long(settings, **_):
    settings.queueing.error_delays = [600]

@kopf.on.create(*KEXES)
@noted
def a(**_):
    pass

@kopf.daemon(*KEXES)
def daemon(stopped, name, **_):
    note("started", name=name)
    stopped.wait()
    note("stopped", name=name)
"""


async def test_r25_deletion_is_not_held_with_its_throttled_object(world):
    """Nothing can be written on the object, so there is no finalizer to wait for."""
    async with world.operator(HELD) as process:
        await world.api.until_watched()
        world.api.on(where("patch", "kexes", "one"), refuse(403))
        world.api.create(spec={"x": 1})
        await world.notebook.until(at("started"))
        await process.until_logged("Throttling for 600 seconds")
        world.api.delete()
        await world.notebook.until(at("stopped"))


async def test_r27_statuses_in_reply_to_patches_are_not_objects(world):
    """Some proxies and servers reply so; the patches are applied."""
    async with world.operator(STARVED):
        await world.api.until_watched()
        world.api.on(where("patch", "kexes"), reply_by_status)
        world.api.create(spec={"x": 1})
        await world.until_handled()
        world.api.delete()
        await world.api.until_gone()
    assert [note.handler for note in world.notebook.find(at("end"))] == ["a", "d"]


FAILING = """
@kopf.timer(*KEXES, interval=3600)
def t(**_):
    pass

@kopf.on.field(*KEXES, field="spec.x")
@noted
def f(new, **_):
    if new != 1:
        raise kopf.TemporaryError("Never works.", delay=3600)
"""


async def test_c7_failing_handlers_of_fields_do_not_hold_deletions_of_new_objects(world):
    """The finalizer is there for the timer; nothing else is to be waited for."""
    async with world.operator(FAILING):
        await world.api.until_watched()
        world.api.create(spec={"x": 2})
        await world.api.until(has_finalizer)
        await world.notebook.until(at("end", "f"))
        world.api.delete()
        await world.api.until_gone()
    assert len(world.notebook.find(at("end", "f"))) == 1


async def test_c7_handlers_of_fields_are_not_called_when_deletions_come_with_changes(world):
    async with world.operator(FAILING):
        await world.api.until_watched()
        world.api.create(spec={"x": 1})
        await world.until_handled()
        await world.api.until(has_finalizer)
        world.api.patch({"spec": {"x": 2}})
        world.api.delete()
        await world.api.until_gone()
    assert not world.notebook.find(at(handler="f", reason="delete"))
