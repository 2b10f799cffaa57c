"""Idle objects: only their status changes, and nothing is to be done for them."""

import logging

import pytest

from kopf_cogs.configs.diffbase import AnnotationsDiffBaseStorage, StatusDiffBaseStorage
from kopf_core.intents import decorators as on
from kopf_core.reactor.streams.work import DONE

COMPARED = "the object is compared with its last handled state"


@pytest.fixture
def comparisons(monkeypatch):
    """What takes long: each time when the last handled state is read."""
    found, fetch = [], AnnotationsDiffBaseStorage.fetch

    def count(self, *, body):
        found.append(COMPARED)
        return fetch(self, body=body)

    monkeypatch.setattr(AnnotationsDiffBaseStorage, "fetch", count)
    return found


@pytest.fixture
def updates(registry):
    """The diffs as the handler has seen them."""
    found = []
    on.update("kopfexamples", registry=registry)(lambda diff, **_: found.append(diff))
    return found


async def settle(spine, **spec):
    """Have an object handled, and then once reported on by others."""
    spine.create(**spec)
    assert await spine.settle() is DONE
    await report(spine, 0)


async def report(spine, number):
    spine.change({"status": {"seen": number}})
    assert await spine.turn() is DONE


async def test_m_changes_of_the_status_alone_are_not_compared(spine, updates, comparisons):
    await settle(spine, field=1)
    comparisons.clear()
    for number in range(1, 4):
        await report(spine, number)
    assert not comparisons
    assert not updates


@pytest.mark.parametrize(
    "change",
    [
        {"spec": {"field": 2}},
        {"metadata": {"labels": {"a": "b"}}},
        {"metadata": {"annotations": {"a": "b"}}},
        {"data": {"a": "b"}},
    ],
    ids=["spec", "labels", "annotations", "other"],
)
async def test_m_other_changes_are_handled_though_they_come_with_the_status(spine, updates, change):
    """The generation is not relied on: many kinds have none."""
    await settle(spine, field=1)
    spine.change({"status": {"seen": 1}, **change})
    assert await spine.settle() is DONE
    assert len(updates) == 1


async def test_m_deletions_are_handled_after_changes_of_the_status(spine, registry, updates):
    calls = []
    on.delete("kopfexamples", registry=registry)(lambda **_: calls.append("deleted"))
    await settle(spine)
    await report(spine, 1)
    spine.change({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})
    assert await spine.settle() is DONE
    assert calls == ["deleted"]


async def test_m_lost_marks_are_noticed_after_changes_of_the_status(spine, updates, comparisons):
    await settle(spine)
    comparisons.clear()
    spine.change({"metadata": {"annotations": None}, "status": {"seen": 1}})
    await spine.turn()
    assert comparisons


async def test_m_handlers_of_the_status_are_called(spine, registry):
    calls = []
    on.field("kopfexamples", field="status.seen", registry=registry)(
        lambda new, **_: calls.append(new)
    )
    spine.create()
    assert await spine.settle() is DONE
    for number in range(3):
        spine.change({"status": {"other": number}})
        assert await spine.settle() is DONE
        spine.change({"status": {"seen": number}})
        assert await spine.settle() is DONE
    assert calls == [0, 1, 2]


async def test_m_finalizers_follow_filters_by_the_status(spine, registry):
    """It depends on the status whether the deletion must be seen."""
    on.delete("kopfexamples", registry=registry, when=lambda status, **_: status.get("seen") == 2)(
        lambda **_: None
    )
    on.update("kopfexamples", registry=registry)(lambda **_: None)
    await settle(spine)
    await report(spine, 1)
    assert not spine.body["metadata"].get("finalizers")
    spine.change({"status": {"seen": 2}})
    assert await spine.settle() is DONE
    assert spine.body["metadata"]["finalizers"]


async def test_m_states_in_the_status_are_read(spine, updates, settings):
    """Whoever changes it there, changes what the object is compared with."""
    settings.persistence.diffbase_storage = StatusDiffBaseStorage()
    await settle(spine, field=1)
    await report(spine, 1)
    spine.change({"status": {"kopf": {"last-handled-configuration": '{"spec":{"field":0}}'}}})
    assert await spine.settle() is DONE
    assert len(updates) == 1


async def test_m_the_same_is_told_as_without_that(spine, updates, caplog):
    caplog.set_level(logging.DEBUG, logger="kopf.objects")
    await settle(spine)
    told = []
    for number in range(1, 4):
        caplog.clear()
        await report(spine, number)
        told.append([record.message for record in caplog.records])
    assert told[0] == told[1] == told[2] != []
