"""The journal: which requests were made, with what, and how they were answered."""

from __future__ import annotations

import asyncio
import datetime
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from kopf_kits.sandbox.base import jsons

from .calls import Call


@dataclass(slots=True)
class Entry:
    """One request; ``status`` is none while there is no response yet, 0 if there was none.

    ``time`` is that of the arrival, in seconds since the epoch; ``number`` counts from 1.
    """

    number: int
    method: str
    path: str
    query: dict[str, str]
    content_type: str
    accept: str
    agent: str
    body: bytes
    time: float
    status: int | None = None

    @property
    def json(self) -> Any:
        """The body of the request, parsed; none if there was no body."""
        return jsons.loads(self.body) if self.body else None

    @property
    def watch(self) -> bool:
        """Whether it was a request for a watch-stream."""
        return self.query.get("watch", "false") in ("1", "true", "")

    def __str__(self) -> str:
        return f"{self.method} {self.path} -> {self.status}"


class Journal:
    """The last requests, oldest first; at most ``size`` of them."""

    def __init__(self, clock: Callable[[], datetime.datetime], size: int = 20_000) -> None:
        self._clock = clock
        self._entries: deque[Entry] = deque(maxlen=size)
        self._count = 0
        self._arrivals: set[asyncio.Event] = set()

    def __iter__(self) -> Iterator[Entry]:
        return iter(tuple(self._entries))

    def __len__(self) -> int:
        return len(self._entries)

    def __getitem__(self, index: int) -> Entry:
        return self._entries[index]

    def record(self, call: Call) -> Entry:
        """Add a request; its status is set when it is answered."""
        self._count += 1
        entry = Entry(
            number=self._count,
            method=call.method,
            path=call.path,
            query=call.query,
            content_type=call.content_type,
            accept=call.accept,
            agent=call.agent,
            body=call.body,
            time=self._clock().timestamp(),
        )
        self._entries.append(entry)
        self._notify()
        return entry

    def answered(self, entry: Entry, status: int) -> None:
        """Note how the request was answered."""
        entry.status = status
        self._notify()

    def select(self, method: str | None = None, path: str = "*", *, since: int = 0) -> list[Entry]:
        """The requests with that method and path (with wildcards), after that number."""
        return [
            entry
            for entry in self
            if entry.number > since
            and method in (None, entry.method)
            and fnmatchcase(entry.path, path)
        ]

    async def wait(
        self, method: str | None = None, path: str = "*", *, count: int = 1, since: int = 0
    ) -> list[Entry]:
        """Wait until that many such requests are answered; there is no timeout here."""

        def find() -> list[Entry]:
            found = self.select(method, path, since=since)
            return [entry for entry in found if entry.status is not None]

        return await self._wait(find, count)

    async def arrived(
        self, method: str | None = None, path: str = "*", *, count: int = 1, since: int = 0
    ) -> list[Entry]:
        """Wait until that many such requests have come, even if they are not answered yet."""
        return await self._wait(lambda: self.select(method, path, since=since), count)

    async def _wait(self, find: Callable[[], list[Entry]], count: int) -> list[Entry]:
        arrival = asyncio.Event()
        self._arrivals.add(arrival)
        try:
            while len(found := find()) < count:
                arrival.clear()
                await arrival.wait()
            return found
        finally:
            self._arrivals.discard(arrival)

    def _notify(self) -> None:
        for arrival in self._arrivals:
            arrival.set()

    def clear(self) -> None:
        """Forget all the requests."""
        self._entries.clear()
