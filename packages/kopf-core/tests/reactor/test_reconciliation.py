"""The spine: what is held in the memory while an object is processed."""

import weakref
from unittest.mock import Mock

from kopf_cogs.configs.settings import OperatorSettings
from kopf_cogs.structs.resources import Resource
from kopf_core.actions.execution import Execution
from kopf_core.actions.lifecycles import asap
from kopf_core.engines.memories import ObjectMemories
from kopf_core.intents import decorators as on
from kopf_core.intents.indices import Indices
from kopf_core.intents.registries import OperatorRegistry
from kopf_core.reactor.reconciliation import Reconciler
from kopf_core.reactor.work import AwaitChange, WorkItem

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
