"""What can go wrong with a request: the hooks that take it over.

An action gets the exchange and does with it whatever it wants: executes the request or not,
replies or not, replies with anything, breaks the connection off, or waits for the test.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from e2e.chaos.fake.errors import make_status
from e2e.chaos.fake.http import Connection, Reply
from e2e.chaos.fake.journal import PATIENCE, Check, Entry


@dataclasses.dataclass(frozen=True)
class Exchange:
    """A request to be replied."""

    entry: Entry
    connection: Connection
    _execute: Callable[[], Reply]
    _serve: Callable[[], Awaitable[None]]

    def execute(self) -> Reply:
        """Do what is requested, and get the reply, which is not sent yet. Not for watches."""
        return self._execute()

    async def serve(self) -> None:
        """Do what is requested, and send the reply, as if nothing has happened."""
        await self._serve()

    async def send(self, reply: Reply) -> None:
        await self.connection.send(reply.encode())


Action = Callable[[Exchange], Awaitable[None]]


@dataclasses.dataclass
class Hook:
    """An action for those requests that match."""

    check: Check
    action: Action
    times: float
    """How many more times to do it."""

    count: int = 0
    """How many times it was done."""

    def stop(self) -> None:
        self.times = 0


class Hooks:
    """All hooks of the server; the latest of the matching ones wins."""

    def __init__(self) -> None:
        self._hooks: list[Hook] = []

    def add(self, check: Check, action: Action, *, times: float = float("inf")) -> Hook:
        hook = Hook(check, action, times)
        self._hooks.append(hook)
        return hook

    def take(self, entry: Entry) -> Action | None:
        for hook in reversed(self._hooks):
            if hook.times > 0 and hook.check(entry):
                hook.times -= 1
                hook.count += 1
                return hook.action
        return None

    def clear(self) -> None:
        self._hooks.clear()


def refuse(code: int, *, headers: Mapping[str, str] | None = None, message: str = "") -> Action:
    """Reply with an error status; nothing is done."""

    async def act(exchange: Exchange) -> None:
        await exchange.send(Reply.make(code, make_status(code, message), headers))

    return act


def reply_with(body: bytes, *, status: int = 200, content_type: str = "application/json") -> Action:
    """Reply with these bytes, e.g. with garbage or a page of some proxy; nothing is done."""

    async def act(exchange: Exchange) -> None:
        await exchange.send(Reply(status, body, {"Content-Type": content_type}))

    return act


def alter(transform: Callable[[Any], Any]) -> Action:
    """Do what is requested, and reply with something made of the true reply."""

    async def act(exchange: Exchange) -> None:
        reply = exchange.execute()
        await exchange.send(Reply.make(reply.status, transform(reply.payload)))

    return act


def reply_by_status(exchange: Exchange) -> Awaitable[None]:
    """Do what is requested, and reply with a successful ``Status`` instead of the object."""
    return alter(lambda _: make_status(200, "done"))(exchange)


async def reset(exchange: Exchange) -> None:
    """Break the connection off before anything is done."""
    exchange.connection.reset()


async def hang_up(exchange: Exchange) -> None:
    """Close the connection with no reply; nothing is done."""
    exchange.connection.close()


async def lose_reply(exchange: Exchange) -> None:
    """Do what is requested, and break the connection off instead of replying."""
    exchange.execute()
    exchange.connection.reset()


async def cut_reply(exchange: Exchange) -> None:
    """Do what is requested, and send only a half of the reply."""
    data = exchange.execute().encode()
    await exchange.connection.send(data[: len(data) - len(data) // 4])
    exchange.connection.close()


async def black_hole(exchange: Exchange) -> None:
    """Neither do nor reply anything, until the other side goes away."""
    await exchange.connection.wait_closed()


def stream(*chunks: bytes, then: Action | None = None) -> Action:
    """Open a watch-stream with these bytes in it; then, end it properly or do something else."""

    async def act(exchange: Exchange) -> None:
        await exchange.connection.send_head()
        for chunk in chunks:
            await exchange.connection.send_chunk(chunk)
        if then is None:
            await exchange.connection.send_end()
        else:
            await then(exchange)

    return act


class Gate:
    """Holds requests until the test lets them go: before or after they are executed.

    It is an action for a hook. If the gate is not opened, there is never a reply.
    """

    def __init__(self, *, commit_first: bool = False) -> None:
        self._commit_first = commit_first
        self._reached = asyncio.Event()
        self._opened = asyncio.Event()
        self.held: Entry | None = None

    async def __call__(self, exchange: Exchange) -> None:
        reply = exchange.execute() if self._commit_first else None
        self.held = exchange.entry
        self._reached.set()
        await self._opened.wait()
        if reply is not None:
            await exchange.send(reply)
        else:
            await exchange.serve()

    async def reached(self) -> Entry:
        """Wait until there is a request at the gate."""
        async with asyncio.timeout(PATIENCE):
            await self._reached.wait()
        assert self.held is not None
        return self.held

    def open(self) -> None:
        self._opened.set()
