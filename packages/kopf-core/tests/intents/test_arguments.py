"""The names of arguments: those which are declared are those which are given."""

import logging

import pytest

from kopf_cogs.structs.bodies import Body
from kopf_cogs.structs.memos import Memo
from kopf_cogs.structs.patches import Patch
from kopf_core.actions.marks import Marks
from kopf_core.engines.memories import ObjectMemory
from kopf_core.intents.arguments import PROTOCOLS, get_arguments
from kopf_core.intents.causes import (
    Activity,
    ActivityCause,
    ChangingCause,
    DaemonCause,
    IndexingCause,
    Reason,
    ReconcilingCause,
    TimerCause,
    WatchingCause,
)
from kopf_core.intents.handlers import (
    ActivityHandler,
    ChangingHandler,
    DaemonHandler,
    IndexingHandler,
    ReconcilingHandler,
    ResourceHandler,
    SourceHandler,
    TimerHandler,
    WatchingHandler,
)
from kopf_core.intents.indices import Indices
from kopf_core.intents.webhooks import AdmissionCause, WebhookHandler

OF_ATTEMPTS = {"param", "retry", "started", "runtime", "dryrun"}
CHANGES = {"old": None, "new": {}, "diff": ()}
REQUESTS = {
    "operation": "CREATE",
    "subresource": None,
    "dryrun": False,
    "userinfo": {},
    "headers": {},
    "sslpeer": {},
}


@pytest.mark.parametrize(
    ("kinds", "cause", "details"),
    [
        ([WatchingHandler], WatchingCause, {"event": {"type": "ADDED", "object": {}}}),
        ([IndexingHandler], IndexingCause, {}),
        (
            [ChangingHandler],
            ChangingCause,
            {"initial": True, "reason": Reason.CREATE, "marks": Marks(), **CHANGES},
        ),
        ([DaemonHandler], DaemonCause, {"stopper": None}),
        ([TimerHandler], TimerCause, {"stopper": None, "scheduled": None}),
        (
            [ReconcilingHandler],
            ReconcilingCause,
            {"children": {}, "related": {}, "triggers": frozenset()},
        ),
        ([WebhookHandler], AdmissionCause, REQUESTS | CHANGES),
    ],
)
def test_declared_arguments_are_given(settings, resource, kinds, cause, details):
    common = {
        "resource": resource,
        "body": Body({"metadata": {}}),
        "patch": Patch(),
        "settings": settings,
        "record": ObjectMemory(Memo(), is_listed=False),
        "indices": {},
    }
    given = cause(**common, **details).kwargs.keys() | {"cluster"}
    assert [get_arguments(kind) for kind in kinds] == [given | OF_ATTEMPTS] * len(kinds)


def test_declared_arguments_are_given_to_activities(settings):
    cause = ActivityCause(
        activity=Activity.STARTUP,
        settings=settings,
        logger=logging.getLogger(),
        memo=Memo(),
        indices={},
    )
    assert get_arguments(ActivityHandler) == {*cause.kwargs, *OF_ATTEMPTS, "cluster"}


def test_o_clusters_are_given_if_there_are_several():
    indices = Indices(["one"])
    assert indices.as_arguments(None) == {"one": indices["one"]}
    assert indices.as_arguments("east") == {"one": indices["one"], "cluster": "east"}
    indices = Indices(["cluster"])
    assert indices.as_arguments("east") == {"cluster": indices["cluster"]}


def test_all_kinds_of_handlers_are_known():
    concrete = {ActivityHandler.__name__, SourceHandler.__name__}
    kinds = [ResourceHandler]
    while kinds:
        kind = kinds.pop()
        kinds += kind.__subclasses__()
        if not kind.__subclasses__() and kind.__module__.startswith("kopf_core."):
            concrete.add(kind.__name__)
    # By names: classes with slots are made twice, and both of them are remembered in Python.
    assert {kind.__name__ for kind in PROTOCOLS} == concrete - {"SpawningHandler"}
    assert get_arguments(ResourceHandler) == frozenset()
