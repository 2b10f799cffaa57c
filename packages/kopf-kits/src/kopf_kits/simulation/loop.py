"""An event loop with virtual time: it never waits, and does everything in the same order again."""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import itertools
import random
import socket
from collections.abc import Callable
from typing import Any

from .incarnations import incarnation_var
from .network import Network

MAX_IDLE_TURNS = 100_000
"""How many turns of the loop there can be at one moment of the virtual time."""


class Standstill(RuntimeError):
    """Nothing will ever happen in this world again, or the time stands still for too long."""


class Callback(asyncio.TimerHandle):
    """A callback of the loop, now or later. Its creation is quick: each life has thousands."""

    __slots__ = ()

    def __init__(
        self,
        loop: VirtualLoop,
        when: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: contextvars.Context | None,
    ) -> None:
        self._loop = loop
        self._when = when
        self._callback = callback
        self._args = args
        self._context = contextvars.copy_context() if context is None else context
        self._cancelled = self._scheduled = False
        self._repr = self._source_traceback = None

    def cancel(self) -> None:
        """Cancelled callbacks are skipped when their time has come."""
        self._cancelled = True
        self._callback = self._args = None  # type: ignore[assignment]

    def call(self) -> None:
        """Call the function. The loop handles its exceptions."""
        try:
            self._context.run(self._callback, *self._args)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as e:
            details = {"message": f"Exception in callback {self!r}", "exception": e, "handle": self}
            self._loop.call_exception_handler(details)


class VirtualLoop(asyncio.BaseEventLoop):
    """The loop of one simulated life.

    Ready callbacks are executed in the order of asyncio (FIFO). When there are none, the time
    jumps to the next scheduled one. With ``shuffled``, ready callbacks go in a random order.
    """

    def __init__(self, chance: random.Random, *, shuffled: bool = False) -> None:
        super().__init__()
        self._now = 0.0
        self._chance = chance
        self._shuffled = shuffled
        self._idle_turns = 0
        self._numbers = itertools.count()
        self.steps = 0
        """How many callbacks were executed so far."""

        self.network = Network(self, chance)
        self.batons: set[Any] = set()
        """The threads that have not ended yet."""

        self.complaints: list[str] = []
        """The errors that asyncio would log as unhandled errors of the loop."""

        self.set_exception_handler(lambda _, context: self.complaints.append(_describe(context)))

    def time(self) -> float:
        return self._now

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Any = None
    ) -> Callback:
        if self._closed:  # type: ignore[attr-defined]
            raise RuntimeError("Event loop is closed")
        handle = Callback(self, self._now, callback, args, context)
        self._ready.append(handle)  # type: ignore[attr-defined]
        return handle

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: Any = None
    ) -> Callback:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Any = None
    ) -> Callback:
        """Schedule the callback; at one moment, callbacks go in the order of their scheduling.

        The heap has tuples: comparing timers themselves took a tenth of the time of all lives.
        """
        if self._closed:  # type: ignore[attr-defined]
            raise RuntimeError("Event loop is closed")
        timer = Callback(self, when, callback, args, context)
        heapq.heappush(self._scheduled, (when, next(self._numbers), timer))  # type: ignore[attr-defined]
        return timer

    def _run_once(self) -> None:
        ready, scheduled = self._ready, self._scheduled  # type: ignore[attr-defined]
        if not ready:
            self._skip_cancelled()
            if not scheduled:
                raise Standstill("Nothing is scheduled, so nothing will ever happen.")
            if scheduled[0][0] > self._now:
                self._now, self._idle_turns = scheduled[0][0], 0
        self._idle_turns += 1
        if self._idle_turns > MAX_IDLE_TURNS:
            raise Standstill(f"Too many callbacks at one moment; the next: {ready[0]!r}")
        while scheduled and scheduled[0][0] <= self._now:
            ready.append(heapq.heappop(scheduled)[2])
        if self._shuffled and len(ready) > 1:
            handles = list(ready)
            self._chance.shuffle(handles)
            ready.clear()
            ready.extend(handles)
        for _ in range(len(ready)):
            self._execute(ready.popleft())

    def _skip_cancelled(self) -> None:
        scheduled = self._scheduled  # type: ignore[attr-defined]
        while scheduled and scheduled[0][2].cancelled():
            heapq.heappop(scheduled)

    def _execute(self, handle: Callback) -> None:
        if handle._cancelled:
            return
        incarnation = handle._context.get(incarnation_var)
        if incarnation is None or incarnation.admit(handle):
            self.steps += 1
            handle.call()

    def reschedule(self, handle: asyncio.Handle) -> None:
        """Put a callback back to the end of the queue: a suspension has put it off."""
        self._ready.append(handle)  # type: ignore[attr-defined]

    # Real sockets are made by HTTP clients, but they are never connected.

    async def sock_connect(self, sock: socket.socket, address: Any) -> None:
        self.network.dial(sock, address)

    async def create_connection(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str | None = None,
        port: int | None = None,
        *,
        sock: socket.socket | None = None,
        **_: Any,
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        address = (host, port) if sock is None else self.network.hang_up(sock)
        return await self.network.connect(address, protocol_factory)

    async def create_server(
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: Any = None,
        port: int | None = None,
        **_: Any,
    ) -> Any:
        return self.network.listen(protocol_factory, host, port or 0)

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> Any:
        """Call the function a bit later, in the loop itself: threads have an order of their own."""
        if executor is not None:
            return asyncio.wrap_future(executor.submit(func, *args), loop=self)
        future = self.create_future()
        self.call_later(self.network.weather.think(), _call, future, func, args)
        return future

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Any = None
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def add_signal_handler(self, sig: int, callback: Any, *args: Any) -> None:  # type: ignore[override]
        """Signals are for the real process, not for the simulated ones."""

    def remove_signal_handler(self, sig: int) -> bool:
        return False

    def _process_events(self, event_list: Any) -> None:
        """There is no selector."""

    def _write_to_self(self) -> None:
        """The loop never waits, so there is no need to wake it up."""


def _describe(context: dict[str, Any]) -> str:
    exception = context.get("exception")
    return f"{context.get('message')}" + ("" if exception is None else f": {exception!r}")


def _call(future: asyncio.Future[Any], func: Callable[..., Any], args: tuple[Any, ...]) -> None:
    if future.cancelled():
        return
    try:
        result = func(*args)
    except BaseException as e:
        future.set_exception(e)
    else:
        future.set_result(result)
