"""The journal of requests: what operators have asked for, in order, and what has come of it."""

from __future__ import annotations

import asyncio
import dataclasses
import os
from collections.abc import Callable, Iterator
from typing import Any

from e2e.chaos.fake.http import Request
from e2e.chaos.fake.routing import Target

PATIENCE = float(os.environ.get("CHAOS_PATIENCE", "60"))
"""How long (in seconds) to wait for what must come: a lot, as machines can be slow."""


@dataclasses.dataclass(eq=False)
class Entry:
    """One request."""

    number: int
    """Its place in the journal, from zero."""

    request: Request
    target: Target
    time: float
    """When it came, by the monotonic clock."""

    is_committed: bool = False
    """Whether it is executed; not, if it was taken over, or is being held."""

    status: int | None = None
    """The status of the reply when the request was executed."""

    version: str | None = None
    """The resource version of the object in the reply."""

    @property
    def verb(self) -> str:
        return self.target.verb

    @property
    def payload(self) -> Any:
        return self.request.payload

    def __str__(self) -> str:
        body = self.request.body.decode(errors="replace")[:300]
        return f"#{self.number} {self.verb} {self.request.path} {self.status} {body}"


Check = Callable[[Entry], bool]


class Journal:
    """All requests, and those who wait for them."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self._wakeup = asyncio.Event()

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries)

    def add(self, request: Request, target: Target) -> Entry:
        entry = Entry(len(self.entries), request, target, asyncio.get_running_loop().time())
        self.entries.append(entry)
        self.notify()
        return entry

    def notify(self) -> None:
        self._wakeup.set()
        self._wakeup = asyncio.Event()

    def find(self, check: Check, *, since: int = 0) -> list[Entry]:
        return [entry for entry in self.entries[since:] if check(entry)]

    async def until(self, check: Check, *, count: int = 1, since: int = 0) -> list[Entry]:
        """Wait until there are so many matching requests, from the given place on."""
        try:
            async with asyncio.timeout(PATIENCE):
                while len(found := self.find(check, since=since)) < count:
                    await self._wakeup.wait()
        except TimeoutError:
            raise AssertionError(f"No such requests. There are only:\n{self}") from None
        return found

    def __str__(self) -> str:
        return "\n".join(map(str, self.entries))


def where(
    verb: str | None = None,
    plural: str | None = None,
    name: str | None = None,
    *,
    status: bool | None = None,
    text: str = "",
) -> Check:
    """A condition on requests: by their verbs, kinds, names, and texts in the bodies.

    The verbs are as in RBAC, e.g. ``list`` & ``watch``, plus ``next`` for further pages of lists,
    and ``discover``. ``status`` is for whether the request is to the subresource.
    """

    def check(entry: Entry) -> bool:
        target = entry.target
        return (
            verb in (None, target.verb)
            and plural in (None, target.plural)
            and name in (None, target.name)
            and status in (None, target.is_status)
            and text.encode() in entry.request.body
        )

    return check
