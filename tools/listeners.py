"""Servers of event loops: how to stop them."""

import asyncio
import contextlib


async def stop_listening(server: asyncio.Server) -> None:
    """Close the server with no connection lost; those that are established, stay.

    A connection is accepted in one turn of the loop, and gets its transport, then its protocol in
    the next ones. If the server is closed in between, asyncio forgets the connection unclosed:
    its client hangs until some garbage is collected. uvloop does it all at once.
    """
    for sock in server.sockets:
        with contextlib.suppress(NotImplementedError):  # the loops of Windows
            asyncio.get_running_loop().remove_reader(sock)
    for _ in range(2):
        await asyncio.sleep(0)
    server.close()
