"""The commands for people on duty, with live and dead operators."""

from __future__ import annotations

import asyncio
import json
import os
import pathlib
import sys

import pytest

from e2e.tests.harness import FINALIZER, GROUP, PREFIX, get_finalizers, get_progress
from kopf_core.actions.errors import PermanentError, TemporaryError
from kopf_core.intents import decorators as on
from kopf_core.intents.pauses import PAUSED

KEX = (GROUP, "kexes")
KIND = f"kexes.{GROUP}"
NEVER = 60 * 60 * 24  # seconds: nobody waits for that

OPERATOR = f"""
import pathlib
from kopf_core.actions.errors import PermanentError, TemporaryError
from kopf_core.intents import decorators as on

@on.create({GROUP!r}, "kexes")
def create_fn(name, **_):
    if name == "stuck":
        raise TemporaryError("not yet", delay={NEVER})

@on.delete({GROUP!r}, "kexes")
def delete_fn(**_):
    raise TemporaryError("never", delay={NEVER})
"""


async def talk(world, *args):
    """Run a command in the namespace of the test; get what it has printed."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "kopf",
        *args,
        env={**os.environ, "KUBECONFIG": str(world.kubeconfig)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    stdout, stderr = await process.communicate()
    assert process.returncode == 0, (stdout, stderr)
    return stdout.decode(), stderr.decode()


async def kopf(world, *args):
    """The same, but only its output for scripts."""
    stdout, _ = await talk(world, *args)
    return stdout


async def look(world):
    output = await kopf(world, "objects", KIND, "-n", world.namespace, "-o", "json")
    return {item["name"]: item for item in json.loads(output)["items"]}


@pytest.mark.docs("cli/release")
async def test_c8_releasing_after_the_operator_was_killed_in_the_middle_of_work(
    world, tmp_path: pathlib.Path
):
    path = tmp_path / "operator.py"
    path.write_text(OPERATOR)
    async with world.process(path) as process:
        await world.create(name="handled")
        await world.create(name="stuck", metadata={"finalizers": ["example.com/other"]})
        await world.create(name="leaving")
        await world.until_handled("handled")
        await world.until_handled("leaving")
        await world.until(lambda obj: "create_fn" in get_progress(obj), "stuck")
        await world.delete("leaving")
        await world.until(lambda obj: "delete_fn" in get_progress(obj), "leaving")
        process.kill()
        await process.wait()
    await world.delete("handled")
    found = await look(world)
    assert {name: item["state"] for name, item in found.items()} == {
        "handled": "deleting",
        "stuck": "retried",
        "leaving": "retried",
    }
    assert found["leaving"]["handlers"][0]["error"] == "never"
    assert all(item["held"] for item in found.values())
    await kopf(world, "release", "--all", "-n", world.namespace, "--yes")
    await world.until_gone("handled")
    await world.until_gone("leaving")
    assert get_finalizers(await world.get("stuck")) == ["example.com/other"]
    await world.delete("stuck")
    assert (await look(world))["stuck"]["state"] == "blocked"


@pytest.mark.docs("cli/retry")
async def test_retrying_brings_the_handler_at_once(world):
    calls = world.calls

    @on.create(*KEX, id="create_fn", registry=world.registry)
    async def create_fn(retry, **_):
        calls(("create", retry))
        if retry == 0:
            raise TemporaryError("not yet", delay=NEVER)

    async with world.operator():
        await world.create()
        await world.until(lambda obj: "create_fn" in get_progress(obj))
        assert (await look(world))["obj"]["handlers"][0]["attempts"] == 1
        await kopf(world, "retry", KIND, "obj", "-n", world.namespace, "--yes")
        await world.until_handled()
    assert calls == [("create", 0), ("create", 1)]


@pytest.mark.docs("cli/retry")
async def test_retrying_brings_the_reconciler_at_once(world):
    calls = world.calls

    @on.reconcile(*KEX, id="reconcile_fn", registry=world.registry)
    async def reconcile_fn(retry, **_):
        calls(retry)
        if retry == 0:
            raise TemporaryError("not yet", delay=NEVER)

    async with world.operator():
        await world.create()
        await world.until(lambda obj: "reconcile_fn" in get_progress(obj))
        await kopf(world, "retry", KIND, "obj", "-n", world.namespace, "--yes")
        await calls.until(lambda calls: len(calls) == 2)
        await world.until(lambda obj: not get_progress(obj))
    assert calls == [0, 1]


@pytest.mark.docs("cli/pause")
async def test_pausing_and_unpausing_with_a_live_operator(world):
    calls = world.calls

    @on.create(*KEX, registry=world.registry)
    @on.update(*KEX, registry=world.registry)
    def fn(name, reason, spec, **_):
        calls((name, str(reason), spec.get("n")))

    world.settings.execution.honor_pauses = True
    world.settings.posting.enabled = True
    async with world.operator():
        await world.create({"n": 1})
        await world.until_handled()
        args = [KIND, "obj", "-n", world.namespace, "-m", "a test", "--yes"]
        _, errors = await talk(world, "pause", *args, "--wait", f"{world.patience}")
        assert "No operator has confirmed" not in errors
        await world.patch({"spec": {"n": 2}})
        await world.create(name="other")
        await world.until_handled("other")
        item = (await look(world))["obj"]
        assert (item["state"], item["changedFields"]) == ("paused", [["spec", "n"]])
        assert item["paused"].endswith(": a test")
        assert not [call for call in calls if call[1] == "update"]
        await kopf(world, "unpause", KIND, "obj", "-n", world.namespace, "--yes")
        await world.until_handled(spec={"n": 2})
        assert PAUSED not in ((await world.get())["metadata"].get("annotations") or {})
    assert calls[-1] == ("obj", "update", 2)


@pytest.mark.docs("cli/forget")
async def test_forgetting_makes_the_object_new_for_a_live_operator(world):
    calls = world.calls

    @on.create(*KEX, registry=world.registry)
    def create_fn(**_):
        calls("create")

    @on.delete(*KEX, registry=world.registry)
    def delete_fn(**_):
        calls("delete")

    async with world.operator():
        await world.create()
        await world.until_handled()
        await kopf(world, "forget", KIND, "obj", "-n", world.namespace, "--yes")
        await calls.until(lambda calls: calls == ["create", "create"])
        obj = await world.until_handled()
        assert get_finalizers(obj) == [FINALIZER]
        assert any(key.startswith(PREFIX) for key in obj["metadata"]["annotations"])


@pytest.mark.docs("cli/objects")
async def test_k28_reconciled_objects_are_not_new(world):
    @on.reconcile(*KEX, id="fn", registry=world.registry)
    def fn(conditions, spec, **_):
        if spec.get("fails"):
            raise TemporaryError("not yet", delay=NEVER)
        conditions.set("Ready", True, reason="Done", message="All is there.")

    async with world.operator():
        await world.create({}, name="ready")
        await world.until(lambda obj: obj and (obj.get("status") or {}).get("conditions"), "ready")
        await world.create({"fails": True}, name="failing")
        await world.until(lambda obj: "fn" in get_progress(obj), "failing")
        found = await look(world)
        stdout, errors = await talk(world, "objects", KIND, "-n", world.namespace)
        text = await kopf(world, "object", KIND, "ready", "-n", world.namespace)
        args = [KIND, "ready", "failing", "-n", world.namespace, "--dry-run"]
        retried = await kopf(world, "retry", *args)
        forgotten = await kopf(world, "forget", *args)
    ready, failing = found["ready"], found["failing"]
    assert (ready["state"], ready["conditions"]) == ("served", {"Ready": "True"})
    assert (failing["state"], failing["handlers"][0]["error"]) == ("retried", "not yet")
    assert "served" in stdout
    assert "Ready=True" in stdout
    assert "Timers, daemons, finished reconcilers, and running first attempts" in errors
    assert "  Ready: True (Done: All is there.)" in text
    assert f"Kex {world.namespace}/failing: retry at once: fn\n" in retried
    assert f"Kex {world.namespace}/ready: no handler waits for its next attempt, as far" in retried
    assert f"Kex {world.namespace}/failing: forget the progress of fn\n" in forgotten
    assert f"Kex {world.namespace}/ready: there is nothing to forget, as far" in forgotten


@pytest.mark.docs("cli/objects")
async def test_k28_reconcilers_that_leave_no_signs_are_not_taken_for_new_objects(world):
    @on.reconcile(*KEX, id="fn", registry=world.registry)
    def fn(name, spec, **_):
        world.calls(name)
        if spec.get("fails"):
            raise PermanentError("never")

    async with world.operator():
        await world.create({}, name="ready")
        await world.create({"fails": True}, name="failed")
        await world.calls.until(lambda calls: {*calls} == {"ready", "failed"})
    found = await look(world)
    assert {item["state"] for item in found.values()} <= {"unknown", "served"}


@pytest.mark.docs("cli/retry")
async def test_k28_it_is_said_what_cannot_be_known_of_timers(world):
    @on.timer(*KEX, interval=NEVER, registry=world.registry)
    def fn(name, **_):
        world.calls(name)
        raise TemporaryError("not yet", delay=NEVER)

    async with world.operator():
        await world.create()
        await world.calls.until(lambda calls: calls)
        args = [KIND, "obj", "-n", world.namespace, "--yes"]
        for command in ("retry", "forget"):
            _, errors = await talk(world, command, *args)
            assert "timers, daemons, and running first attempts are only in" in errors


@pytest.mark.docs("cli/retry")
@pytest.mark.parametrize("command", ["retry", "forget", "release"])
async def test_k28_named_operators_are_hinted_at_by_all_commands(world, command):
    name = world.settings.name = "examples.kopf.dev"

    @on.create(*KEX, id="fn", registry=world.registry)
    @on.delete(*KEX, id="fn", registry=world.registry)
    def fn(**_):
        raise TemporaryError("not yet", delay=NEVER)

    async with world.operator():
        await world.create()
        await world.until(lambda obj: f"{name}/fn" in obj["metadata"].get("annotations", {}))
    args = [KIND, "obj", "-n", world.namespace]
    _, errors = await talk(world, command, *args, "--yes")
    assert f"There are data of another operator: add --operator {name}." in errors
    _, errors = await talk(world, command, *args, "--dry-run", "--operator", name)
    assert "another operator" not in errors
