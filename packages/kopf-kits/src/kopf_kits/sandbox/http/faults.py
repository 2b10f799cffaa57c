"""Faults of the API, on demand: for testing how operators survive them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from fnmatch import fnmatchcase
from types import TracebackType

from kopf_kits.sandbox.base.statuses import StatusError

from .calls import Call, Reply

Match = Callable[[Call], bool]
_REASONS = {
    400: "BadRequest", 401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 409: "Conflict",
    410: "Expired", 422: "Invalid", 429: "TooManyRequests", 500: "InternalError",
    503: "ServiceUnavailable", 504: "Timeout",
}  # fmt: skip


class Dropped(Exception):
    """The server must close the connection with no response."""


class Fault:
    """One scripted fault: the requests that it hits, and its effect on them.

    It works until it has hit ``times`` requests, until its removal, or until the end of its
    ``with`` block.
    ``hits`` counts the requests that were hit.
    """

    def __init__(
        self,
        owner: Faults,
        *,
        method: str | None = None,
        path: str = "*",
        watch: bool | None = None,
        match: Match | None = None,
        times: int | None = None,
        skip: int = 0,
    ) -> None:
        self.hits = 0
        self.reply: Reply | None = None
        self.seconds = 0.0
        self.gate: asyncio.Event | None = None
        self.drops = False
        self.holds = False
        self.cuts_after: int | None = None
        self.line: bytes = b""
        self._owner = owner
        self._method = method
        self._path = path
        self._watch = watch
        self._match = match
        self._times = times
        self._skip = skip

    def matches(self, call: Call) -> bool:
        """Whether the fault can hit the request."""
        if self._method is not None and self._method != call.method:
            return False
        if self._watch is not None and self._watch is not is_watch(call):
            return False
        if not fnmatchcase(call.path, self._path):
            return False
        return self._match is None or self._match(call)

    def take(self, call: Call) -> bool:
        """Hit the request, if it matches and the fault is not used up."""
        if not self.matches(call):
            return False
        if self._skip > 0:
            self._skip -= 1
            return False
        if self._times is not None and self.hits >= self._times:
            return False
        self.hits += 1
        return True

    def release(self) -> None:
        """Let everything go on that hangs or is held by this fault."""
        self._owner.remove(self)

    def __enter__(self) -> Fault:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()


class Faults:
    """The faults of a sandbox. All that match a request apply, in the order of their addition.

    A fault selects requests by the HTTP ``method``, the ``path`` (with wildcards, without the
    query), ``watch`` (only watch-streams, or only other requests), and ``match`` (a function of
    a request). Of these, the fault leaves ``skip`` requests alone first, and then hits ``times``.
    """

    def __init__(self) -> None:
        self._faults: list[Fault] = []
        self._loop: asyncio.AbstractEventLoop | None = None

    def bind(self, loop: asyncio.AbstractEventLoop) -> None:
        """Tell the event loop in which the requests are served."""
        self._loop = loop

    def fail(
        self,
        status: int,
        *,
        retry_after: int | None = None,
        message: str = "A scripted fault of the sandbox.",
        body: bytes | None = None,
        **where: object,
    ) -> Fault:
        """Answer with an error; with a ``Status`` object in the body, or with that body."""
        fault = self._add(where)
        details = {"retryAfterSeconds": retry_after} if retry_after is not None else None
        error = StatusError(status, _REASONS.get(status, ""), message, details=details)
        fault.reply = Reply(status, error.as_bytes() if body is None else body)
        if retry_after is not None:
            fault.reply.headers.append(("Retry-After", str(retry_after)))
        return fault

    def delay(self, seconds: float, **where: object) -> Fault:
        """Answer later than usual."""
        fault = self._add(where)
        fault.seconds = seconds
        return fault

    def hang(self, **where: object) -> Fault:
        """Do not answer until the fault is released."""
        fault = self._add(where)
        fault.gate = asyncio.Event()
        return fault

    def drop(self, **where: object) -> Fault:
        """Close the connection with no response."""
        fault = self._add(where)
        fault.drops = True
        return fault

    def hold(self, **where: object) -> Fault:
        """Send nothing in watch-streams (also in those already opened) until it is released.

        A stream is hit when it would send something for the first time.
        """
        fault = self._add(where)
        fault.holds = True
        fault.gate = asyncio.Event()
        return fault

    def cut(self, *, events: int, **where: object) -> Fault:
        """Close the connections of watch-streams abruptly after that many events."""
        fault = self._add({"watch": True, **where})
        fault.cuts_after = events
        return fault

    def inject(self, line: bytes, **where: object) -> Fault:
        """Start watch-streams with that line, which can be any text."""
        fault = self._add({"watch": True, **where})
        fault.line = line.rstrip(b"\n") + b"\n"
        return fault

    def remove(self, fault: Fault) -> None:
        """Remove the fault; the requests that hang because of it go on."""
        if fault in self._faults:
            self._faults.remove(fault)
        gate, loop = fault.gate, self._loop
        if gate is not None and loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(gate.set)

    def clear(self) -> None:
        """Remove all the faults."""
        for fault in list(self._faults):
            self.remove(fault)

    def take(self, call: Call) -> list[Fault]:
        """The faults that hit this request."""
        if not self._faults:
            return []
        return [fault for fault in self._faults if not fault.holds and fault.take(call)]

    async def precede(self, taken: list[Fault]) -> Reply | None:
        """Apply the faults before the server answers; get the reply, if a fault makes it.

        Raises ``Dropped`` if there must be no reply.
        """
        for fault in taken:
            if fault.seconds:
                await asyncio.sleep(fault.seconds)
            if fault.gate is not None:
                await fault.gate.wait()
            if fault.drops:
                raise Dropped
            if fault.reply is not None:
                return fault.reply
        return None

    async def shape(
        self, call: Call, stream: AsyncIterator[bytes], taken: list[Fault]
    ) -> AsyncIterator[bytes]:
        """Pass the stream through all that can happen to it."""
        limits = [fault.cuts_after for fault in taken if fault.cuts_after is not None]
        left = min(limits) if limits else None
        for fault in taken:
            if fault.line:
                yield fault.line
        if left == 0:
            raise Dropped
        decided: dict[Fault, bool] = {}
        async for chunk in stream:
            await self._hold_up(call, decided)
            if left is None:
                yield chunk
                continue
            lines = chunk.splitlines(keepends=True)
            yield b"".join(lines[:left])
            left -= len(lines)
            if left <= 0:
                raise Dropped

    async def _hold_up(self, call: Call, decided: dict[Fault, bool]) -> None:
        """Wait while the stream is held. For each fault, it is decided once whether it is hit."""
        for fault in [fault for fault in self._faults if fault.holds]:
            if fault not in decided:
                decided[fault] = fault.take(call)
            if decided[fault] and fault.gate is not None:
                await fault.gate.wait()

    def _add(self, where: dict[str, object]) -> Fault:
        fault = Fault(self, **where)  # type: ignore[arg-type]
        self._faults.append(fault)
        return fault


def is_watch(call: Call) -> bool:
    """Whether the request is for a watch-stream."""
    return call.query.get("watch", "false") in ("1", "true", "")
