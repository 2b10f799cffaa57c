"""Runs that end by themselves; and rehearsals, in which nothing is committed."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

import kopf
from kopf_cogs.clients.errors import APIConflictError, APINotFoundError
from kopf_core.reactor.life.once import Once
from kopf_kits.cli.rehearsals import get_code

from .conftest import config_map

READING = ("GET",)


def place(name: str) -> dict[str, Any]:
    return config_map(name) | {"metadata": {"name": name, "namespace": "ns1"}}


def find_commits(websites: Any, since: int = 0) -> list[str]:
    """The requests that have changed anything, or could."""
    return [
        f"{entry}"
        for entry in websites.sandbox.journal
        if entry.number > since and entry.method not in READING
        if entry.query.get("dryRun") != "All" and "/apis/authorization.k8s.io" not in entry.path
    ]


async def run(websites: Any, **options: Any) -> Once:
    once = Once(**{"settle": 0.1, "patience": 0.5, "timeout": 30.0} | options)
    await kopf.operator(
        registry=websites.registry,
        settings=websites.settings,
        clusterwide=True,
        standalone=True,
        once=once,
    )
    return once


def show(once: Once) -> dict[str, tuple[bool, bool]]:
    """By the kinds and names: whether the object is there before and after."""
    return {
        f"{one.address.collection.rpartition('/')[2]}/{one.address.name}": (
            one.before is not None,
            one.after is not None,
        )
        for one in once.differences
    }


def get_after(once: Once, name: str) -> Any:
    """The predicted state of the object, by its kind and name."""
    kind, _, name = name.partition("/")
    (found,) = [
        one.after
        for one in once.differences
        if one.address.name == name and one.address.collection.endswith(f"/{kind}")
    ]
    return found


async def test_n5_what_is_written_is_read_but_not_committed(websites: Any) -> None:
    given: list[bool] = []
    seen: list[Any] = []

    @kopf.on.create(websites.kind, registry=websites.registry, id="fn")
    async def fn(name: str, namespace: str, patch: Any, dryrun: bool, **_: Any) -> None:
        await kopf.api.create(place("new"))
        await kopf.api.patch("configmaps", "new", {"data": {"b": "2"}}, namespace="ns1")
        await kopf.api.patch(
            "configmaps",
            "new",
            [{"op": "add", "path": "/data/c", "value": "3"}],
            namespace="ns1",
        )
        listed = await kopf.api.list("configmaps", namespace="ns1")
        one = await kopf.api.get("configmaps", "new", namespace="ns1")
        patch.status["listed"] = [one["metadata"]["name"] for one in listed]
        patch.spec["given"] = one["data"]
        with pytest.raises(APIConflictError):
            await kopf.api.create(one)
        given.append(dryrun)

    @kopf.on.event("configmaps", registry=websites.registry)
    def event(type: Any, name: str, body: Any, **_: Any) -> None:
        seen.append((type, name, dict(body.get("data") or {})))

    await websites.apply(x="1")
    since = websites.now
    once = await run(websites, dry_run=True)
    assert once.unfinished == []
    assert find_commits(websites, since) == []
    assert await websites.names() == []
    assert show(once) == {"configmaps/new": (False, True), "websites/web": (True, True)}
    after = get_after(once, "websites/web")
    assert after["spec"] == {"x": "1", "given": {"b": "2", "c": "3"}}
    assert after["status"] == {"listed": ["new"]}
    assert get_after(once, "configmaps/new")["data"] == {"b": "2", "c": "3"}
    assert given == [True]
    assert seen[-1] == ("MODIFIED", "new", {"b": "2", "c": "3"})


async def test_n5_deletions_are_rehearsed_to_their_end(websites: Any) -> None:
    @kopf.on.delete(websites.kind, registry=websites.registry, id="fn")
    async def fn(**_: Any) -> None:
        await kopf.api.delete("configmaps", "old", namespace="ns1")
        with pytest.raises(APINotFoundError):
            await kopf.api.get("configmaps", "old", namespace="ns1")
        with pytest.raises(APINotFoundError):
            await kopf.api.delete("configmaps", "old", namespace="ns1")

    await websites.sandbox.apply(place("old"))
    await websites.apply(x="1")
    assert (await run(websites)).is_quiet  # the finalizer is there
    await websites.sandbox.delete(websites.kind, "web", namespace="ns1")
    since = websites.now
    once = await run(websites, dry_run=True)
    assert find_commits(websites, since) == []
    assert once.unfinished == []
    assert show(once) == {"configmaps/old": (True, False), "websites/web": (True, False)}
    assert await websites.names() == ["old"]


async def test_n_changes_by_cleanup_handlers_are_predicted(websites: Any) -> None:
    @kopf.on.cleanup(registry=websites.registry)
    async def fn(**_: Any) -> None:
        await kopf.api.create(place("last"))

    since = websites.now
    once = await run(websites, dry_run=True)
    assert find_commits(websites, since) == []
    assert show(once) == {"configmaps/last": (False, True)}


async def test_n5_changes_after_a_deletion_do_not_undo_it(websites: Any) -> None:
    called: list[str] = []

    @kopf.on.create(websites.kind, registry=websites.registry, id="fn")
    async def fn(name: str, **_: Any) -> None:
        await kopf.api.delete(websites.kind, name, namespace="ns1")
        await kopf.api.patch(websites.kind, name, {"spec": {"x": "2"}}, namespace="ns1")
        body = await kopf.api.get(websites.kind, name, namespace="ns1")
        assert body["metadata"]["deletionTimestamp"]

    @kopf.on.delete(websites.kind, registry=websites.registry, id="gone")
    def gone(spec: Any, **_: Any) -> None:
        called.append(spec["x"])

    await websites.apply(x="1")
    since = websites.now
    once = await run(websites, dry_run=True)
    assert find_commits(websites, since) == []
    assert once.unfinished == []
    assert called == ["2"]
    assert show(once) == {"websites/web": (True, False)}


async def test_n5_desired_states_are_rehearsed(websites: Any) -> None:
    @websites.reconcile()
    def fn(name: str, spec: Any, conditions: Any, **_: Any) -> Iterator[Any]:
        live = yield config_map(name, x=spec["x"])
        if spec["x"] == "1":
            yield config_map("extra")
        conditions.set("Ready", live["data"]["x"] == spec["x"])

    websites.settings.name = "mine"
    await websites.apply(x="1")
    assert (await run(websites)).unfinished == []
    await websites.patch(x="2")
    since = websites.now
    once = await run(websites, dry_run=True)
    assert find_commits(websites, since) == []
    assert show(once)["configmaps/extra"] == (True, False)
    assert get_after(once, "configmaps/web")["data"] == {"x": "2"}
    assert await websites.names() == ["extra", "web"]


async def test_n5_nothing_differs_when_nothing_is_to_be_done(websites: Any) -> None:
    @kopf.on.create(websites.kind, registry=websites.registry, id="fn")
    def fn(**_: Any) -> dict[str, Any]:
        return {"x": 1}

    await websites.apply(x="1")
    assert len((await run(websites, dry_run=True)).differences) == 1
    assert (await run(websites)).is_quiet
    assert (await run(websites, dry_run=True)).differences == []


async def test_n5_what_is_not_done_is_told(websites: Any) -> None:
    @kopf.on.create(websites.kind, registry=websites.registry, id="later")
    def later(**_: Any) -> None:
        raise kopf.TemporaryError("not yet", delay=1000)

    @kopf.on.create(websites.kind, registry=websites.registry, id="never")
    def never(**_: Any) -> None:
        raise kopf.PermanentError("no way")

    @kopf.on.create(websites.kind, registry=websites.registry, id="soon")
    def soon(retry: int, **_: Any) -> None:
        if not retry:
            raise kopf.TemporaryError("a bit later", delay=0.1)

    await websites.apply(x="1")
    once = await run(websites)
    assert once.unfinished == [
        "Handler 'later' is to be retried for ns1/web: not yet",
        "Handler 'never' has failed for ns1/web: no way",
    ]


async def test_q_handlers_that_wait_for_their_subhandlers_are_named_with_the_reason(
    websites: Any,
) -> None:
    @kopf.on.create(websites.kind, registry=websites.registry, id="fn")
    def fn(**_: Any) -> None:
        @kopf.subhandler(id="sub")
        def sub(**_: Any) -> None:
            raise kopf.TemporaryError("not yet", delay=1000)

    await websites.apply(x="1")
    once = await run(websites)
    assert once.unfinished == [
        "Handler 'fn' is to be retried for ns1/web: its sub-handlers have not finished",
        "Handler 'fn/sub' is to be retried for ns1/web: not yet",
    ]


Decorate = Callable[..., Any]
REFUSED: dict[str, Decorate] = {
    "creation": kopf.on.create,
    "deletion": kopf.on.delete,
    "event": kopf.on.event,
    "timer": partial(kopf.timer, interval=1000.0),
    "reconciler": kopf.reconcile,
}


@pytest.mark.parametrize("delays", [[0.01, 1000.0], []], ids=["delayed", "dropped"])
@pytest.mark.parametrize("dry_run", [False, True], ids=["real", "dry"])
@pytest.mark.parametrize("status", [403, 422, 500])
@pytest.mark.parametrize("handlers", REFUSED)
async def test_q_objects_with_refused_patches_are_not_handled(
    websites: Any, handlers: str, status: int, dry_run: bool, delays: list[float]
) -> None:
    @REFUSED[handlers](websites.kind, registry=websites.registry, id="fn")
    def fn(conditions: kopf.Conditions, **_: Any) -> None:
        conditions.set("Ready", True)

    websites.settings.queueing.error_delays = delays
    await websites.apply(x="1")
    websites.sandbox.faults.fail(status, message="not you", method="PATCH", path="*/websites/*")
    once = await run(websites, dry_run=dry_run)
    assert once.is_quiet
    (line,) = once.unfinished
    assert line.startswith("ns1/web is not fully handled: ")
    assert "not you" in line
    assert get_code(once) == 4


async def test_q_objects_are_handled_if_their_patches_are_refused_at_first(websites: Any) -> None:
    @kopf.on.create(websites.kind, registry=websites.registry)
    def fn(**_: Any) -> None: ...

    await websites.apply(x="1")
    websites.sandbox.faults.fail(403, method="PATCH", path="*/websites/*", times=1)
    once = await run(websites)
    assert (once.is_quiet, once.unfinished) == (True, [])


@pytest.mark.parametrize("dry_run", [False, True], ids=["real", "dry"])
async def test_q_invalid_objects_are_not_handled(websites: Any, dry_run: bool) -> None:
    @dataclass
    class Spec:
        x: int

    @kopf.on.create(websites.kind, registry=websites.registry)
    def fn(spec: Spec, **_: Any) -> None: ...

    await websites.apply(x="many")
    await websites.apply("valid", x=1)
    once = await run(websites, dry_run=dry_run)
    assert once.is_quiet
    (line,) = once.unfinished
    place, _, reason = line.partition(": ")
    assert place == "ns1/web is not fully handled"
    assert reason == "The object is invalid: spec.x: must be an integer, not 'many'"


async def test_q_objects_that_are_repaired_in_the_run_are_handled(websites: Any) -> None:
    @dataclass
    class Spec:
        x: int

    @kopf.on.create(websites.kind, registry=websites.registry)
    def fn(spec: Spec, **_: Any) -> None: ...

    @kopf.on.event(websites.kind, registry=websites.registry)
    async def repair(type: Any, **_: Any) -> None:
        if type is None:
            await websites.patch(x=1)

    await websites.apply(x="many")
    once = await run(websites, settle=0.5)
    assert (once.is_quiet, once.unfinished) == (True, [])


async def test_n5_timers_are_called_once_and_daemons_are_not_started(websites: Any) -> None:
    calls: list[str] = []

    @kopf.timer(websites.kind, registry=websites.registry, interval=0.01)
    def tick(**_: Any) -> None:
        calls.append("tick")

    @kopf.daemon(websites.kind, registry=websites.registry)
    async def daemon(**_: Any) -> None:
        calls.append("daemon")

    await websites.apply(x="1")
    once = await run(websites, settle=0.3)
    assert once.is_quiet
    assert calls == ["tick"]


async def test_n5_what_takes_too_long_is_given_up(websites: Any) -> None:
    @kopf.on.create(websites.kind, registry=websites.registry, id="fn")
    def fn(**_: Any) -> None:
        raise kopf.TemporaryError("not yet", delay=0.01)

    await websites.apply(x="1")
    once = await run(websites, timeout=0.5)
    assert not once.is_quiet
    assert "Handler 'fn' is to be retried for ns1/web: not yet" in once.unfinished


@pytest.mark.parametrize("dry_run", [True, False])
async def test_q_undiscovered_groups_of_handlers_are_unfinished_work(
    websites: Any, dry_run: bool
) -> None:
    @kopf.on.create(websites.kind, registry=websites.registry)
    def fn(**_: Any) -> None: ...

    await websites.apply(x="1")
    group = websites.kind.partition(".")[2]
    with websites.sandbox.faults.fail(503, path=f"/apis/{group}/*"):
        once = await run(websites, dry_run=dry_run, timeout=0.5)
    assert not once.is_quiet
    line = f"Time is out: the resources of the API group '{group}' are not discovered"
    assert line in once.unfinished
