"""``kopf run --processes`` where processes are killed while everything changes."""

from __future__ import annotations

import asyncio
import os
import pathlib
import signal
import sys
import time

import pytest

from e2e.tests.harness import Answer

HANDLERS = """
import asyncio, os, pathlib
import kopf

log = os.open(pathlib.Path(os.environ["FOLDER"]) / "log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)

def tell(*words):
    os.write(log, " ".join(map(str, (os.getpid(), *words, chr(10)))).encode())

@kopf.on.startup()
def configure(settings, **_):
    settings.posting.enabled = False
    tell("starts")

@kopf.on.create("e2e.kopf.dev", "kexes")
@kopf.on.update("e2e.kopf.dev", "kexes")
async def fn(name, spec, **_):
    tell("begins", name, spec["n"])
    try:
        for _ in range(20):
            await asyncio.sleep(0)
    finally:
        tell("ends", name, spec["n"])
"""

COUNT = 20
ROUNDS = 4

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="There are no such signals.")


def read(folder: pathlib.Path) -> list[list[str]]:
    """Processes tell what they do in whole lines."""
    path = folder / "log"
    return [line.split() for line in path.read_text().splitlines()] if path.exists() else []


async def read_pids(folder: pathlib.Path, count: int) -> list[str]:
    """The processes in the order of their starts, when there were so many."""

    def read_them() -> list[str]:
        while len(pids := [pid for pid, verb, *_ in read(folder) if verb == "starts"]) < count:
            time.sleep(0.01)
        return pids

    async with asyncio.timeout(60):
        return await asyncio.to_thread(read_them)


def find_overlaps(lines: list[list[str]], killed: list[str]) -> list[list[str]]:
    """When a handler begins for an object while another process still works on it."""
    working: dict[str, str] = {}
    found = []
    for pid, verb, *rest in lines:
        if verb == "begins":
            if working.get(rest[0], pid) != pid and working[rest[0]] not in killed:
                found.append([pid, *rest])
            working[rest[0]] = pid
        elif verb == "ends" and working.get(rest[0]) == pid:
            del working[rest[0]]
    return found


async def test_o_every_change_is_handled_though_processes_are_killed(world, tmp_path):
    """Processes are killed in the middle; no two of them work on one object at once."""
    (tmp_path / "handlers.py").write_text(HANDLERS)
    names = [f"obj-{number}" for number in range(COUNT)]
    killed: list[str] = []
    env = {"FOLDER": str(tmp_path)}
    async with world.process(tmp_path / "handlers.py", "--processes=3", env=env) as process:
        for name in names:
            await world.create({"n": 0}, name)
        for number in range(ROUNDS):
            pids = await read_pids(tmp_path, 3 + number)
            for name in names[: COUNT // 2]:
                await world.patch({"spec": {"n": number + 1}}, name)
            victim = next(pid for pid in pids if pid not in killed)
            killed.append(victim)
            os.kill(int(victim), signal.SIGKILL)
            for name in names[COUNT // 2 :]:
                await world.patch({"spec": {"n": number + 1}}, name)
        for name in names:
            await world.until_handled(name, {"n": ROUNDS})
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(60):
            assert await process.wait() == 0
    lines = read(tmp_path)
    assert not find_overlaps(lines, killed)
    assert {pid for pid, *_ in lines} > {*killed}
    last = {tuple(rest) for _, verb, *rest in lines if verb == "ends"}
    assert last >= {(name, str(ROUNDS)) for name in names}


WEBHOOKS = """
import os
import kopf

@kopf.on.startup()
def configure(settings, **_):
    settings.posting.enabled = False
    settings.admission.managed = os.environ["NAMESPACE"] + ".kopf.dev"
    settings.admission.server = kopf.WebhookServer(addr="127.0.0.1")

@kopf.on.mutate(
    "e2e.kopf.dev", "kexes",
    namespace_selector={"kubernetes.io/metadata.name": os.environ["NAMESPACE"]},
)
def mark(patch, **_):
    patch.metadata.labels["by"] = str(os.getpid())
"""


async def test_o_webhooks_stay_when_their_process_is_killed_and_are_served_again(world, tmp_path):
    """In between, the API refuses the changes: it never makes them without the webhook."""
    (tmp_path / "handlers.py").write_text(WEBHOOKS)
    env = {"NAMESPACE": world.namespace, "POD_ID": "pod-1"}

    async def ask() -> Answer:
        return await world.attempt("POST", f"{world.path()}?dryRun=All", world.make())

    async def until_served(former: str = "") -> tuple[str, list[Answer]]:
        """Which process serves, and all answers until that."""
        answers: list[Answer] = []
        async with asyncio.timeout(60):
            while (pid := get_server(answer := await ask())) in ("", former):
                answers.append(answer)
                await asyncio.sleep(0.05)  # nobody tells when an API server has noticed it
        return pid, answers

    async with world.process(tmp_path / "handlers.py", "--processes=2", env=env) as process:
        former, _ = await until_served()
        os.kill(int(former), signal.SIGKILL)
        _, answers = await until_served(former)
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(60):
            assert await process.wait() == 0
    assert {answer.status for answer in answers} == {500}
    answer = await ask()
    assert (answer.status, get_server(answer)) == (201, "")


def get_server(answer: Answer) -> str:
    """The process that has marked the object; nothing if the API has refused it."""
    labels = answer.body["metadata"].get("labels", {}) if answer.status < 300 else {}
    return str(labels.get("by", ""))
