"""A world for one test: the fake API, the notes of handlers, and the operators one by one."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from typing import Any

from e2e.chaos.driver.marks import is_handled
from e2e.chaos.driver.notes import Notebook, at
from e2e.chaos.driver.oracles import TOKEN, Evidence, judge
from e2e.chaos.driver.processes import Command, Process
from e2e.chaos.fake.kinds import BUILTINS, KEX, Json, Kind
from e2e.chaos.fake.server import FakeAPI

PYTHON = os.environ.get("CHAOS_PYTHON", sys.executable)
"""Whose Kopf is tested; e.g. the predecessor's, from its own virtual environment."""

_HELPER = pathlib.Path(__file__).with_name("chaosnotes.py")

PRELUDE = """
import asyncio, os, sys, threading, time
import kopf
from chaosnotes import count, note, noted

KEXES = ("chaos.kopf.dev", "v1", "kexes")
VEXES = ("chaos.kopf.dev", "v1", "vexes")

@kopf.on.startup()
def prepare(settings, **_):
    settings.posting.enabled = False

@kopf.on.login()
def login(**kwargs):  # otherwise, the clients that are installed are used, and they are slow
    return kopf.login_with_kubeconfig(**kwargs)

"""


class World:
    """What a test has."""

    def __init__(self, api: FakeAPI, notebook: Notebook, folder: pathlib.Path) -> None:
        self.api = api
        self.notebook = notebook
        self.folder = folder
        self.processes: list[Process] = []
        self.tolerated: dict[str, str] = {}
        """The oracles that do not apply to this test, and why."""

        self.undisturbed: Sequence[Json] | None = None
        self.delays: Sequence[float] = ()
        self.peaceful_delays: Sequence[float] = ()
        self.censuses: list[Mapping[str, int]] = []
        self._blind: set[str] = set()

    @contextlib.asynccontextmanager
    async def operator(
        self,
        code: str,
        *,
        args: Sequence[str] = ("--standalone", "-A", "--verbose"),
        env: Mapping[str, str] | None = None,
        user: Json | None = None,
        python: str = PYTHON,
        file: str = "handlers.py",
    ) -> AsyncIterator[Process]:
        """Run an operator with these handlers. It is killed in the end, if not stopped before."""
        shutil.copy(_HELPER, self.folder)
        path = self.folder / file
        path.write_text(PRELUDE + code)
        command = Command(python, path, args, {**self._make_env(user), **(env or {})})
        async with Process(command) as process:
            self.processes.append(process)
            yield process
            if process.code is None and not process.signals:
                await self._look_for_zombies()

    async def settle(self, *names: str, kind: Kind = KEX) -> None:
        """Wait until the objects are handled as they are, or are gone."""
        for name in names or [key[2] for key in self.api.store.objects if key[0] == kind.key]:
            await self.until_handled(name, kind=kind)

    async def until_handled(
        self,
        name: str = "one",
        check: Callable[[Json], Any] = lambda _: True,
        *,
        kind: Kind = KEX,
    ) -> Json:
        return await self.api.until(lambda obj: is_handled(obj) and check(obj), name, kind=kind)

    def measure_delays(self, handler: str, names: Collection[str]) -> Sequence[float]:
        """How long the changes of these objects have waited for the handler, in seconds."""
        begun = self.notebook.find(at("begin", handler))
        return [
            min(
                (
                    note.at - change.time
                    for note in begun
                    if note.name == change.key[2] and int(note.version) >= change.version
                ),
                default=float("inf"),
            )
            for change in self.api.store.history
            if change.key[2] in names and change.author == "test"
        ]

    def collect(self) -> Evidence:
        """What is known of the run."""
        own = {kind.key for kind in BUILTINS}
        return Evidence(
            notes=self.notebook.notes,
            processes=self.processes,
            requests=self.api.journal.entries,
            objects=[obj for key, obj in self.api.store.objects.items() if key[0] not in own],
            blind=self._blind,
            undisturbed=self.undisturbed,
            delays=self.delays,
            peaceful_delays=self.peaceful_delays,
            censuses=self.censuses,
        )

    def judge(self) -> None:
        problems = judge(self.collect(), tolerated=self.tolerated)
        assert not problems, "\n".join(problems)

    async def _look_for_zombies(self) -> None:
        """All kinds that were ever watched must be watched in the end, if they are still there."""
        expected = {e.target.kind for e in self.api.journal if e.verb == "watch"}
        for kind in expected:
            if kind is not None and kind in self.api.kinds:
                try:
                    await self.api.until_watched(kind)
                except TimeoutError:
                    self._blind.add(kind.plural)

    def _make_env(self, user: Json | None) -> Mapping[str, str]:
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "fake", "cluster": {"server": self.api.url}}],
            "users": [{"name": "me", "user": {"token": TOKEN} if user is None else user}],
            "contexts": [{"name": "it", "context": {"cluster": "fake", "user": "me"}}],
            "current-context": "it",
        }
        path = self.folder / "kubeconfig"
        path.write_text(json.dumps(config))
        return {
            "KUBECONFIG": str(path),
            "PYTHONPATH": str(self.folder),
            "PYTHONUNBUFFERED": "1",
            "CHAOS_NOTES": str(self.notebook.path),
            "CHAOS_DRIVER": self.notebook.address,
        }

    def kill_leftovers(self) -> None:
        """End what the operators have forked and left alive; nothing of others."""
        for pid in {note.pid for note in self.notebook.notes}:
            with contextlib.suppress(OSError):
                if str(self.notebook.path) in pathlib.Path(f"/proc/{pid}/environ").read_text():
                    os.kill(pid, signal.SIGKILL)


@contextlib.asynccontextmanager
async def open_world(folder: pathlib.Path, *kinds: Kind) -> AsyncIterator[World]:
    """A world in an existing folder."""
    async with FakeAPI(*kinds) as api, Notebook(folder / "notes.jsonl") as notebook:
        world = World(api, notebook, folder)
        try:
            yield world
        finally:
            world.kill_leftovers()
