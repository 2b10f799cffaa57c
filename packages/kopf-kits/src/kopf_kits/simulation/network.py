"""The network of a simulated world: connections in memory, with latencies and breaks.

It is below the real HTTP client and server, so that everything above the sockets is real.
"""

from __future__ import annotations

import asyncio
import contextvars
import random
import socket
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from .incarnations import Incarnation, incarnation_var

if TYPE_CHECKING:
    from .loop import VirtualLoop

ProtocolFactory = Callable[[], asyncio.BaseProtocol]
Address = tuple[Any, ...]

HIGH_WATER = 64 * 1024
"""How many bytes can be on their way until the sender is asked to wait."""

TICK = 1e-9
"""In seconds: chunks of one connection never overtake each other."""


@dataclass(slots=True)
class Weather:
    """The effects of the network on the bytes; can be changed at any moment.

    ``latency`` is the usual delay of a chunk, in seconds: random, up to this. With ``slow``
    probability, it is up to ``lag`` seconds. With ``breaks`` probability, the connection breaks
    in the middle of a chunk, in both directions. ``thinking`` is how long threads take to begin.
    """

    chance: random.Random
    latency: float = 0.001
    slow: float = 0.0
    lag: float = 0.0
    breaks: float = 0.0
    thinking: float = 0.001

    def delay(self) -> float:
        if self.slow and self.chance.random() < self.slow:
            return self.chance.random() * self.lag
        return self.chance.random() * self.latency

    def think(self) -> float:
        return self.chance.random() * self.thinking

    def is_broken(self) -> bool:
        return bool(self.breaks) and self.chance.random() < self.breaks

    def calm_down(self) -> None:
        """From now on, everything arrives soon, and in whole."""
        self.slow = self.breaks = 0.0


class Network:
    """All the servers that listen, and all the connections."""

    def __init__(self, loop: VirtualLoop, chance: random.Random) -> None:
        self.loop = loop
        self.weather = Weather(chance)
        self.breaks = 0
        """How many connections were broken by the weather."""

        self.orphans: list[tuple[float, bytes]] = []
        """The bytes that servers got after the client had closed the connection, with the times.

        A server executes such a request. It can do so after later requests of the same client.
        """

        self._chance = chance
        self._lost_replies = 0
        self._listeners: dict[int, SimulatedServer] = {}
        self._dialled: dict[int, Address] = {}
        self._next_port = 40_000

    def dial(self, sock: socket.socket, address: Address) -> None:
        """Remember the address for the socket: `hang_up()` asks for it in a moment."""
        if address[1] not in self._listeners:
            raise ConnectionRefusedError(111, f"Nobody listens at {address}")
        self._dialled[id(sock)] = address

    def hang_up(self, sock: socket.socket) -> Address:
        """Close the real socket, and get the address that `dial()` remembered for it."""
        sock.close()
        return self._dialled.pop(id(sock))

    def listen(self, factory: ProtocolFactory, host: Any, port: int) -> SimulatedServer:
        if not port:
            self._next_port += 1
            port = self._next_port
        if port in self._listeners:
            raise OSError(98, f"The port {port} is in use.")
        server = SimulatedServer(self, factory, host or "127.0.0.1", port)
        self._listeners[port] = server
        if (incarnation := incarnation_var.get()) is not None:
            incarnation.on_death.append(server.close)
        return server

    def forget(self, port: int) -> None:
        self._listeners.pop(port, None)

    async def connect(
        self, address: Address, factory: ProtocolFactory
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        await asyncio.sleep(self.weather.delay())
        server = self._listeners.get(address[1])
        if server is None:
            raise ConnectionRefusedError(111, f"Nobody listens at {address}")
        near = MemoryTransport(self, factory(), contextvars.copy_context(), address)
        far = MemoryTransport(self, server.factory(), server.context, address, is_server=True)
        near.peer, far.peer = far, near
        self.loop.call_soon(far.protocol.connection_made, far, context=far.context)
        near.protocol.connection_made(near)
        return near, near.protocol

    def lose_replies(self, count: int) -> None:
        """Break the connections at the next replies of servers, which execute the requests."""
        self._lost_replies += count

    def is_torn(self) -> bool:
        """Whether the last bytes of a crashed process arrive only in part."""
        return self._chance.random() < 0.5

    def tear(self, data: bytes) -> bytes:
        return data[: self._chance.randint(0, len(data))]

    def cut(self, length: int, *, is_reply: bool) -> int | None:
        """The place in a chunk of that length where the connection breaks, if it does."""
        if is_reply and self._lost_replies:
            self._lost_replies -= 1
            return 0
        if not self.weather.is_broken():
            return None
        self.breaks += 1
        return self._chance.randint(0, length)


class SimulatedServer:
    """A listening socket, with the methods that users of :class:`asyncio.Server` need."""

    def __init__(self, network: Network, factory: ProtocolFactory, host: str, port: int) -> None:
        self.factory = factory
        self.context = contextvars.copy_context()
        self.sockets: list[Any] = [SimulatedSocket(host, port)]
        self._network = network
        self._port = port

    def close(self) -> None:
        self._network.forget(self._port)

    def close_clients(self) -> None:
        """The owner of the connections closes them."""

    def is_serving(self) -> bool:
        return True

    async def start_serving(self) -> None:
        """It serves already."""

    async def wait_closed(self) -> None:
        """There is nothing to wait for."""


class SimulatedSocket:
    """The methods of sockets that the users of servers and transports call."""

    family = socket.AF_INET
    type = socket.SOCK_STREAM
    proto = socket.IPPROTO_TCP

    def __init__(self, host: str, port: int) -> None:
        self._name = host, port

    def getsockname(self) -> tuple[str, int]:
        return self._name

    def fileno(self) -> int:
        return -1

    def setsockopt(self, *_: Any) -> None:
        """There are no buffers to be set."""


class MemoryTransport(asyncio.Transport):
    """One end of a connection. The bytes arrive at the other end in order, some time later."""

    peer: MemoryTransport

    def __init__(
        self,
        network: Network,
        protocol: asyncio.BaseProtocol,
        context: contextvars.Context,
        address: Address,
        *,
        is_server: bool = False,
    ) -> None:
        super().__init__({"peername": address[:2], "sockname": address[:2]})
        self.protocol = protocol
        self.context = context
        self._network = network
        self._loop = network.loop
        self._is_server = is_server
        self._arrival = 0.0
        self._underway = 0
        self._is_held = False
        self._is_reading = True
        self._coming: deque[Callable[[], None]] = deque()
        self._inbox: deque[bytes] = deque()
        self._is_closing = False
        self._is_lost = False
        self._is_torn = self._is_deaf = False
        self._incarnation: Incarnation | None = context.get(incarnation_var)
        if self._incarnation is not None:
            self._incarnation.on_death.append(self._die)

    # The methods for protocols.

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self.protocol

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol

    def is_closing(self) -> bool:
        return self._is_closing

    def is_reading(self) -> bool:
        return self._is_reading

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        self._is_reading = True
        if self._inbox:
            self._loop.call_soon(self._read, context=self.context)

    def can_write_eof(self) -> bool:
        return False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """The limits are always the same."""

    def get_write_buffer_size(self) -> int:
        return self._underway

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._is_closing or not data:
            return
        chunk, cut = bytes(data), self._network.cut(len(data), is_reply=self._is_server)
        self._send(self.peer._receive, chunk if cut is None else chunk[:cut], self)
        if cut is not None:
            self._send(self.peer.lose, ConnectionResetError(104, "Connection reset by peer"))
            self._loop.call_soon(
                self.lose, ConnectionResetError(104, "Connection reset"), context=self.context
            )
            self._is_closing = True
        self._underway += len(chunk)
        if self._underway > HIGH_WATER and not self._is_held:
            self._is_held = True
            self.protocol.pause_writing()

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._send(self.peer._finish)
            self._loop.call_soon(self.lose, None, context=self.context)

    def abort(self) -> None:
        if not self._is_lost:
            self._is_closing = True
            self._send(self.peer.lose, ConnectionResetError(104, "Connection reset by peer"))
            self._loop.call_soon(self.lose, None, context=self.context)

    # The events of the connection.

    def lose(self, exc: Exception | None) -> None:
        """Tell the protocol that the connection is lost, once."""
        if not self._is_lost:
            self._is_lost = self._is_closing = True
            self.protocol.connection_lost(exc)

    def _die(self) -> None:
        """The process has crashed; the bytes that it has sent still arrive: in whole, or torn."""
        if not self._is_lost:
            self._is_lost = self._is_closing = True
            self._is_torn = self._network.is_torn()
            self._send(self.peer.lose, ConnectionResetError(104, "Connection reset by peer"))

    def _send(self, receive: Callable[..., None], *args: Any) -> None:
        due = self._loop.time() + self._network.weather.delay()
        self._arrival = max(due, self._arrival + TICK)
        self.peer._coming.append(partial(receive, *args))
        self._loop.call_at(self._arrival, self.peer._arrive, context=self.peer.context)

    def _arrive(self) -> None:
        """Take the first item that was sent: a suspension can change the order of callbacks."""
        self._coming.popleft()()

    def _receive(self, data: bytes, sender: MemoryTransport) -> None:
        if self._is_lost:
            return
        if sender._is_torn:  # the first chunk on its way is the last one that arrives
            data, sender._is_torn = self._network.tear(data), False
            self._is_deaf = True
        elif self._is_deaf:
            return
        if self._is_server and sender._is_closing:
            self._network.orphans.append((self._loop.time(), data))
        self._inbox.append(data)
        if self._is_reading:
            self._read()

    def _read(self) -> None:
        while self._inbox and self._is_reading and not self._is_lost:
            data = self._inbox.popleft()
            self.protocol.data_received(data)  # type: ignore[attr-defined]
            self.peer._acknowledge(len(data))

    def _acknowledge(self, size: int) -> None:
        self._underway = max(0, self._underway - size)
        if self._is_held and self._underway <= HIGH_WATER // 4:
            self._loop.call_soon(self._go_on, context=self.context)

    def _go_on(self) -> None:
        """Let the sender write again, if the transport still holds it."""
        if self._is_held and self._underway <= HIGH_WATER // 4 and not self._is_lost:
            self._is_held = False
            self.protocol.resume_writing()

    def _finish(self) -> None:
        """The other end has closed the connection in the regular way."""
        if self._is_lost:
            return
        self._is_reading = True
        self._read()
        if not self.protocol.eof_received() and not self._is_closing:  # type: ignore[attr-defined]
            self._is_closing = True
            self.lose(None)
