"""The driver's side of the notes: what the handlers have done, and when they may go further."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import pathlib
from collections.abc import Callable
from typing import Any, Self

from e2e.chaos.fake.journal import PATIENCE


@dataclasses.dataclass(frozen=True)
class Note:
    """What a handler has told."""

    point: str
    """``begin`` or ``end`` of a handler, or what the operator has called it."""

    pid: int
    at: float
    handler: str = ""
    uid: str = ""
    name: str = ""
    version: str = ""
    spec: dict[str, Any] = dataclasses.field(default_factory=dict)
    reason: str | None = None
    diff: list[list[str]] | None = None
    retry: int | None = None
    outcome: str | None = None
    """``success``, or the name of the error; only in the end."""

    counts: dict[str, int] = dataclasses.field(default_factory=dict)
    """What the operator consists of; only if it is asked for."""

    @property
    def is_success(self) -> bool:
        return self.outcome == "success"

    @classmethod
    def parse(cls, line: str | bytes) -> Note:
        known = {field.name for field in dataclasses.fields(cls)}
        return cls(**{key: value for key, value in json.loads(line).items() if key in known})


Check = Callable[[Note], bool]


def at(
    point: str | None = None,
    handler: str | None = None,
    *,
    name: str | None = None,
    reason: str | None = None,
    outcome: str | None = None,
) -> Check:
    """A condition on notes."""

    def check(note: Note) -> bool:
        return (
            point in (None, note.point)
            and handler in (None, note.handler)
            and name in (None, note.name)
            and reason in (None, note.reason)
            and outcome in (None, note.outcome)
        )

    return check


class Stop:
    """Holds the handlers at some point until they are released."""

    def __init__(self, check: Check, times: float) -> None:
        self._check = check
        self._times = times
        self._reached = asyncio.Event()
        self._released = asyncio.Event()
        self.note: Note | None = None

    def takes(self, note: Note) -> bool:
        if self._times <= 0 or self._released.is_set() or not self._check(note):
            return False
        self._times -= 1
        return True

    async def pass_through(self, note: Note) -> None:
        self.note = note
        self._reached.set()
        await self._released.wait()

    async def reached(self) -> Note:
        async with asyncio.timeout(PATIENCE):
            await self._reached.wait()
        assert self.note is not None
        return self.note

    def release(self) -> None:
        self._released.set()


class Notebook:
    """Collects the notes of all operators that are given its file and its address."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path
        self.address = ""
        self._stops: list[Stop] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._wakeup = asyncio.Event()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        self.path.touch()
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=2**24)
        host, port = self._server.sockets[0].getsockname()
        self.address = f"{host}:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    @property
    def notes(self) -> list[Note]:
        """All that is on the disk; the last line can be cut by a kill."""
        lines = self.path.read_bytes().split(b"\n")[:-1]
        return [Note.parse(line) for line in lines]

    def find(self, check: Check) -> list[Note]:
        return [note for note in self.notes if check(note)]

    def stop_at(self, check: Check, *, times: float = 1) -> Stop:
        """Hold the matching handlers; only the first one by default."""
        stop = Stop(check, times)
        self._stops.append(stop)
        return stop

    async def until(self, check: Check, *, count: int = 1) -> list[Note]:
        """Wait until there are so many matching notes."""
        try:
            async with asyncio.timeout(PATIENCE):
                while len(found := self.find(check)) < count:
                    await self._wakeup.wait()
        except TimeoutError:
            lines = "\n".join(map(str, self.notes))
            raise AssertionError(f"No such notes. There are only:\n{lines}") from None
        return found

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            line = await reader.readline()
            if line:
                note = Note.parse(line)
                self._wakeup.set()
                self._wakeup = asyncio.Event()
                for stop in self._stops:
                    if stop.takes(note):
                        await stop.pass_through(note)
                writer.write(b"!")
                await writer.drain()
        except (asyncio.CancelledError, OSError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()
