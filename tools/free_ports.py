"""Ports for servers that tests start later."""

from __future__ import annotations

import atexit
import socket
import sys

_held: list[socket.socket] = []


def find_free_port() -> int:
    """A port that nobody listens on, until a server of the test does.

    A port that is only probed and released can go to somebody else meanwhile, e.g. to a connection.
    So the port stays bound for the life of the process; Linux lets a server listen on it, too,
    as both sides allow the address to be reused. Other systems do not: there it is only probed.
    """
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(("127.0.0.1", 0))
    port = int(sock.getsockname()[1])
    if sys.platform == "linux":
        _held.append(sock)
    else:
        sock.close()
    return port


@atexit.register
def _release() -> None:
    for sock in _held:
        sock.close()
