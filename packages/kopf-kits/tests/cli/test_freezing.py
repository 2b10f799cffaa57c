"""``kopf freeze`` and ``kopf resume``: what is written to the peering objects."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import click.testing
import pytest

from kopf_core.engines.peering.identities import detect_person
from kopf_kits.cli import main
from kopf_kits.logs import preserved_logging
from kopf_kits.sandbox import Sandbox

PEERINGS = Path(__file__).resolve().parents[4] / "examples" / "peering.yaml"


@pytest.fixture(autouse=True)
def _logging_preserved() -> Iterator[None]:
    with preserved_logging():
        yield


class World:
    """A cluster in a thread of its own: the commands have their own loops."""

    def __init__(self, loop: asyncio.AbstractEventLoop, sandbox: Sandbox) -> None:
        self._loop = loop
        self.sandbox = sandbox

    def call(self, coro: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coro, self._loop).result(30)

    def get_statuses(self, kind: str) -> dict[str | None, Any]:
        found = self.sandbox.list(kind)
        items = self.call(found) if asyncio.iscoroutine(found) else found
        return {item["metadata"].get("namespace"): item.get("status") or {} for item in items}


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    started: Future[World] = Future()
    stopping = threading.Event()

    async def serve() -> None:
        async with Sandbox() as sandbox:
            monkeypatch.setenv("KUBECONFIG", str(sandbox.write_kubeconfig(tmp_path / "config")))
            await sandbox.apply(PEERINGS)
            for namespace in ("ns1", "ns2", "other"):
                meta = {"name": namespace}
                await sandbox.create({"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
            for namespace in ("ns1", "ns2"):
                meta = {"name": "default", "namespace": namespace}
                body = {"apiVersion": "kopf.dev/v1", "kind": "KopfPeering", "metadata": meta}
                await sandbox.create(body)
            started.set_result(World(asyncio.get_running_loop(), sandbox))
            await asyncio.to_thread(stopping.wait)

    thread = threading.Thread(target=asyncio.run, args=[serve()])
    thread.start()
    try:
        yield started.result(30)
    finally:
        stopping.set()
        thread.join()


def invoke(*args: str, **env: str) -> click.testing.Result:
    return click.testing.CliRunner().invoke(main, args, env=env)


def test_k44_the_priority_of_freezing_is_100_by_default(world: World) -> None:
    assert invoke("freeze", "-A", "-P", "default", "-t", "60").exit_code == 0
    record = world.get_statuses("clusterkopfpeerings")[None][detect_person()]
    assert record["priority"] == 100


def test_freezing_and_resuming_the_cluster(world: World) -> None:
    args = ["-P", "default", "-p", "100", "-t", "60", "-m", "migration"]
    result = invoke("freeze", "-A", *args)
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    assert result.stdout.splitlines() == [
        "Frozen for 60 seconds: the operators of the peering 'default' cluster-wide. "
        "There are none of them now; those that start will be paused."
    ]
    record = world.get_statuses("clusterkopfpeerings")[None].pop(detect_person())
    assert record.pop("lastseen").endswith("+00:00")
    assert record == {"priority": 100, "lifetime": 60, "message": "migration"}
    result = invoke("resume", "-A", "--peering=default")
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    assert result.stdout == "Resumed: the operators of the peering 'default' cluster-wide.\n"
    assert world.get_statuses("clusterkopfpeerings") == {None: {}}


def test_logins_are_logged_on_demand(world: World) -> None:
    result = invoke("resume", "-A", "--peering=default", "--verbose")
    assert "Initial authentication has finished." in result.stderr


def test_namespaces_and_identities(world: World) -> None:
    args = ["--peering=default", "--dev", "--lifetime=5", "--id=me"]
    result = invoke("freeze", "-n", "ns*", *args)
    assert result.exit_code == 0, result.output
    statuses = world.get_statuses("kopfpeerings")
    assert {ns: set(status) for ns, status in statuses.items()} == {
        "ns1": {"me"},
        "ns2": {"me"},
        "default": set(),
    }
    assert statuses["ns1"]["me"]["priority"] == 666
    assert "message" not in statuses["ns1"]["me"]
    result = invoke("resume", "-n", "ns1", "-n", "ns2", "--peering=default", "--id=me")
    assert result.exit_code == 0, result.output
    assert not any(world.get_statuses("kopfpeerings").values())


def test_operators_with_higher_priorities_are_named(world: World) -> None:
    for identity, priority in (("low", "9"), ("same", "10"), ("high", "11")):
        invoke("freeze", "-A", "-P", "default", "-t", "60", "-p", priority, "--id", identity)
    result = invoke("freeze", "-A", "-P", "default", "-t", "60", "-p", "10")
    assert result.stdout.splitlines() == [
        "Frozen for 60 seconds: the operators of the peering 'default' cluster-wide. "
        "Not paused, as they have higher priorities: high (priority 11)."
    ]


def test_those_who_still_pause_others_are_named_when_resuming(world: World) -> None:
    for identity, priority in (("low", "9"), ("high", "11")):
        invoke("freeze", "-A", "-P", "default", "-t", "60", "-p", priority, "--id", identity)
    result = invoke("resume", "-A", "-P", "default")
    assert result.stdout.splitlines() == [
        "Resumed: the operators of the peering 'default' cluster-wide. "
        "Members with lower priorities are still paused by high (priority 11)."
    ]


def test_namespaces_with_no_peerings_are_skipped(world: World) -> None:
    args = ["freeze", "-P", "default", "-t", "60", "-p", "1", "-n", "ns*", "-n", "other"]
    result = invoke(*args)
    assert result.exit_code == 0, result.output
    assert "There is no KopfPeering named 'default' in 'other'; it is skipped." in result.stderr
    assert len(result.stdout.splitlines()) == 2


@pytest.mark.parametrize(("status", "reason"), [(503, "503 "), (403, "403 Forbidden: ")])
def test_unknown_groups_are_not_absent(world: World, status: int, reason: str) -> None:
    async def fail() -> None:
        world.sandbox.faults.fail(status, path="/apis/kopf.dev*")

    world.call(fail())
    result = invoke("resume", "-A", "-P", "default")
    assert result.exit_code != 0
    assert str(result.exception).startswith(f"The peerings cannot be found: {reason}")


def test_environment(world: World) -> None:
    options = {"PEERING": "default", "PRIORITY": "5", "LIFETIME": "6", "ID": "me"}
    env = {f"KOPF_FREEZE_{name}": value for name, value in options.items()}
    env["KOPF_FREEZE_NAMESPACE"] = "ns1"
    result = invoke("freeze", **env)
    assert result.exit_code == 0, result.output
    record = world.get_statuses("kopfpeerings")["ns1"]["me"]
    assert (record["priority"], record["lifetime"]) == (5, 6)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (
            ["-A", "-P", "nope"],
            "There is no ClusterKopfPeering named 'nope'. "
            "For operators that serve some namespaces (-n), name those: -n NAMESPACE.",
        ),
        (
            ["-n", "other", "-P", "default"],
            "There is no KopfPeering named 'default' in 'other'. "
            "For operators that serve the whole cluster (-A), use -A.",
        ),
    ],
)
def test_absent_peerings_are_errors(world: World, args: list[str], message: str) -> None:
    for command in (["freeze", "-p", "1", "-t", "1"], ["resume"]):
        result = invoke(*command, *args)
        assert result.exit_code != 0
        assert str(result.exception) == message


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["freeze", "-p", "1", "-t", "1"], "'--peering'"),
        (["freeze", "-P", "x", "-p", "1"], "'--lifetime'"),
        (["freeze", "-P", "x", "-p", "1", "-t", "0"], "'--lifetime'"),
        (["freeze", "-P", "x", "-p", "1", "-t", "1", "-A", "-n", "ns"], "not both"),
        (["resume"], "'--peering'"),
    ],
)
def test_senseless_options(args: list[str], message: str) -> None:
    result = invoke(*args)
    assert result.exit_code == 2
    assert message in result.output
