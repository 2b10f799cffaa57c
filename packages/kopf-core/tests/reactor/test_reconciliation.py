"""The spine: what is held while an object is processed, and while it is left alone."""

import weakref
from unittest.mock import Mock

import pytest

from kopf_cogs.clients.errors import APIConnectionError, APINotFoundError
from kopf_cogs.configs.diffbase import AnnotationsDiffBaseStorage
from kopf_cogs.configs.settings import OperatorSettings
from kopf_cogs.structs.resources import Resource
from kopf_core.actions.errors import TemporaryError
from kopf_core.actions.execution import Execution
from kopf_core.actions.lifecycles import asap
from kopf_core.engines.memories import ObjectMemories
from kopf_core.engines.records.writes import AwaitChange
from kopf_core.intents import decorators as on
from kopf_core.intents.indices import Indices
from kopf_core.intents.registries import OperatorRegistry
from kopf_core.reactor.object.reconciliation import Reconciler
from kopf_core.reactor.streams.work import DONE, Requeue, WorkItem

FINALIZER = "kopf.zalando.org/KopfFinalizerMarker"
LAST_HANDLED = "kopf.zalando.org/last-handled-configuration"
RESOURCE = Resource("kopf.dev", "v1", "kopfexamples", kind="KopfExample", namespaced=True)


class Document(dict):
    """Unlike usual dictionaries, it can be seen when it is gone."""


class Client:
    """It accepts all patches."""

    fence = None

    async def patch(self, url, payload, *, content_type):
        return make_object(version="6")


def make_object(version):
    metadata = {"name": "a", "namespace": "ns", "uid": "u", "resourceVersion": version}
    return {"kind": "KopfExample", "metadata": metadata, "spec": {}}


async def test_states_of_events_are_not_held_while_handlers_work():
    """There can be thousands of objects in work at once."""
    held = []
    registry = OperatorRegistry()

    @on.create("kopfexamples", registry=registry)
    async def fn(**_):
        held.append(document())

    execution = Execution(settings=OperatorSettings(), lifecycle=asap)
    reconciler = Reconciler(
        client=Client(),
        resource=RESOURCE,
        handlers=registry.get_resource_handlers(RESOURCE),
        execution=execution,
        memories=ObjectMemories(None),
        indices=Indices([]),
        background=Mock(
            is_running=lambda _: False, is_stopping=lambda _: False, get_finished=lambda _: ()
        ),
    )
    item = WorkItem("u")
    item.latest, item.type = make_object(version="5"), "MODIFIED"
    item.take({"type": "MODIFIED", "object": Document(make_object(version="5"))}, keep=False)
    document = weakref.ref(item.events[0]["object"])
    assert isinstance(await reconciler.process(item), AwaitChange)
    assert held == [None]


class BrokenStorage(AnnotationsDiffBaseStorage):
    """As users make them: it fails until it is repaired."""

    is_broken = True

    def fetch(self, *, body):
        if self.is_broken:
            raise RuntimeError("out of order")
        return super().fetch(body=body)


@pytest.mark.parametrize("silent", [None, "first", "second"])
async def test_k37_changes_by_handlers_of_events_are_not_lost_while_throttled(
    spine, registry, settings, silent
):
    """Every event is handled once, so its handlers cannot make the same changes again."""

    @on.event("kopfexamples", registry=registry)
    async def fn(spec, patch, **_):
        if spec["event"] != silent:  # what is owed can begin while it is throttled
            patch.status[spec["event"]] = True

    on.update("kopfexamples", registry=registry)(lambda **_: None)
    settings.queueing.error_delays = [10]
    settings.persistence.diffbase_storage = BrokenStorage()
    spine.create(event="first")
    assert await spine.settle() == Requeue(at=10, is_held=True)
    for event in ["second", "third"]:
        spine.change({"spec": {"event": event}})
        assert await spine.turn() == Requeue(at=10, is_held=True)
    assert not spine.patches
    settings.persistence.diffbase_storage.is_broken = False
    assert await spine.wait() is DONE
    told = {"first", "second", "third"} - {silent}
    assert spine.patches[0]["status"] == dict.fromkeys(told, True)


async def test_model1_deletion_handlers_are_not_called_again_after_a_lost_reply(
    spine, registry, settings
):
    """The last patch lets the object go: when it is sent again, the API knows no such object."""
    calls = []

    @on.delete("kopfexamples", registry=registry)
    async def fn(**_):
        calls.append("deleted")

    settings.queueing.error_delays = [10]
    spine.create()
    await spine.settle()
    spine.change({"metadata": {"deletionTimestamp": "2030-01-01T00:00:00Z"}})
    spine.failures = [APIConnectionError("the reply is lost")]
    assert await spine.turn() == Requeue(at=10, is_held=True)
    details = {"name": "obj", "group": "kopf.dev", "kind": "kopfexamples", "uid": "u"}
    gone = {"kind": "Status", "reason": "NotFound", "details": details}
    spine.failures = [APINotFoundError(gone, status=404)]
    assert await spine.wait() is DONE
    assert calls == ["deleted"]


async def test_model2_lists_from_before_a_deletion_revive_nothing(spine, registry, settings):
    calls = []

    @on.delete("kopfexamples", registry=registry)
    async def fn(**_):
        calls.append("deleted")

    details = {"name": "obj", "group": "kopf.dev", "kind": "kopfexamples", "uid": "u"}
    gone = {"kind": "Status", "reason": "NotFound", "details": details}
    spine.create()
    await spine.settle()
    spine.change({"metadata": {"deletionTimestamp": "2030-01-01T00:00:00Z"}})
    spine.failures = [APINotFoundError(gone, status=404)]
    assert await spine.turn() is DONE
    spine.looks = [APINotFoundError(gone, status=404)]
    spine.item = WorkItem("u")
    spine.see(None)
    assert await spine.turn() is DONE
    assert calls == ["deleted"]
    assert not spine.looks


async def test_l_earlier_own_states_are_forgotten_when_a_patch_meets_changes_by_others(
    spine, registry
):
    """A restored backup can bring the same versions again, and these are not ours."""

    @on.create("kopfexamples", registry=registry)
    @on.update("kopfexamples", registry=registry)
    async def fn(spec, **_):
        if spec["n"] == 1:
            spine._merge({"spec": {"other": 1}})

    spine.create(n=0)
    await spine.settle()
    assert spine.memory.write.is_final
    spine.change({"spec": {"n": 1}})
    await spine.turn()
    assert spine.memory.write.version is None
    assert not spine.memory.write.is_final


async def test_l_the_progress_of_a_deletion_goes_together_with_the_finalizer(spine, registry):
    """If it went before, a restart right then would call the handlers of the deletion again."""

    @on.delete("kopfexamples", id="fn", registry=registry)
    async def fn(retry, **_):
        if not retry:
            raise TemporaryError("not yet", delay=10)

    spine.create()
    await spine.settle()
    spine.change({"metadata": {"finalizers": [FINALIZER, "of.others"]}})
    spine.change({"metadata": {"deletionTimestamp": "2030-01-01T00:00:00Z"}})
    assert await spine.settle() == Requeue(at=10)
    assert "kopf.zalando.org/fn" in spine.annotations
    spine.patches.clear()
    assert await spine.wait() is DONE
    assert len(spine.patches) == 1
    assert spine.body["metadata"]["finalizers"] == ["of.others"]
    assert [*spine.annotations] == [LAST_HANDLED]


async def test_l_objects_are_forgotten_when_they_are_deleted(spine, registry):
    on.create("kopfexamples", registry=registry)(lambda **_: None)
    spine.create()
    await spine.settle()
    assert "u" in spine.memories
    spine.see("DELETED")
    assert await spine.turn() is DONE
    assert not spine.memories


async def test_l_late_states_of_a_released_object_bring_no_more_patches(spine, registry):
    """The versions of some APIs are no numbers, so nobody knows that the state is late."""
    on.delete("kopfexamples", registry=registry)(lambda **_: None)
    spine.create()
    await spine.settle()
    spine.change({"metadata": {"finalizers": [FINALIZER, "of.others"]}})
    spine.change({"metadata": {"deletionTimestamp": "2030-01-01T00:00:00Z"}})
    late = {**spine.body, "metadata": {**spine.body["metadata"], "resourceVersion": "opaque"}}
    assert await spine.settle() is DONE
    assert spine.body["metadata"]["finalizers"] == ["of.others"]
    spine.patches.clear()
    spine.item = WorkItem("u")
    spine.see("MODIFIED", late)
    assert await spine.turn() is DONE
    assert not spine.patches
