"""Objects, causes, and registries for the tests of the core; nothing here talks to any API."""

import copy
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kopf_cogs.aiokits.clocks import FakeClock
from kopf_cogs.configs.settings import OperatorSettings
from kopf_cogs.structs.bodies import Body
from kopf_cogs.structs.diffs import diff
from kopf_cogs.structs.memos import Memo
from kopf_cogs.structs.patches import Patch
from kopf_cogs.structs.resources import Resource
from kopf_core.actions.execution import Execution
from kopf_core.actions.lifecycles import all_at_once
from kopf_core.actions.marks import Marks
from kopf_core.engines.memories import ObjectMemory
from kopf_core.intents.causes import ChangingCause, Reason, WatchingCause
from kopf_core.intents.registries import OperatorRegistry
from kopf_core.reactor.object.subhandling import run_subhandlers

FINALIZER = "kopf.zalando.org/KopfFinalizerMarker"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "docs(section): the section of the documentation that is verified by the test"
    )


@pytest.fixture
def settings() -> Iterator[OperatorSettings]:
    settings = OperatorSettings()
    yield settings
    if settings.execution._executor is not None:
        settings.execution._executor.shutdown()


@pytest.fixture
def resource() -> Resource:
    return Resource(
        group="kopf.dev",
        version="v1",
        plural="kopfexamples",
        kind="KopfExample",
        singular="kopfexample",
        shortcuts=frozenset({"kex"}),
        namespaced=True,
        verbs=frozenset({"list", "watch", "patch"}),
    )


@pytest.fixture
def registry() -> OperatorRegistry:
    return OperatorRegistry()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def execution(settings: OperatorSettings, clock: FakeClock) -> Execution:
    return Execution(
        settings=settings, lifecycle=all_at_once, subhandling=run_subhandlers, clock=clock
    )


@pytest.fixture
def make_body() -> Callable[..., dict[str, Any]]:
    def make(
        spec: dict[str, Any] | None = None,
        *,
        labels: dict[str, str] | None = None,
        annotations: dict[str, str] | None = None,
        **meta: Any,
    ) -> dict[str, Any]:
        return {
            "apiVersion": "kopf.dev/v1",
            "kind": "KopfExample",
            "metadata": {"name": "obj", "namespace": "ns", "uid": "uid1", "resourceVersion": "1"}
            | ({} if labels is None else {"labels": labels})
            | ({} if annotations is None else {"annotations": annotations})
            | meta,
            "spec": copy.deepcopy(spec or {}),
        }

    return make


@pytest.fixture
def make_cause(
    settings: OperatorSettings,
    resource: Resource,
    make_body: Any,
) -> Callable[..., ChangingCause]:
    """A cause of a change: by the old and new specs, which are also the essences."""

    def make(
        reason: Reason = Reason.CREATE,
        spec: dict[str, Any] | None = None,
        *,
        old: dict[str, Any] | None = None,
        initial: bool = False,
        memo: Any = None,
        indices: dict[str, Any] | None = None,
        **meta: Any,
    ) -> ChangingCause:
        body = make_body(spec, **meta)
        new = {
            "spec": body["spec"],
            "metadata": {key: meta[key] for key in ("labels", "annotations") if key in meta},
        }
        was = None if old is None else {"spec": old, "metadata": new["metadata"]}
        if reason in (Reason.DELETE, Reason.RESUME) and was is None:
            was = new
        return ChangingCause(
            resource=resource,
            body=Body(body),
            patch=Patch(),
            marks=Marks(),
            settings=settings,
            record=ObjectMemory(Memo(memo or {}), is_listed=False),
            indices=indices or {},
            initial=initial,
            reason=reason,
            old=was,
            new=new,
            diff=diff(was, new),
        )

    return make


@pytest.fixture
def make_event_cause(
    settings: OperatorSettings,
    resource: Resource,
    make_body: Any,
) -> Callable[..., WatchingCause]:
    def make(spec: dict[str, Any] | None = None, type: Any = "ADDED", **meta: Any) -> WatchingCause:
        body = make_body(spec, **meta)
        return WatchingCause(
            resource=resource,
            body=Body(body),
            patch=Patch(),
            settings=settings,
            record=ObjectMemory(Memo(), is_listed=False),
            indices={},
            event={"type": type, "object": body},
        )

    return make


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> Callable[..., list[str]]:
    """The messages logged so far, of that level or above."""
    caplog.set_level(logging.DEBUG)

    def get(level: int = logging.DEBUG, prefix: str = "kopf") -> list[str]:
        return [
            record.getMessage()
            for record in caplog.records
            if record.levelno >= level and record.name.startswith(prefix)
        ]

    return get
