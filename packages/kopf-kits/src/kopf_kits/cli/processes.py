"""``kopf run --processes``: several processes on one machine, each with its part of the objects.

The supervisor loads no handlers and makes no requests to the cluster. It assigns shards to the
processes, by the rules of :mod:`kopf_core.engines.sharding`. The kernel tells it when a process has
died. Then, it assigns the shards of that process to the other processes.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import signal
import socket
from typing import Any

from kopf_cogs.clients.retries import Backoff
from kopf_core.engines.sharding.assignments import Assignment, advance
from kopf_kits.cli.gateways import Gateway, make_gateway
from kopf_kits.cli.interrupts import blocked_interrupts
from kopf_kits.cli.links import LONGEST, MARK, receive, send
from kopf_kits.logs import PROCESS

logger = logging.getLogger("kopf.processes")

SIGNALS = (signal.SIGINT, signal.SIGTERM)

RESTARTING = 1.0  # seconds until a killed process is started again; then, twice as long each time
HEALTHY = 60.0  # seconds of life after which the next restart is as the first one


def run_processes(command: list[str], count: int) -> int:
    """Run so many processes with this command until they exit. Return the exit code."""
    return asyncio.run(_run(command, count))


async def _run(command: list[str], count: int) -> int:
    supervisor = Supervisor(command, count)
    loop = asyncio.get_running_loop()
    for signum in SIGNALS:
        loop.add_signal_handler(signum, supervisor.stop)
    return await supervisor.run()


class Worker:
    """One life of one of the processes."""

    def __init__(self, number: int, life: int) -> None:
        self.number = number
        self.name = f"{number}.{life}"
        self.confirmed = 0
        self.process: asyncio.subprocess.Process | None = None
        self.writer: asyncio.StreamWriter | None = None

    def terminate(self) -> None:
        """Ask the process to exit. If it is suspended, let it continue, so that it can exit."""
        if self.process is not None and self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self.process.terminate()
                self.process.send_signal(signal.SIGCONT)

    def tell(self, assignment: Assignment) -> None:
        shards = sorted(assignment.get_share(self.name))
        self.send({"round": assignment.round, "shards": shards})

    def send(self, message: dict[str, Any]) -> None:
        if self.writer is not None and not self.writer.is_closing():
            send(self.writer, message)


class Supervisor:
    """Starts the processes, assigns shards to them, and starts the killed ones again.

    If a process exits by itself, the supervisor stops all of them. It then exits with the code
    of that process.
    """

    def __init__(self, command: list[str], count: int) -> None:
        self._command = command
        self._workers = {number: Worker(number, 1) for number in range(1, count + 1)}
        self._assignment = Assignment()
        self._stopping = asyncio.Event()
        self._code = 0
        self._token = secrets.token_hex()
        self._gateways: dict[tuple[str, str], Gateway] = {}
        self._serving = asyncio.Future[None]()
        self._tasks: set[asyncio.Task[None]] = set()
        self._numbers = range(1, count + 1)

    async def run(self) -> int:
        """Run until all processes have exited. Get the exit code.

        Raises :class:`ListeningError` if an address cannot be listened on.
        """
        self._assign()
        keeping = asyncio.gather(*(self._keep(number) for number in self._numbers))
        try:
            both: list[asyncio.Future[Any]] = [keeping, self._serving]
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.stop()
            await asyncio.wait([keeping])
        if self._serving.done():
            self._serving.result()
        keeping.result()
        return self._code

    def stop(self) -> None:
        """Send a signal to all processes, so that they exit. The second signal hastens them."""
        self._stopping.set()
        for worker in self._workers.values():
            worker.terminate()

    async def _keep(self, number: int) -> None:
        """Run the process, again and again if it is killed."""
        backoff, clock = Backoff(RESTARTING), asyncio.get_running_loop().time
        life = 1
        while not self._stopping.is_set():
            started = clock()
            code = await self._live(self._workers[number])
            del self._workers[number]
            self._tell_alone()
            if not self._stopping.is_set() and code < 0:
                logger.error(f"Process {number} was killed by {_name_signal(-code)}.")
                self._assign()
                if clock() - started >= HEALTHY:
                    backoff.reset()
                await self._wait(backoff.advance())
                life += 1
                self._revive(number, life)
            elif not self._stopping.is_set():
                logger.debug(f"Process {number} has exited with the code {code}: all of them do.")
                self._code = code
                self.stop()
            else:
                self._code = self._code or max(code, 0)

    def _revive(self, number: int, life: int) -> None:
        """Give shards to the next life of the process, unless all processes stop."""
        if not self._stopping.is_set():
            self._workers[number] = Worker(number, life)
            self._assign()

    async def _live(self, worker: Worker) -> int:
        """Start the process, exchange messages with it, and get its exit code."""
        ours, theirs = socket.socketpair()
        with theirs, blocked_interrupts():
            mark = f"{theirs.fileno()} {worker.number} {self._token}"
            env = {**os.environ, MARK: mark, PROCESS: f"{worker.number}"}
            worker.process = await asyncio.create_subprocess_exec(
                *self._command, env=env, pass_fds=[theirs.fileno()]
            )
        if self._stopping.is_set():  # stop() could not signal the process before its start
            worker.terminate()
        listening = asyncio.create_task(self._listen(worker, ours))
        try:
            return await worker.process.wait()
        finally:
            listening.cancel()
            await asyncio.wait([listening])

    async def _listen(self, worker: Worker, sock: socket.socket) -> None:
        """Send the shards to the process, and receive its messages until it closes the link."""
        reader, worker.writer = await asyncio.open_connection(sock=sock, limit=LONGEST)
        try:
            worker.tell(self._assignment)
            while (told := await receive(reader)) is not None:
                if "confirmed" in told:
                    worker.confirmed = told["confirmed"]
                    self._assign()
                elif "happening" in told:
                    self._pass_on(worker, told)
                elif "exiting" in told:
                    self._exit_with(worker)
                else:
                    self._open(worker.number, **told)
        finally:
            worker.writer.close()
            for gateway in self._gateways.values():
                gateway.close(worker.number)

    def _pass_on(self, teller: Worker, message: dict[str, Any]) -> None:
        for worker in self._workers.values():
            if worker is not teller:
                worker.send(message)

    def _exit_with(self, worker: Worker) -> None:
        """Stop the other processes, too. This process waits until they have ended."""
        if not self._stopping.is_set():
            logger.debug(f"Process {worker.number} exits: all of them do.")
            self.stop()
        self._tell_alone()

    def _tell_alone(self) -> None:
        """Tell the last of the stopping processes that the others have ended."""
        if self._stopping.is_set() and len(self._workers) == 1:
            for worker in self._workers.values():
                worker.send({"alone": True})

    def _open(self, number: int, endpoint: str, title: str, paths: list[str], port: int) -> None:
        """Let the gateway of that address ask this process, too."""
        gateway = self._gateways.get((endpoint, title))
        if gateway is None:
            gateway = make_gateway(endpoint, title, self._token, self._numbers)
            self._gateways[endpoint, title] = gateway
            serving = asyncio.create_task(gateway.serve(paths), name=f"kopf-gateway-{endpoint}")
            serving.add_done_callback(self._on_served)
            self._tasks.add(serving)
        gateway.open(number, port)

    def _on_served(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and not self._serving.done():
            exc = task.exception()
            if exc is not None:
                self._serving.set_exception(exc)

    def _assign(self) -> None:
        """Make the next assignment for the living processes, and send it to them if it differs."""
        members = {worker.name: worker.confirmed for worker in self._workers.values()}
        assignment = advance(self._assignment, members.keys(), members)
        if assignment is not self._assignment:
            self._assignment = assignment
            for worker in self._workers.values():
                worker.tell(assignment)

    async def _wait(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()


def _name_signal(number: int) -> str:
    """The name of the signal. Most of the real-time signals have no names."""
    names = {known.value: known.name for known in signal.Signals}
    return names.get(number, f"the signal {number}")
