"""Operators as processes."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import pathlib
import signal
from collections.abc import Mapping, Sequence
from typing import BinaryIO, Self

from e2e.chaos.fake.journal import PATIENCE


@dataclasses.dataclass(frozen=True)
class Command:
    """How to run an operator."""

    python: str
    """The interpreter in whose environment there is a ``kopf``: this one or any other."""

    path: pathlib.Path
    """The file with the handlers."""

    args: Sequence[str]
    env: Mapping[str, str]


class Process:
    """One run of an operator: ``async with Process(command) as process``."""

    def __init__(self, command: Command) -> None:
        self.command = command
        self.log: list[str] = []
        self.signals: list[signal.Signals] = []
        """What was sent to it, except for the clean-up in the end."""

        self._wakeup = asyncio.Event()
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        reading, writing = os.pipe()
        try:
            self._process = await asyncio.create_subprocess_exec(
                self.command.python,
                "-m",
                "kopf",
                "run",
                *self.command.args,
                str(self.command.path),
                stdout=writing,
                stderr=writing,
                env={**os.environ, **self.command.env},
            )
        finally:
            os.close(writing)
        self._reader = asyncio.create_task(self._read(os.fdopen(reading, "rb", 0)))
        return self

    async def __aexit__(self, *_: object) -> None:
        """Whatever the operator does at the moment is of no interest anymore."""
        assert self._process is not None
        assert self._reader is not None
        if self._process.returncode is None:
            self._process.send_signal(signal.SIGKILL)
        await self._process.wait()
        self._reader.cancel()
        await asyncio.wait([self._reader])

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def code(self) -> int | None:
        """The exit code, negative for signals, or nothing while it runs."""
        return None if self._process is None else self._process.returncode

    def send(self, signum: signal.Signals) -> None:
        assert self._process is not None
        self.signals.append(signum)
        self._process.send_signal(signum)

    async def kill(self) -> None:
        self.send(signal.SIGKILL)
        await self.wait()

    async def stop(self) -> int:
        """Ask to exit gracefully, and wait until it does."""
        self.send(signal.SIGTERM)
        return await self.wait()

    async def wait(self) -> int:
        """Wait until it exits, and get the code."""
        assert self._process is not None
        try:
            async with asyncio.timeout(PATIENCE):
                return await self._process.wait()
        except TimeoutError:
            raise AssertionError(f"The operator does not exit.\n{self.tail}") from None

    async def until_logged(self, text: str, *, count: int = 1) -> list[str]:
        """Wait until there are so many lines with the text."""
        try:
            async with asyncio.timeout(PATIENCE):
                while len(found := self.find(text)) < count:
                    await self._wakeup.wait()
        except TimeoutError:
            raise AssertionError(f"No such lines: {text!r}.\n{self.tail}") from None
        return found

    def find(self, text: str) -> list[str]:
        return [line for line in self.log if text in line]

    @property
    def tail(self) -> str:
        return "\n".join(line[:500] for line in self.log[-60:])

    async def _read(self, pipe: BinaryIO) -> None:
        """Collect the log. The pipe is our own: asyncio's is waited for until all forks end."""
        reader = asyncio.StreamReader(limit=2**24)
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), pipe
        )
        try:
            async for line in reader:
                self.log.append(line.decode(errors="replace").rstrip("\n"))
                self._wakeup.set()
                self._wakeup = asyncio.Event()
        finally:
            transport.close()
